"""Mode ``browse`` end to end: a broker in memory and one with a journal, frames by hand and the blocking client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.batch import MessageBatch
from actors.storage import checkpoints
from streams import Source
from tests.transport.scripted_peers import Peer as ScriptedPeer
from tests.transport.scripted_peers import ScriptedBroker
from tests.transport.test_subscription_client import welcome
from transport import BrokerError, LocalProtocolError, Message, RemoteProtocolError, Sender
from transport.clients.backoff import Backoff
from transport.clients.subscription_client import Fetched, SubscriptionClient, SubscriptionState
from transport.wire.messages import (
    Ack,
    Cancel,
    Commit,
    Deliver,
    Error,
    Fetch,
    FetchEnd,
    Hello,
    Nack,
    Request,
    Reserve,
    Reserved,
)

MIB = 1 << 20
LARGE = 2**53
PATIENT = Backoff(minimum=0.01, maximum=0.05, give_up_after=20.0)
KINDS = ["in memory", "durable"]
Run = Callable[[Callable[[], Any]], None]


def numbers(start: int, stop: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, stop)]


@pytest.fixture(params=KINDS)
def kind(request: Any, tmp_path: Path) -> dict[str, str]:
    """Options of a broker in memory, and of one with a journal."""
    return {} if request.param == "in memory" else {"directory": str(tmp_path / "journal")}


async def send(broker: Any, elements: Any, queue: str = "orders") -> None:
    await Source.from_iterable(elements).to(Sender(broker.send_address, queue=queue)).run()


async def receive(opened: Any, broker: Any, count: int) -> Any:
    """A receiver that holds the next ``count`` messages."""
    receiver = await opened.open(broker.receive_address, "receiver")
    receiver.send(Request(count, LARGE))
    held = 0
    while held < count:
        held += len((await receiver.expect(Deliver)).batch)
    return receiver


async def browse(opened: Any, broker: Any, start: int = 0, stop: int = LARGE) -> tuple[list[Fetched], int]:
    """What a fresh connection is sent, and the count at its end."""
    peer = await opened.open(broker.receive_address, "subscription", client_id=None, mode="browse")
    peer.send(Request(LARGE, LARGE), Fetch(1, start, stop))
    found: list[Fetched] = []
    while not isinstance(frame := await peer.frame(), FetchEnd):
        assert isinstance(frame, Fetched), frame
        assert frame.position == frame.first
        found.append(frame)
    return found, frame.messages


def payloads(found: list[Fetched]) -> list[bytes]:
    return [payload for frame in found for payload in frame.batch.payloads]


def client(broker: Any, queue: str = "orders", **options: Any) -> SubscriptionClient:
    return SubscriptionClient(broker.receive_address, queue=queue, mode="browse", retry=PATIENT, **options)


def fetched(browser: SubscriptionClient, start: int = 0, stop: int = LARGE) -> list[bytes]:
    return payloads(list(browser.fetch(start, stop)))


def test_everything_stored_is_sent_whoever_has_it_and_nobody_notices(
    run: Run, serve: Any, peers: Any, kind: dict[str, str]
) -> None:
    async def main() -> None:
        async with serve(**kind) as broker, peers() as opened:
            await send(broker, numbers(0, 10))
            receiver = await receive(opened, broker, 4)
            receiver.send(Ack([(1, 2)]), Nack([(3, 1)], 60_000))
            owner = await opened.open(broker.receive_address, "subscription", subscription="s")
            owner.send(Reserve(1, 0, 2, MIB, 0, None))
            assert (await owner.expect(Reserved)).end == 2
            for _ in range(2):
                found, count = await browse(opened, broker)
                assert payloads(found) == [b"0", *numbers(3, 10)]
                assert count == 8
                assert {frame.first: frame.delivery_count for frame in found if frame.first in (0, 4)} == {0: 1, 4: 1}
            # What was ready before is there for whoever comes, and has not been delivered.
            rest = await opened.open(broker.receive_address, "receiver")
            rest.send(Request(100, MIB))
            frame = await rest.expect(Deliver)
            assert (frame.first, frame.delivery_count) == (6, 1)

    run(main)


def test_a_range_is_of_the_queues_numbers_and_what_is_beyond_its_end_is_nothing(
    run: Run, serve: Any, peers: Any, kind: dict[str, str]
) -> None:
    async def main() -> None:
        async with serve(**kind) as broker, peers() as opened:
            await send(broker, numbers(0, 10))
            assert payloads((await browse(opened, broker, 3, 7))[0]) == numbers(3, 7)
            assert payloads((await browse(opened, broker, 8, 1000))[0]) == numbers(8, 10)
            assert await browse(opened, broker, 10, LARGE) == ([], 0)

    run(main)


def test_welcome_says_what_there_is(run: Run, serve: Any, peers: Any, kind: dict[str, str]) -> None:
    async def main() -> None:
        async with serve(**kind) as broker, peers() as opened:
            await send(broker, numbers(0, 10))
            receiver = await receive(opened, broker, 4)
            receiver.send(Ack([(0, 3)]), Cancel())
            assert await receiver.rest() == []
            peer = await opened.connect(broker.receive_address)
            welcome = await peer.hello("subscription", client_id=None, mode="browse")
            facts = {name: welcome.options[name] for name in ("epoch", "base", "high", "high_water", "id_prefix")}
            assert facts == {
                "epoch": 0,
                "base": 3,
                "high": 10,
                "high_water": 10,
                "id_prefix": broker.id_prefix("orders"),
            }

    run(main)


def test_a_queue_that_does_not_exist_is_not_found_and_not_made(
    run: Run, serve: Any, peers: Any, kind: dict[str, str]
) -> None:
    async def main() -> None:
        async with serve(**kind) as broker, peers() as opened:
            peer = await opened.connect(broker.receive_address)
            peer.send(Hello(1, "subscription", "none", None, {"mode": "browse"}))
            refusal = await peer.refusal()
            assert (refusal.code, refusal.text) == ("not-found", "there is no queue 'none'")
            assert list(broker.queues) == []

    run(main)


@pytest.mark.parametrize("frame", [Reserve(1, 0, 1, 1, 0, None), Commit(1, 1)], ids=["RESERVE", "COMMIT"])
def test_what_would_change_something_is_refused(run: Run, serve: Any, peers: Any, frame: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            await send(broker, numbers(0, 2))
            peer = await opened.open(broker.receive_address, "subscription", client_id=None, mode="browse")
            peer.send(frame)
            assert (await peer.refusal()).code == "protocol-error"
            assert payloads((await browse(opened, broker))[0]) == numbers(0, 2)

    run(main)


def test_no_more_is_sent_than_the_client_wants(run: Run, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            await send(broker, numbers(0, 10))
            peer = await opened.open(broker.receive_address, "subscription", client_id=None, mode="browse")
            peer.send(Fetch(1, 0, 10))
            found: list[Fetched] = []
            for wanted in (3, 4, 10):
                peer.send(Request(wanted, LARGE))
                while len(payloads(found)) < wanted:
                    found.append(await peer.expect(Fetched))
                assert len(payloads(found)) == wanted
            assert await peer.expect(FetchEnd) == FetchEnd(1, 10)
            assert payloads(found) == numbers(0, 10)

    run(main)


def test_a_backlog_is_read_from_the_disk_while_it_is_acknowledged_and_its_files_are_deleted(
    run: Run, serve: Any, peers: Any, until: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is cached, and what was read is deleted under the reader: the rest is what nobody acknowledged."""
    monkeypatch.setattr(checkpoints, "RECLAIM_INTERVAL", 0.05)

    async def main() -> None:
        async with (
            serve(directory=str(tmp_path), segment_bytes=MIB, cache_bytes=0) as broker,
            peers() as opened,
        ):
            body = bytes(4096)
            await send(broker, [MessageBatch.from_payloads([body] * 100)] * 30)
            browser = await opened.open(broker.receive_address, "subscription", client_id=None, mode="browse")
            browser.send(Request(100, LARGE), Fetch(1, 0, LARGE))
            found = [await browser.expect(Fetched)]
            before = broker.queues.storage_statistics()["segments"]
            receiver = await receive(opened, broker, 3000)
            receiver.send(Ack([(0, 2500)]), Cancel())
            assert await receiver.rest() == []
            await until(lambda: broker.queues.storage_statistics()["segments"] < before - 5)
            browser.send(Request(LARGE, LARGE))
            while not isinstance(frame := await browser.frame(), FetchEnd):
                assert isinstance(frame, Fetched), frame
                found.append(frame)
            positions = [number for one in found for number in range(one.position, one.position + len(one.batch))]
            assert positions[-500:] == list(range(2500, 3000))
            assert positions[:-500] == list(range(len(positions) - 500)), "what had been read ahead"
            assert len(positions) < 1000, "and no more"
            assert all(bytes(payload) == body for payload in payloads(found))

    run(main)


def test_the_blocking_client_reads_gaps_and_all(run: Run, serve: Any, peers: Any, kind: dict[str, str]) -> None:
    async def main() -> None:
        async with serve(**kind) as broker, peers() as opened:
            await send(broker, [Message(b"%d" % number, key=b"k") for number in range(10)])
            receiver = await receive(opened, broker, 10)
            receiver.send(Ack([(0, 1), (4, 2), (9, 1)]), Cancel())
            assert await receiver.rest() == []
            with client(broker) as browser:
                state = await asyncio.to_thread(browser.open)
                assert state == SubscriptionState(0, 1, 10, 10, broker.id_prefix("orders"))
                for _ in range(2):
                    assert await asyncio.to_thread(fetched, browser) == [*numbers(1, 4), *numbers(6, 9)]
                assert await asyncio.to_thread(fetched, browser, 4, 7) == [b"6"]
                assert await asyncio.to_thread(fetched, browser, 4, 6) == []

    run(main)


def test_a_broken_connection_is_made_again_and_the_fetch_goes_on_without_repeating(
    run: Run, serve: Any, peers: Any, cutting: Any, kind: dict[str, str]
) -> None:
    """With gaps in what is stored, so that how much was read does not say where to go on."""

    async def main() -> None:
        async with serve(**kind) as broker, peers() as opened, cutting(broker.receive_address) as proxy:
            await send(
                broker,
                [MessageBatch.from_payloads([b"%06d" % n for n in range(at, at + 500)]) for at in range(0, 5000, 500)],
            )
            receiver = await receive(opened, broker, 5000)
            receiver.send(Ack([(first, 400) for first in range(0, 5000, 500)]), Cancel())
            assert await receiver.rest() == []
            proxy.down = [2_000, 3_000, 4_000]
            browser = SubscriptionClient(proxy.address, queue="orders", mode="browse", retry=PATIENT)
            left = [number for number in range(5000) if number % 500 >= 400]
            assert await asyncio.to_thread(fetched, browser) == [b"%06d" % number for number in left]
            assert proxy.connections == 4
            await asyncio.to_thread(browser.close)

    run(main)


def fetched_frame(request: int, position: int, count: int) -> Fetched:
    return Fetched(
        request, position, position, 0, 0, False, MessageBatch.from_payloads(numbers(position, position + count))
    )


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ([(2, 2), (2, 1)], "2-3 came"),
        ([(0, 2)], "0-2 came"),
        ([(8, 3)], "8-11 came"),
        ([(4, 2), None], "ended at 6"),
    ],
    ids=["one twice", "one before", "one beyond", "another count"],
)
def test_what_a_browse_cannot_have_is_an_error(answer: list[Any], expected: str) -> None:
    """Gaps may be anywhere; messages out of order, out of the range or lost on the way may not."""

    def script(peer: ScriptedPeer) -> None:
        welcome(peer, high_water=10)
        fetch = peer.read(Fetch)
        for piece in answer:
            peer.send(fetched_frame(fetch.request, *piece) if piece else FetchEnd(fetch.request, 3))
        peer.read_to_end()

    broker = ScriptedBroker(script)
    browser = SubscriptionClient(broker.address, queue="orders", mode="browse", retry=PATIENT)
    with pytest.raises(RemoteProtocolError, match=expected):
        list(browser.fetch(1, 10))
    browser.close()
    broker.finish()


def test_a_queue_that_is_another_when_the_connection_is_made_again_ends_the_fetch(
    run: Run, serve: Any, kind: dict[str, str]
) -> None:
    async def main() -> None:
        async with serve(**kind) as broker:
            await send(broker, numbers(0, 3))
            with client(broker) as browser:
                await asyncio.to_thread(browser.open)
                broker.queues.delete("orders")
                await send(broker, numbers(5, 8))
                with pytest.raises(BrokerError, match="its numbers are others now") as caught:
                    await asyncio.to_thread(fetched, browser)
            assert caught.value.code == "data-loss"

    run(main)


def test_a_durable_queue_is_the_same_after_a_restart(run: Run, serve: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with serve(directory=str(tmp_path)) as broker:
            addresses = {"send_address": broker.send_address, "receive_address": broker.receive_address}
            await send(broker, numbers(0, 3))
            browser = client(broker)
            before = await asyncio.to_thread(browser.open)
            await asyncio.to_thread(browser._link.drop)
        async with serve(directory=str(tmp_path), **addresses):
            assert await asyncio.to_thread(fetched, browser) == numbers(0, 3)
            assert await asyncio.to_thread(browser.open) == before
            await asyncio.to_thread(browser.close)

    run(main)


def test_a_queue_deleted_while_it_is_browsed_ends_the_fetch(run: Run, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            await send(broker, numbers(0, 10))
            peer = await opened.open(broker.receive_address, "subscription", client_id=None, mode="browse")
            peer.send(Fetch(1, 0, 10), Request(2, LARGE))
            await peer.expect(Fetched)
            broker.queues.delete("orders")
            frames = await peer.rest()
            assert isinstance(frames[-1], Error)
            assert frames[-1].code == "queue-deleted"
            with client(broker) as browser, pytest.raises(BrokerError, match="there is no queue 'orders'"):
                await asyncio.to_thread(browser.open)

    run(main)


def test_a_client_that_reads_for_an_owner_or_is_one_needs_a_name() -> None:
    for mode in ("own", "read"):
        with pytest.raises(LocalProtocolError, match="name of a subscription"):
            SubscriptionClient("127.0.0.1:1", queue="q", mode=mode, epoch=1)  # type: ignore[arg-type]  # a loop over a Literal


def test_many_small_pieces_arrive_as_they_are_stored(run: Run, serve: Any, peers: Any) -> None:
    """Every second message of a large batch is acknowledged: as many pieces as messages."""

    async def main() -> None:
        async with serve() as broker, peers() as opened:
            await send(broker, [MessageBatch.from_payloads(numbers(0, 4000))])
            receiver = await receive(opened, broker, 4000)
            pairs = [(number, 1) for number in range(0, 4000, 2)]
            for start in range(0, len(pairs), 200):
                receiver.send(Ack(pairs[start : start + 200]))
            receiver.send(Cancel())
            assert await receiver.rest() == []
            found, count = await browse(opened, broker)
            assert count == 2000
            assert payloads(found) == [b"%d" % number for number in range(1, 4000, 2)]

    run(main)
