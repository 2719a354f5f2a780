"""Lines to batches, read under a bound: `penstock send`'s input side, without a broker."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.batch import MessageBatch
from transport.cli._blocking import BlockingWorker, Output
from transport.cli._input import Input, Window
from transport.cli._input_formats import Piece, PlainDecoder
from transport.cli._publishing import CameBack, Target
from transport.cli._splitting import LineTooLongError, Splitter
from transport.cli.send import _summary
from transport.clients.sender_batches import MAX_BATCH_BYTES
from transport.wire.codec import encode
from transport.wire.frames import MAX_FRAME_BYTES
from transport.wire.messages import Send

DEADLINE = 20.0


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE):
            await main()

    asyncio.run(bounded())


def payloads(batches: Iterable[object]) -> list[bytes]:
    return [payload for batch in batches if isinstance(batch, MessageBatch) for payload in batch.payloads]


def piece_of(*lines: bytes) -> Piece:
    return Piece(MessageBatch.from_payloads(lines), len(lines), sum(map(len, lines)) + len(lines), sum(map(len, lines)))


@given(st.lists(st.binary(max_size=20)), st.lists(st.integers(1, 30), min_size=1), st.integers(1, 5), st.booleans())
def test_lines_come_out_as_they_went_in_however_the_input_is_cut(
    values: list[bytes], cuts: list[int], batch_messages: int, ends_with_newline: bool
) -> None:
    lines = [value.replace(b"\n", b"") for value in values]
    text = b"\n".join(lines) + (b"\n" if ends_with_newline and lines else b"")
    splitter = Splitter()
    decoder = PlainDecoder(splitter, batch_messages=batch_messages)
    pieces: list[Piece] = []
    at = turn = 0
    while at < len(text):
        size = cuts[turn % len(cuts)]
        pieces += decoder.feed(text[at : at + size])
        at += size
        turn += 1
    pieces += decoder.finish()
    # Without a newline behind it an empty last line is no line.
    expected = lines if ends_with_newline or not lines or lines[-1] else lines[:-1]
    assert payloads(piece.element for piece in pieces) == expected
    assert sum(piece.size for piece in pieces) in (len(text), len(text) + 1)
    assert splitter.lines == len(expected)
    assert all(1 <= piece.messages <= batch_messages for piece in pieces)


@pytest.mark.parametrize("cut", [1, 3, 7, 100])
def test_a_line_over_the_limit_is_refused_by_its_number_however_it_arrives(cut: int) -> None:
    text = b"ab\ncd\nefghi\njk\n"
    splitter = Splitter(max_line=4)
    blocks = [text[at : at + cut] for at in range(0, len(text), cut)]
    with pytest.raises(LineTooLongError, match="line 3 is longer than the 4 bytes") as refused:
        list(map(splitter.feed, blocks))
    assert refused.value.number == 3


def test_a_line_that_never_ends_is_refused_once_it_is_too_long_not_at_its_end() -> None:
    splitter = Splitter(max_line=100)
    assert all(splitter.feed(b"0123456789") == [] for _ in range(10))
    with pytest.raises(LineTooLongError):
        splitter.feed(b"0")


def test_the_longest_line_allowed_fits_a_frame() -> None:
    (piece,) = PlainDecoder(Splitter()).feed(b"x" * MAX_BATCH_BYTES + b"\n")
    batch = piece.element
    assert isinstance(batch, MessageBatch)
    parts = encode(Send(2**63 - 1, None, batch))
    assert sum(len(bytes(part)) for part in parts) <= MAX_FRAME_BYTES


def test_carriage_returns_belong_to_the_message() -> None:
    assert Splitter().feed(b"a\r\n\r\nb\n") == [b"a\r", b"\r", b"b"]


TO_QUEUE = Target("q", None, None, False, CameBack("send"))


def test_bytes_are_known_of_whole_batches_only() -> None:
    window = Window()
    window.read(piece_of(b"a", b"b"))
    window.read(piece_of(b"c"))
    for confirmed, expected in ((0, (0, False)), (1, (0, True)), (1, (4, False)), (1, (6, False))):
        window.confirmed(confirmed)
        assert (window.confirmed_bytes, window.batch_open) == expected
    assert _summary(window, TO_QUEUE, "here:1", 1.0, "left").startswith(
        "3 messages confirmed in queue q at here:1, 3 B in 1 s"
    )
    window.read(piece_of(b"d", b"e"))
    window.confirmed(1)
    said = _summary(window, TO_QUEUE, "here:1", 1.0, "not confirmed")
    assert said.startswith("4 messages confirmed in queue q at here:1, in 1 s (4 messages/s); 1 read and not confirmed")


def test_the_window_closes_at_its_messages_and_opens_with_their_confirmation() -> None:
    async def main() -> None:
        window = Window(max_messages=3, max_bytes=1000)
        window.read(piece_of(b"a", b"b"))
        await window.room()
        window.read(piece_of(b"c", b"d"))
        waiting = asyncio.create_task(window.room())
        done, _ = await asyncio.wait({waiting}, timeout=0)
        assert not done
        window.confirmed(1)
        done, _ = await asyncio.wait({waiting}, timeout=0)
        assert not done
        window.confirmed(1)
        await waiting
        assert (window.read_messages, window.confirmed_messages, window.confirmed_bytes) == (4, 2, 4)

    run(main)


def test_the_window_closes_at_its_bytes_however_few_the_messages() -> None:
    async def main() -> None:
        window = Window(max_messages=1000, max_bytes=10)
        window.read(piece_of(b"0123456789"))
        waiting = asyncio.create_task(window.room())
        done, _ = await asyncio.wait({waiting}, timeout=0)
        assert not done
        window.confirmed(1)
        await waiting
        assert window.confirmed_bytes == 11

    run(main)


def test_files_are_read_one_after_another_and_a_last_line_needs_no_newline(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"a\nb")
    second.write_bytes(b"c\n\nd\n")

    async def main() -> None:
        lines = Input([str(first), str(second)], Window())
        assert lines.total_bytes() == 8
        assert payloads([batch async for batch in lines.batches()]) == [b"a", b"b", b"c", b"", b"d"]
        assert lines.error is None

    run(main)


def test_an_input_that_fails_in_the_middle_completes_with_what_it_gave_and_the_reason(tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.write_bytes(b"a\nb\n")

    async def main() -> None:
        lines = Input([str(first), str(tmp_path / "gone"), str(first)], Window())
        assert lines.total_bytes() is None
        assert payloads([batch async for batch in lines.batches()]) == [b"a", b"b"]
        assert str(lines.error).endswith("gone: No such file or directory")

    run(main)


class WatchedWindow(Window):
    """Tells when it is asked for room, which is before anything is read."""

    def __init__(self, max_messages: int) -> None:
        super().__init__(max_messages)
        self.asked = asyncio.Event()

    async def room(self) -> None:
        self.asked.set()
        await super().room()


def test_nothing_is_read_beyond_the_window(tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(b"line\n" * 100)

    async def main() -> None:
        window = WatchedWindow(max_messages=10)
        batches = Input([str(path)], window, block_bytes=50).batches()
        assert len(await anext(batches)) == 10
        window.asked.clear()
        second = asyncio.ensure_future(anext(batches))
        await window.asked.wait()
        assert not second.done()
        assert window.read_messages == 10
        window.confirmed(10)
        assert len(await second) == 10
        await batches.aclose()

    run(main)


def test_a_named_pipe_is_opened_and_read_beside_the_loop(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)

    async def main() -> None:
        lines = Input([str(path)], Window())
        first = asyncio.ensure_future(anext(lines.batches()))
        # Opening for writing succeeds once the reader has it open: no order is imposed on the two.
        fd = await asyncio.to_thread(os.open, path, os.O_WRONLY)
        os.write(fd, b"hello\n")
        assert payloads([await first]) == [b"hello"]
        os.close(fd)

    run(main)


def test_a_read_that_never_returns_does_not_hold_the_end_of_the_loop() -> None:
    reader, writer = os.pipe()

    async def main() -> None:
        worker = BlockingWorker("test-read")
        reading = asyncio.create_task(worker.call(lambda: os.read(reader, 1)))
        done, _ = await asyncio.wait({reading}, timeout=0)
        assert not done
        reading.cancel()
        await asyncio.wait({reading})
        worker.close()

    run(main)
    names = {thread.name for thread in threading.enumerate() if not thread.daemon}
    assert "test-read" not in names
    os.close(writer)
    os.close(reader)


def test_what_a_worker_call_raises_belongs_to_its_caller_and_the_worker_goes_on() -> None:
    async def main() -> None:
        worker = BlockingWorker("test-raise")
        with pytest.raises(ZeroDivisionError):
            await worker.call(lambda: 1 // 0)
        assert await worker.call(lambda: 5) == 5
        worker.close()

    run(main)


def test_output_larger_than_a_pipe_is_written_whole_while_the_loop_goes_on() -> None:
    data = os.urandom(3_000_000)
    reader, writer = os.pipe()

    async def main() -> None:
        output = Output(writer)
        writing = asyncio.create_task(output.write(data))
        received = bytearray()
        while len(received) < len(data):
            received += await asyncio.to_thread(os.read, reader, 65536)
        await writing
        assert received == data

    run(main)
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("size", [1, 100_000])
def test_output_to_a_closed_pipe_is_a_broken_pipe(size: int) -> None:
    reader, writer = os.pipe()
    os.close(reader)

    async def main() -> None:
        with pytest.raises(BrokenPipeError):
            await Output(writer).write(b"x" * size)

    run(main)
    os.close(writer)


def test_a_pipes_reader_that_leaves_is_noticed_without_writing() -> None:
    reader, writer = os.pipe()

    async def main() -> None:
        gone = asyncio.create_task(Output(writer).reader_gone())
        done, _ = await asyncio.wait({gone}, timeout=0)
        assert not done
        os.close(reader)
        await gone
        assert gone.done()

    run(main)
    os.close(writer)


def test_a_file_is_written_at_once_and_has_no_reader_to_lose(tmp_path: Path) -> None:
    async def main() -> None:
        with (tmp_path / "out").open("wb") as file:
            output = Output(file.fileno())
            await output.write(b"a\n")
            await output.write(b"b\n")
            gone = asyncio.create_task(output.reader_gone())
            done, _ = await asyncio.wait({gone}, timeout=0)
            assert not done
            gone.cancel()
        assert (tmp_path / "out").read_bytes() == b"a\nb\n"

    run(main)
