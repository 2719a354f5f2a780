"""What a task of Celery costs the broker, counted as `test_cost_over_amqp` does: its messages have twenty headers, no two of them alike,
and with results by ``rpc://`` each is preceded by a declaration of the queue for these.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.transport.gateways.amqp.raw_amqp import methods, published
from tests.transport.gateways.amqp.test_cost_over_amqp import MANY, AmqpPeer, acknowledged, heard, served
from tests.transport.test_cost_of_a_message import turns, undisturbed
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import carried_properties, declaring
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.properties import Properties
from transport.gateways.amqp.tables import Table

pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the limits are instructions of CPython 3.11")

REPLIES = "1c0a6a4e-6b1e-3a6e-9d4c-0f5b6d1f7a11"
LIMITS = {
    # It was 8,900 where it was judged twice, in a task of its own, and the queue was asked.
    "a declaration of what is there": 1_990,
    # 10,200 where its headers were walked through twice.
    "a task, published and confirmed": 6_430,
    # 7,400 where they were once more, and the acknowledgement was two commands.
    "an acknowledgement, and the task that it makes room for": 5_000,
    # 10,300 where it was acknowledged in a turn of its own, and one more was asked for.
    "a result, published, confirmed and delivered to who acknowledges nothing": 9_170,
}
DECLARES = methods(
    1, entity.QueueDeclare(queue=REPLIES, auto_delete=True, arguments=Table.of({"x-expires": 86_400_000}))
)


def task(number: int) -> bytes:
    """A task, as it is published."""
    name = f"{number:08}-0000-4000-8000-000000000000"
    nothing = ["shadow", "eta", "expires", "group", "group_index", "parent_id", "stamped_headers"]
    said: dict[str, Any] = {
        "lang": "py",
        "task": "tasks.add",
        "id": name,
        **dict.fromkeys(nothing),
        "retries": 0,
        "timelimit": [None, None],
        "root_id": name,
        "argsrepr": f"({number}, {number})",
        "kwargsrepr": "{}",
        "origin": "gen4711@host",
        "ignore_result": False,
        "replaced_task_nesting": 0,
        "stamps": {},
    }
    body = b'[[%d, %d], {}, {"callbacks": null, "errbacks": null, "chain": null, "chord": null}]' % (number, number)
    return published("q", body, properties=_properties(name, said, 2, REPLIES))


def result(number: int) -> bytes:
    """What comes of one."""
    name = f"{number:08}-0000-4000-8000-000000000000"
    body = b'{"task_id": "%s", "status": "SUCCESS", "result": %d, "traceback": null}' % (name.encode(), number)
    return published(REPLIES, body, properties=_properties(name, {}, 1, None))


def _properties(correlation: str, headers: dict[str, Any], mode: int, reply_to: str | None) -> bytes:
    return Properties.of(
        content_type="application/json",
        content_encoding="utf-8",
        headers=Table.of(headers),
        delivery_mode=mode,
        priority=0,
        correlation_id=correlation,
        reply_to=reply_to,
    ).raw


@asynccontextmanager
async def consuming() -> AsyncIterator[AmqpPeer]:
    """A client of a broker in memory, whose queue for results is there."""
    async with served() as peer:
        peer.hear(DECLARES)
        await turns()
        assert peer.said() == [entity.QueueDeclareOk.INDEX]
        yield peer


async def measured() -> dict[str, float]:
    # What tests before have left there may be forgotten in the middle of this.
    carried_properties._packed.clear()
    carried_properties._unpacked.clear()
    with undisturbed():
        async with consuming() as peer:
            return await _measured(peer)


async def _measured(peer: AmqpPeer) -> dict[str, float]:
    found: dict[str, float] = {}
    confirm, delivery = basic.BasicAck.INDEX, basic.BasicDeliver.INDEX
    found["a declaration of what is there"] = await heard(peer, [DECLARES] * MANY, [entity.QueueDeclareOk.INDEX])
    await heard(peer, [task(number) for number in range(1_000, 1_000 + MANY)], [confirm])
    tasks = [task(number) for number in range(2_000, 2_000 + MANY)]
    found["a task, published and confirmed"] = await heard(peer, tasks, [confirm])
    peer.hear(methods(1, basic.BasicQos(prefetch_count=1), basic.BasicConsume(queue="q", consumer_tag="c")))
    await turns()
    assert peer.said() == [basic.BasicQosOk.INDEX, basic.BasicConsumeOk.INDEX, delivery]
    settles = [acknowledged(tag) for tag in range(1, MANY + 1)]
    found["an acknowledgement, and the task that it makes room for"] = await heard(peer, settles, [delivery])
    peer.hear(methods(1, basic.BasicConsume(queue=REPLIES, consumer_tag="r", no_ack=True)))
    await turns()
    assert peer.said() == [basic.BasicConsumeOk.INDEX]
    await heard(peer, [result(number) for number in range(1_000, 1_000 + MANY)], [delivery, confirm])
    results = [result(number) for number in range(2_000, 2_000 + MANY)]
    part = "a result, published, confirmed and delivered to who acknowledges nothing"
    found[part] = await heard(peer, results, [delivery, confirm])
    return found


def test_no_part_of_a_tasks_way_has_become_longer() -> None:
    found = asyncio.run(measured())
    assert {part: round(cost) for part, cost in found.items() if cost > LIMITS[part]} == {}


def test_no_limit_of_a_task_is_far_above_what_is_counted() -> None:
    found = asyncio.run(measured())
    assert {part: round(cost) for part, cost in found.items() if cost < 0.9 * LIMITS[part]} == {}, "lower the limits"


def test_a_declaration_that_is_judged_each_time_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declaring.Redeclared, "knows", lambda *_: False)
    found = asyncio.run(measured())
    assert {part for part, cost in found.items() if cost > LIMITS[part]} == {"a declaration of what is there"}
