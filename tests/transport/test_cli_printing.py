"""When `penstock receive --idle-exit` ends, turn by turn of its loop, with a broker that follows a script."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable
from typing import Any

from tests.transport.scripted_peers import DEADLINE, Peer, ScriptedBroker
from transport import MessageBatch
from transport.cli._printing import Printer
from transport.clients.backoff import Backoff
from transport.clients.receiver import Receiver
from transport.wire.messages import Ack, Because, Cancel, Deliver, Request, Why

PATIENCE = 1000.0
"""Seconds of the loop's time; they pass when the test says so, all at once."""


UNASKED = 3.0
"""Seconds after which it asks why nothing comes."""
PATIENT = Backoff(give_up_after=DEADLINE)
WELCOME = {"id_prefix": b"12345678", "visibility_timeout_ms": 0}
HEARTBEAT_MS = 1_000_000_000
"""Longer than all the time that passes: silence between the two ends is not what is tested."""


class Held(asyncio.SelectorEventLoop):
    """A loop on which more time may have passed than has, as in a process that was held up.

    Attributes:
        late: seconds by which its time is ahead.
    """

    late = 0.0

    def time(self) -> float:
        return super().time() + self.late

    def held_up(self, meanwhile: Callable[[], None], seconds: float = PATIENCE + 1) -> None:
        """From another thread: has ``meanwhile`` happen, and these seconds pass, within one turn of the loop."""
        turn, over = threading.Event(), threading.Event()

        def hold() -> None:
            turn.set()
            assert over.wait(DEADLINE)
            self.late += seconds

        self.call_soon_threadsafe(hold)
        assert turn.wait(DEADLINE)
        meanwhile()
        over.set()


def printed_by(script: Callable[[Held, Peer], None]) -> tuple[bytes, int]:
    """What a receiver that exits when idle writes with this broker, and how many messages it counts."""

    told: list[Any] = []

    async def main(loop: Held) -> int:
        broker = ScriptedBroker(lambda peer: script(loop, peer))
        printer = Printer(output, idle_exit=PATIENCE)
        try:
            receiver = Receiver(broker.address, queue="q", max_in_flight=10, reconnect=PATIENT, on_wait=told.append)
            await printer.run(receiver)
        finally:
            await loop.run_in_executor(None, broker.finish)
        return printer.printed

    reader, output = os.pipe()
    os.set_blocking(reader, False)
    try:
        with asyncio.Runner(loop_factory=Held) as runner:
            loop: Any = runner.get_loop()
            printed = runner.run(main(loop))
        with contextlib.suppress(BlockingIOError):
            return os.read(reader, 1 << 16), printed
        return b"", printed
    finally:
        # The reading end first: the printer's thread that waits for a reader to leave holds the other end open, and leaves with it.
        os.close(reader)
        os.close(output)


def delivery(first: int, *payloads: bytes) -> Deliver:
    return Deliver(first, 1, 1, False, MessageBatch.from_payloads(payloads))


def test_messages_that_came_while_the_process_was_held_up_are_written_before_it_exits_as_idle() -> None:
    def script(loop: Held, peer: Peer) -> None:
        peer.welcome(WELCOME, heartbeat_ms=HEARTBEAT_MS)
        peer.read(Request)
        loop.held_up(lambda: peer.send(delivery(0, b"first", b"second"), delivery(2, b"third")))
        acknowledged = 0
        while acknowledged < 3:
            acknowledged += sum(count for _, count in peer.read(Ack).ranges)
        loop.held_up(lambda: None)
        assert peer.read(Request) == Request(0, 0)
        peer.read(Cancel)

    assert printed_by(script) == (b"first\nsecond\nthird\n", 3)


def test_a_receiver_that_nothing_comes_to_exits_when_its_patience_ends() -> None:
    def script(loop: Held, peer: Peer) -> None:
        peer.welcome(WELCOME, heartbeat_ms=HEARTBEAT_MS)
        peer.read(Request)
        loop.held_up(lambda: None)
        assert peer.read(Request) == Request(0, 0)
        peer.read(Cancel)

    assert printed_by(script) == (b"", 0)


def test_to_hear_why_nothing_comes_begins_the_patience_not_anew() -> None:
    def script(loop: Held, peer: Peer) -> None:
        peer.welcome(WELCOME | {"explains": True}, heartbeat_ms=HEARTBEAT_MS)
        peer.read(Request)
        loop.held_up(lambda: None, UNASKED)
        why = peer.read(Why)
        loop.held_up(lambda: peer.send(Because(why.request, "empty", "the queue is empty")), PATIENCE)
        peer.read(Why)  # the next one was due before
        assert peer.read(Request) == Request(0, 0)
        peer.read(Cancel)

    assert printed_by(script) == (b"", 0)
