"""How long a client waits for WELCOME: for a broker that gives signs as long as it gives them, for one that does not as ever."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from streams.testkit import run_in_virtual_time, settle
from tests.decoding import FrameDecoder
from tests.transport.connection_bench import Bench
from tests.transport.scripted_peers import Peer, Play
from transport.broker.broker_connection import ATTACH_SECONDS
from transport.broker.sending_ports import SendingPort
from transport.clients.backoff import Backoff
from transport.clients.blocking_connection import SIGNED_TIMEOUT, BlockingConnection
from transport.clients.contacts import FIRST_PATIENCE, Contacts
from transport.clients.opening import NOT_LET_IN, NOTHING_SAID, Opening
from transport.clients.transaction_client import TransactionClient
from transport.errors import FellSilentError, PeerTimeoutError
from transport.wire.address import parse_address
from transport.wire.codec import decode, encode
from transport.wire.frames import MAX_FRAME_BYTES
from transport.wire.liveness import (
    DEFAULT_HEARTBEAT,
    ENTRANCE_TIMEOUT,
    HANDSHAKE_TIMEOUT,
    LONE_SIGN_SECONDS,
    SIGN_SECONDS,
    SIGNS_MISSED,
    SILENT_INTERVALS,
)
from transport.wire.messages import Error, Hello, Ping, Pong, Welcome
from transport.wire.protocol import Side

pytestmark = pytest.mark.event_loop

ONE, SEVERAL = "a.example:9182", "a.example:9182,b.example:9182"
LONG = 10 * HANDSHAKE_TIMEOUT
WELCOME = Welcome(1, 1, {"heartbeat_ms": 5000})
SIGN_OF = {ONE: LONE_SIGN_SECONDS, SEVERAL: SIGN_SECONDS}
A_MOMENT = 0.01


class Waiting(Bench):
    """A client's end that has said HELLO to one of its contact points."""

    def __init__(self, contacts: str, gives_up_after: float = float("inf"), silent: int = 0) -> None:
        super().__init__(side=Side.CLIENT)
        carried = self.connection._protocol
        sought = Contacts(contacts)
        for _ in range(silent):
            sought.silent()
        self.opening = Opening(carried.states, sought, self.began + gives_up_after, self.loop)  # type: ignore[attr-defined]
        self.connect()
        self.connection.more_time(
            -A_MOMENT / 100
        )  # its time began before this; the clock of a test stands still in between
        self.opening.begin(self.connection)
        self.connection.send(Hello(1, "sender", "q", "c", {"sign_ms": round(self.opening.sign * 1000)}))

    async def signed(self, seconds: float) -> None:
        """So long the broker gives signs."""
        until = self.elapsed + seconds
        while self.elapsed < until and not self.transport.aborted:
            await settle(self.opening.sign)
            self.receive(Ping(0))

    async def left(self) -> str:
        """Why it has left the broker."""
        while not self.transport.closing:
            await settle(A_MOMENT)
        self.lose()
        self.opening.end()
        assert isinstance(self.handler.closed[0], PeerTimeoutError)
        return str(self.handler.closed[0])


@pytest.mark.parametrize("contacts", [ONE, SEVERAL])
def test_a_client_waits_for_a_broker_as_long_as_it_gives_signs_and_answers_them(contacts: str) -> None:
    async def main() -> None:
        bench = Waiting(contacts)
        assert bench.opening.sign == SIGN_OF[contacts]
        await bench.signed(LONG)
        assert bench.opening.signed
        assert not bench.transport.closing
        assert set(bench.transport.frames[1:]) == {Pong(0)}
        bench.receive(WELCOME)
        bench.opening.end()
        assert bench.handler.frames == [WELCOME]
        assert not bench.opening.signed
        await settle(LONG / 10)
        bench.lose()

    run_in_virtual_time(main())


@pytest.mark.parametrize("contacts", [ONE, SEVERAL])
def test_a_broker_that_has_given_signs_and_gives_none_is_left(contacts: str) -> None:
    async def main() -> None:
        bench = Waiting(contacts)
        await bench.signed(LONG)
        last = bench.elapsed
        assert "silent for" in await bench.left()
        missed = SIGNS_MISSED * SIGN_OF[contacts]
        assert missed <= bench.elapsed - last < missed + SIGN_OF[contacts] + 2 * A_MOMENT

    run_in_virtual_time(main())


def test_a_client_that_hears_nothing_leaves_soon_where_there_are_others_and_late_where_there_are_none() -> None:
    async def main() -> None:
        bench = Waiting(SEVERAL)
        assert await bench.left() == NOTHING_SAID
        assert bench.elapsed < FIRST_PATIENCE + 2 * A_MOMENT
        assert SIGN_SECONDS < FIRST_PATIENCE / 1.5, "the first sign comes before"
        bench = Waiting(ONE)
        await settle(HANDSHAKE_TIMEOUT - A_MOMENT)
        assert not bench.transport.eof
        await settle(2 * A_MOMENT)
        assert bench.said().code == "timeout"
        bench.lose()
        bench.opening.end()

    run_in_virtual_time(main())


@pytest.mark.parametrize("silent", [1, 2, 4, 9])
def test_signs_count_also_where_a_broker_has_been_silent_before_and_has_long_for_its_first_word(silent: int) -> None:
    async def main() -> None:
        bench = Waiting(SEVERAL, silent=silent)
        await bench.signed(LONG)
        assert not bench.transport.closing
        bench.lose()
        bench.opening.end()
        bench = Waiting(SEVERAL, silent=silent)
        await bench.left()
        patience = min(HANDSHAKE_TIMEOUT, FIRST_PATIENCE * 2**silent)
        assert patience <= bench.elapsed < patience + 2 * A_MOMENT

    run_in_virtual_time(main())


def test_signs_do_not_make_a_client_wait_longer_than_it_seeks_a_broker() -> None:
    async def main() -> None:
        bench = Waiting(SEVERAL, gives_up_after=2 * HANDSHAKE_TIMEOUT)
        signs = asyncio.ensure_future(bench.signed(LONG))
        assert await bench.left() == NOT_LET_IN
        assert 2 * HANDSHAKE_TIMEOUT <= bench.elapsed < 2 * HANDSHAKE_TIMEOUT + SIGN_SECONDS + 2 * A_MOMENT
        await signs

    run_in_virtual_time(main())


def test_one_that_gives_up_sooner_than_any_broker_has_to_answer_gives_it_that_time() -> None:
    async def main() -> None:
        bench = Waiting(SEVERAL, gives_up_after=0.0)
        await bench.signed(HANDSHAKE_TIMEOUT - SIGN_SECONDS)
        assert not bench.transport.closing
        await bench.signed(SIGN_SECONDS * 2)
        assert await bench.left() == NOT_LET_IN

    run_in_virtual_time(main())


# The broker's side, by real sockets


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[partial[None]]:
    """What queues tell senders, which waits there as for what is not durable yet."""
    waiting: list[partial[None]] = []
    tell = SendingPort.tell
    monkeypatch.setattr(SendingPort, "tell", lambda port, reply: waiting.append(partial(tell, port, reply)))
    return waiting


def test_a_broker_that_cannot_answer_yet_gives_signs_to_who_has_asked_for_them(
    run: Any, serve: Any, peers: Any, until: Any, held: list[partial[None]]
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            asks, does_not = await opened.connect(broker.send_address), await opened.connect(broker.send_address)
            does_not.send(Hello(1, "sender", "orders", "other", {}))
            asks.send(Hello(1, "sender", "orders", "c", {"sign_ms": 100}))
            for _ in range(3):
                assert await asks.raw() == Ping(0)
                asks.send(Pong(0))
            await until(lambda: len(held) == 4)  # WELCOME and the first demand of each
            for each in held:
                each()
            assert isinstance(await does_not.raw(), Welcome)
            while isinstance(frame := await asks.raw(), Ping):
                pass
            assert isinstance(frame, Welcome)

    run(main)


def test_who_asks_for_signs_and_answers_none_for_long_is_given_up(
    run: Any, serve: Any, jump: Any, until: Any, held: list[partial[None]]
) -> None:
    async def main() -> None:
        async with serve() as broker:
            host, port = parse_address(broker.send_address)
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"".join(encode(Hello(1, "sender", "orders", "c", {"sign_ms": 100}))))
            await until(lambda: held)
            decoder = FrameDecoder(MAX_FRAME_BYTES)
            frames = [decode(raw) for raw in decoder.receive_data(await reader.read(MAX_FRAME_BYTES))]
            assert frames == [Ping(0)]
            jump(DEFAULT_HEARTBEAT * SILENT_INTERVALS)
            while data := await reader.read(MAX_FRAME_BYTES):
                frames += [decode(raw) for raw in decoder.receive_data(data)]
            writer.close()
            last = frames[-1]
            assert isinstance(last, Error)
            assert (last.code, "answered no sign" in last.text) == ("timeout", True)

    run(main)


def test_who_asks_for_signs_in_a_day_and_says_nothing_more_has_as_long_as_anybody(
    run: Any, serve: Any, peers: Any, jump: Any, until: Any, held: list[partial[None]]
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            peer = await opened.connect(broker.send_address)
            peer.send(Hello(1, "sender", "orders", "c", {"sign_ms": 2**62}))
            await until(lambda: held)
            jump(ENTRANCE_TIMEOUT + ATTACH_SECONDS)
            assert (await peer.refusal()).code == "timeout"

    run(main)


def test_who_answers_signs_is_waited_with_also_where_the_loop_is_late_for_each_of_them(
    run: Any, serve: Any, peers: Any, jump: Any, until: Any, held: list[partial[None]]
) -> None:
    """All that it is late together is more than a client has for the handshake."""
    late, times = DEFAULT_HEARTBEAT * 1.2, SILENT_INTERVALS

    async def main() -> None:
        if not isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop):
            pytest.skip("its timers know nothing of a clock that jumps")
        async with serve() as broker, peers() as opened:
            peer = await opened.connect(broker.send_address)
            peer.send(Hello(1, "sender", "orders", "c", {"sign_ms": 100}))
            for _ in range(times):
                for _ in range(2):  # before the second the first was answered
                    assert await peer.raw() == Ping(0)
                jump(late)
            assert await peer.raw() == Ping(0)
            await until(lambda: len(held) == 2)
            for each in held:
                each()
            while isinstance(frame := await peer.raw(), Ping):
                pass
            assert isinstance(frame, Welcome)

    run(main)


@pytest.mark.parametrize("sign", [0, -5, "500", 0.5, True])
def test_what_is_no_time_between_signs_is_refused(run: Any, serve: Any, peers: Any, sign: object) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            peer = await opened.connect(broker.send_address)
            peer.send(Hello(1, "sender", "orders", "c", {"sign_ms": sign}))
            refusal = await peer.refusal()
            assert (refusal.code, "sign_ms" in refusal.text) == ("protocol-error", True)

    run(main)


# Blocking clients


class Clock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("patience", [FIRST_PATIENCE, HANDSHAKE_TIMEOUT])
def test_a_blocking_client_waits_for_a_broker_that_gives_signs(play: Play, patience: float) -> None:
    clock = Clock()

    def signs(peer: Peer) -> None:
        hello = peer.read(Hello)
        sign = hello.options["sign_ms"] / 1000
        for _ in range(int(2 * HANDSHAKE_TIMEOUT / sign)):
            peer.send(Ping(0))
            assert peer.read(Pong) == Pong(0)
            clock.now += sign
        peer.send(WELCOME)

    broker = play(signs)
    hello = Hello(1, "sender", "q", "c", {})
    BlockingConnection(parse_address(broker.address), hello, clock, patience=patience).close()


def test_a_blocking_client_leaves_a_broker_that_gives_no_more_signs(play: Play) -> None:
    def falls_silent(peer: Peer) -> None:
        peer.read(Hello)
        peer.send(Ping(0))
        assert peer.read(Pong) == Pong(0)
        peer.read_to_end()

    broker = play(falls_silent)
    hello = Hello(1, "sender", "q", "c", {})
    began = time.monotonic()
    with pytest.raises(FellSilentError):
        BlockingConnection(parse_address(broker.address), hello, time.monotonic, patience=FIRST_PATIENCE)
    assert time.monotonic() - began < HANDSHAKE_TIMEOUT


@pytest.mark.parametrize("seeks", [0.5, 20.0, None])
def test_a_blocking_client_does_not_wait_longer_than_it_seeks_a_broker(play: Play, seeks: float | None) -> None:
    clock = Clock()

    def never_answers(peer: Peer) -> None:
        peer.read(Hello)
        for _ in range(200):
            try:
                peer.send(Ping(0))
                peer.read(Pong)
            except (AssertionError, OSError):
                return
            clock.now += 1.0

    broker = play(never_answers)
    retry = Backoff(minimum=0.01, maximum=0.01, give_up_after=seeks)
    client = TransactionClient(broker.address, writer="w", version=1, retry=retry, clock=clock)
    with closing(client), pytest.raises(PeerTimeoutError, match="did not answer in time"):
        client._connect(parse_address(broker.address))
    most = max(HANDSHAKE_TIMEOUT, min(SIGNED_TIMEOUT, seeks or SIGNED_TIMEOUT))
    assert most <= clock.now - 1000.0 <= most + 2.0
