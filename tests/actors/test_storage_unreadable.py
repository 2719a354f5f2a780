"""A segment that cannot be read, and whose index cannot either: whoever asks where a message is, the broker is told and ends."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from actors.errors import StorageError
from actors.storage.table import JournalEntryTable
from journal import OsFiles
from tests.actors.test_storage import Bench, drain, in_loop, send

MESSAGES = 120
"""Of 1,000 bytes in segments of 16 KiB: more segments than the journal keeps the rows of."""


class FewFiles(OsFiles):
    """A process that can open no more files, from when the test says so."""

    exhausted = False

    def open(self, path: Path, *, write: bool = False) -> int:
        """See ``Files``."""
        if self.exhausted:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
        return super().open(path, write=write)


def spoil(directory: Path, _: FewFiles) -> None:
    """One byte of the second segment and one of its index: what the start reads of them is whole."""
    segment = sorted(directory.glob("*.segment"))[1]
    index = segment.with_suffix(".index")
    for path, offset in ((segment, 100), (index, index.stat().st_size - 3)):
        content = bytearray(path.read_bytes())
        content[offset] ^= 1
        path.write_bytes(content)


def remove(directory: Path, _: FewFiles) -> None:
    segment = sorted(directory.glob("*.segment"))[1]
    segment.unlink()
    segment.with_suffix(".index").unlink()


def exhaust(_: Path, files: FewFiles) -> None:
    files.exhausted = True


def find(table: JournalEntryTable, first: int) -> object:
    return table.at(first)


def count(table: JournalEntryTable, first: int) -> object:
    return list(table.extents(first, first + 3))


@contextmanager
def unreadable(directory: Path, cause: Callable[[Path, FewFiles], None]) -> Iterator[Bench]:
    """A storage with more segments than it knows the rows of, of which one cannot be read any more."""
    bench = Bench(directory)
    queue = bench.declare()
    for _ in range(MESSAGES):
        send(queue, bytes(1000))
    bench.committer.run()
    bench.close()
    files = FewFiles()
    again = Bench(directory, cache_bytes=0, files=files)
    cause(directory, files)
    yield again
    files.exhausted = False
    again.storage._journal.abandon()


@pytest.mark.parametrize("ask", [find, count])
@pytest.mark.parametrize("cause", [spoil, remove, exhaust])
def test_where_a_message_is_cannot_be_read_then_the_broker_is_told_and_whoever_asked_gets_a_storage_error(
    tmp_path: Path, cause: Callable[[Path, FewFiles], None], ask: Callable[[JournalEntryTable, int], object]
) -> None:
    @in_loop
    def test(directory: Path) -> None:
        with unreadable(directory, cause) as bench:
            table = bench.recovered().log.table
            assert isinstance(table, JournalEntryTable)
            with pytest.raises(StorageError, match=r"\.segment, offset"):
                ask(table, 20)
            (told,) = bench.failures
            assert bench.storage.failure is told

    test(tmp_path)


@pytest.mark.parametrize("cause", [spoil, remove])
def test_a_receiver_of_a_queue_with_such_a_segment_makes_the_broker_end(
    tmp_path: Path, cause: Callable[[Path, FewFiles], None]
) -> None:
    @in_loop
    def test(directory: Path) -> None:
        with unreadable(directory, cause) as bench:
            with pytest.raises(StorageError, match="penstock journal repair"):
                drain(bench.recovered())
            assert len(bench.failures) == 1

    test(tmp_path)
