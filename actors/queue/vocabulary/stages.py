"""What a transaction holds back: its stages, by the names that writers, queues and the wire have for them."""

from __future__ import annotations

from typing import Final, NamedTuple

MAX_ENLISTED = 100_000
"""Stages that one commit may name: a task of Spark has one for each queue, and a record that names them all takes a few megabytes."""
PASSING: Final = "passing "
"""How the writers begin whose transactions go with their connection. There is a blank in it, so no client has such a name."""


class StageKey(NamedTuple):
    """A stage: what one attempt of one task puts into a transaction, under a name that no other attempt has.

    Attributes:
        writer: whose transaction.
        version: the transaction's number among the writer's, which grow.
        name: the stage's among those of the transaction.
    """

    writer: str
    version: int
    name: str

    @property
    def passing(self) -> bool:
        """Whether its transaction goes with the connection that has begun it: nobody comes again for it, and no time ends it."""
        return self.writer.startswith(PASSING)


class StageNumbers(NamedTuple):
    """How far one queue has a stage that is written through an exchange: its messages go to different queues, under the sender's numbers.

    Attributes:
        up_to: the sender's number behind the last message that this queue has of it.
        whole: every message of the stage below this number is in each queue that it went to.
    """

    up_to: int
    whole: int


class WriterVersion(NamedTuple):
    """A transaction, by its writer and its number among the writer's."""

    writer: str
    version: int


class EnlistedStage(NamedTuple):
    """A stage that won: the queue it is in, its name, and how many messages it holds."""

    queue: str
    stage: str
    messages: int


class OpenTransaction(NamedTuple):
    """A transaction that is neither committed nor aborted; ``bytes`` as they count towards ``max_staged_bytes``."""

    writer: str
    version: int
    queues: tuple[str, ...]
    stages: int
    messages: int
    bytes: int
