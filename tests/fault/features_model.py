"""What a broker's queues must hold, message by message, as whoever sends and receives was told; and the check that a store holds that.

A message is in one place: in a queue, be it in its calendar, or in all queues that its dead letters go to. It may be missing where nobody
was told of it, and where it was acknowledged, purged, or of use for a time only. One whose id was stored within the window is nowhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from actors.exchanges.delayed import waiting_queue
from actors.queue.state.accepted_ids import AcceptedIds, digest_of
from actors.queue.state.log import QueueLog
from actors.storage import Storage
from actors.storage.snapshot import StoredQueue
from tests.fault.history import HistoryError

LATER: Final = "later"
"""The exchange that has messages wait."""
PLACE: Final = waiting_queue(LATER)
COPY: Final = "copy"
"""The queue that gets a copy of all that has waited there. Nobody receives from it."""
TICKS: Final = "ticks"
"""The queue that a schedule stores in. Nobody receives from it."""
WINDOW_US: Final = 600_000_000

Fact: TypeAlias = tuple[Any, ...]
Places: TypeAlias = "Mapping[bytes, Counter[str]]"


@dataclass(slots=True)
class Sent:
    """A message that was sent, and what was heard of it.

    Attributes:
        queue: where to, with the number of the queue of this name that there was then.
        at_us: when.
        due_us: when it may come.
        ends_us: until when it is of use; None for without end.
        own_id: its id, in a queue that looks at ids.
        later: whether it waits at the exchange, so that there is a copy of it.
        must: somebody was told that it is stored, or has received it.
        refused: its sender was told that it is not stored.
        gone: it was acknowledged, or dropped by a command, and that is durable; ``going`` where it may not be.
        duplicate: a message with its id was there.
    """

    queue: tuple[str, int]
    at_us: int
    due_us: int
    ends_us: int | None = None
    own_id: str | None = None
    later: bool = False
    must: bool = False
    refused: bool = False
    gone: bool = False
    going: bool = False
    duplicate: bool = False


@dataclass(slots=True)
class Known:
    """All messages by their payload, as facts make it; ``ids`` has until when each id of a queue counts, and of which message it is."""

    sent: dict[bytes, Sent] = field(default_factory=dict)
    ids: dict[tuple[tuple[str, int], str], tuple[int, bytes]] = field(default_factory=dict)

    def take(self, fact: Fact) -> None:
        """A fact more."""
        what, *rest = fact
        getattr(self, f"_{what}")(*rest)

    def _sent(self, payload: bytes, sent: Sent) -> None:
        sent = self.sent[payload] = replace(sent)
        if sent.own_id is not None:
            until, _ = self.ids.get((sent.queue, sent.own_id), (0, b""))
            if until > sent.at_us:
                sent.duplicate = True
            else:
                self.ids[sent.queue, sent.own_id] = sent.at_us + WINDOW_US, payload

    def _told(self, payloads: Iterable[bytes]) -> None:
        for payload in payloads:
            self.sent[payload].must = True

    def _refused(self, payloads: Iterable[bytes]) -> None:
        for payload in payloads:
            self.sent[payload].refused = True

    def _going(self, payloads: Iterable[bytes]) -> None:
        for payload in payloads:
            self.sent[payload].going = True

    def _gone(self, payloads: Iterable[bytes]) -> None:
        for payload in payloads:
            self.sent[payload].gone = True

    def _stays(self, payloads: Iterable[bytes]) -> None:
        for payload in payloads:
            self.sent[payload].going = False

    def _started(self, found: frozenset[bytes], copies: frozenset[bytes]) -> None:
        """A start has shown what there is of what nobody was told of; of ``copies`` there is only what nobody receives."""
        for payload, sent in list(self.sent.items()):
            if payload in found:
                sent.must, sent.going = True, False
            elif payload in copies:
                sent.must = True
                sent.gone = sent.going
            elif sent.going:
                sent.gone = True
            elif not sent.must:
                del self.sent[payload]
                if sent.own_id is not None and self.ids.get((sent.queue, sent.own_id), (0, b""))[1] == payload:
                    del self.ids[sent.queue, sent.own_id]


def known(facts: Iterable[Fact]) -> Known:
    """What facts make."""
    made = Known()
    for fact in facts:
        made.take(fact)
    return made


def payloads_of(log: QueueLog) -> Iterator[bytes]:
    """Everything that is stored in a queue, and in its calendar."""
    for start, stop in log.stored():
        position = start
        while position < stop:
            entry = log.table.at(position)
            if entry is None:
                raise HistoryError(f"message {position} is stored, and it is gone")
            end = min(stop, entry.stop)
            yield from map(bytes, entry.read().part(position, end).payloads)
            position = end
    yield from waiting_in(log)


def waiting_in(log: QueueLog) -> Iterator[bytes]:
    """Everything that is in a queue's calendar."""
    streams = log.table.calendar
    for slot in () if log.calendar is None else log.calendar.streams.values():
        count = 0
        for start, stop in slot.gone.gaps(0, slot.next):
            position = start
            while position < stop:
                assert streams is not None
                event = streams.read(slot.stream, position)
                if event is None or event.first > position:
                    raise HistoryError(f"message {position} of stream {slot.stream} waits, and it is gone")
                end = min(stop, event.first + len(event.batch))
                yield from map(bytes, event.batch.slice(position - event.first, end - event.first).payloads)
                count += end - position
                position = end
        if count != slot.messages:
            raise HistoryError(f"stream {slot.stream} counts {slot.messages}, and has {count}")


def places_of(queues: Iterable[StoredQueue]) -> dict[bytes, Counter[str]]:
    """In which queues each payload is, and how often."""
    found: dict[bytes, Counter[str]] = {}
    for queue in queues:
        for payload in payloads_of(queue.log):
            found.setdefault(payload, Counter())[queue.name] += 1
    return found


def require(holds: object, text: str) -> None:
    """HistoryError where it does not."""
    if not holds:
        raise HistoryError(text)


def instances(payload: bytes, there: Counter[str], letters: Iterable[tuple[str, ...]]) -> int:
    """How often a message is there, where one in all queues of ``letters`` is one that died; what is in some of them only is an error."""
    total = sum(there.values()) - there[COPY]
    for names in letters:
        counts = {there[name] for name in names}
        require(len(counts) == 1, f"{payload!r} is in some of {names} only: {there}")
        total -= (len(names) - 1) * counts.pop()
    return total


def compare(model: Known, places: Places, letters: Iterable[tuple[str, ...]], wall_us: int) -> None:
    """Checks that each message is where it must be; ``letters`` has the queues that dead letters go to together."""
    unknown = [payload for payload in places if payload not in model.sent and not payload.startswith(b"tick")]
    require(not unknown, f"{unknown} are there, and nobody has sent them")
    letters = list(letters)
    for payload, sent in model.sent.items():
        there = places.get(payload, Counter())
        total = instances(payload, there, letters)
        say = f"{payload!r} of {sent} is {'nowhere' if not there else 'in ' + str(dict(there))}"
        require(total <= 1, f"twice: {say}")
        over = sent.ends_us is not None and sent.ends_us <= wall_us
        if sent.duplicate or sent.gone:
            require(not total, f"there again: {say}")
        elif sent.must and not sent.going and not sent.refused and not over:
            require(total, f"lost: {say}")
        if sent.later:
            stored = sent.must or total
            require(there[COPY] + there[PLACE] <= 1, f"waits, and has gone on: {say}")
            require(not stored or there[COPY] + there[PLACE], f"the copy is lost: {say}")
            require(not total or there[PLACE] or there[COPY], f"in one of two queues: {say}")


def compare_ids(model: Known, storage: Storage, wall_us: int, found: Places) -> None:
    """Checks that each queue that looks at ids knows those of what it has stored, until as long as it must, and no others."""
    for queue in storage.queues:
        if queue.settings is None or queue.settings.deduplication_window is None:
            continue
        accepted = queue.log.accepted or AcceptedIds()
        accepted.forget(wall_us)
        there = dict(accepted)
        expected, unsure = {}, set()
        for (to, own_id), (until, payload) in model.ids.items():
            digest = digest_of(own_id.encode())
            if to == (queue.name, queue.number) and until > wall_us:
                sent = model.sent[payload]
                if sent.must or payload in found or sent.gone:
                    expected[digest] = until
                else:
                    unsure.add(digest)
        missing = expected.keys() - there.keys()
        require(not missing, f"queue {queue.name} has forgotten {len(missing)} ids")
        more = there.keys() - expected.keys() - unsure
        require(not more, f"queue {queue.name} knows {len(more)} ids of messages that it has not")
        wrong = [digest for digest, until in expected.items() if abs(there[digest] - until) > 1]
        require(not wrong, f"{len(wrong)} ids of queue {queue.name} count until another time")
