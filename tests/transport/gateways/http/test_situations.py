"""The sentence in staged situations: real brokers, real sockets, and clients that hold one another back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.transport.broker_helpers import batch, sender_with
from tests.transport.gateways.http.conftest import Api
from transport import Administration
from transport.clients.subscription_client import SubscriptionClient
from transport.wire.messages import Ack, Deliver, Demand, Request, Send

pytestmark = pytest.mark.event_loop


async def told(http: Api, kind: str, until: Callable[[dict[str, Any]], bool] = lambda _: True) -> dict[str, Any]:
    """The flow of the queue ``orders``, as the stream of events has it, once its pressure is ``kind`` and ``until`` holds."""
    async with http.session.get("/api/v1/events?queue=orders") as answer:
        assert answer.status == 200
        async for line in answer.content:
            if line.startswith(b"data: "):
                flow: dict[str, Any] | None = json.loads(line.removeprefix(b"data: ")).get("flow")
                if flow is not None and flow["pressure"] == kind and until(flow):
                    return flow
    raise AssertionError("the stream is over")


def test_a_receiver_that_holds_what_it_has_is_named(run: Any, api: Any, peers: Any) -> None:
    async def main() -> None:
        async with api() as http, peers() as opened:
            broker = http.broker
            receiver = await opened.open(broker.receive_address, "receiver", "orders", "packer")
            receiver.send(Request(2, 1 << 20))
            await sender_with(opened, broker, b"a", b"b", b"c", b"d", client_id="till-1")
            await receiver.expect_later(Deliver)
            flow = await told(http, "receiver slow")
            assert flow["sentence"] == (
                "queue orders has 2 messages ready: receiver packer holds 2 messages and asks for no more"
            )

    run(main)


def test_a_slow_query_is_called_by_its_name(run: Any, api: Any, peers: Any) -> None:
    async def main() -> None:
        async with api() as http, peers() as opened:
            broker = http.broker
            await sender_with(opened, broker, *([b"x"] * 5), client_id="till-1")
            query = SubscriptionClient(
                broker.receive_address,
                queue="orders",
                subscription="lake",
                mode="own",
                client_id="host-1/4711/ab12",
            )
            try:
                await asyncio.to_thread(query.open)
                await asyncio.to_thread(query.reserve, 0, 2, 1 << 20)
                flow = await told(http, "receiver slow")
                assert flow["sentence"] == (
                    "queue orders has 3 messages ready: subscription lake holds 2 messages and asks for no more"
                )
                assert [each["subscription"] for each in flow["receivers"]] == ["lake"]
            finally:
                await asyncio.to_thread(query.close)

    run(main)


def test_a_sender_that_sends_nothing_is_named(run: Any, api: Any, peers: Any) -> None:
    async def main() -> None:
        async with api() as http, peers() as opened:
            broker = http.broker
            sender = await opened.open(broker.send_address, "sender", "orders", "till-1")
            demand = await sender.expect(Demand)
            receiver = await opened.open(broker.receive_address, "receiver", "orders", "packer")
            receiver.send(Request(7, 1 << 20))
            flow = await told(http, "sender slow")
            assert flow["sentence"] == (
                f"queue orders has nothing ready, and receiver packer wants 7 messages: "
                f"sender till-1 sends nothing, and may send {demand.messages:,} messages"
            )

    run(main)


def test_two_senders_that_wait_at_a_limit_are_named_and_who_holds_what_fills_it(run: Any, api: Any, peers: Any) -> None:
    async def main() -> None:
        async with api() as http, peers() as opened:
            broker = http.broker
            async with Administration(broker.send_address) as administration:
                await administration.create_queue("orders", max_messages=4)
            receiver = await opened.open(broker.receive_address, "receiver", "orders", "packer")
            receiver.send(Request(4, 1 << 20))
            await sender_with(opened, broker, b"a", b"b", b"c", b"d", client_id="till-1")
            second = await opened.open(broker.send_address, "sender", "orders", "till-2")
            flow = await told(http, "limit reached", lambda flow: flow["waiting_senders"] == 2)
            assert flow["sentence"] == (
                "queue orders is full (4 of 4 messages): receiver packer holds 4 messages and acknowledges none; "
                "senders till-1 and till-2 wait"
            )
            assert second is not None

    run(main)


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("the broker's memory is above its watermark", "paused"),
        ("less disk is free than the watermark says", "paused"),
        ("the disk cannot follow what is sent", "disk behind"),
    ],
)
def test_who_waits_while_the_broker_lets_nobody_send_is_told_why(
    run: Any, api: Any, peers: Any, reason: str, kind: str
) -> None:
    async def main() -> None:
        async with api() as http, peers() as opened:
            broker = http.broker
            await opened.open(broker.receive_address, "receiver", "orders", "packer")
            broker.queues.pause_senders(reason)
            await opened.open(broker.send_address, "sender", "orders", "till-1")
            flow = await told(http, kind, lambda flow: flow["attached_senders"] == 1)
            assert flow["sentence"] == f"queue orders takes nothing now: {reason}; sender till-1 waits"

    run(main)


def test_where_nobody_receives_that_is_said(run: Any, api: Any, peers: Any) -> None:
    async def main() -> None:
        async with api() as http, peers() as opened:
            broker = http.broker
            await sender_with(opened, broker, b"a", client_id="till-1")
            flow = await told(http, "no receiver")
            assert flow["sentence"] == "queue orders has 1 message ready, and nobody receives: start a receiver"

    run(main)


def test_of_an_exclusive_queue_the_one_who_has_it_is_named_and_not_who_stands_in_line(
    run: Any, api: Any, peers: Any
) -> None:
    async def main() -> None:
        async with api() as http, peers() as opened:
            broker = http.broker
            async with Administration(broker.send_address) as administration:
                await administration.create_queue("orders", exclusive=True)
            first = await opened.open(broker.receive_address, "receiver", "orders", "packer-1")
            first.send(Request(1, 1 << 20))
            second = await opened.open(broker.receive_address, "receiver", "orders", "packer-2")
            second.send(Request(5, 1 << 20))
            await sender_with(opened, broker, b"a", b"b", client_id="till-1")
            await first.expect_later(Deliver)
            flow = await told(http, "receiver slow")
            assert flow["sentence"] == (
                "queue orders has 1 message ready: receiver packer-1 holds 1 message and asks for no more; "
                "1 receiver stands in line"
            )

    run(main)


def test_messages_that_move_are_told_to_flow_and_who_moves_how_many(run: Any, api: Any, peers: Any) -> None:
    async def main() -> None:
        async with api() as http, peers() as opened:
            broker = http.broker
            receiver = await opened.open(broker.receive_address, "receiver", "orders", "packer")
            sender = await opened.open(broker.send_address, "sender", "orders", "till-1")
            await sender.expect(Demand)

            async def flowing() -> None:
                for number in range(100_000):
                    # Whoever has what they asked for waits for nobody, and hardly a moment is of what comes between.
                    receiver.send(Request(number + 1, 1 << 30))
                    sender.send(Send(number, None, batch(b"a")))
                    delivered = await receiver.expect_later(Deliver)
                    for _ in range(3):
                        assert (await http.ask("GET", "/health/live"))[0] == 200
                    receiver.send(Ack([(delivered.first, 1)]))

            moving = asyncio.create_task(flowing())
            flow = await told(http, "flowing", lambda flow: any(each["rate"] for each in flow["senders"]))
            moving.cancel()
            assert flow["sentence"].startswith("queue orders flows")
            assert flow["senders"][0]["client"] == "till-1"
            assert flow["came"] > 0

    run(main)
