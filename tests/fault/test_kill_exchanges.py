"""A broker that is killed while senders publish to exchanges has, in each queue, what was routed to it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.fault.kill_clients import Counter
from tests.fault.kill_exchanges import ALIKE, QUEUES, Found, Publisher, Taker, _judge, kill_exchanges

KILLS = 2
SEED = 4711


def test_what_is_published_through_kills_is_in_each_queue_that_it_goes_to(tmp_path: Path) -> None:
    found: Found = asyncio.run(kill_exchanges(KILLS, SEED, tmp_path, lambda _: None))
    assert found.violations == []
    assert found.kills == KILLS
    assert found.confirmed > 0


def judged(lost: str | None = None, swapped: str | None = None) -> list[str]:
    """What is said of three messages to the queues that are bound alike, where one queue lacks one or has them in another order."""
    found = Found()
    publisher = Publisher(1, None, Counter())  # type: ignore[arg-type]
    publisher.sent = [(b"1/%d/" % number, ALIKE) for number in range(3)]
    takers = {queue: Taker(queue, found) for queue in QUEUES}
    for queue in ALIKE:
        order = [0, 2, 1] if queue == swapped else [0, 1, 2]
        takers[queue].numbers = {at: b"1/%d/" % number for at, number in enumerate(order)}
    if lost is not None:
        del takers[lost].numbers[1]
    _judge([publisher], takers, found)
    return found.violations


def test_what_is_missing_from_one_queue_or_stands_elsewhere_in_it_is_found() -> None:
    assert judged() == []
    assert any("1 missing" in text for text in judged(lost=ALIKE[1]))
    assert any("bound alike" in text for text in judged(swapped=ALIKE[0]))
