"""Whatever is asked of exchanges that cannot be has one clear error, costs little, and leaves all as it was."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.exchanges.errors import ExchangeError, ExchangeLimitError, InvalidDefinitionError, InvalidExchangeNameError
from actors.exchanges.limits import MAX_TABLE_DEPTH
from tests.actors.exchanges.told import Told


def told() -> Told:
    made = Told("q")
    made.declare("e", "topic")
    made.bind("e", "q", "k")
    return made


def refused(made: Told, command: str, *arguments: Any, **named: Any) -> ExchangeError:
    before = made.state(), made.exchanges.statistics()[:4]
    with pytest.raises(ExchangeError) as raised:
        getattr(made, command)(*arguments, **named)
    assert (made.state(), made.exchanges.statistics()[:4]) == before
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 1_000
    assert ": " in str(raised.value), "and behind the colon what to do"
    return raised.value


def nested(depth: int, inner: Any = 1) -> Any:
    """A value with so many arrays and tables in one another."""
    for level in range(depth):
        inner = [inner] if level % 2 else {"in": inner}
    return inner


def endless() -> list[Any]:
    array: list[Any] = []
    array.append(array)
    return array


@pytest.mark.parametrize("kind", ["", "x-consistent-hash", "Topic", "topic ", None, 3, ["topic"], "k" * 10_000])
def test_an_unknown_kind_is_refused_with_those_that_there_are(kind: Any) -> None:
    error = refused(told(), "declare", "f", kind)
    assert str(error).endswith("there are direct, fanout, topic, headers, x-delayed-message")


@pytest.mark.parametrize("name", ["a b", "a\n", "\ud800", "n" * 256, "é" * 128, None, 3, b"e", ["e"], "\u202e"])
def test_a_name_that_nothing_can_have_is_refused(name: Any) -> None:
    assert isinstance(refused(told(), "declare", name, "topic"), InvalidExchangeNameError)


@pytest.mark.parametrize("name", ["n" * 255, "é" * 127, "celery@host.pidbox", "a.b-c_d:e", "AMQ.x", "amqx"])
def test_a_name_of_255_bytes_and_those_that_programs_use_are_taken(name: str) -> None:
    made = told()
    made.declare(name)
    assert name in made.names()


@pytest.mark.parametrize("value", [1, None, b"e", ["e"], "a b", "n" * 256])
def test_an_alternate_that_is_no_name_is_refused(value: Any) -> None:
    refused(told(), "declare", "f", arguments={"alternate-exchange": value})


@pytest.mark.parametrize(
    "arguments",
    [
        3,
        "text",
        [("a", 1)],
        {1: "a"},
        {b"a": 1},
        {"n" * 256: 1},
        {"a": 2**64},
        {"a": -(2**63) - 1},
        {"a": object()},
        {"a": {1, 2}},
        {"a": 1j},
        {"a": "\ud800"},
        {"\ud800": 1},
        {"a": "v" * 20_000},
        {"a": b"v" * 20_000},
        {"a": [None] * 1_000_000},
        {f"a{number}": 1 for number in range(10_000)},
        {"a": nested(MAX_TABLE_DEPTH + 1)},
        {"a": nested(100_000)},
        {"a": endless()},
    ],
    ids=range(20),
)
def test_arguments_that_no_table_has_are_refused_wherever_they_are(arguments: Any) -> None:
    made = told()
    refused(made, "declare", "f", arguments=arguments)
    refused(made, "bind", "e", "q", "other", arguments)
    refused(made, "bind", "amq.headers", "q", "", arguments)
    refused(made, "unbind", "e", "q", "k", arguments)


def test_a_table_as_deep_as_may_be_is_taken_and_compared() -> None:
    made = told()
    deep = {"a": nested(MAX_TABLE_DEPTH, "v")}
    made.bind("amq.headers", "q", "", deep)
    assert made.route("amq.headers", "k", headers=deep) == ("q",)
    assert made.route("amq.headers", "k", headers={"a": nested(MAX_TABLE_DEPTH, "w")}) == ()


@pytest.mark.parametrize(
    "value", [nested(MAX_TABLE_DEPTH + 1), nested(100_000), endless(), object(), {1: 2}], ids=range(5)
)
def test_headers_that_cannot_be_compared_are_refused_by_every_exchange_that_looks_at_them(value: Any) -> None:
    made = told()
    made.declare("before", "fanout")
    made.bind("before", "amq.headers", to_exchange=True)
    for exchange in ("amq.headers", "before"):
        refused(made, "route", exchange, "k", headers={"other": value})
    assert made.route("e", "k", headers={"other": value}) == ("q",)


@pytest.mark.parametrize("how", ["none", "ALL", "", 1, None, b"all", ["all"]])
def test_a_binding_by_headers_says_all_or_any_or_is_refused(how: Any) -> None:
    made = told()
    error = refused(made, "bind", "amq.match", "q", "", {"x-match": how, "a": 1})
    assert str(error).endswith("it can be all, any, all-with-x, any-with-x")
    made.bind("e", "q", "", {"x-match": how})  # it means nothing to other kinds


@pytest.mark.parametrize("character", ["k", "é", "€", "𝄞", "."])
def test_keys_of_255_bytes_are_taken_and_of_256_refused(character: str) -> None:
    made = told()
    size = len(character.encode())
    longest = character * (255 // size) + "x" * (255 % size)
    made.bind("e", "q", longest)
    assert made.route("e", longest) == ("q",)
    assert made.route("", longest) == ()
    for error in (
        refused(made, "bind", "e", "q", longest + "x"),
        refused(made, "route", "e", longest + "x"),
        refused(made, "route", "e", "k", longest + "x"),
        refused(made, "route", "", longest + "x"),
        refused(made, "route", "amq.fanout", "x" * 10_000_000),
    ):
        assert isinstance(error, ExchangeLimitError)
        assert error.limit == "MAX_ROUTING_KEY_BYTES"


@pytest.mark.parametrize("key", [None, 1, b"k", "\ud800", "k" * 200 + "\ud800"])
def test_a_key_that_is_no_text_is_refused(key: Any) -> None:
    made = told()
    assert isinstance(refused(made, "bind", "e", "q", key), InvalidDefinitionError)
    assert isinstance(refused(made, "route", "e", key), InvalidDefinitionError)


@pytest.mark.parametrize(
    "ends",
    [
        ("f", "q", False),
        ("e", "r", False),
        ("e", "f", True),
        ("e", "e", False),
        ("e", "q", True),
        (None, "q", False),
        ("e", [], False),
    ],
)
def test_a_binding_needs_both_its_ends(ends: tuple[Any, Any, bool]) -> None:
    refused(told(), "bind", ends[0], ends[1], to_exchange=ends[2])


def test_a_million_bindings_are_refused_from_the_first_that_is_too_many_on() -> None:
    made = Told("q", max_bindings=1_000, max_exchange_bindings=600)
    for number in range(600):
        made.bind("amq.topic", "q", f"k.{number}")
    error = refused(made, "bind", "amq.topic", "q", "one more")
    assert str(error).startswith(
        "601 bindings of exchange 'amq.topic' exceed max_exchange_bindings of 600: delete some"
    )
    for number in range(400):
        made.bind("amq.direct", "q", f"k.{number}")
    assert getattr(refused(made, "bind", "amq.direct", "q", "one more"), "limit") == "max_bindings"  # noqa: B009
    before = made.exchanges.generation
    for number in range(20_000):
        with pytest.raises(ExchangeLimitError):
            made.exchanges.decide.bind("amq.topic", "q", f"more.{number}")
    assert made.exchanges.generation == before
    assert made.bind("amq.topic", "q", "k.1") == (), "one that is there is no more"
    made.unbind("amq.topic", "q", "k.1")
    made.bind("amq.topic", "q", "another")


def test_exchanges_and_the_bytes_of_all_definitions_have_a_bound() -> None:
    made = Told("q", max_exchanges=3, max_definition_bytes=8_000)
    for number in range(3):
        made.declare(f"e{number}")
    assert "4 exchanges exceed max_exchanges of 3" in str(refused(made, "declare", "e3"))
    assert made.declare("e1") == ()
    error = refused(made, "bind", "e1", "q", "k", {"a": "v" * 5_000})
    assert "max_definition_bytes" in str(error)
    made.delete("e0")
    assert "max_definition_bytes" in str(refused(made, "declare", "e3", arguments={"a": "v" * 5_000}))
    made.declare("e3")


def test_what_was_counted_is_given_back() -> None:
    made = told()
    before = made.exchanges.statistics().bytes
    made.declare("f", arguments={"alternate-exchange": "e", "a": [1, {"b": "é"}]})
    made.bind("e", "f", "key", {"a": [b"x", 1.5, None, True]}, to_exchange=True)
    assert made.exchanges.statistics().bytes > before + 2 * 1_024
    made.delete("f")
    assert made.exchanges.statistics().bytes == before


def test_a_circle_of_a_thousand_exchanges_is_refused_where_it_becomes_too_long() -> None:
    made = Told("q")
    names = [f"e{number}" for number in range(1_000)]
    for name in names:
        made.declare(name, "fanout")
        made.bind(name, "q")
    refusals = []
    for source, end in zip(names, names[1:] + names[:1], strict=True):
        try:
            made.bind(source, end, to_exchange=True)
        except ExchangeLimitError as error:
            refusals.append(error)
    assert all((error.limit, error.bound) == ("max_hops", 64) and error.size > 64 for error in refusals)
    assert len(refusals) == 1_000 // 65 + 1
    assert all(made.route(name, "k") == ("q",) for name in names)


def test_a_chain_of_alternates_is_refused_where_it_becomes_too_long_in_whatever_order_it_is_made() -> None:
    for order in (range(10), range(9, -1, -1), (5, 1, 9, 0, 3, 7, 2, 8, 4, 6)):
        made = Told("q", max_hops=5)
        refusals = 0
        for number in order:
            try:
                made.declare(f"e{number}", arguments={"alternate-exchange": f"e{number + 1}"})
            except ExchangeLimitError:
                refusals += 1
        assert refusals
        for name in made.names():
            assert made.route(name, "k") == ()


def test_a_way_that_became_too_long_by_an_unbinding_is_refused_to_the_message() -> None:
    made = Told("q", max_hops=4)
    for name in "abcde":
        made.declare(name, "fanout")
    made.bind("e", "q")
    for source, end in ("ab", "bc", "ac", "de", "cd"):
        made.bind(source, end, to_exchange=True)
    made.declare("f", "fanout")
    made.bind("f", "a", to_exchange=True)
    assert made.route("f", "k") == ("q",), "by f, a, c, d, e"
    made.unbind("a", "c", to_exchange=True)
    assert made.route("a", "k") == ("q",)
    assert "5 steps from exchange to exchange exceed max_hops of 4" in str(refused(made, "route", "f", "k"))


def test_a_circle_that_is_short_enough_is_taken_and_ends() -> None:
    made = Told("q", max_hops=7)
    for name in "abcd":
        made.declare(name, "fanout")
    for source, end in ("ab", "bc", "cd", "da"):
        made.bind(source, end, to_exchange=True)
    made.bind("d", "q")
    assert all(made.route(name, "k") == ("q",) for name in "abcd")


def test_a_message_to_more_queues_or_with_more_keys_than_may_be_is_refused() -> None:
    made = Told(*[f"q{number}" for number in range(6)], max_destinations=5, max_routing_keys=3)
    for number in range(5):
        made.bind("amq.fanout", f"q{number}")
        made.bind("amq.headers", f"q{number}")
    assert len(made.route("amq.fanout", "k")) == 5
    made.bind("amq.fanout", "q5")
    made.bind("amq.headers", "q5")
    assert "6 queues of one message exceed max_destinations of 5" in str(refused(made, "route", "amq.fanout", "k"))
    refused(made, "route", "amq.headers", "k")
    assert len(made.route("amq.direct", "k", "l", "m")) == 0
    assert "4 routing keys" in str(refused(made, "route", "amq.direct", "k", "l", "m", "n"))


ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3),
    max_leaves=12,
)
NAMES = st.sampled_from(["e", "q", "", "amq.headers", "amq.topic", "amq.x"]) | ANYTHING


@given(st.lists(st.tuples(NAMES, NAMES, ANYTHING, ANYTHING, st.booleans()), max_size=8))
def test_whatever_is_asked_is_done_or_refused(asked: list[tuple[Any, Any, Any, Any, bool]]) -> None:
    made = told()
    for source, end, key, arguments, flag in asked:
        for command, given_, named in (
            ("declare", (source, end), {"arguments": arguments}),
            ("declare", (source, "headers"), {"arguments": arguments, "auto_delete": flag}),
            ("bind", (source, end, key, arguments), {"to_exchange": flag}),
            ("unbind", (source, end, key, arguments), {"to_exchange": flag}),
            ("delete", (source,), {"if_unused": flag}),
            ("route", (str(source), str(key)), {"headers": arguments, "outside": flag}),
        ):
            before = made.state()
            try:
                getattr(made, command)(*given_, **named)
            except ExchangeError:
                assert made.state() == before
