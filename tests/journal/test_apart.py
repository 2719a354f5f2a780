"""Records that are read on another thread: the same bytes as ever, or nothing where they are not there as they were written."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

import pytest

from journal import Held, Journal, JournalOptions, ManualCommitter, taken_in
from journal import apart as module


def opened(folder: Path, **options: int) -> tuple[Journal, ManualCommitter]:
    journal, committer = Journal.open(folder, JournalOptions(**options)), ManualCommitter()
    for _ in journal.replay():
        pass
    journal.start(lambda _: None, lambda _: None, committer)
    return journal, committer


BODY = os.urandom(10_000)
OTHER = os.urandom(3_000)


def filled(folder: Path) -> Journal:
    """Records of one stream and of several, each larger than a segment."""
    journal, committer = opened(folder, segment_bytes=4_096)
    journal.append_items(1, 7, 0, 2, [BODY[:5], BODY[5:]])
    journal.append_several(2, [Held(7, 2, 1, 0), Held(8, 0, 1, 0), Held(9, 5, 3, 1)], [[BODY], [OTHER]], b"beside")
    committer.run()
    return journal


@pytest.mark.parametrize(("stream", "first", "stop", "body"), [(7, 0, 2, BODY), (7, 2, 3, BODY), (9, 5, 8, OTHER)])
@pytest.mark.parametrize("piece", [1 << 20, 999])
def test_it_is_what_reading_it_at_once_gives(
    tmp_path: Path, stream: int, first: int, stop: int, body: bytes, piece: int
) -> None:
    journal = filled(tmp_path)
    apart = journal.apart(stream, first)
    assert apart is not None
    with mock.patch.object(module, "PIECE_BYTES", piece):
        data = apart.read()
    assert data is not None
    taken, read = taken_in(data, stream, first, stop), journal.read(stream, first)
    assert taken is not None
    assert (bytes(taken.payload), taken[:4]) == (body, read[:4]) == (bytes(read.payload), taken[:4])
    for wrong in ((stream + 3, first, stop), (stream, first + 1, stop + 1), (stream, first, stop + 1)):
        assert taken_in(data, *wrong) is None
    journal.close()


def test_what_is_not_written_yet_or_not_there_is_not_read_apart(tmp_path: Path) -> None:
    journal, _ = opened(tmp_path)
    journal.append_items(1, 7, 4, 1, [BODY])
    assert journal.apart(7, 4) is None
    assert journal.apart(7, 3) is None
    assert journal.apart(8, 4) is None
    journal.close()


@pytest.mark.parametrize("at", [0, 5, 9, 20, 40, 9_000, -1])
def test_where_a_byte_is_another_there_is_nothing(tmp_path: Path, at: int) -> None:
    journal = filled(tmp_path)
    apart = journal.apart(7, 0)
    assert apart is not None
    data = bytearray(apart._path.read_bytes())
    place = apart._offset + at if at >= 0 else len(data) - 1
    data[place] ^= 1
    apart._path.write_bytes(data)
    assert apart.read() is None
    journal.abandon()


def test_where_the_file_is_cut_or_gone_there_is_nothing(tmp_path: Path) -> None:
    journal = filled(tmp_path)
    apart = journal.apart(7, 0)
    assert apart is not None
    whole = apart._path.read_bytes()
    for end in (0, apart._offset + 10, len(whole) - 1):
        apart._path.write_bytes(whole[:end])
        assert apart.read() is None
    apart._path.unlink()
    assert apart.read() is None
    journal.abandon()
