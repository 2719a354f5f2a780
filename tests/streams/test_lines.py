"""Source.lines: files, pipes and standard input, in real time (threads know no other)."""

from __future__ import annotations

import asyncio
import gzip
import io
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from streams import LineTooLongError, Materialization, Sink, Source
from streams.publishers.blocks import BLOCK_BYTES, BlockPublisher
from streams.testkit import TestSubscriber, settle

DEADLINE = 20.0


async def within(awaitable: object) -> object:
    async with asyncio.timeout(DEADLINE):
        return await awaitable  # type: ignore[misc]  # any awaitable


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "stream lines"]


def join_threads() -> None:
    deadline = time.monotonic() + DEADLINE
    for thread in threads():
        thread.join(max(0.0, deadline - time.monotonic()))
    assert threads() == []


@pytest.mark.parametrize("content", [b"", b"\n", b"a", b"a\n", b"a\n\nb\r\n", b"x" * (3 * BLOCK_BYTES) + b"\nlast"])
def test_the_lines_of_a_file_are_its_bytes_between_newlines(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "lines"
    file.write_bytes(content)
    expected = content.removesuffix(b"\n").split(b"\n") if content else []
    for each in (file, str(file)):
        assert Source.lines(each).to(Sink.collect()).run_blocking() == expected
    join_threads()


def test_a_large_file_arrives_whole_and_in_order(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    lines = [b"%d " % n + b"." * (n % 200) for n in range(50_000)]
    file.write_bytes(b"\n".join(lines))
    assert Source.lines(file).to(Sink.collect()).run_blocking() == lines


def test_a_line_over_the_limit_fails_the_stream(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"short\n" + b"x" * 200_000)
    with pytest.raises(LineTooLongError, match="100000 bytes"):
        Source.lines(file, max_line_bytes=100_000).to(Sink.collect()).run_blocking()
    with pytest.raises(ValueError, match="max_line_bytes"):
        Source.lines(file, max_line_bytes=0)
    join_threads()


def test_a_file_that_is_not_there_fails_the_stream(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Source.lines(tmp_path / "missing").to(Sink.collect()).run_blocking()
    join_threads()


def test_open_files_of_any_kind_are_read_from_where_they_stand_and_left_open(tmp_path: Path) -> None:
    packed = tmp_path / "lines.gz"
    packed.write_bytes(gzip.compress(b"skip\na\nb\n"))
    with gzip.open(packed) as file:
        assert file.readline() == b"skip\n"
        assert Source.lines(file).to(Sink.collect()).run_blocking() == [b"a", b"b"]
        assert not file.closed
    memory = io.BytesIO(b"a\nb")
    assert Source.lines(memory).to(Sink.collect()).run_blocking() == [b"a", b"b"]
    assert not memory.closed


def test_no_more_than_two_blocks_are_read_ahead_of_demand() -> None:
    class Endless(io.RawIOBase):
        read_bytes = 0

        def read(self, size: int = -1) -> bytes:
            self.read_bytes += size
            return b"x\n" * (size // 2)

    file = Endless()
    assert Source.lines(file).take(3).to(Sink.collect()).run_blocking() == [b"x"] * 3
    join_threads()
    assert file.read_bytes <= 2 * BLOCK_BYTES


def test_nothing_is_read_while_a_block_waits_for_demand() -> None:
    class Endless(io.RawIOBase):
        reads = 0

        def read(self, size: int = -1) -> bytes:
            self.reads += 1
            return b"x" * size

    async def main() -> None:
        file = Endless()
        m = Materialization(asyncio.get_running_loop())
        probe = TestSubscriber[bytes](timeout=DEADLINE)
        BlockPublisher(m, file).subscribe(probe)
        for n in (1, 2, 3):
            assert await probe.request_next() == b"x" * BLOCK_BYTES
            subscription: Any = await probe.expect_subscription()
            async with asyncio.timeout(DEADLINE):
                while not subscription._waiting:  # noqa: ASYNC110 - the block comes from a thread, with no event to wait on
                    await asyncio.sleep(0)
            await settle()
            assert file.reads == n + 1
        probe.cancel()
        join_threads()
        assert file.reads == 4

    asyncio.run(main())


def test_lines_of_a_pipe_come_as_they_are_written_and_its_end_ends_the_stream() -> None:
    async def main() -> None:
        reader, writer = os.pipe()
        with os.fdopen(reader, "rb") as file, os.fdopen(writer, "wb", buffering=0) as pipe:
            lines = Source.lines(file).iterate()
            pipe.write(b"one\ntw")
            assert await within(anext(lines)) == b"one"
            pipe.write(b"o\nthree")
            assert await within(anext(lines)) == b"two"
            pipe.close()
            assert await within(anext(lines)) == b"three"
            with pytest.raises(StopAsyncIteration):
                await within(anext(lines))

    asyncio.run(main())
    join_threads()


@pytest.mark.parametrize("buffering", [-1, 0])
def test_cancelling_a_stream_that_waits_for_a_pipe_ends_its_thread_at_once(buffering: int) -> None:
    async def main() -> None:
        reader, writer = os.pipe()
        with os.fdopen(reader, "rb", buffering=buffering) as file, os.fdopen(writer, "wb", buffering=0) as pipe:
            lines = Source.lines(file).iterate()
            pipe.write(b"one\n")
            assert await within(anext(lines)) == b"one"
            await lines.aclose()
            join_threads()
            pipe.write(b"two\n")
            assert os.read(file.fileno(), 10) == b"two\n"

    asyncio.run(main())


STDIN_PROGRAM = """
import asyncio, sys
from streams import Sink, Source

async def main():
    async for line in Source.lines(sys.stdin.buffer):
        print(line.decode(), flush=True)
        if line == b"stop":
            break

asyncio.run(main())
"""


@pytest.mark.parametrize(("given", "expected"), [(b"a\nb\nstop\nc\n", b"a\nb\nstop\n"), (b"a\nb", b"a\nb\n")])
def test_a_program_that_reads_standard_input_ends_cleanly_with_the_pipe_still_open(
    given: bytes, expected: bytes
) -> None:
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", STDIN_PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdin.write(given)
        program.stdin.flush()
        if b"stop" not in given:
            program.stdin.close()
        assert program.wait(DEADLINE) == 0
        assert program.stdout.read() == expected
        assert program.stderr.read() == b""
