"""What may become of a message is known before it comes: every queue that it can be routed to is among those that are reached."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.exchanges.delayed import WAITING, is_delayed, is_waiting_queue
from actors.exchanges.exchanges import Exchanges

INNER = ["direct", "fanout", "topic", "headers"]
NAMES = st.sampled_from("xyz")
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("declare"), NAMES, st.sampled_from([*INNER, *(f"x-delayed-{kind}" for kind in INNER)]), NAMES
        ),
        st.tuples(st.just("bind"), NAMES, st.sampled_from("abc"), st.sampled_from(["", "k", "#"])),
        st.tuples(st.just("join"), NAMES, NAMES, st.just("k")),
        st.tuples(st.just("delete"), NAMES, st.just(""), st.just("")),
    ),
    max_size=20,
)


@given(STEPS, NAMES, st.sampled_from(["", "k", "l"]), st.booleans())
def test_whatever_is_routed_was_reached_and_headers_matter_only_where_that_is_said(
    steps: list[tuple[str, str, str, str]], published: str, key: str, alternates: bool
) -> None:
    exchanges = Exchanges(lambda _: True)
    for kind, name, said, more in steps:
        inner = said.removeprefix("x-delayed-")
        what = said if inner == said else "x-delayed-message"
        there = exchanges.get(name) is not None
        if kind == "declare" and not there:
            arguments = {"alternate-exchange": more} if alternates else {}
            if what != said:
                arguments["x-delayed-type"] = inner
            events = exchanges.decide.declare(name, what, arguments=arguments)
        elif kind == "bind" and there:
            events = exchanges.decide.bind(name, what, more, {"h": "1"})
        elif kind == "join" and there and exchanges.get(what) is not None:
            events = exchanges.decide.bind(name, what, more, to_exchange=True)
        else:
            events = exchanges.decide.delete(name) if kind == "delete" else ()
        for event in events:
            exchanges.apply(event)
        # Asked before each change, what was known must not stay.
        exchanges.reached(published)
    reached = exchanges.reached(published)
    if exchanges.get(published) is None:
        assert reached == ((), False, False)
        return
    routes = [exchanges.route(published, (key,), headers) for headers in (None, {"h": "1"}, {"h": "2"}, {"x-delay": 1})]
    assert all(set(queues) <= set(reached.queues) for queues in routes)
    if not reached.by_headers:
        assert routes[0] == routes[1] == routes[2] == routes[3]
    waiting = [queue.removesuffix(WAITING) for queue in filter(is_waiting_queue, reached.queues)]
    assert reached.delays == bool(waiting)
    assert all(is_delayed(exchanges.get(name)) for name in waiting)


def test_through_the_default_exchange_nothing_is_known_before() -> None:
    exchanges = Exchanges(lambda _: True)
    assert exchanges.reached("") == ((), False, False)
