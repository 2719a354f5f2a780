"""Groups of native senders and receivers, over sockets: who has which message, what says a group, and what is refused."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from actors.batch import Message, MessageBatch
from actors.limits import GROUP_HEADER, MAX_GROUP_BYTES
from streams import Sink, Source
from transport import Administration, Receiver, Sender
from transport.clients.groups import in_group
from transport.clients.json_messages import message_of
from transport.errors import BrokerError, LocalProtocolError
from transport.wire.timing import Timed


@pytest.mark.parametrize("journal", [True, False])
def test_several_receivers_have_each_group_in_order_and_never_two_of_them_at_a_time(
    run: Any, serve: Any, tmp_path: Any, journal: bool
) -> None:
    names, each, workers = [f"g{number}" for number in range(12)], 40, 4
    having: dict[str, list[int]] = {name: [] for name in names}
    seen: list[tuple[str, int]] = []

    async def work(address: str, number: int, ended: asyncio.Event) -> None:
        async def handle(delivery: Any) -> None:
            name, payload = delivery.headers[GROUP_HEADER], int(delivery.payload)
            having[name].append(number)
            assert set(having[name]) == {number}, "nobody else has one of the group"
            await asyncio.sleep(0)
            seen.append((name, payload))
            having[name].remove(number)
            delivery.acknowledge()
            if len(seen) == each * len(names):
                ended.set()

        receiver = Receiver(address, queue="jobs", max_in_flight=5)
        running = receiver.to(Sink.foreach_async(1, handle)).run()
        await ended.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    async def main() -> None:
        async with (
            serve(**({"directory": tmp_path / "data"} if journal else {})) as broker,
            Administration(broker.send_address) as administration,
        ):
            await administration.create_queue("jobs", groups=True)
            messages = [Message(b"%d" % n, group=name) for n in range(each) for name in names]
            await Source.from_iterable(messages).to(Sender(broker.send_address, queue="jobs")).run()
            ended = asyncio.Event()
            await asyncio.gather(*(work(broker.receive_address, number, ended) for number in range(workers)))
            assert (await administration.queue("jobs"))["groups"] is True

    run(main)
    assert Counter(name for name, _ in seen) == dict.fromkeys(names, each)
    for name in names:
        assert [payload for group, payload in seen if group == name] == list(range(each))


def test_a_start_of_the_broker_has_the_queue_and_its_groups_again(run: Any, serve: Any, tmp_path: Any) -> None:
    async def main() -> None:
        directory = tmp_path / "data"
        async with serve(directory=directory) as broker, Administration(broker.send_address) as administration:
            await administration.create_queue("jobs", groups=True)
            messages = [Message(b"%d" % number, group="xyx"[number % 3]) for number in range(6)]
            await Source.from_iterable(messages).to(Sender(broker.send_address, queue="jobs")).run()
            # It is held as the broker ends.
            await Receiver(broker.receive_address, queue="jobs", max_in_flight=2).take(1).to(Sink.ignore()).run()
        async with serve(directory=directory) as broker, Administration(broker.send_address) as administration:
            assert (await administration.queue("jobs"))["groups"] is True
            receiver = Receiver(broker.receive_address, queue="jobs")
            found = [each.payload for each in await receiver.take(6).to(Sink.collect()).run()]
            assert [payload for payload in found if int(payload) % 3 != 1] == [b"0", b"2", b"3", b"5"]
            assert [payload for payload in found if int(payload) % 3 == 1] == [b"1", b"4"]

    run(main)


def test_a_sender_gives_its_group_to_all_that_say_none(run: Any, serve: Any) -> None:
    elements: list[Any] = [
        b"bytes",
        Message(b"none", headers={"kind": "a"}),
        Message(b"own", group="other"),
        Message(b"said", headers={GROUP_HEADER: "third"}),
        Timed(b"timed", ttl=60.0),
        MessageBatch.from_messages([Message(b"one"), Message(b"two", headers={"kind": "b"})]),
        MessageBatch.from_payloads([b"bare"]),
    ]

    found: list[dict[str, Any]] = []

    async def main() -> None:
        async with serve() as broker:
            await Source.from_iterable(elements).to(Sender(broker.send_address, queue="q", group="mine")).run()
            receiver = Receiver(broker.receive_address, queue="q")
            found.extend(dict(each.headers) for each in await receiver.take(8).to(Sink.collect()).run())

    run(main)
    mine = {GROUP_HEADER: "mine"}
    assert found == [
        mine,
        mine | {"kind": "a"},
        {GROUP_HEADER: "other"},
        {GROUP_HEADER: "third"},
        mine,
        mine,
        mine | {"kind": "b"},
        mine,
    ]


@pytest.mark.parametrize(
    ("group", "said"),
    [
        ("", "a group of 0 bytes: 1 to 255 are possible"),
        ("\u00e9" * 128, "a group of 256 bytes"),
        ("\ud800", "is not UTF-8"),
        (7, "group is 7, not a text"),
    ],
)
def test_what_no_group_can_be_is_refused_wherever_it_is_said(run: Any, serve: Any, group: Any, said: str) -> None:
    with pytest.raises(LocalProtocolError, match=said):
        Sender(queue="q", group=group)
    with pytest.raises(ValueError, match=said):
        message_of({"payload": "x", "group": group})

    async def main() -> None:
        async with serve() as broker:
            with pytest.raises(LocalProtocolError, match=said):
                await Source.single(Message(b"x", group=group)).to(Sender(broker.send_address, queue="q")).run()

    run(main)


def test_the_longest_group_is_one() -> None:
    longest = "g" * MAX_GROUP_BYTES
    assert in_group(b"x", longest) == Message(b"x", group=longest)
    message, _ = message_of({"payload": "x", "group": longest, "headers": {"a": "b"}})
    assert message.headers == {"a": "b", GROUP_HEADER: longest}


def test_groups_beside_levels_are_refused_and_cannot_be_altered(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            with pytest.raises(BrokerError, match="groups and max_priority are set"):
                await administration.create_queue("q", groups=True, max_priority=3)
            await administration.create_queue("q", groups=True)
            with pytest.raises(BrokerError, match="max_priority"):
                await administration.create_queue("q", groups=True, max_priority=3)
            with pytest.raises(BrokerError) as caught:
                await administration.create_queue("q")
            assert caught.value.code == "already-exists"

    run(main)
