"""What was sent into a cut is found in what was logged, and in the bytes of files, wherever it still is."""

from __future__ import annotations

from pathlib import Path

from tests.fault.machines.records import RECEIVED, SENT, Confirmed, Delivered, Handed, Log, payload_of
from tests.fault.machines.tails import holding, into


def test_of_what_was_taken_behind_the_cut_it_is_known_what_was_confirmed_and_what_came(tmp_path: Path) -> None:
    sent, received = Log(tmp_path / SENT.format(0), 0, aloud=False), Log(tmp_path / RECEIVED.format(0), 0, aloud=False)
    sent.write(Handed(1, 0, 3), Confirmed(2, 0, 3, 0), Handed(10, 3, 1), Handed(11, 4, 4), Confirmed(12, 2, 3, 2))
    received.write(Delivered(20, 0, 0, 4, 0, 0), Delivered(21, 0, 7, 1, 7, 0))
    assert into(tmp_path, 10) == ({4, 5, 6, 7}, {4}, {7})
    assert into(tmp_path, 11) == (set(), set(), set())


def test_a_message_is_found_in_a_file_where_all_of_its_bytes_are(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    one, ten, hundred = (payload_of(0, number, 120) for number in (1, 10, 100))
    (tmp_path / "whole").write_bytes(b"xx" + one + ten + b"0:" + hundred)
    (tmp_path / "torn").write_bytes(b"xx" + one[:-1] + b"?" + ten[:50])
    (tmp_path / "below" / "other").write_bytes(payload_of(0, 1, 121) + payload_of(1, 10, 120) + hundred)
    (tmp_path / "empty").touch()
    assert holding(tmp_path, 120, {1, 10, 100, 1_000}) == {
        tmp_path / "whole": {1, 10, 100},
        tmp_path / "below" / "other": {100},
    }
    assert holding(tmp_path, 120, {10}) == {tmp_path / "whole": {10}}
