"""Who waits is told why, once it has for two seconds, and that it goes on; in the loop's time, which jumps."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import ssl
import threading
from contextlib import suppress
from typing import Any

import pytest

from streams import Sink, Source
from streams.testkit import elapse, run_in_virtual_time, settle
from transport import Administration, Backoff, ConnectionLostError, Receiver, Sender, Wait
from transport.clients.administration import HELLO
from transport.clients.link import BrokerLink
from transport.clients.waiting import MOST_PATIENCE, NO_BROKER, NO_MESSAGES, PATIENCE, SAME_AGAIN, UNCONFIRMED, Waiting
from transport.wire.messages import Demand, Request, Send, Why

LONG = Backoff(minimum=1000, maximum=1000, jitter=0, give_up_after=3000)


class Tried(Backoff):
    """The same, that says when the first try has failed."""

    failed = threading.Event()

    def delay(self, attempt: int, chance: float) -> float:
        self.failed.set()
        return super().delay(attempt, chance)


class Told:
    """What a client says of its waits."""

    def __init__(self) -> None:
        self.waits: asyncio.Queue[Wait | None] = asyncio.Queue()

    def __call__(self, wait: Wait | None) -> None:
        self.waits.put_nowait(wait)

    async def next(self) -> tuple[str, str] | None:
        wait = await self.waits.get()
        return None if wait is None else (wait.reason, wait.text)


def test_a_sender_to_a_full_queue_is_told_so_and_that_it_goes_on(run: Any, serve: Any, until: Any, jump: Any) -> None:
    async def main() -> None:
        async with serve(max_queue_messages=5) as broker, Administration(broker.send_address) as administration:
            told = Told()
            running = (
                Source.from_iterable([b"x"] * 8)
                .to(Sender(broker.send_address, queue="orders", max_batch_messages=1, on_wait=told))
                .run()
            )

            async def full() -> bool:
                return bool([row for row in await administration.queues() if row["stored_messages"] == 5])

            await until(full)
            assert told.waits.empty()
            jump(PATIENCE)
            assert await told.next() == ("full", "queue orders is full (5 of 5 messages): waiting for receivers")
            await administration.purge_queue("orders")
            assert await told.next() is None
            await running
            assert told.waits.empty()

    run(main)


def test_a_paused_broker_says_what_it_waits_for(run: Any, serve: Any, until: Any, jump: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            told = Told()
            queues = broker.queues
            queues.pause_senders("the disk has no room")
            running = Source.single(b"x").to(Sender(broker.send_address, queue="orders", on_wait=told)).run()
            async with Administration(broker.send_address) as administration:

                async def attached() -> bool:
                    return any(row["queue"] == "orders" for row in (await administration.statistics())["connections"])

                await until(attached)
            jump(PATIENCE)
            assert await told.next() == ("paused", "queue orders takes nothing now: the disk has no room")
            queues.pause_senders(None)
            assert await told.next() is None
            await running

    run(main)


def test_a_receiver_of_an_empty_queue_is_told_so_until_a_message_comes(
    run: Any, serve: Any, until: Any, jump: Any
) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            told = Told()
            running = (
                Receiver(broker.receive_address, queue="orders", limit=1, on_wait=told).to(Sink.foreach(_done)).run()
            )

            async def asking() -> bool:
                return any(row["demand"] for row in (await administration.statistics())["connections"])

            await until(asking)
            jump(PATIENCE)
            assert await told.next() == ("empty", "queue orders is empty: waiting for messages")
            await Source.single(b"x").to(Sender(broker.send_address, queue="orders")).run()
            assert await told.next() is None
            await running

    run(main)


def test_who_finds_no_broker_says_how_long_it_tries_on_and_the_log_says_it_too(
    run: Any, jump: Any, until: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "penstock.sender")

    async def main() -> None:
        told = Told()
        patience = Tried(minimum=1000, maximum=1000, jitter=0, give_up_after=3000)
        patience.failed.clear()
        sender = Sender("127.0.0.1:1", queue="orders", reconnect=patience, on_wait=told)
        running = Source.single(b"x").to(sender).run()
        await until(patience.failed.is_set)
        jump(PATIENCE)
        reason, text = await told.next() or ("", "")
        assert reason == NO_BROKER
        assert text == "no broker at 127.0.0.1:1 yet: connection refused; trying for up to 2998 s more"
        assert f"orders: {text}" in caplog.messages
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    run(main)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "name or service not known"),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number"), "no TLS there"),
        (ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)), "connection reset by peer"),
    ],
    ids=["name", "tls", "system"],
)
def test_what_is_no_error_of_the_system_is_told_in_its_own_words(run: Any, error: OSError, words: str) -> None:
    async def main() -> None:
        link = BrokerLink("127.0.0.1:1", lambda: HELLO, Any, LONG)  # type: ignore[arg-type]  # it is not started
        lost = ConnectionLostError("no TLS there")
        lost.__cause__ = error
        link.error = lost
        assert link.trouble().startswith(f"no broker at 127.0.0.1:1 yet: {words}; ")

    run(main)


@pytest.mark.parametrize("role", ["sender", "receiver"])
@pytest.mark.parametrize("level", [logging.WARNING, logging.INFO])
def test_a_program_that_asks_for_nothing_is_warned_once_of_a_broker_that_is_not_there(
    run: Any, jump: Any, until: Any, caplog: pytest.LogCaptureFixture, role: str, level: int
) -> None:
    caplog.set_level(level)

    async def main() -> None:
        patience = Tried(minimum=1000, maximum=1000, jitter=0, give_up_after=3000)
        patience.failed.clear()
        client: Any = (
            Source.single(b"x").to(Sender("127.0.0.1:1", queue="orders", reconnect=patience))
            if role == "sender"
            else Receiver("127.0.0.1:1", queue="orders", reconnect=patience).to(Sink.ignore())
        )
        running = client.run()
        await until(patience.failed.is_set)
        assert caplog.messages == []
        jump(PATIENCE)
        await until(lambda: bool(caplog.messages))
        jump(5 * PATIENCE)
        await settle(0.01)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    run(main)
    (said,) = [each for each in caplog.records if "no broker" in each.getMessage()]
    assert (said.name, said.levelno) == ("penstock.transport", logging.WARNING)
    told = "queue orders: no broker at 127.0.0.1:1 yet: connection refused; trying for up to 2998 s more"
    assert said.getMessage() == told


def test_who_listens_is_told_and_the_log_warns_of_nothing(
    run: Any, jump: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        told = Told()
        running = Source.single(b"x").to(Sender("127.0.0.1:1", queue="q", reconnect=LONG, on_wait=told)).run()
        await asyncio.sleep(0)
        jump(PATIENCE)
        assert await told.next() is not None
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    run(main)
    assert caplog.messages == []


def test_each_outage_is_warned_of_and_a_short_one_is_not(
    run: Any, serve: Any, jump: Any, until: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A connection that was of use ends a wait; the next one is another."""

    async def main() -> None:
        again = Backoff(minimum=1000, maximum=1000, jitter=0, give_up_after=None)
        async with serve() as broker:
            receiver = Receiver(broker.receive_address, queue="orders", reconnect=again)
            running = receiver.to(Sink.foreach(_done)).run()
            async with Administration(broker.send_address) as administration:
                await until(lambda: receiver.connected)
                await Source.single(b"x").to(Sender(broker.send_address, queue="orders")).run()

                async def handled() -> bool:
                    return bool([row for row in await administration.queues() if row["total_acknowledged"] == 1])

                await until(handled)
            jump(PATIENCE)
            await settle(0.01)
            assert caplog.messages == []
        await until(lambda: not receiver.connected)
        jump(PATIENCE)
        await until(lambda: bool(caplog.messages))
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    run(main)
    assert [each for each in caplog.messages if each.endswith("; trying on")] == caplog.messages
    assert len(caplog.messages) == 1


def _done(delivery: Any) -> None:
    delivery.acknowledge()


@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_a_broker_from_before_is_not_asked_and_the_client_says_what_it_knows(
    run: Any, play: Any, until: Any, jump: Any, role: str
) -> None:
    ready = threading.Event()

    def old(peer: Any) -> None:
        peer.welcome({"last_sequence": None, "id_prefix": b"12345678"}, heartbeat_ms=1_000_000_000)
        if role == "sender":
            peer.send(Demand(1, 100))
            peer.read(Send)
        else:
            peer.read(Request)
        ready.set()
        asked.extend(frame for frame in peer.read_to_end() if isinstance(frame, Why))

    asked: list[Why] = []
    broker = play(old)

    async def main() -> None:
        told = Told()
        running: Any
        if role == "sender":
            running = Source.from_iterable([b"a", b"b"]).to(Sender(broker.address, queue="q", on_wait=told)).run()
        else:
            running = Receiver(broker.address, queue="q", on_wait=told).to(Sink.ignore()).run()
        await until(ready.is_set)
        jump(PATIENCE)
        wait = await told.next()
        assert wait is not None
        assert wait[0] == (UNCONFIRMED if role == "sender" else NO_MESSAGES)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    run(main)
    broker.finish()
    assert asked == []


class Watched(Waiting):
    """Waits for what a test says."""

    now: Wait | None = None

    def waits(self) -> bool:
        return self.now is not None

    def look(self) -> Wait | None:
        return self.now


def test_a_reason_is_told_once_and_again_when_it_changes_or_has_not_come_for_long() -> None:
    async def main() -> None:
        told: list[Wait | None] = []
        watched = Watched(told.append, _unwanted, logging.getLogger("penstock.test"), "q")
        full, paused = Wait("full", "5 of 5"), Wait("paused", "no disk")

        async def passed(seconds: float) -> list[Wait | None]:
            await elapse(seconds)
            news = told.copy()
            told.clear()
            return news

        watched.now = full
        watched.may_wait()
        assert await passed(PATIENCE / 2) == []
        watched.moved()
        assert await passed(PATIENCE / 2) == []
        assert await passed(PATIENCE / 2) == [full]
        watched.now = Wait("full", "4 of 5")
        assert await passed(PATIENCE) == []
        watched.now = paused
        assert await passed(2 * PATIENCE) == [paused]
        watched.moved()
        assert told == [None]
        told.clear()
        assert await passed(4 * PATIENCE) == [], "the same again so soon is not told"
        assert await passed(2 * SAME_AGAIN) == [paused]
        watched.now = None
        assert await passed(MOST_PATIENCE) == [None]
        watched.now = full
        watched.may_wait()
        watched.stop()
        assert await passed(MOST_PATIENCE) == []

    run_in_virtual_time(main())


def _unwanted(error: Exception) -> None:
    raise error


def test_nothing_is_looked_at_where_nobody_listens(run: Any) -> None:
    async def main() -> None:
        watched = Watched(None, _unwanted, logging.getLogger("penstock.test"), "q")
        watched.may_wait()
        watched.another()
        assert watched._timer is None

    run(main)


def test_what_a_program_raises_when_it_is_told_fails_its_stream(run: Any, jump: Any) -> None:
    class OwnError(Exception):
        pass

    def told(wait: Wait | None) -> None:
        raise OwnError

    async def main() -> None:
        running = Source.single(b"x").to(Sender("127.0.0.1:1", queue="q", reconnect=LONG, on_wait=told)).run()
        await asyncio.sleep(0)
        jump(PATIENCE)
        with pytest.raises(OwnError):
            await running

    run(main)
