"""What a commit does to the logs of all queues, and which versions are committed: pure, alike with a journal and without."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from actors.queue.vocabulary.events import StagesDiscarded, StagesPublished
from actors.queue.vocabulary.stages import StageKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from actors.queue.state.log import QueueLog

MAX_WRITERS = 10_000
"""Writers whose last committed version a broker remembers, the least recently committed forgotten first: each query that ever wrote is one,
and one of so long ago does not commit its last version again."""


class CommittedVersions:
    """The last committed version of each writer.

    Attributes:
        last_event: the number of the last commit's event: whoever is told that a version is committed is told so when that is durable.
    """

    __slots__ = ("_versions", "last_event")

    def __init__(self, versions: Iterable[tuple[str, int]] = ()) -> None:
        self._versions = OrderedDict(versions)
        self.last_event = 0

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Writers and versions, the least recently committed first."""
        return iter(self._versions.items())

    def __len__(self) -> int:
        return len(self._versions)

    def of(self, writer: str) -> int | None:
        """The writer's last committed version; None if it has none, or is forgotten."""
        return self._versions.get(writer)

    def covers(self, writer: str, version: int) -> bool:
        """Whether a version is committed."""
        last = self._versions.get(writer)
        return last is not None and version <= last

    def note(self, writer: str, version: int, number: int) -> None:
        """A version is committed, by the event ``number``; it is later than the writer's last."""
        self.last_event = number
        self._versions[writer] = version
        self._versions.move_to_end(writer)
        if len(self._versions) > MAX_WRITERS:
            self._versions.popitem(last=False)


class EndedStages(NamedTuple):
    """What a commit has done to one queue's stages."""

    published: tuple[StageKey, ...]
    discarded: tuple[StageKey, ...]


def apply_commit(
    logs: Mapping[int, QueueLog],
    versions: CommittedVersions,
    writer: str,
    version: int,
    stages: Mapping[int, Sequence[str]],
    number: int,
) -> dict[int, EndedStages]:
    """Let a commit have happened in every queue; one that happened before changes nothing.

    The winners are published; every other stage of the writer, of this version or an older one, is discarded.

    Args:
        logs: every queue's, by the queue's number.
        versions: of all writers.
        writer: whose transaction.
        version: its number.
        stages: the names of the winning stages, by queue number.
        number: the event's.

    Returns:
        what has ended, by queue number; nothing of queues that had no stage of the writer.
    """
    ended: dict[int, EndedStages] = {}
    if versions.covers(writer, version):
        return ended
    versions.note(writer, version, number)
    for queue, log in logs.items():
        if not log.stages:
            continue
        winners = {StageKey(writer, version, name) for name in stages.get(queue, ())}
        mine = [key for key in log.stages if key.writer == writer and key.version <= version]
        if not mine:
            continue
        published = tuple(key for key in mine if key in winners)
        discarded = tuple(key for key in mine if key not in winners)
        if published:
            log.apply(StagesPublished(published), number)
        if discarded:
            log.apply(StagesDiscarded(discarded, log.next_sequence), number)
        ended[queue] = EndedStages(published, discarded)
    return ended
