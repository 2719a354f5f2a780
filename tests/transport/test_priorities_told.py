"""A message's priority as those who receive it are told it: its level, in a queue with levels, and nothing elsewhere."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors.batch import Message, MessageBatch
from streams import Sink, Source
from transport import Administration, Receiver, Sender
from transport.cli._json_lines import write_messages
from transport.cli.peek import _facts, _lines
from transport.clients.delivery import DeliveredBatch, Delivery
from transport.clients.json_messages import message_of
from transport.consumer.carried import CarriedMessage
from transport.wire.messages import Deliver
from transport.wire.timing import NO_TIMING

BATCH = MessageBatch.from_payloads([b"1", b"2"])
SAID = [None, 0, 3, 5, 200]
LEVELS = [5, 5, 3, 0, 0]
"""In a queue whose highest is 5, as they are received."""


async def sent(broker: Any, queue: str) -> None:
    messages = [Message(b"%r" % said, priority=said) for said in SAID]
    await Source.from_iterable(messages).to(Sender(broker.send_address, queue=queue)).run()


async def received(broker: Any, queue: str) -> list[Delivery]:
    return list(await Receiver(broker.receive_address, queue=queue).take(len(SAID)).to(Sink.collect()).run())


@pytest.mark.parametrize("journal", [True, False])
def test_a_receiver_is_told_the_level_that_a_message_has(run: Any, serve: Any, tmp_path: Any, journal: bool) -> None:
    async def main() -> None:
        async with serve(**({"directory": tmp_path / "data"} if journal else {})) as broker:
            async with Administration(broker.send_address) as administration:
                await administration.create_queue("jobs", max_priority=5)
                await sent(broker, "jobs")
                peeked = await administration.peek("jobs", 10)
                assert sorted(each.priority for each in peeked) == sorted(LEVELS)
                assert [_facts(each).get("priority", 0) for each in peeked] == [each.priority for each in peeked]
                assert ["  priority 5  " in _lines(each, False)[0] for each in peeked] == [
                    each.priority == 5 for each in peeked
                ]
            assert [each.priority for each in await received(broker, "jobs")] == LEVELS

    run(main)


def test_a_queue_without_levels_tells_none(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            await sent(broker, "plain")
            peeked = await administration.peek("plain", 10)
            assert {each.priority for each in peeked} == {0}
            assert not any("priority" in _facts(each) for each in peeked)
            assert {each.priority for each in await received(broker, "plain")} == {0}

    run(main)


def delivered(priority: int) -> DeliveredBatch:
    session: Any = None
    return DeliveredBatch(
        Deliver(7, 1_700_000_000_000_000, 1, False, BATCH, None, None, 0, priority), "jobs", session, 0, bytes(8)
    )


def test_a_line_of_json_says_it_where_there_is_one_and_who_sends_it_again_keeps_it() -> None:
    rows = [json.loads(line) for line in write_messages(delivered(4))[0].splitlines()]
    assert [row["priority"] for row in rows] == [4, 4]
    assert [message_of(row)[1].priority for row in rows] == [4, 4]
    plain = json.loads(write_messages(delivered(0))[0].splitlines()[0])
    assert "priority" not in plain
    assert message_of(plain)[1] == NO_TIMING


@pytest.mark.parametrize("priority", [0, 4])
def test_a_process_of_a_handler_is_told_it_too(priority: int) -> None:
    assert CarriedMessage.of(Delivery(delivered(priority), 1, b"2")).delivery().priority == priority
