"""What senders were told of as lost is found in the journals that were put aside, and nowhere else."""

from __future__ import annotations

from pathlib import Path

from tests.fault.machines.lost import lie_aside, told_of
from tests.fault.machines.records import SENT, Confirmed, Event, Gone, Handed, Log, payload_of

SIZE = 100


def test_a_message_that_was_told_of_as_lost_is_counted_where_a_journal_that_was_put_aside_has_it(
    tmp_path: Path,
) -> None:
    logged: tuple[list[Event], ...] = (
        [Handed(1, 0, 9), Confirmed(2, 0, 9, 0), Gone(3, 7, 2)],
        [Handed(1, 0, 1), Gone(3, 0, 1)],
    )
    for sender, events in enumerate(logged):
        log = Log(tmp_path / SENT.format(sender), sender, aloud=False)
        log.write(*events)
        log.close()
    told = list(told_of(tmp_path))
    assert told == [(0, 7), (0, 8), (1, 0)]

    one, other = tmp_path / "a", tmp_path / "b"
    (one / "damaged-1").mkdir(parents=True)
    (other / "damaged-2").mkdir(parents=True)
    (one / "1.segment").write_bytes(payload_of(1, 0, SIZE))  # this is no journal that was put aside
    (one / "damaged-1" / "spare-1.segment").write_bytes(payload_of(1, 0, SIZE))
    assert lie_aside(told, SIZE, [one, other]) == 0
    (one / "damaged-1" / "1.segment").write_bytes(b"xx" + payload_of(0, 7, SIZE) + payload_of(0, 8, SIZE)[:-1])
    (other / "damaged-2" / "1.segment").write_bytes(payload_of(0, 7, SIZE) + payload_of(0, 6, SIZE))
    assert lie_aside(told, SIZE, [one, other]) == 1
