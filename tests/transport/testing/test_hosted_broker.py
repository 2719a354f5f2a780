"""A broker in a thread of its own: what tests ask of it and do to it."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from streams import Source
from transport import LocalProtocolError, Message, QueueFullError, Sender, receive
from transport.errors import InvalidNameError
from transport.testing import HostedBroker, JumpingLoop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def broker() -> Iterator[HostedBroker]:
    with HostedBroker() as broker:
        yield broker


@pytest.fixture
def durable(tmp_path: Path) -> Iterator[HostedBroker]:
    with HostedBroker(directory=tmp_path / "data") as broker:
        yield broker


def payloads(messages: list[Any]) -> list[bytes]:
    return [message.payload for message in messages]


def test_what_was_sent_is_told_after_it_was_acknowledged(broker: HostedBroker) -> None:
    broker.send("orders", [b"a", Message(b"b", b"own")], key=b"k", headers={"x": "1"})
    (first, second) = broker.contents("orders")
    assert (first.key, first.headers, second.key) == (b"k", {"x": "1"}, b"own")
    assert payloads(list(receive(broker.receive_address, "orders", limit=2))) == [b"a", b"b"]
    broker.wait_until("orders", total_acknowledged=2, in_flight=0, ready=0)
    assert broker.contents("orders") == []
    assert broker.sent("orders") == [Message(b"a", b"k", {"x": "1"}), Message(b"b", b"own")]
    broker.forget_sent()
    assert broker.sent("orders") == broker.sent("never") == broker.contents("never") == []


def test_a_wait_that_is_too_long_says_how_the_queue_stands(broker: HostedBroker) -> None:
    with pytest.raises(TimeoutError, match="there is no such queue"):
        broker.wait_until("orders", ready=1, within=0.01)
    broker.send("orders", [b"a"])
    with pytest.raises(TimeoutError, match=r"queue 'orders' after 0\.01 s: ready is 1, not 5"):
        broker.wait_until("orders", ready=5, within=0.01)
    with pytest.raises(LocalProtocolError, match="no figure 'redy'"):
        broker.wait_until("orders", redy=1)
    with pytest.raises(LocalProtocolError, match="say for what"):
        broker.wait_until("orders")


def test_what_receivers_hold_comes_back_on_order_and_in_time(broker: HostedBroker) -> None:
    broker.send("orders", [b"a"])
    with closing(receive(broker.receive_address, "orders")) as deliveries:
        assert not next(deliveries).possibly_replayed
        assert broker.redeliver("orders") == 1
        broker.wait_until("orders", total_redelivered=1)
        broker.advance(31)
        broker.wait_until("orders", total_redelivered=2)
        assert broker.redeliver("never") == 0


def test_a_delay_ends_when_the_clock_is_put_forward(broker: HostedBroker) -> None:
    sender = Sender(broker.send_address, queue="orders", delay=3600)
    asyncio.run(_sent(sender, b"later"))
    broker.wait_until("orders", delayed=1)
    broker.advance(3601)
    broker.wait_until("orders", delayed=0, ready=1)
    with pytest.raises(ValueError, match="cannot be put forward by -1"):
        broker.advance(-1)


async def _sent(sender: Sender, payload: bytes) -> None:
    await Source.from_iterable([payload]).to(sender).run()


def test_senders_wait_while_a_queue_is_full(broker: HostedBroker) -> None:
    with broker.full("orders"):
        sending = threading.Thread(target=broker.send, args=("orders", [b"a"]))
        sending.start()
        with pytest.raises(TimeoutError):
            broker.wait_until("orders", total_in=1, within=0.05)
    broker.wait_until("orders", total_in=1)
    sending.join(10)
    assert not sending.is_alive()


def test_a_queue_is_full_until_the_last_block_that_has_it_so_ends(broker: HostedBroker) -> None:
    with broker.full("orders"):
        with broker.full("orders"):
            pass
        assert broker.figures("orders")["paused"]
        with pytest.raises(TimeoutError):
            broker.send("orders", [b"a"], within=0.1)
    assert broker.figures("orders")["paused"] is None
    broker.send("orders", [b"b"])


def test_a_queue_is_full_again_when_its_broker_was_killed(durable: HostedBroker) -> None:
    durable.send("orders", [b"a"])
    with durable.full("orders"), durable.full("new"):
        durable.kill()
        durable.start()
        with pytest.raises(TimeoutError):
            durable.send("orders", [b"b"], within=0.1)
        with pytest.raises(TimeoutError):
            durable.send("new", [b"b"], within=0.1)
    durable.send("orders", [b"c"])
    assert payloads(durable.contents("orders")) == [b"a", b"c"]


def test_a_queue_can_be_let_go_while_its_broker_is_dead(durable: HostedBroker) -> None:
    with durable.full("orders"):
        durable.kill()
    durable.start()
    durable.send("orders", [b"a"])
    assert payloads(durable.contents("orders")) == [b"a"]


def test_a_wait_outlasts_a_clock_that_is_put_forward(broker: HostedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    failed: list[Exception] = []
    begun, until = threading.Event(), broker._watching.until

    async def noted(*given: Any) -> None:
        begun.set()
        await until(*given)

    monkeypatch.setattr(broker._watching, "until", noted)

    def wait() -> None:
        try:
            broker.wait_until("orders", total_in=1)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test says it
            failed.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert begun.wait(10)
    for _ in range(3):  # behind the wait's own look at the queue
        broker.figures("orders")
    broker.advance(3600)
    broker.figures("orders")
    broker.send("orders", [b"a"])
    waiting.join(10)
    assert not waiting.is_alive()
    assert failed == []


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), 1e18])
def test_a_clock_that_cannot_be_put_so_far_stays(broker: HostedBroker, seconds: float) -> None:
    broker.advance(60)
    with pytest.raises(ValueError, match="a clock cannot be put forward by"):
        broker.advance(seconds)
    broker.send("orders", [b"a"])
    assert broker.contents("orders")[0].age_ms < 60_000


def test_names_and_figures_that_cannot_be_are_refused_and_no_queue_is_made(broker: HostedBroker) -> None:
    with pytest.raises(InvalidNameError), broker.full("two words"):
        pass
    with pytest.raises(InvalidNameError):
        broker.fill("")
    assert broker.figures("two words") == broker.figures("") == {}
    broker.send("orders", [b"a"])
    with pytest.raises(LocalProtocolError, match="give a whole number"):
        broker.wait_until("orders", total_in="1")  # type: ignore[arg-type] # as an untyped test may


def test_a_queue_that_rejects_refuses_when_it_was_filled() -> None:
    with HostedBroker(max_queue_messages=3, overflow="reject") as broker:
        assert broker.fill("orders") == 3
        assert broker.fill("orders") == 0
        with pytest.raises(QueueFullError):
            broker.send("orders", [b"a"])
    with HostedBroker() as broker, pytest.raises(LocalProtocolError, match="use full"):
        broker.fill("orders")


def test_a_client_connects_again_when_it_was_disconnected(broker: HostedBroker) -> None:
    with closing(receive(broker.receive_address, "orders")) as deliveries:
        broker.send("orders", [b"a"])
        assert next(deliveries).payload == b"a"
        assert broker.disconnect() >= 1
        broker.send("orders", [b"b"])
        assert {next(deliveries).payload, next(deliveries).payload} == {b"a", b"b"}


def test_what_was_confirmed_outlives_kill_and_restart_at_the_same_addresses(durable: HostedBroker) -> None:
    addresses = durable.send_address, durable.receive_address
    durable.send("orders", [b"a"])
    durable.kill()
    assert not durable.running
    with pytest.raises(LocalProtocolError, match="start\\(\\) it"):
        durable.send("orders", [b"lost"])
    durable.start()
    durable.send("orders", [b"b"])
    durable.restart()
    assert (durable.send_address, durable.receive_address) == addresses
    assert payloads(durable.contents("orders")) == payloads(durable.sent("orders")) == [b"a", b"b"]
    assert durable.failure is None


def test_what_the_disk_has_not_synced_is_not_confirmed(durable: HostedBroker) -> None:
    durable.send("orders", [b"a"])
    durable.slow_disk(3600)
    with pytest.raises(TimeoutError, match="not done within"):
        durable.send("orders", [b"b"], within=0.1)
    durable.slow_disk(0)
    durable.send("orders", [b"c"])
    durable.slow_disk(3600)
    durable.kill()
    durable.start()
    assert payloads(durable.contents("orders"))[0] == b"a"


def test_a_kill_and_an_end_wait_for_no_sync_that_hangs(tmp_path: Path) -> None:
    with HostedBroker(directory=tmp_path / "data") as broker:
        # Many that come alone: the next is synced on the broker's own loop.
        for number in range(12):
            broker.send("orders", [b"%d" % number])
        broker.slow_disk(3600)
        with pytest.raises(TimeoutError):
            broker.send("orders", [b"lost"], within=0.05)
        broker.kill(within=5)
        broker.start()
        assert len(broker.contents("orders")) >= 12
        broker.slow_disk(3600)
        with pytest.raises(TimeoutError):
            broker.send("orders", [b"late"], within=0.05)


def test_a_disk_that_fails_ends_the_broker_and_is_well_when_it_starts_again(durable: HostedBroker) -> None:
    durable.send("orders", [b"a"])
    durable.fail_disk()
    with pytest.raises((LocalProtocolError, TimeoutError)):
        durable.send("orders", [b"b"], within=2)
    durable.wait_for_end()
    assert "Input/output error" in str(durable.failure)
    durable.start()
    durable.send("orders", [b"c"])
    assert payloads(durable.contents("orders")) == [b"a", b"c"]


def test_a_broker_in_memory_has_no_disk(broker: HostedBroker) -> None:
    with pytest.raises(LocalProtocolError, match="penstock_durable_broker"):
        broker.slow_disk(1)
    with pytest.raises(LocalProtocolError, match="is running"):
        broker.start()
    with pytest.raises(LocalProtocolError, match="give a list of bytes"):
        broker.send("orders", b"one")
    with pytest.raises(TimeoutError, match="has not ended"):
        broker.wait_for_end(within=0.01)


def test_a_broker_that_cannot_start_says_why_and_leaves_no_thread(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    before = threading.active_count()
    with pytest.raises(Exception, match="file"):
        HostedBroker(directory=tmp_path / "file").start()
    assert threading.active_count() == before


def test_two_that_close_a_broker_at_once_both_find_it_closed() -> None:
    both, ended, failed = threading.Event(), threading.Event(), []

    class Late(HostedBroker):
        """Where two are ending it, the second is held up until the first has."""

        begun = 0

        def _begin(self, work: Any, what: str) -> Any:
            self.begun += 1
            if self.begun > 1:
                both.set()
                ended.wait(10)
            else:
                # Nobody comes where one has to wait for the other.
                both.wait(0.2)
            return super()._begin(work, what)

    broker = Late()
    broker.start()

    def close() -> None:
        try:
            broker.close()
        except Exception as error:  # noqa: BLE001 - whatever it is
            failed.append(error)
        ended.set()

    closing = [threading.Thread(target=close) for _ in range(2)]
    for each in closing:
        each.start()
    for each in closing:
        each.join()
    assert not failed
    assert not broker.running


def test_a_loop_is_as_far_ahead_as_it_was_told() -> None:
    loop = JumpingLoop()
    try:
        before = loop.time(), loop.wall_time()
        loop.advance(100)
        assert loop.time() - before[0] >= 100 <= loop.wall_time() - before[1] + 1
    finally:
        loop.close()
