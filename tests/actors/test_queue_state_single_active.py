"""Queues with a single active consumer: one receiver gets everything, the others wait to go on."""

from __future__ import annotations

from typing import Any, cast

import pytest

from actors.batch import MessageBatch
from actors.errors import InvalidRequestError
from actors.queue.vocabulary import commands
from actors.queue.vocabulary.replies import MessagesTaken, Tell, WaitExplained
from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.turns import HearTurns, TurnChanged
from tests.actors.driven import Deliver, QueueState
from tests.actors.taking import TakerState

LARGE = 10**9
SINGLE = QueueSettings(single_active_consumer=True)


def single(receivers: str = "ab", settings: QueueSettings = SINGLE) -> QueueState:
    queue = TakerState("q", 0, settings)
    queue.attach_sender("s", None)
    queue.request_capacity("s", 10**6, LARGE)
    for name in receivers:
        queue.attach_receiver(name)
        queue.receive(name, 10, LARGE, 0.0)
    queue.take_effects()
    return queue


def store(queue: QueueState, count: int, delay: float | None = None) -> None:
    queue.send("s", queue.log.next_sequence, MessageBatch.from_payloads([b"x"] * count), 0.0, 0, delay)


def delivered(queue: QueueState) -> list[tuple[object, list[int], bool]]:
    return [
        (effect.receiver, list(range(effect.first, effect.first + len(effect.batch))), effect.possibly_replayed)
        for effect in queue.take_effects()
        if isinstance(effect, Deliver)
    ]


def settled(queue: QueueState, name: str, *numbers: int) -> None:
    queue.acknowledge(name, [(number, 1) for number in numbers])
    deadline = queue.next_deadline()
    if deadline is not None and deadline <= 0.0:
        queue.tick(0.0)


def test_the_first_receiver_gets_everything_and_the_others_are_told_that_they_wait() -> None:
    queue = single("")
    assert [queue.attach_receiver(name) for name in "abc"] == [False, True, True]
    for name in "cba":
        queue.receive(name, 2, LARGE, 0.0)
    store(queue, 4)
    assert delivered(queue) == [("a", [0, 1], False)]
    facts = queue.statistics(0.0)
    assert facts.waiting_receivers == 2
    assert [(each.waiting, each.active) for each in facts.connections[1:]] == [
        (False, True),
        (True, False),
        (True, False),
    ]


def test_when_the_active_one_is_lost_the_next_has_what_it_held_first_and_marked() -> None:
    queue = single("abc")
    store(queue, 3)
    assert delivered(queue) == [("a", [0, 1, 2], False)]
    queue.acknowledge("a", [(0, 1)])
    store(queue, 1)
    delivered(queue)
    queue.detach("a", 0.0)
    assert delivered(queue) == [("b", [1, 2], True), ("b", [3], True)]
    queue.detach("b", 0.0)
    assert [name for name, _, _ in delivered(queue)] == ["c", "c"]


def test_one_that_consumes_no_more_keeps_what_it_holds_and_the_next_goes_on() -> None:
    queue = single()
    store(queue, 2)
    assert delivered(queue) == [("a", [0, 1], False)]
    queue.stop_consuming("a", 0.0)
    store(queue, 1)
    assert delivered(queue) == [("b", [2], False)]
    facts = {each.connection: each for each in queue.statistics(0.0).connections}
    assert (facts["a"].active, facts["a"].waiting, facts["a"].in_flight) == (False, False, 2)
    queue.negative_acknowledge("a", [(1, 1)], 0.0, 0.0)
    assert delivered(queue) == [("b", [1], True)]
    queue.acknowledge("a", [(0, 1)])
    queue.detach("a", 0.0)
    assert delivered(queue) == []


def test_of_an_exclusive_queue_one_that_consumes_no_more_has_it_until_it_leaves() -> None:
    queue = single(settings=QueueSettings(exclusive=True, single_active_consumer=True))
    queue.stop_consuming("a", 0.0)
    store(queue, 1)
    assert delivered(queue) == []
    queue.detach("a", 0.0)
    assert delivered(queue) == [("b", [0], False)]


def test_a_native_receiver_that_only_withdraws_its_demand_is_still_the_active_one() -> None:
    queue = single()
    queue.cancel_demand("a")
    store(queue, 1)
    assert delivered(queue) == []


def test_one_that_waits_and_leaves_changes_nothing_and_comes_back_at_the_end_of_the_line() -> None:
    queue = single("abc")
    queue.detach("b", 0.0)
    queue.attach_receiver("b")
    queue.receive("b", 10, LARGE, 0.0)
    queue.detach("a", 0.0)
    store(queue, 1)
    assert delivered(queue) == [("c", [0], False)]


def test_a_delay_holds_nothing_up() -> None:
    queue = single()
    store(queue, 1, delay=5.0)
    store(queue, 1)
    assert delivered(queue) == [("a", [1], False)]


def test_of_those_who_wait_the_highest_priority_is_next_and_then_who_came_first() -> None:
    queue = single("a")
    for name, priority in (("b", -1), ("c", 0), ("d", 0)):
        assert queue.attach_receiver(name, priority=priority)
        queue.receive(name, 10, LARGE, 0.0)
    for name, number in (("c", 0), ("d", 1), ("b", 2)):
        queue.detach({"c": "a", "d": "c", "b": "d"}[name], 0.0)
        store(queue, 1)
        assert delivered(queue)[-1][:2] == (name, [number])
        settled(queue, name, number)


def test_one_of_a_higher_priority_has_the_queue_at_once_where_nothing_is_held() -> None:
    queue = single("a")
    assert queue.attach_receiver("high", priority=1) is False
    queue.receive("high", 10, LARGE, 0.0)
    store(queue, 1)
    assert delivered(queue) == [("high", [0], False)]
    queue.detach("high", 0.0)
    assert delivered(queue) == [("a", [0], True)]


def test_who_gives_way_gets_nothing_more_and_the_other_goes_on_when_it_holds_nothing() -> None:
    queue = single("a")
    store(queue, 2)
    delivered(queue)
    assert queue.attach_receiver("high", priority=1)
    queue.receive("high", 10, LARGE, 0.0)
    store(queue, 1)
    assert delivered(queue) == []
    settled(queue, "a", 0)
    assert delivered(queue) == []
    settled(queue, "a", 1)
    assert delivered(queue) == [("high", [2], False)]
    assert queue.next_deadline() == 10.0


def test_what_is_given_back_or_expires_makes_way_too() -> None:
    queue = single("a")
    store(queue, 1)
    delivered(queue)
    queue.attach_receiver("high", priority=1)
    queue.receive("high", 10, LARGE, 0.0)
    queue.negative_acknowledge("a", [(0, 1)], 0.0, 0.0)
    queue.tick(0.0)
    assert delivered(queue) == [("high", [0], True)]
    queue.attach_receiver("highest", priority=2)
    queue.receive("highest", 10, LARGE, 0.0)
    queue.tick(10.0)
    assert delivered(queue) == [("highest", [0], True)]


def test_who_gives_way_goes_on_where_the_other_leaves_first() -> None:
    queue = single("a")
    store(queue, 1)
    delivered(queue)
    queue.attach_receiver("high", priority=1)
    store(queue, 1)
    assert delivered(queue) == []
    queue.detach("high", 0.0)
    assert delivered(queue) == [("a", [1], False)]


def hears(queue: QueueState, *names: str, waiting: bool) -> None:
    for name in names:
        queue.execute(HearTurns(waiting, cast("Any", name)), 0.0, 0)


def turns(queue: QueueState) -> list[tuple[object, bool]]:
    """Who is told that it waits, or that its turn has come, of all that is told."""
    effects = list(queue.effects)
    queue.effects.clear()
    return [
        (effect.connection, effect.reply.waiting)
        for effect in effects
        if isinstance(effect, Tell) and isinstance(effect.reply, TurnChanged)
    ]


def test_who_hears_of_turns_is_told_when_another_takes_its_place_and_when_it_has_it_again() -> None:
    queue = single("ab")
    hears(queue, "a", waiting=False)
    hears(queue, "b", waiting=True)
    assert turns(queue) == []
    store(queue, 1)
    assert turns(queue) == []
    queue.attach_receiver("high", priority=1)
    hears(queue, "high", waiting=True)
    assert turns(queue) == [("a", True)], "it gets nothing more, though it holds a message"
    settled(queue, "a", 0)
    assert turns(queue) == [("high", False)]
    queue.detach("high", 0.0)
    assert turns(queue) == [("a", False)], "it was there before b"
    queue.detach("a", 0.0)
    assert turns(queue) == [("b", False)]


def test_who_holds_nothing_is_told_at_once_and_who_does_not_hear_of_turns_never() -> None:
    queue = single("ab")
    hears(queue, "b", waiting=True)
    queue.attach_receiver("high", priority=1)
    assert turns(queue) == []
    queue.attach_receiver("higher", priority=2)
    hears(queue, "higher", waiting=False)
    queue.attach_receiver("highest", priority=3)
    assert turns(queue) == [("higher", True)]
    hears(queue, "highest", waiting=True)
    assert turns(queue) == [("highest", False)], "it was so when it asked"


def test_who_has_an_exclusive_queue_gives_way_to_nobody() -> None:
    queue = single("a", QueueSettings(exclusive=True))
    for name, priority in (("b", 0), ("high", 1)):
        assert queue.attach_receiver(name, priority=priority)
        queue.receive(name, 10, LARGE, 0.0)
    store(queue, 1)
    assert delivered(queue) == [("a", [0], False)]
    queue.detach("a", 0.0)
    assert delivered(queue) == [("high", [0], True)]


def test_single_messages_are_taken_beside_the_active_one() -> None:
    queue = cast("TakerState", single("a"))
    queue.cancel_demand("a")
    store(queue, 3)
    assert delivered(queue) == []
    queue.attach_taker()
    queue.take(1, 1)
    (answer,) = (each for each in queue.answers() if isinstance(each, MessagesTaken))
    assert [each.first for each in answer.ranges] == [0]
    assert queue.statistics(0.0).waiting_receivers == 0
    queue.detach("a", 0.0)
    queue.attach_receiver("b")
    queue.receive("b", 10, LARGE, 0.0)
    assert delivered(queue)[0][0] == "b", "a taker has no place in the line"


def test_a_receiver_that_takes_single_messages_leaves_the_line() -> None:
    queue = cast("TakerState", single(""))
    queue.attach_receiver("getter")
    queue.attach_receiver("b")
    queue.receive("b", 1, LARGE, 0.0)
    store(queue, 2)
    assert delivered(queue) == []
    queue.take(1, 1, taker="getter", visibility=5.0)
    assert [(each[0], each[1]) for each in delivered(queue)] == [("b", [0])]


def test_a_subscription_cannot_be_owned_on_it() -> None:
    queue = single()
    with pytest.raises(InvalidRequestError, match="'q' has a single active consumer"):
        queue.open_subscription("o", "sub", "own", epoch=None, starting="earliest", owner_timeout=None)
    assert queue.log.ledgers == {}


def test_who_waits_is_told_why() -> None:
    queue = single()
    queue.execute(commands.ExplainWait(1, cast("Any", "b")), 0.0, 0)
    told = queue.effects[-1].reply
    assert isinstance(told, WaitExplained)
    assert told.reason == "line"
    assert "has a single active consumer, and another receiver has it" in told.text


def test_after_the_queue_began_anew_who_comes_first_is_the_active_one() -> None:
    queue = single()
    queue.reset(1.0)
    assert [queue.attach_receiver(name) for name in "ba"] == [False, True]
