"""What a commit does to the logs of all queues, and which versions are committed: pure, alike with a journal and without."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from actors.queue.vocabulary.events import StagesEnded
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


def ended_stages(
    logs: Mapping[int, QueueLog], writer: str, version: int, winners: Mapping[int, Sequence[str]]
) -> dict[int, StagesEnded]:
    """What a commit does: the winners are published; every other stage of the writer, of this version or an older one, is discarded.

    Args:
        logs: every queue's, by the queue's number.
        writer: whose transaction.
        version: its number.
        winners: the names of the winning stages, by queue number.

    Returns:
        the event of each queue, by queue number; nothing of queues that have no stage of the writer.
    """
    ended: dict[int, StagesEnded] = {}
    for queue, log in logs.items():
        if not log.stages:
            continue
        mine = [key for key in log.stages if key.writer == writer and key.version <= version]
        if not mine:
            continue
        won = {StageKey(writer, version, name) for name in winners.get(queue, ())}
        published = tuple(key for key in mine if key in won)
        discarded = tuple(key for key in mine if key not in won)
        ended[queue] = StagesEnded(published, discarded, log.next_sequence)
    return ended


def apply_commit(
    logs: Mapping[int, QueueLog],
    versions: CommittedVersions,
    writer: str,
    version: int,
    winners: Mapping[int, Sequence[str]],
    number: int,
) -> dict[int, StagesEnded]:
    """Let a commit have happened in every queue, as event ``number``; one that happened before changes nothing. See ``ended_stages``."""
    if versions.covers(writer, version):
        return {}
    ended = ended_stages(logs, writer, version, winners)
    versions.note(writer, version, number)
    for queue, event in ended.items():
        logs[queue].apply(event, number)
    return ended
