"""A client's connection that is meant to last: who is told what, when it is tried again, and when no more."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.testkit import settle
from tests.decoding import FrameDecoder
from tests.transport.time_limits import time_limits_noted
from transport.clients.backoff import Backoff
from transport.clients.link import BrokerLink, FrameConnection
from transport.errors import (
    LEADERLESS_ADVICE,
    BrokerError,
    ConnectionLostError,
    LocalProtocolError,
    RemoteProtocolError,
)
from transport.wire.codec import decode, encode
from transport.wire.messages import Demand, Error, Frame, Hello, Ping, Welcome

pytestmark = pytest.mark.event_loop

HELLO = Hello(1, "sender", "q", "c", {})
WELCOME = Welcome(1, 1, {"heartbeat_ms": 5000})
QUICK = Backoff(minimum=0.001, maximum=0.005)


class Scripted:
    """Answers each connection's HELLO with the next script; an empty one closes, None never answers."""

    def __init__(self, *scripts: list[Frame] | None) -> None:
        self.scripts = list(scripts)
        self.address = ""
        self.hellos: list[Frame] = []
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        decoder = FrameDecoder()
        try:
            while data := await reader.read(65536):
                for raw in decoder.receive_data(data):
                    frame = decode(raw)
                    if isinstance(frame, Hello):
                        self.hellos.append(frame)
                        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
                        if script is None:
                            continue
                        for answer in script:
                            writer.writelines(encode(answer))
                        if not script or (isinstance(script[-1], Error) and script[-1].close):
                            writer.close()
        except ConnectionResetError:
            return
        finally:
            writer.close()

    def cut(self) -> None:
        for writer in self.writers:
            writer.transport.abort()


@asynccontextmanager
async def listening(broker: Scripted) -> AsyncIterator[Scripted]:
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    broker.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield broker
    finally:
        server.close()
        broker.cut()


class User:
    """Records what the link says, in order."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.frames: list[Frame] = []
        self.error: Exception | None = None
        self.why: list[Exception | None] = []
        self.on_open: Callable[[Welcome], None] | None = None
        self._changed = asyncio.Event()

    def _say(self, what: str) -> None:
        self.said.append(what)
        self._changed.set()

    def link_opened(self, welcome: Welcome) -> None:
        self._say("opened")
        if self.on_open is not None:
            self.on_open(welcome)

    def link_frame(self, frame: Frame) -> None:
        self.frames.append(frame)
        self._say("frame")

    def link_writable(self) -> None:
        self._say("writable")

    def link_lost(self, error: Exception | None) -> None:
        self.why.append(error)
        self._say("lost")

    def link_failed(self, error: Exception) -> None:
        self.error = error
        self._say("failed")

    def link_over(self, _over: asyncio.Future[None]) -> None:
        if self.error is None:
            self._say("closed")

    async def told(self, *expected: str) -> None:
        """Wait until exactly this has been said."""
        while self.said[: len(expected)] != list(expected):
            assert self.said == list(expected)[: len(self.said)], f"expected {expected}, was told {self.said}"
            self._changed.clear()
            await self._changed.wait()


def link_to(addresses: Any, user: User, backoff: Backoff = QUICK) -> BrokerLink:
    link = BrokerLink(addresses, lambda: HELLO, user, backoff, lambda: 0.5)
    link.over.add_done_callback(user.link_over)
    return link


async def unused_address() -> str:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return f"127.0.0.1:{port}"


def test_waits_double_from_the_minimum_to_the_maximum() -> None:
    backoff = Backoff(minimum=0.1, maximum=5.0, factor=2.0, jitter=0.2)
    assert [round(backoff.delay(attempt, 0.5), 6) for attempt in range(8)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


@given(st.integers(0, 10**9), st.floats(0, 1))
def test_a_wait_is_within_its_jitter_however_often_it_was_tried(attempt: int, chance: float) -> None:
    backoff = Backoff()
    assert 0.08 - 1e-9 <= backoff.delay(attempt, chance) <= 6.0 + 1e-9


def test_hello_is_said_and_welcome_opens(run: Any) -> None:
    async def main() -> None:
        user = User()
        async with listening(Scripted([WELCOME, Demand(5, 50)])) as broker:
            link = link_to(broker.address, user)
            states = [link.is_open]
            link.start()
            await user.told("opened", "frame")
            states.append(link.is_open)
            assert broker.hellos == [Hello(1, "sender", "q", "c", {"sign_ms": 2500})]
            assert user.frames == [Demand(5, 50)]
            link.close()
            await user.told("opened", "frame", "lost", "closed")
            assert [*states, link.is_open] == [False, True, False]

    run(main)


def test_a_broken_connection_is_made_again_and_counted(run: Any) -> None:
    async def main() -> None:
        user = User()
        async with listening(Scripted([WELCOME])) as broker:
            link = link_to(broker.address, user)
            link.start()
            for times in range(1, 4):
                await user.told(*["opened", "lost"] * (times - 1), "opened")
                broker.cut()
                await user.told(*["opened", "lost"] * times)
            await user.told(*["opened", "lost"] * 3, "opened")
            assert link.reconnects == 3
            link.abort()
            await user.told(*["opened", "lost"] * 4, "closed")

    run(main)


@pytest.mark.parametrize("code", ["shutting-down", "internal-error", "limit-exceeded", "timeout", "queue-deleted"])
def test_trouble_that_passes_is_tried_again(run: Any, code: str) -> None:
    async def main() -> None:
        user = User()
        async with listening(Scripted([Error(code, "later", close=True)], [], [WELCOME])) as broker:
            link = link_to(broker.address, user)
            link.start()
            await user.told("opened")
            assert len(broker.hellos) == 3
            link.abort()
            await user.told("opened", "lost", "closed")

    run(main)


@pytest.mark.parametrize("code", ["taken-over", "invalid-name", "unsupported-version", "demand-exceeded"])
def test_a_refusal_for_good_fails_at_once(run: Any, code: str) -> None:
    async def main() -> None:
        user = User()
        async with listening(Scripted([Error(code, "never", close=True)])) as broker:
            link_to(broker.address, user).start()
            await user.told("failed")
            assert isinstance(user.error, BrokerError)
            assert user.error.code == code
            assert len(broker.hellos) == 1

    run(main)


@pytest.mark.parametrize("script", [[Error("not-found", "never", close=True)], [WELCOME, WELCOME]])
def test_a_link_that_fails_is_over_when_its_socket_is_closed_and_not_before(run: Any, script: list[Frame]) -> None:
    async def main() -> None:
        user = User()
        async with listening(Scripted(script)) as broker:
            link = link_to(broker.address, user)
            stands: list[bool] = []
            link.over.add_done_callback(lambda _: stands.append(link._connection is not None))
            link.start()
            await link.over
            assert user.error is not None
            await settle()
            assert stands == [False]

    run(main)


def test_a_peer_that_breaks_the_protocol_is_not_tried_again(run: Any) -> None:
    async def main() -> None:
        user = User()
        async with listening(Scripted([WELCOME, WELCOME])) as broker:
            link_to(broker.address, user).start()
            await user.told("opened", "lost", "failed")
            assert isinstance(user.error, RemoteProtocolError)
            assert len(broker.hellos) == 1

    run(main)


def test_a_connection_that_fails_is_lost_at_once_and_not_when_the_peer_lets_go_of_it(run: Any) -> None:
    async def main() -> None:
        user = User()
        async with listening(Scripted([WELCOME, WELCOME])) as broker:
            link = link_to(broker.address, user)
            link.start()
            await user.told("opened", "lost")
            assert not link.is_open
            assert link._connection is not None, "the peer has its socket open still"
            assert isinstance(user.why[0], RemoteProtocolError)
            await user.told("opened", "lost", "failed")
            assert len(user.why) == 1

    run(main)


def test_the_refusal_of_one_request_is_the_users_and_the_connection_stays(run: Any) -> None:
    async def main() -> None:
        user = User()
        refusal = Error("not-found", "there is no such thing", close=False)
        async with listening(Scripted([WELCOME, refusal])) as broker:
            link = link_to(broker.address, user)
            link.start()
            await user.told("opened", "frame")
            assert user.frames == [refusal]
            assert link.is_open
            link.close()
            await link.over

    run(main)


def test_what_the_user_cannot_take_is_the_peers_fault_too(run: Any) -> None:
    async def main() -> None:
        user = User()

        def refuse(welcome: Welcome) -> None:
            raise RemoteProtocolError("WELCOME lacks something")

        user.on_open = refuse
        async with listening(Scripted([WELCOME])) as broker:
            link_to(broker.address, user).start()
            await user.told("opened", "lost", "failed")
            assert str(user.error) == "WELCOME lacks something"

    run(main)


def test_where_brokers_are_there_and_none_leads_it_says_that_and_not_that_another_address_refuses(run: Any) -> None:
    async def main() -> None:
        user = User()
        nobody = await unused_address()
        told = Error("not-leader", "this broker does not lead", close=True)
        async with listening(Scripted([told])) as follower:
            link = link_to(
                f"{follower.address},{nobody}", user, Backoff(minimum=0.001, maximum=0.01, give_up_after=0.3)
            )
            link.start()
            await user.told("failed")
        assert "given up after" in str(user.error)
        assert "not-leader: this broker does not lead" in str(user.error)
        assert str(user.error).endswith(LEADERLESS_ADVICE)
        assert link.trouble().startswith(f"no leader at any of {follower.address},{nobody} yet")

    run(main)


def test_it_gives_up_after_the_time_it_was_given_and_says_why(run: Any) -> None:
    async def main() -> None:
        user = User()
        address = await unused_address()
        link_to(address, user, Backoff(minimum=0.001, maximum=0.01, give_up_after=0.05)).start()
        await user.told("failed")
        assert isinstance(user.error, ConnectionLostError)
        assert "given up after" in str(user.error)
        assert str(user.error).endswith("; is the broker running there? (penstock broker)")
        assert address in str(user.error)

    run(main)


def test_patience_counts_from_the_loss_not_from_the_start(run: Any) -> None:
    async def main() -> None:
        user = User()
        # Refused again and again, but never for as long as it has patience.
        busy: list[Frame] = [Error("limit-exceeded", "full", close=True)]
        async with listening(Scripted([WELCOME], busy, busy, [WELCOME])) as broker:
            link = link_to(broker.address, user, Backoff(minimum=0.001, maximum=0.002, give_up_after=5.0))
            link.start()
            await user.told("opened")
            broker.cut()
            await user.told("opened", "lost", "opened")
            assert len(broker.hellos) == 4
            link.abort()
            await user.told("opened", "lost", "opened", "lost", "closed")

    run(main)


GOING = Error("shutting-down", "gone", close=True)


@pytest.mark.parametrize(
    "script", [[WELCOME, GOING], [WELCOME, Demand(5, 50), GOING], [Welcome(1, 1, {"heartbeat_ms": 30})]]
)
def test_a_broker_that_says_welcome_and_goes_or_falls_silent_is_given_up(
    run: Any, jump: Any, script: list[Frame]
) -> None:
    async def main() -> None:
        user = User()
        asked = itertools.count()

        def hello() -> Hello:
            # Asked for twice an attempt, first without a connection: there each takes a second, of the five that there is patience for.
            if next(asked) % 2 == 0:
                jump(1.0)
            return HELLO

        async with listening(Scripted(script)) as broker:
            backoff = Backoff(minimum=0.001, maximum=0.002, give_up_after=5.0)
            BrokerLink(broker.address, hello, user, backoff, lambda: 0.5).start()
            while user.error is None:
                user._changed.clear()
                await user._changed.wait()
            assert isinstance(user.error, ConnectionLostError)
            assert "given up after" in str(user.error)
            assert 2 <= len(broker.hellos) <= 5

    run(main)


def test_patience_begins_anew_with_whatever_brings_the_user_on(run: Any, until: Any, jump: Any) -> None:
    async def main() -> None:
        user = User()
        attempts = 12

        def hello() -> Hello:
            # Asked for twice an attempt: a second of each goes by, and all together more than twice the patience for one.
            if not link.is_open and len(broker.hellos) < attempts:
                jump(0.5)
            return HELLO

        async with listening(Scripted([WELCOME, GOING])) as broker:
            backoff = Backoff(minimum=0.001, maximum=0.002, give_up_after=5.0)
            link = BrokerLink(broker.address, hello, user, backoff, lambda: 0.5)
            user.on_open = lambda _: link.progressed()
            link.start()
            await until(lambda: user.error is not None or len(broker.hellos) > attempts)
            assert user.error is None
            link.abort()
            await link.over

    run(main)


def test_an_idle_connection_that_stood_was_of_use_though_nothing_was_said_on_it(
    run: Any, until: Any, jump: Any
) -> None:
    async def main() -> None:
        user = User()
        slow = Welcome(1, 1, {"heartbeat_ms": 3_600_000})
        async with listening(Scripted([slow], [WELCOME], [WELCOME])) as broker:
            link = link_to(broker.address, user, Backoff(minimum=0.001, maximum=0.002, give_up_after=5.0))
            link.start()
            await user.told("opened")
            # Less than a heartbeat, and more than it has patience: nothing was missing meanwhile.
            jump(6.0)
            broker.cut()
            await user.told("opened", "lost", "opened")
            # More than a heartbeat, and the broker is there.
            link._attempt = 17
            jump(6.0)
            broker.writers[-1].writelines(encode(Ping(1)))
            connection = link._connection
            assert connection is not None
            await until(lambda: connection.heard >= link._stands_from)
            broker.cut()
            await user.told("opened", "lost", "opened", "lost", "opened")
            assert link._attempt == 1, "the back-off began anew"
            link.abort()
            await until(lambda: user.said[-1] == "closed")

    run(main)


def test_several_addresses_are_tried_in_turn(run: Any) -> None:
    async def main() -> None:
        user = User()
        async with listening(Scripted([WELCOME])) as broker:
            addresses = [await unused_address(), await unused_address(), broker.address]
            link = link_to(addresses, user)
            link.start()
            await user.told("opened")
            assert broker.hellos == [Hello(1, "sender", "q", "c", {"sign_ms": 500})]
            link.abort()
            await user.told("opened", "lost", "closed")

    run(main)


@pytest.mark.parametrize("way", ["close", "abort", "finish"])
def test_ending_while_no_broker_is_there_is_answered_once(run: Any, way: str) -> None:
    async def main() -> None:
        user = User()
        link = link_to(await unused_address(), user, Backoff(minimum=10.0, maximum=10.0))
        link.start()
        getattr(link, way)()
        await user.told("closed")
        link.close()
        assert user.said == ["closed"]

    run(main)


@pytest.mark.parametrize("way", ["close", "abort"])
def test_ending_before_welcome_is_answered(run: Any, until: Any, way: str) -> None:
    async def main() -> None:
        user = User()
        async with listening(Scripted(None)) as broker:
            link = link_to(broker.address, user)
            link.start()
            await until(lambda: bool(broker.hellos))
            getattr(link, way)()
            await user.told("closed")
            assert not link.is_open

    run(main)


def test_when_the_broker_is_to_close_its_end_of_stream_is_no_loss(run: Any) -> None:
    async def main() -> None:
        user = User()
        async with listening(Scripted([WELCOME])) as broker:
            link = link_to(broker.address, user)
            link.start()
            await user.told("opened")
            link.finish()
            for writer in broker.writers:
                writer.close()
            await user.told("opened", "lost", "closed")
            assert len(broker.hellos) == 1

    run(main)


def test_a_link_needs_an_address(run: Any) -> None:
    async def main() -> None:
        with pytest.raises(LocalProtocolError, match="at least one broker address"):
            link_to([], User())
        with pytest.raises(LocalProtocolError, match="host:port"):
            link_to("nowhere", User())

    run(main)


@pytest.mark.parametrize("host", ["a..b", "x" * 64])
def test_a_host_that_cannot_be_looked_up_is_reported_not_waited_for(run: Any, host: str) -> None:
    async def main() -> None:
        user = User()
        link_to(f"{host}:9182", user, Backoff(minimum=0.001, maximum=0.01, give_up_after=0.05)).start()
        async with asyncio.timeout(20):
            await user.told("failed")
        assert host in str(user.error)

    run(main)


def test_a_link_given_up_at_any_moment_of_connecting_is_closed_once_and_leaves_no_socket(run: Any) -> None:
    async def main() -> None:
        gone_after = range(12)  # turns of the loop; a connection to this machine stands within fewer
        async with listening(Scripted(None)) as broker:
            opened = len(broker.writers)
            for turns in gone_after:
                user = User()
                link = link_to(broker.address, user)
                before = len(os.listdir("/proc/self/fd"))
                link.start()
                for _ in range(turns):
                    await asyncio.sleep(0)
                link.close()
                await user.told("closed")
                assert user.said == ["closed"]
                mine = [task for task in asyncio.all_tasks() if task.get_name() == "penstock-connect"]
                assert mine == [], f"closed after {turns} turns, and still connecting"
                broker.cut()
                await settle()
                assert user.said == ["closed"], f"told twice when closed after {turns} turns"
                assert len(os.listdir("/proc/self/fd")) <= before
            assert len(broker.writers) > opened, "some were connected before they were given up"

    run(main)


def test_a_connection_made_as_its_time_is_up_is_tried_again_once(run: Any) -> None:
    limits: list[asyncio.Timeout]

    class Late(BrokerLink):
        """A link whose first two connections are made when there is no time left."""

        def connection_opened(self, connection: FrameConnection) -> None:
            super().connection_opened(connection)
            if len(limits) <= 2:
                limits[-1].reschedule(0.0)

    async def main() -> None:
        nonlocal limits
        user = User()
        async with listening(Scripted([WELCOME])) as broker:
            with time_limits_noted() as limits:
                link = Late(broker.address, lambda: HELLO, user, QUICK, lambda: 0.5)
                link.start()
                await user.told("opened")
                await settle()
            assert (user.said, link._attempt, len(limits)) == (["opened"], 2, 3)
            link.abort()
            await link.over
            assert user.said == ["opened", "lost"]

    run(main)


def test_a_broker_that_promised_signs_and_gives_none_is_left_for_another_at_once(run: Any) -> None:
    async def main() -> None:
        promising = Scripted([Welcome(1, 1, {"heartbeat_ms": 3_600_000, "silent_ms": 50})])
        async with listening(promising) as silent, listening(Scripted([WELCOME])) as other:
            user = User()
            link = link_to(f"{silent.address},{other.address}", user)
            link.start()
            await user.told("opened", "lost", "opened")
            assert "silent for" in str(user.why[0])
            assert str(link.address) == other.address
            link.close()
            await link.over

    run(main)


def test_a_follower_sends_a_client_to_its_leader_without_a_pause_or_a_failure_that_counts(run: Any) -> None:
    async def main() -> None:
        async with listening(Scripted([WELCOME])) as leader:
            told = Error("not-leader", "this broker does not lead", close=True, leader=f"nonsense,{leader.address}")
            async with listening(Scripted([told])) as follower:
                user = User()
                link = link_to(follower.address, user, Backoff(minimum=1000.0, maximum=1000.0))
                link.start()
                await user.told("opened")
                assert (str(link.address), len(follower.hellos), len(leader.hellos)) == (leader.address, 1, 1)
                link.close()
                await link.over

    run(main)
