"""Messages of links, any of them, and what is compared of two."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from actors.replication import vocabulary as say
from actors.replication.positions import EpochStart, LogSummary, Position
from transport.cluster import transfer_messages as of_transfers
from transport.cluster.link_codec import Alive
from transport.cluster.records import Record

LSNS = st.integers(0, 2**40)
EPOCHS = st.integers(0, 2**32 - 1)
TIMES = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def summaries(draw: Any) -> LogSummary:
    start = draw(st.integers(1, 2**40))
    count = draw(st.integers(0, 5))
    epochs = sorted(draw(st.sets(EPOCHS, min_size=count, max_size=count)))
    # The first may be that of the record before the log's first.
    lsns = sorted(draw(st.sets(st.integers(max(start - 1, 1), start + 1000), min_size=count, max_size=count)))
    least = max(start, lsns[-1] + 1 if lsns else 0)
    end = least + draw(st.integers(0, 1000))
    epoch = epochs[-1] if epochs else draw(EPOCHS)
    starts = tuple(EpochStart(*each) for each in zip(epochs, lsns, strict=True))
    return LogSummary(start, end, draw(st.integers(0, end)), epoch, starts)


def payloads() -> Any:
    part = st.binary(max_size=40)
    return st.one_of(
        st.tuples(),
        st.tuples(part),
        st.tuples(part, part.map(memoryview)),
        st.tuples(part.map(lambda data: memoryview(data + b"\0" * (-len(data) % 4)).cast("i")), part.map(bytearray)),
    )


@st.composite
def records(draw: Any, first: int, least: int, most: int, count: int, gap: int = 0) -> list[Record]:
    made = []
    epochs = sorted(draw(st.lists(st.integers(least, most), min_size=count, max_size=count)))
    for epoch in epochs:
        first += draw(st.integers(0, gap))
        made.append(Record(first, epoch, draw(st.integers(1, 255)), draw(st.integers(0, 2)), draw(payloads())))
        first += 1
    return made


@st.composite
def replicates(draw: Any) -> say.Replicate:
    epoch = draw(st.integers(1, 2**32 - 1))
    previous = Position(draw(st.integers(0, epoch)), draw(LSNS))
    count = draw(st.integers(0, 6))
    made = draw(records(previous.lsn + 1, max(previous.epoch, 1), epoch, count))
    return say.Replicate(epoch, previous, draw(LSNS), draw(TIMES), made or ())


@st.composite
def fetched(draw: Any) -> say.Fetched:
    lsn = draw(LSNS)
    return say.Fetched(draw(EPOCHS), lsn, draw(records(lsn, 1, 2**32 - 1, draw(st.integers(0, 4)))) or ())


@st.composite
def given_records(draw: Any) -> of_transfers.GivenRecords:
    lsn = draw(LSNS)
    made = draw(records(lsn, 0, 2**32 - 1, draw(st.integers(1, 5)), gap=9))
    return of_transfers.GivenRecords(lsn, made[-1].lsn + draw(st.integers(1, 9)), made)


@st.composite
def heads(draw: Any) -> of_transfers.GivenHead:
    lsn = draw(st.integers(1, 2**40))
    return of_transfers.GivenHead(lsn, draw(EPOCHS), draw(st.integers(0, lsn - 1)), draw(LSNS), draw(LSNS))


POSITIONS = st.builds(Position, EPOCHS, LSNS)
MESSAGES: dict[type, Any] = {
    Alive: st.builds(Alive),
    say.Follow: st.builds(say.Follow, EPOCHS),
    say.Following: st.builds(say.Following, EPOCHS, summaries()),
    say.Replicate: replicates(),
    say.Stored: st.builds(say.Stored, EPOCHS, LSNS, TIMES),
    say.Refused: st.builds(say.Refused, EPOCHS),
    say.Seal: st.builds(say.Seal, EPOCHS),
    say.Sealed: st.builds(say.Sealed, EPOCHS, summaries()),
    say.Missing: st.builds(say.Missing, EPOCHS, LSNS, POSITIONS),
    say.Missed: st.builds(say.Missed, EPOCHS, LSNS, st.booleans(), POSITIONS),
    say.Fetch: st.builds(say.Fetch, EPOCHS, LSNS),
    say.Fetched: fetched(),
    say.TakeTransfer: st.builds(say.TakeTransfer, EPOCHS, POSITIONS),
    say.TakeOver: st.builds(say.TakeOver, EPOCHS),
    of_transfers.AskRecords: st.builds(of_transfers.AskRecords, LSNS),
    of_transfers.AskState: st.builds(of_transfers.AskState, LSNS, LSNS),
    of_transfers.GivenRecords: given_records(),
    of_transfers.GivenHead: heads(),
    of_transfers.GivenState: st.builds(of_transfers.GivenState, LSNS, LSNS, st.binary(min_size=1, max_size=60)),
    of_transfers.Wait: st.builds(of_transfers.Wait),
    of_transfers.NoTransfer: st.builds(of_transfers.NoTransfer, st.text(st.characters(codec="ascii"), max_size=50)),
}
"""Any message of each type."""
ANY = st.one_of(*MESSAGES.values())


def plain(message: Any) -> Any:
    """A message with its records' payloads in one piece each, to be compared."""
    if isinstance(message, say.Replicate | say.Fetched | of_transfers.GivenRecords):
        whole = [
            (*each[:4], b"".join(bytes(memoryview(part).cast("B")) for part in each.payload if memoryview(part).nbytes))
            for each in message.records
        ]
        return type(message), message._replace(records=whole)
    if isinstance(message, of_transfers.GivenState):
        return type(message), message._replace(piece=bytes(message.piece))
    return type(message), message
