"""Source.file and Sink.file: bytes to and from files and pipes, in real time (threads know no other)."""

from __future__ import annotations

import asyncio
import errno
import gzip
import io
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from streams import IOResult, Sink, Source
from streams.publishers import blocks
from streams.publishers.blocks import BLOCK_BYTES
from streams.subscribers import file as file_sink
from streams.subscribers.file import FILE_SINK_AHEAD
from streams.testkit import TestSource, settle

DEADLINE = 20.0


async def within(awaitable: Any) -> Any:
    async with asyncio.timeout(DEADLINE):
        return await awaitable


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name in ("stream file", "stream file sink")]


def join_threads() -> None:
    for thread in threads():
        thread.join(DEADLINE)
    assert threads() == []


class Slow(io.RawIOBase):
    """A file whose writes end when the test says so. Takes part of a block if it is told to."""

    def __init__(self, at_most: int = 1 << 30) -> None:
        self.written: list[bytes] = []
        self.begun = threading.Semaphore(0)
        self.go_on = threading.Semaphore(0)
        self._at_most = at_most

    def write(self, data: Any) -> int:
        self.begun.release()
        assert self.go_on.acquire(timeout=DEADLINE)
        self.written.append(bytes(data[: self._at_most]))
        return len(self.written[-1])


# Source.file


@pytest.mark.parametrize("size", [0, 1, BLOCK_BYTES, 3 * BLOCK_BYTES + 7])
def test_the_chunks_of_a_file_are_its_bytes(tmp_path: Path, size: int) -> None:
    path = tmp_path / "bytes"
    content = os.urandom(size)
    path.write_bytes(content)
    for each in (path, str(path)):
        chunks = Source.file(each).to(Sink.collect()).run_blocking()
        assert b"".join(chunks) == content
        assert all(0 < len(chunk) <= BLOCK_BYTES for chunk in chunks)
    small = Source.file(path, chunk_bytes=10_000).to(Sink.collect()).run_blocking()
    assert b"".join(small) == content
    assert all(len(chunk) == 10_000 for chunk in small[:-1])
    join_threads()


def test_an_open_file_is_read_from_where_it_stands_and_left_open(tmp_path: Path) -> None:
    memory = io.BytesIO(b"skipped-read")
    memory.seek(8)
    assert Source.file(memory, chunk_bytes=3).to(Sink.collect()).run_blocking() == [b"rea", b"d"]
    assert not memory.closed


def test_a_file_that_grows_while_it_is_read_is_read_to_where_it_ends_then(tmp_path: Path) -> None:
    path = tmp_path / "bytes"
    path.write_bytes(b"a" * 10)

    async def main() -> None:
        chunks = Source.file(path, chunk_bytes=10).iterate(prefetch=1)
        with path.open("ab") as file:
            seen = [await within(anext(chunks))]
            file.write(b"b" * 10)
            file.flush()
            seen += [chunk async for chunk in chunks]
        # One chunk is read ahead: it may have met the end before there was more.
        assert seen in ([b"a" * 10, b"b" * 10], [b"a" * 10])

    asyncio.run(main())


def test_a_pipe_gives_what_is_written_and_ends_with_it() -> None:
    async def main() -> None:
        reader, writer = os.pipe()
        with os.fdopen(reader, "rb", buffering=0) as file, os.fdopen(writer, "wb", buffering=0) as pipe:
            chunks = Source.file(file).iterate()
            for part in (b"one", b"two"):
                pipe.write(part)
                assert await within(anext(chunks)) == part
            pipe.close()
            with pytest.raises(StopAsyncIteration):
                await within(anext(chunks))

    asyncio.run(main())
    join_threads()


def test_a_file_that_cannot_be_read_fails_the_stream(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Source.file(tmp_path / "missing").to(Sink.ignore()).run_blocking()
    with pytest.raises(IsADirectoryError):
        Source.file(tmp_path).to(Sink.ignore()).run_blocking()
    with pytest.raises(ValueError, match="chunk_bytes"):
        Source.file(tmp_path, chunk_bytes=0)
    join_threads()


# Sink.file


def test_what_flows_in_is_in_the_file_when_the_run_is_done(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"what was there before")
    parts = [os.urandom(n % 700) for n in range(1000)]
    result = Source.from_iterable(parts).to(Sink.file(path)).run_blocking()
    assert result == IOResult(sum(map(len, parts)))
    assert path.read_bytes() == b"".join(parts)
    assert Source.of(b"and more").to(Sink.file(str(path), append=True)).run_blocking() == IOResult(8)
    assert path.read_bytes() == b"".join(parts) + b"and more"
    assert Source.empty().to(Sink.file(path, sync_at_end=False)).run_blocking() == IOResult(0)
    assert path.read_bytes() == b""
    join_threads()


@pytest.mark.parametrize("sync", [True, False])
def test_the_file_is_on_the_disk_at_the_end_if_that_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: bool
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(file_sink.os, "fsync", lambda _fd: synced.append(os.path.getsize(tmp_path / "out")))
    Source.of(b"abc", b"def").to(Sink.file(tmp_path / "out", sync_at_end=sync)).run_blocking()
    assert synced == ([6] if sync else [])


def test_open_files_of_any_kind_are_written_to_flushed_and_left_open(tmp_path: Path) -> None:
    memory = io.BytesIO(b"0123456789")
    memory.seek(4)
    assert Source.of(b"ab", bytearray(b"cd"), memoryview(b"ef")).to(Sink.file(memory)).run_blocking() == IOResult(6)
    assert memory.getvalue() == b"0123abcdef"
    with gzip.open(tmp_path / "out.gz", "wb") as packed:
        Source.from_iterable([b"line\n"] * 1000).to(Sink.file(packed)).run_blocking()
        packed.write(b"last")
    assert gzip.decompress((tmp_path / "out.gz").read_bytes()) == b"line\n" * 1000 + b"last"


def test_no_more_than_a_bound_waits_for_a_slow_disk_and_what_waits_is_written_at_once() -> None:
    async def main() -> None:
        file, source = Slow(), TestSource[bytes]()
        running = source.to(Sink.file(file)).run()
        await source.probe.expect_request(FILE_SINK_AHEAD)
        source.probe.send_next(*(b"%x" % n for n in range(16)))
        assert await asyncio.to_thread(file.begun.acquire, timeout=DEADLINE)
        await source.probe.expect_no_request()
        file.go_on.release()
        await source.probe.expect_request(1)
        assert await asyncio.to_thread(file.begun.acquire, timeout=DEADLINE)
        source.probe.send_next(b"-")
        source.probe.send_complete()
        file.go_on.release(2)
        assert await within(running) == IOResult(17)
        assert file.written == [b"0", b"123456789abcdef", b"-"]

    asyncio.run(main())
    join_threads()


def test_a_file_that_takes_blocks_in_pieces_gets_them_whole() -> None:
    file = Slow(at_most=3)
    file.go_on.release(100)
    assert Source.of(b"abcdefgh").to(Sink.file(file)).run_blocking() == IOResult(8)
    assert file.written == [b"abc", b"def", b"gh"]


def test_a_full_disk_cancels_upstream_and_fails_the_stream() -> None:
    class Full(io.RawIOBase):
        room = 10

        def write(self, data: Any) -> int:
            if self.room < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.room -= len(data)
            return len(data)

    async def main() -> None:
        source = TestSource[bytes]()
        running = source.to(Sink.file(Full())).run()
        source.probe.send_next(b"x" * 8)
        await source.probe.expect_request(FILE_SINK_AHEAD)
        await source.probe.expect_request(1)
        source.probe.send_next(b"x" * 8)
        with pytest.raises(OSError, match="No space left") as caught:
            await within(running)
        assert "in the sink file" in caught.value.__notes__
        assert source.probe.cancelled
        source.probe.subscriber.on_next(b"late")

    asyncio.run(main())
    join_threads()


def test_a_file_that_cannot_be_opened_fails_the_stream_before_its_first_element(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(FileNotFoundError):
            await within(Source.never().run_with(Sink.file(tmp_path / "missing" / "out")))
        with pytest.raises(IsADirectoryError):
            await within(Source.of(b"x").run_with(Sink.file(tmp_path)))

    asyncio.run(main())
    join_threads()


def test_a_file_that_may_not_be_opened_fails_the_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a stand-in for open(): for root there is no such file."""

    def refuse(path: Path, _mode: str, buffering: int) -> Any:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    for module in (blocks, file_sink):
        monkeypatch.setattr(module, "open", refuse, raising=False)
    with pytest.raises(PermissionError, match="out"):
        Source.of(b"x").to(Sink.file(tmp_path / "out")).run_blocking()
    with pytest.raises(PermissionError, match="in"):
        Source.file(tmp_path / "in").to(Sink.ignore()).run_blocking()
    join_threads()


def test_what_goes_wrong_while_the_file_is_closed_or_synchronized_fails_the_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unclosable(io.FileIO):
        def close(self) -> None:
            super().close()
            raise OSError("lost on the way")

    monkeypatch.setattr(file_sink, "open", lambda path, mode, buffering: Unclosable(path, mode), raising=False)
    with pytest.raises(OSError, match="lost on the way"):
        Source.of(b"x").to(Sink.file(tmp_path / "out")).run_blocking()
    monkeypatch.undo()

    def no_sync(_descriptor: int) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(file_sink.os, "fsync", no_sync)
    with pytest.raises(OSError, match="the disk is gone"):
        Source.of(b"x").to(Sink.file(tmp_path / "out")).run_blocking()
    join_threads()


def test_a_run_that_fails_or_is_cancelled_leaves_what_it_has_written_and_no_thread(tmp_path: Path) -> None:
    path = tmp_path / "out"

    async def main() -> None:
        source = TestSource[bytes]()
        running = source.to(Sink.file(path)).run()
        source.probe.send_next(b"written")
        await source.probe.expect_request(FILE_SINK_AHEAD)
        await source.probe.expect_request(1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await within(running)
        assert source.probe.cancelled
        assert path.read_bytes() == b"written"

    asyncio.run(main())
    join_threads()
    with pytest.raises(OSError, match="upstream"):
        Source.failed(OSError("upstream")).to(Sink.file(path)).run_blocking()
    join_threads()


def test_a_run_is_not_done_before_a_write_under_way_is_over() -> None:
    async def main() -> None:
        file, source = Slow(), TestSource[bytes]()
        running = source.to(Sink.file(file)).run()
        source.probe.send_next(b"x")
        assert await asyncio.to_thread(file.begun.acquire, timeout=DEADLINE)
        running.cancel()
        await settle()
        assert not running.done()
        file.go_on.release()
        with pytest.raises(asyncio.CancelledError):
            await within(running)
        assert file.written == [b"x"]

    asyncio.run(main())
    join_threads()


def test_text_is_refused_with_what_to_do() -> None:
    with pytest.raises(TypeError, match="takes bytes, not str: encode"):
        Source.of("text").to(Sink.file(io.BytesIO())).run_blocking()  # type: ignore[arg-type]  # what is tested
    join_threads()


def test_a_copy_of_a_file_is_the_file(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(os.urandom(1_000_000))
    result = Source.file(tmp_path / "in").to(Sink.file(tmp_path / "out")).run_blocking()
    assert result == IOResult(1_000_000)
    assert (tmp_path / "out").read_bytes() == (tmp_path / "in").read_bytes()
