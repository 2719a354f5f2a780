"""Queues with groups: the messages of one go to one receiver at a time, in order, and others pass them."""

from __future__ import annotations

from typing import Any, cast
from unittest import mock

import pytest

from actors.batch import BinaryColumn, Message, MessageBatch
from actors.errors import InvalidRequestError
from actors.limits import GROUP_HEADER, MAX_GROUP_BYTES
from actors.queue.operations.browsing import describe
from actors.queue.operations.dispatch import dispatch
from actors.queue.state import grouped_ready
from actors.queue.state import groups as groups_of_queues
from actors.queue.state.group_names import names_of
from actors.queue.state.grouped_ready import GroupedReady
from actors.queue.structures.numbers import Numbers
from actors.queue.vocabulary import commands
from actors.queue.vocabulary.commands import AlterQueue
from actors.queue.vocabulary.prefetch import ReturnedForMore
from actors.queue.vocabulary.replies import MessagesTaken, Tell, WaitExplained
from actors.queue.vocabulary.settings import QueueSettings, dead_letter_settings
from actors.queue.vocabulary.takes import Settlement
from tests.actors.driven import Deliver, empty_log
from tests.actors.taking import LARGE, TakerState, numbers

GROUPED = QueueSettings(None, None, groups=True)


def opened(receivers: str = "ab", settings: QueueSettings = GROUPED, log: Any = None) -> TakerState:
    queue = TakerState("q", 0, settings, log=empty_log(settings) if log is None else log)
    queue.attach_sender("s", None)
    queue.request_capacity("s", 10**6, LARGE)
    for name in receivers:
        queue.attach_receiver(name)
    queue.take_effects()
    return queue


def batch_of(names: str) -> MessageBatch:
    """A message of each letter's group; a dot is of none."""
    return MessageBatch.from_messages([Message(b"x", group=None if name == "." else name) for name in names])


def send(queue: TakerState, names: str, now: float = 0.0, **timing: Any) -> None:
    sent = queue.senders[cast("Any", "s")].expected or 0
    queue.send("s", sent, batch_of(names), now, round(now * 1e6), **timing)


def given(queue: TakerState, now: float = 0.0) -> list[tuple[Any, list[int]]]:
    """Who was given what, with all that is due done."""
    found: list[tuple[Any, list[int]]] = []
    while True:
        found += [
            (effect.receiver, list(range(effect.first, effect.first + len(effect.batch))))
            for effect in queue.take_effects()
            if isinstance(effect, Deliver)
        ]
        deadline = queue.next_deadline()
        if deadline is None or deadline > now:
            return found
        queue.tick(now)


def want(queue: TakerState, name: str, messages: int, now: float = 0.0) -> None:
    queue.receive(name, messages, LARGE, now)


def done(queue: TakerState, name: str, *numbers: int) -> None:
    queue.acknowledge(name, [(number, 1) for number in numbers])


def ready(queue: TakerState) -> GroupedReady:
    return cast("GroupedReady", queue.ready)


def test_a_group_is_one_receivers_until_all_of_it_is_settled_and_others_pass_it() -> None:
    queue = opened()
    want(queue, "a", 1)
    send(queue, "xxyx.")
    assert given(queue) == [("a", [0])]
    want(queue, "b", 5)
    assert given(queue) == [("b", [2]), ("b", [4])]
    assert ready(queue).passed_over == 2
    done(queue, "b", 2, 4)
    assert given(queue) == []
    done(queue, "a", 0)
    assert given(queue) == [("b", [1]), ("b", [3])]


def test_who_has_a_group_gets_more_of_it_as_it_asks() -> None:
    queue = opened()
    want(queue, "a", 1)
    send(queue, "xyxxx")
    want(queue, "b", 9)
    assert given(queue) == [("a", [0]), ("b", [1])]
    want(queue, "a", 2)
    assert given(queue) == [("a", [2, 3])]
    done(queue, "a", 0, 2)
    assert given(queue) == []
    done(queue, "a", 3)
    assert given(queue) == [("b", [4])]


def test_what_all_may_have_is_shared_out_in_proportion_to_demand() -> None:
    queue = opened()
    want(queue, "a", 30)
    want(queue, "b", 10)
    send(queue, "abcdefgh")
    assert given(queue) == [("a", [0, 1, 2, 3, 4, 5]), ("b", [6, 7])]


def test_a_group_waits_for_what_is_tried_again_over_a_restart_though_nobody_counts_failures_any_more() -> None:
    before, after = QueueSettings(groups=True, retry_delay=40.0), QueueSettings(groups=True)
    queue = opened(settings=before)
    want(queue, "a", 1)
    send(queue, "xx.")
    assert given(queue) == [("a", [0])]
    queue.negative_acknowledge("a", [(0, 1)], 0.0, 0.0)
    queue.execute(AlterQueue(after), 0.0, 0)
    again = opened(settings=after, log=queue.log)
    want(again, "a", 9)
    assert given(again) == [("a", [2])]
    done(again, "a", 2)
    assert given(again, 60.0) == [("a", [0]), ("a", [1])]


def test_who_could_not_look_on_does_as_soon_as_another_was_given_what_was_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grouped_ready, "MAX_LOOKED_PAST", 4)
    queue = opened()
    want(queue, "a", 3)
    send(queue, "xxxxxxx")
    send(queue, "y")
    assert given(queue) == [("a", [0, 1, 2])]
    want(queue, "b", 1)
    assert given(queue) == [], "nobody looks on past so many"
    queue.execute(ReturnedForMore([(0, 1)], 3, cast("Any", "a")), 0.0, 0)
    assert given(queue) == [("a", [0]), ("a", [3, 4]), ("b", [7])]


def test_what_comes_back_goes_before_all_that_is_later_in_its_group() -> None:
    queue = opened()
    want(queue, "a", 2)
    send(queue, "xxxy")
    want(queue, "b", 3)
    assert given(queue) == [("a", [0, 1]), ("b", [3])]
    queue.negative_acknowledge("a", [(0, 1)], 0.0, 0.0)
    assert given(queue) == [], "the other still has one of the group"
    done(queue, "a", 1)
    assert given(queue) == [("b", [0]), ("b", [2])]


def test_what_comes_back_later_goes_behind_what_came_back_before_and_was_passed_over() -> None:
    queue = opened()
    want(queue, "a", 2)
    send(queue, "xx")
    want(queue, "b", 2)
    assert given(queue) == [("a", [0, 1])]
    queue.negative_acknowledge("a", [(0, 1)], 0.0, 0.0)
    assert given(queue) == [], "the other has looked at it"
    queue.negative_acknowledge("a", [(1, 1)], 0.0, 0.0)
    assert [number for _, numbers in given(queue) for number in numbers] == [0, 1]


def test_nobody_gets_anything_of_a_group_that_waits_to_be_tried_again() -> None:
    queue = opened(settings=QueueSettings(groups=True, retry_delay=4.0))
    want(queue, "a", 1)
    send(queue, "xx.")
    assert given(queue) == [("a", [0])]
    queue.negative_acknowledge("a", [(0, 1)], 0.0, 0.0)
    want(queue, "a", 3)
    want(queue, "b", 3)
    assert given(queue) == [("a", [2])]
    found = given(queue, 6.0)
    assert found in ([("a", [0]), ("a", [1])], [("b", [0]), ("b", [1])])


def test_a_restart_still_knows_what_waits_to_be_tried_again() -> None:
    settings = QueueSettings(groups=True, retry_delay=4.0)
    queue = opened(settings=settings)
    want(queue, "a", 1)
    send(queue, "xxy")
    queue.negative_acknowledge("a", [(0, 1)], 0.0, 0.0)
    again = opened(settings=settings, log=queue.log)
    want(again, "a", 3)
    assert given(again) == [("a", [2])]
    assert given(again, 6.0) == [("a", [0]), ("a", [1])]


def test_what_is_dead_lets_the_next_of_its_group_go_on() -> None:
    queue = opened(settings=QueueSettings(groups=True, max_receives=1))
    want(queue, "a", 1)
    send(queue, "xx")
    want(queue, "b", 1)
    assert given(queue) == [("a", [0])]
    queue.negative_acknowledge("a", [(0, 1)], 0.0, 0.0)
    assert given(queue) == [("b", [1])]


def test_a_receiver_that_ends_gives_its_groups_back_in_order() -> None:
    queue = opened()
    want(queue, "a", 3)
    send(queue, "xyxxy")
    want(queue, "b", 9)
    assert given(queue) == [("a", [0, 1, 2])]
    queue.detach("a", 0.0)
    found = [number for name, numbers in given(queue) for number in numbers if name == "b"]
    assert [number for number in found if number in (0, 2, 3)] == [0, 2, 3]
    assert [number for number in found if number in (1, 4)] == [1, 4]


def test_a_restart_frees_all_groups() -> None:
    queue = opened()
    want(queue, "a", 1)
    send(queue, "xxy")
    want(queue, "b", 1)
    given(queue)
    again = opened("b", log=queue.log)
    want(again, "b", 3)
    assert given(again) == [("b", [0, 1, 2])]


def test_a_request_has_several_of_a_group_and_the_next_request_of_its_taker_none() -> None:
    queue = opened("")
    queue.attach_taker()
    send(queue, "xxxy")
    queue.take_effects()
    queue.take(1, 2)
    (first,) = queue.answers()
    assert numbers(first) == [(0, 1), (1, 1)]
    queue.take(2, 5)
    (second,) = queue.answers()
    assert numbers(second) == [(3, 1)]
    queue.settle(3, [(0, 1)])
    queue.take(4, 5)
    assert numbers(queue.answers()[-1]) == []
    queue.settle(5, [(1, 1)])
    queue.take(6, 5)
    assert numbers(queue.answers()[-1]) == [(2, 1)]


def test_requests_that_wait_are_not_asked_for_what_another_of_their_taker_has_extended() -> None:
    queue = opened("")
    queue.attach_taker()
    send(queue, "xx")
    queue.take(1, 1)
    for request in (2, 3):
        queue.take(request, 1, wait=5.0)
    queue.settle(4, [(0, 1)], Settlement.EXTEND, seconds=60.0)
    given(queue)
    with mock.patch.object(GroupedReady, "turn", autospec=True) as turns:
        dispatch(queue, 0.0)
    assert not turns.called
    assert (ready(queue).messages, len(queue.ring)) == (1, 2)
    queue.settle(5, [(0, 1)])
    assert given(queue) == []
    assert [numbers(each) for _, each in queue.told if isinstance(each, MessagesTaken)] == [[(0, 1)], [(1, 1)]]


def test_what_is_sent_with_a_delay_lets_others_of_its_group_pass() -> None:
    queue = opened("a")
    want(queue, "a", 5)
    send(queue, "x", delay=5.0)
    send(queue, "x")
    assert given(queue) == [("a", [1])]
    assert given(queue, 5.0) == [("a", [0])]


def test_demand_of_one_at_a_time_gets_all_in_order() -> None:
    queue = opened()
    send(queue, "xyxyzz")
    found = []
    for _ in range(6):
        want(queue, "a", 1)
        found += given(queue)
    assert [each for _, each in found] == [[0], [1], [2], [3], [4], [5]]


def test_what_expires_is_dropped_and_not_given() -> None:
    queue = opened()
    want(queue, "a", 1)
    send(queue, "xx", ttl=5.0)
    want(queue, "b", 1)
    assert given(queue) == [("a", [0])]
    queue.acknowledge("a", [(0, 1)])
    assert given(queue, 6.0) == [], "it would have been free in time, but nobody has looked"
    assert queue.log.total_expired == 1


def test_messages_of_a_blocked_group_in_front_are_looked_past_as_far_as_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouped_ready, "MAX_LOOKED_PAST", 5)
    queue = opened()
    want(queue, "a", 1)
    send(queue, "x" * 5)
    send(queue, "y")
    want(queue, "b", 2)
    assert given(queue) == [("a", [0]), ("b", [5])]
    send(queue, "x")
    send(queue, "z")
    assert given(queue) == [], "z is behind too many"
    assert (queue.next_deadline(), describe(queue, 0.0).passed_over) == (10.0, 5), "it waits for a lease alone"
    queue.execute(commands.ExplainWait(1, cast("Any", "b")), 0.0, 0)
    told = queue.effects.pop()
    assert isinstance(told, Tell)
    assert isinstance(told.reply, WaitExplained)
    assert "5 messages wait behind others of their groups, and nobody looks on past so many" in told.reply.text
    assert given(queue) == []


def test_what_waits_and_is_purged_makes_room_to_look_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouped_ready, "MAX_LOOKED_PAST", 3)
    queue = opened()
    want(queue, "a", 1)
    send(queue, "xxxx")
    want(queue, "b", 1)
    send(queue, "x")
    assert given(queue) == [("a", [0])]
    queue.purge()
    send(queue, "y")
    assert given(queue) == [("b", [5])]


def test_a_look_at_very_many_goes_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouped_ready, "LOOK_BUDGET", 100)
    queue = opened()
    want(queue, "a", 1)
    for _ in range(20):
        send(queue, "x.x.x"[:1] * 3)
    send(queue, "y")
    given(queue)
    want(queue, "b", 1)
    assert queue.unfinished_at is not None
    assert given(queue) == [("b", [60])]


def test_very_many_groups_are_given_out_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    letters = 26
    beside = grouped_ready.BATCH_COST + letters + grouped_ready.SPAN_COST
    monkeypatch.setattr(grouped_ready, "LOOK_BUDGET", beside + 4 * grouped_ready.TAKEN_COST)
    queue = opened()
    want(queue, "a", letters)
    send(queue, "abcdefghijklmnopqrstuvwxyz")
    (first,) = [len(effect.batch) for effect in queue.take_effects() if isinstance(effect, Deliver)]
    assert (first, queue.unfinished_at) == (4, 0.0)
    assert sum(len(some) for _, some in given(queue)) == 22


def test_very_many_groups_that_are_settled_at_once_are_free_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_of_queues, "SETTLED_AT_ONCE", 3)
    monkeypatch.setattr(grouped_ready, "STEP_BUDGET", 2)
    queue = opened()
    want(queue, "a", 6)
    send(queue, "uvwxyz")
    send(queue, "uvwxyz")
    assert given(queue) == [("a", [0, 1, 2, 3, 4, 5])]
    want(queue, "b", 6)
    queue.acknowledge("a", [(0, 6)])
    assert (len(ready(queue).groups), queue.next_deadline()) == (6, 0.0)
    queue.tick(0.0)
    assert [(each.first, len(each.batch)) for each in queue.take_effects() if isinstance(each, Deliver)] == [
        (6, 1),
        (7, 1),
    ]
    assert [number for _, some in given(queue) for number in some] == [8, 9, 10, 11]
    queue.acknowledge("b", [(6, 6)])
    given(queue)
    assert (len(ready(queue).groups), queue.next_deadline()) == (0, None)


def test_the_numbers_of_very_many_groups_that_are_purged_go_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_of_queues, "EMPTIED_AT_ONCE", 2)
    monkeypatch.setattr(grouped_ready, "STEP_BUDGET", 2)
    queue = opened()
    want(queue, "a", 4)
    send(queue, "wxyz")
    send(queue, "wxyzwxyz")
    want(queue, "b", 4)
    given(queue)
    assert ready(queue).groups.ranges == 8
    queue.purge()
    queue.tick(0.0)
    assert 0 < ready(queue).groups.ranges < 8
    send(queue, "w")
    given(queue)
    assert ready(queue).groups.ranges == 1
    done(queue, "a", 0)
    assert given(queue) == [("b", [12])]


def test_what_waits_with_its_group_is_compact_and_its_numbers_go_with_it() -> None:
    queue = opened()
    want(queue, "a", 1)
    send(queue, "x")
    for _ in range(1_000):
        send(queue, "xx")
    want(queue, "b", 1)
    given(queue)
    assert (ready(queue).groups.ranges, len(ready(queue).groups)) == (1, 1)
    done(queue, "a", 0)
    given(queue)
    queue.detach("b", 0.0)
    queue.purge()
    assert (ready(queue).groups.ranges, len(ready(queue).groups)) == (0, 0)


@pytest.mark.parametrize(
    ("what", "said"),
    [({"max_priority": 3}, "groups and max_priority are set"), ({"exclusive": True}, "groups and exclusive are set")],
)
def test_settings_that_have_another_order_are_refused_beside_groups(what: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        QueueSettings(groups=True, **what)
    assert not dead_letter_settings(GROUPED).groups


def test_a_subscription_cannot_be_owned_and_browsing_is_possible() -> None:
    queue = opened("")
    send(queue, "xy")
    with pytest.raises(InvalidRequestError, match="has groups, each with one receiver at a time"):
        queue.open_subscription("c", "n", "own", epoch=None, starting="earliest", owner_timeout=None)
    assert [len(each.batch) for each in queue.browse(0, 2).ranges] == [2]


def test_the_groups_of_a_batch_are_one_value_where_all_are_of_one() -> None:
    assert names_of(batch_of("xxx")) == b"x"
    assert names_of(batch_of("...")) is None
    assert names_of(MessageBatch.from_payloads([b"x"])) is None
    assert names_of(batch_of("x.y")) == [b"x", None, b"y"]
    one = [Message(b"", headers={"n": str(n), GROUP_HEADER: b"x" if n else "x"}) for n in range(2)]
    assert names_of(MessageBatch.from_messages(one)) == b"x", "a text is the same group as its bytes"
    other = [Message(b"", headers={"n": GROUP_HEADER}), Message(b"", headers={GROUP_HEADER: ""})]
    assert names_of(MessageBatch.from_messages(other)) is None
    payloads = BinaryColumn.from_values([b"", b""])
    broken = BinaryColumn.from_values([b"\xff" + GROUP_HEADER.encode(), b""])
    assert names_of(MessageBatch(payloads, None, None, broken)) is None


def test_a_group_whose_name_is_very_long_is_one_group_and_takes_little_memory() -> None:
    queue = opened()
    names = ["x" * 60_000, "x" * 59_999, "x" * 60_000]
    batch = MessageBatch.from_messages([Message(b"x", headers={GROUP_HEADER: name}) for name in names])
    queue.send("s", 0, batch, 0.0, 0)
    want(queue, "a", 1)
    want(queue, "b", 5)
    assert given(queue) == [("a", [0]), ("b", [1])]
    groups = ready(queue).groups
    assert len(groups) == 2
    assert all(len(name) <= MAX_GROUP_BYTES for name in groups._known)
    done(queue, "a", 0)
    assert given(queue) == [("b", [2])]


def test_numbers_are_ranges_that_are_taken_from_the_front_and_joined() -> None:
    found = Numbers()
    for start, stop in ((5, 7), (7, 9), (20, 30), (1, 2), (2, 5), (29, 31), (12, 14), (13, 13), (8, 13)):
        found.add(start, stop)
    assert list(found) == [(1, 14), (20, 31)]
    found.drop_below(3)
    assert (found.first(), len(found)) == ((3, 14), 2)
    found.drop_below(14)
    assert list(found) == [(20, 31)]
    found.drop_below(31)
    assert not found
    for number in range(0, 600, 2):
        found.add(number, number + 1)
    for number in range(0, 500, 2):
        found.drop_below(number + 1)
    assert (found.first(), len(found)) == ((500, 501), 50)
    assert found.keep(lambda start, stop: iter([(start, stop)] if start < 504 else []), 0, 1_000) == (None, 52)
    assert list(found) == [(500, 501), (502, 503)]
