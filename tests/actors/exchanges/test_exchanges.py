"""What each command comes to, and what a message finds on its way."""

from __future__ import annotations

from typing import Any

import pytest

from actors.exchanges.errors import (
    ExchangeError,
    ExchangeExistsError,
    ExchangeInUseError,
    ExchangeNotFoundError,
    InternalExchangeError,
    ReservedExchangeError,
)
from actors.exchanges.vocabulary import Binding, Bound, Destination, ExchangeDeleted, QueueUnbound
from tests.actors.exchanges.told import Told


def alternate(name: str) -> dict[str, str]:
    return {"alternate-exchange": name}


def test_the_predeclared_exchanges_are_there_and_are_of_their_kinds() -> None:
    told = Told()
    assert {one.name: one.kind for one in told.exchanges} == {
        "": "direct",
        "amq.direct": "direct",
        "amq.fanout": "fanout",
        "amq.headers": "headers",
        "amq.match": "headers",
        "amq.topic": "topic",
    }
    assert all(one.durable for one in told.exchanges)
    assert told.exchanges.statistics().exchanges == 0


def test_the_default_exchange_has_every_queue_by_its_name_as_soon_as_it_is_there() -> None:
    told = Told("a")
    assert told.route("", "a") == ("a",)
    assert told.route("", "b") == ()
    told.queues["b"] = True
    assert told.route("", "b", "a") == ("a", "b")


def test_what_reaches_the_default_exchange_by_an_alternate_goes_to_the_queue_of_its_key() -> None:
    told = Told("a")
    told.declare("e", arguments=alternate(""))
    assert told.route("e", "a") == ("a",)
    del told.queues["a"]
    assert told.route("e", "a") == ()


@pytest.mark.parametrize(
    "command",
    [
        ("declare", ""),
        ("declare", "amq.mine"),
        ("delete", ""),
        ("delete", "amq.topic"),
        ("bind", "", "q"),
        ("unbind", "", "q"),
    ],
)
def test_what_is_the_brokers_own_is_neither_made_nor_changed(command: tuple[str, ...]) -> None:
    told = Told("q")
    before = told.state()
    with pytest.raises(ReservedExchangeError):
        getattr(told, command[0])(*command[1:])
    with pytest.raises(ReservedExchangeError):
        told.bind("amq.topic", "", to_exchange=True)
    assert told.state() == before


def test_a_predeclared_exchange_can_be_declared_as_it_is_and_bound() -> None:
    told = Told("q")
    assert told.declare("amq.topic", "topic") == ()
    told.bind("amq.topic", "q", "a.#")
    assert told.route("amq.topic", "a.b") == ("q",)


def test_a_second_declaration_has_to_be_the_same_but_for_arguments_that_mean_nothing() -> None:
    told = Told()
    told.declare("e", "topic", arguments=alternate("other"))
    before = told.state()
    assert told.declare("e", "topic", arguments={**alternate("other"), "x-note": 1}) == ()
    differing: list[tuple[str, dict[str, Any]]] = [
        ("kind", {"kind": "fanout"}),
        ("durable", {"durable": False}),
        ("auto_delete", {"auto_delete": True}),
        ("internal", {"internal": True}),
        ("alternate-exchange", {"arguments": {}}),
    ]
    for field, other in differing:
        with pytest.raises(ExchangeExistsError, match="exchange 'e' is there with") as raised:
            told.declare("e", **{"kind": "topic", "arguments": alternate("other"), **other})
        assert raised.value.field == field
    assert told.state() == before


def test_a_look_gives_the_exchange_and_makes_none() -> None:
    told = Told()
    told.declare("e", "fanout", durable=False)
    assert told.exchanges.decide.look("e").kind == "fanout"
    with pytest.raises(ExchangeNotFoundError):
        told.exchanges.decide.look("f")
    assert told.names() == ["e"]


def test_an_exchange_in_use_is_deleted_only_when_its_bindings_may_go_too() -> None:
    told = Told("q")
    told.declare("e")
    told.declare("before")
    told.bind("before", "e", to_exchange=True)
    told.bind("e", "q", "k")
    with pytest.raises(ExchangeInUseError) as raised:
        told.delete("e", if_unused=True)
    assert raised.value.bindings == 1
    told.delete("e")
    assert list(told.exchanges.bindings()) == []
    assert told.delete("e") == ()
    told.declare("e")
    told.bind("before", "e", to_exchange=True)
    told.delete("e", if_unused=True)
    assert told.names() == ["before"], "what leads to it is not its use"


def test_a_binding_is_one_by_its_ends_its_key_and_the_values_of_its_arguments() -> None:
    told = Told("q")
    told.declare("e")
    assert len(told.bind("e", "q", "k", {"a": [1, "x"], "b": 2})) == 1
    assert told.bind("e", "q", "k", {"b": 2, "a": [1, b"x"]}) == ()
    assert len(told.bind("e", "q", "k", {"b": 2, "a": [1.0, "x"]})) == 1
    assert len(told.bind("e", "q", "l", {"a": [1, "x"], "b": 2})) == 1
    told.unbind("e", "q", "k", {"b": 2, "a": (1, "x")})
    assert told.route("e", "k") == ("q",), "another of the same key is left"
    told.unbind("e", "q", "k", {"b": 2, "a": [1.0, "x"]})
    assert told.route("e", "k") == ()
    assert told.unbind("e", "q", "k") == ()


def test_arguments_that_a_caller_changes_afterwards_are_as_they_were() -> None:
    told = Told("q")
    arguments = {"a": [1]}
    told.bind("amq.headers", "q", "", arguments)
    arguments["a"].append(2)
    assert told.exchanges.bindings_to(Destination("q")) == [Binding("amq.headers", Destination("q"), "", {"a": [1]})]
    assert told.unbind("amq.headers", "q", "", {"a": [1]}) != ()


def test_a_queue_gets_a_message_once_by_however_many_ways() -> None:
    told = Told("q", "r")
    for name in ("a", "b", "c"):
        told.declare(name, "fanout")
        told.bind(name, "q", name)
        told.bind(name, "q", "another")
    for source, end in (("a", "b"), ("a", "c"), ("b", "c"), ("c", "a"), ("c", "c")):
        told.bind(source, end, to_exchange=True)
    told.bind("c", "r")
    assert told.route("a", "k") == ("q", "r")


def test_an_alternate_gets_what_its_exchange_matches_nothing_for_whatever_others_match() -> None:
    told = Told("all", "lost", "deep")
    told.declare("start", "fanout")
    told.declare("inner", "direct", arguments=alternate("rest"))
    told.declare("rest", "fanout", internal=True)
    told.bind("start", "all")
    told.bind("start", "inner", to_exchange=True)
    told.bind("rest", "lost")
    told.bind("inner", "deep", "k")
    assert told.route("start", "k") == ("all", "deep")
    assert told.route("start", "other") == ("all", "lost")
    assert told.route("start", "k", "other") == ("all", "deep"), "one key that matches is a match"


def test_an_exchange_that_matches_another_has_matched_even_if_that_leads_nowhere() -> None:
    told = Told("lost")
    told.declare("start", "fanout", arguments=alternate("rest"))
    told.declare("inner")
    told.declare("rest", "fanout")
    told.bind("rest", "lost")
    told.bind("start", "inner", to_exchange=True)
    assert told.route("start", "k") == ()


def test_an_alternate_that_is_not_there_yet_or_is_a_circle_ends_the_way() -> None:
    told = Told("q")
    told.declare("e", arguments=alternate("f"))
    assert told.route("e", "k") == ()
    told.declare("f", arguments=alternate("e"))
    assert told.route("e", "k") == ()
    told.bind("f", "q", "k")
    assert told.route("e", "k") == ("q",)
    told.delete("f")
    assert told.route("e", "k") == ()


def test_an_internal_exchange_takes_from_exchanges_and_from_the_broker_alone() -> None:
    told = Told("q")
    told.declare("inner", "fanout", internal=True)
    told.declare("outer", "fanout")
    told.bind("outer", "inner", to_exchange=True)
    told.bind("inner", "q")
    assert told.route("outer", "k") == ("q",)
    assert told.route("inner", "k", outside=False) == ("q",)
    with pytest.raises(InternalExchangeError):
        told.route("inner", "k")


def test_an_exchange_that_goes_with_its_last_binding_takes_those_along_that_had_only_it() -> None:
    told = Told("q")
    for name in ("a", "b", "c"):
        told.declare(name, "fanout", auto_delete=True)
    told.declare("kept", "fanout", auto_delete=True)
    told.bind("a", "b", to_exchange=True)
    told.bind("b", "c", to_exchange=True)
    told.bind("kept", "c", to_exchange=True)
    told.bind("kept", "q")
    told.bind("c", "q")
    assert told.unbind("c", "q")[1:] == (ExchangeDeleted(11, "c"), ExchangeDeleted(12, "b"), ExchangeDeleted(13, "a"))
    assert told.names() == ["kept"]
    del told.queues["q"]
    assert told.queue_deleted("q") == (QueueUnbound(14, "q"), ExchangeDeleted(15, "kept"))
    assert told.state()[1] == []


def test_an_exchange_that_never_had_a_binding_does_not_go() -> None:
    told = Told("q")
    told.declare("e", auto_delete=True)
    told.queue_deleted("q")
    told.unbind("e", "q")
    assert told.names() == ["e"]


def test_a_binding_outlives_a_restart_where_both_its_ends_do() -> None:
    told = Told("q")
    told.queues["gone"] = False
    told.declare("e")
    told.declare("f", durable=False)
    ends = [("e", "q", False), ("e", "gone", False), ("f", "q", False), ("e", "f", True), ("e", "amq.topic", True)]
    numbers = []
    for source, end, to_exchange in ends:
        (event,) = told.bind(source, end, to_exchange=to_exchange)
        assert isinstance(event, Bound)
        numbers.append(event.number)
        assert event.binding.durable == bool(event.number)
    assert numbers == [2, 0, 0, 0, 3]
    again = Told()
    again.exchanges.restore(told.exchanges.snapshot())
    assert again.names() == ["e"]
    assert [b.destination.name for b in again.exchanges.bindings()] == ["q", "amq.topic"]
    assert again.exchanges.number == 3
    assert again.exchanges.snapshot() == told.exchanges.snapshot()


def test_an_event_of_an_older_exchange_of_a_name_does_not_touch_the_newer_one() -> None:
    told = Told("q")
    told.declare("e", "fanout")
    told.bind("e", "q")
    told.delete("e")
    told.declare("e", "topic")
    told.bind("e", "q", "a.*")
    expected = told.state()
    for event in told.events:
        told.exchanges.apply(event)
    assert told.state() == expected
    assert told.route("e", "a.b") == ("q",)


def test_a_binding_whose_exchange_a_repair_has_lost_is_not_there() -> None:
    told = Told("q")
    told.declare("e", "fanout")
    told.declare("f", "fanout")
    told.bind("e", "q")
    told.bind("f", "e", to_exchange=True)
    other = Told("q")
    for event in told.events[1:]:
        other.exchanges.apply(event)
    assert other.names() == ["f"]
    assert other.route("f", "k") == ()
    assert other.exchanges.statistics().bindings == 0


def test_the_order_of_queues_depends_on_their_names_alone() -> None:
    names = [f"q{number}" for number in range(20)]
    for order in (names, names[::-1], names[10:] + names[:10]):
        told = Told(*names)
        for name in order:
            told.bind("amq.fanout", name)
            told.bind("amq.topic", name, "#")
            told.bind("amq.headers", name)
        for exchange in ("amq.fanout", "amq.topic", "amq.headers"):
            assert told.route(exchange, "k") == tuple(sorted(names))


def test_an_error_answers_one_command_and_ends_no_connection() -> None:
    waiting = [ExchangeError]
    while waiting:
        one = waiting.pop()
        waiting += one.__subclasses__()
        assert not one.close
        assert one is ExchangeError or one.code != "internal-error"


def test_an_exchange_that_led_only_to_a_deleted_one_goes_with_it_if_it_is_to() -> None:
    told = Told()
    told.declare("before", auto_delete=True)
    told.declare("e", auto_delete=True)
    told.bind("before", "e", to_exchange=True)
    told.bind("e", "e", to_exchange=True)
    assert told.delete("e") == (ExchangeDeleted(5, "e"), ExchangeDeleted(6, "before")), "each of them once"
    assert told.state()[1] == []


def test_the_end_of_a_queue_is_recorded_only_where_something_durable_goes_with_it() -> None:
    told = Told()
    told.queues["q"] = False
    told.bind("amq.topic", "q")
    assert told.queue_deleted("q") == (QueueUnbound(0, "q"),)
    told.declare("e", auto_delete=True)
    told.bind("e", "q")
    assert told.queue_deleted("q") == (QueueUnbound(0, "q"), ExchangeDeleted(2, "e"))


def test_an_older_event_alone_changes_nothing() -> None:
    told = Told("q")
    told.declare("e", "fanout")
    told.bind("e", "q")
    told.delete("e")
    told.declare("e", "topic")
    told.bind("e", "q", "a.*")
    expected = told.state()
    for event in told.events:
        told.exchanges.apply(event)
        assert told.state() == expected


def test_a_way_that_was_unbound_does_not_count_as_one() -> None:
    told = Told(max_hops=2)
    for name in "abcd":
        told.declare(name)
    told.bind("a", "b", to_exchange=True)
    told.bind("b", "c", to_exchange=True)
    with pytest.raises(ExchangeError, match="max_hops"):
        told.bind("c", "d", to_exchange=True)
    told.unbind("a", "b", to_exchange=True)
    told.bind("c", "d", to_exchange=True)
