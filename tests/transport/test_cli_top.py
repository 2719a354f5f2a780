"""`penstock top` without a terminal: what keys do, what is drawn on screens of any size, and what a pipe gets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from streams.testkit import run_in_virtual_time
from transport.cli import _top_screen, _top_sources
from transport.cli._tables import cell_len
from transport.cli._top_keys import NAMED, keys_of
from transport.cli._top_lines import changed_lines
from transport.cli._top_looks import Looks, PartyRates, Seen
from transport.cli._top_screen import screen
from transport.cli._top_sources import HttpPictures, NativePictures, Pictures
from transport.cli._top_state import CONNECTIONS, FLOW, HELP, LIST, State
from transport.cli.app import app
from transport.cli.top import ORDERS as KNOWN
from transport.clients.picture import checked
from transport.errors import ConnectionLostError, LocalProtocolError, RemoteProtocolError
from transport.picture.ordered import ORDERS
from transport.security.access import Access


def row(name: str, **facts: Any) -> dict[str, Any]:
    return {
        "name": name,
        "pressure": "idle",
        "sentence": f"queue {name} is idle and empty",
        "ready": 0,
        "held": 0,
        "came": 0.0,
        "went": 0.0,
        **facts,
    }


def party(client: str, **facts: Any) -> dict[str, Any]:
    return {"id": 1, "role": "sender", "client": client, "messages": 0, "held": 0, "demand": 0, "waits": False, **facts}


def picture(*names: str, flow: str | None = None, **facts: Any) -> Any:
    totals = {"ready": 0, "held": 0, "stored_messages": 0, "stored_bytes": 0, "came": 0.0, "went": 0.0}
    shown = None
    if flow is not None:
        shown = row(flow) | {
            "senders": [party("till-1")],
            "receivers": [party("packer", role="receiver", id=2)],
            "all_senders": 1,
            "all_receivers": 1,
        }
    return {
        "round": 1,
        "totals": totals | {"queues": len(names), "connections": 2},
        "matching": len(names),
        "queues": [row(name) for name in names],
        "flow": shown,
    } | facts


def state_of(*names: str, keys: str = "", flow: str | None = None) -> State:
    state = State()
    state.see(Seen(picture(*names, flow=flow)))
    for key in keys:
        state.press(key)
    return state


def text_of(state: State, width: int = 80, height: int = 24) -> list[str]:
    return [line.plain.rstrip() for line in screen(state, "127.0.0.1:9182", width, height)]


def test_the_orders_are_those_of_the_broker() -> None:
    assert tuple(ORDERS) == KNOWN


@pytest.mark.parametrize(("key", "order"), [("p", "pressure"), ("r", "rate"), ("b", "backlog"), ("n", "name")])
def test_a_key_changes_the_order(key: str, order: str) -> None:
    assert state_of("a", keys=key).wanted.order == order


def test_the_selection_goes_up_and_down_and_stays_in_the_list() -> None:
    state = state_of(*"abcde")
    assert state.selected == "a"
    for key, expected in [("j", "b"), ("down", "c"), ("k", "b"), ("G", "e"), ("j", "e"), ("g", "a"), ("up", "a")]:
        state.press(key)
        assert state.selected == expected
    state.press("page down")
    assert state.selected == "e"


def test_the_selected_queue_stays_selected_where_the_order_changes_and_its_place_where_it_is_gone() -> None:
    state = state_of(*"abc", keys="j")
    state.see(Seen(picture(*"cab")))
    assert (state.selected, state.place) == ("b", 2)
    state.see(Seen(picture(*"ca")))
    assert (state.selected, state.place) == ("a", 1)
    state.see(Seen(picture()))
    assert state.selected is None
    state.press("enter")
    assert state.view == LIST


def test_a_filter_is_typed_and_kept_or_taken_back() -> None:
    state = state_of("a", keys="/qo")
    assert (state.editing, state.contains, state.ended) == (True, "qo", False)
    state.press("erase")
    state.press("enter")
    assert (state.editing, state.wanted.contains) == (False, "q")
    for key in ("/", "x", "back"):
        state.press(key)
    assert (state.editing, state.contains) == (False, "q")
    state.press("back")
    assert state.contains == ""
    state.press("q")
    assert state.ended


def test_of_a_filter_that_is_longer_than_the_screen_its_end_is_shown_however_wide_its_letters_are() -> None:
    for letter, shown in (("x", 38), ("\u6f22", 19)):
        state = state_of("a", keys="/" + letter * 60)
        assert text_of(state, 40)[-1] == "\u2026" + letter * shown + "_"


def test_pages_are_gone_to_and_left() -> None:
    state = state_of("a", flow="a")
    for key, view in [("enter", FLOW), ("enter", LIST), ("c", CONNECTIONS), ("c", LIST), ("h", HELP), ("?", LIST)]:
        state.press(key)
        assert state.view == view
    state.press("c")
    assert state.wanted.connections
    state.press("back")
    assert state.view == LIST


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        ("jk", ["j", "k"]),
        ("\x1b[A\x1bOBq", ["up", "down", "q"]),
        ("\x1b", ["back"]),
        ("\r\x7f/é", ["enter", "erase", "/", "é"]),
        ("\x1b[1;5Cj\x1b[24~k", ["j", "k"]),
        ("\x1b[6~\x1b[5~", ["page down", "page up"]),
        ("\x1b[", []),
        ("\x00\x01", []),
    ],
)
def test_what_a_terminal_sends_becomes_keys(sent: str, keys: list[str]) -> None:
    assert keys_of(sent) == keys


@given(st.lists(st.sampled_from([*"\x1b[O~ABCjkq/;0159\r\x7f\x00é", *NAMED])))
def test_whatever_a_terminal_sends_there_is_an_end_to_it(sent: list[str]) -> None:
    state = state_of("a", "b", flow="a")
    for key in keys_of("".join(sent)):
        state.press(key)
    assert len(text_of(state)) == 24


@given(
    st.lists(st.text(min_size=1, max_size=300), max_size=40, unique=True),
    st.integers(1, 200),
    st.integers(1, 60),
    st.sampled_from(["", "enter", "c", "h", "/", "G"]),
    st.booleans(),
    st.none() | st.text(max_size=70),
)
def test_a_screen_is_filled_and_never_left_whatever_names_there_are(
    names: list[str], width: int, height: int, key: str, lost: bool, node: str | None
) -> None:
    state = state_of(*names, flow=names[0] if names else None)
    if key:
        state.press(key)
    cluster = None if node is None else clustered(node=node, worst=node, in_step=0)
    state.see(
        Seen(
            picture(*names, flow=state.selected, cluster=cluster),
            [{"client_id": name, "queue": name} for name in names],
        )
    )
    if lost:
        state.see(Seen(None, lost="no broker\n\x1b[2J"))
    lines = screen(state, "127.0.0.1:9182", width, height)
    assert len(lines) == height
    for line in lines:
        assert cell_len(line.plain) <= width
        assert line.plain.isprintable()


class Told(Pictures):
    """A broker that notes when it is asked for what."""

    where = "here"

    def __init__(self, fails: int | None = None) -> None:
        self.asked: list[tuple[float, int]] = []
        self._fails = fails

    async def picture(self, wanted: Mapping[str, Any]) -> Any:
        self.asked.append((round(asyncio.get_running_loop().time(), 3), wanted["limit"]))
        if len(self.asked) - 1 == self._fails:
            raise ConnectionLostError("gone")
        return picture("a")

    async def connections(self) -> list[dict[str, Any]]:
        return []

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("interval", "fails", "asked"),
    [
        (4.0, None, [(0, 200), (4, 200), (8, 200)]),
        (10.0, None, [(0, 200), (8.5, 1), (10, 200), (18.5, 1), (20, 200)]),
        (10.0, 1, [(0, 200), (8.5, 1), (10, 200), (18.5, 1), (20, 200)]),
    ],
)
def test_who_looks_seldom_has_the_broker_begin_before_each_look_so_that_there_are_rates(
    interval: float, fails: int | None, asked: list[tuple[float, int]]
) -> None:
    async def main() -> None:
        told = Told(fails)
        began = asyncio.get_running_loop().time()
        seen = [each async for each in Looks(told, interval, 3).all()]
        assert [each.lost for each in seen] == [None] * 3
        assert [(at - began, limit) for at, limit in told.asked] == [pytest.approx(each, abs=0.01) for each in asked]

    run_in_virtual_time(main())


def test_a_hundred_clients_with_long_names_take_no_longer_than_to_read_them_a_few_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = picture("a", flow="a")
    seen["flow"]["senders"] = [party("\u6f22" * 255, id=number) for number in range(100)]
    measured = 0

    def counted(text: str) -> int:
        nonlocal measured
        measured += len(text)
        return cell_len(text)

    monkeypatch.setattr(_top_screen, "cell_len", counted)
    state = State(selected="a")
    state.see(Seen(seen))
    lines = [line.plain for line in screen(state, "127.0.0.1:9182", 80, 24)]
    assert lines[-3].startswith("1 sender: \u6f22\u6f22")
    assert lines[-3].endswith("\u2026")
    assert measured < 4 * 100 * 255


def test_of_very_many_connections_as_many_are_drawn_as_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    state = State(view=CONNECTIONS)
    seen = picture("a")
    seen["totals"]["connections"] = 5000
    state.see(Seen(seen, [{"id": number, "client_id": None} for number in range(3000)]))
    drawn = []
    row_of = _top_screen._row
    monkeypatch.setattr(_top_screen, "_row", lambda *given: drawn.append(given) or row_of(*given))
    lines = text_of(state)
    assert lines[3] == "5,000 connections"
    assert lines[-2].startswith("#17")
    assert len(drawn) == 18


def test_the_list_shows_the_selected_queue_wherever_it_is() -> None:
    names = [f"q{number:03}" for number in range(100)]
    state = state_of(*names)
    for key in ("G", *"kkk"):
        state.press(key)
    assert any(line.startswith("q096") for line in text_of(state))
    state.press("g")
    assert any(line.startswith("q000") for line in text_of(state))


def test_why_nothing_newer_is_seen_stands_above_what_was_seen_last() -> None:
    state = state_of("orders")
    state.see(Seen(None, lost="no broker at 127.0.0.1:9182"))
    lines = text_of(state)
    assert lines[2] == "trying again: no broker at 127.0.0.1:9182"
    assert any(line.startswith("orders") for line in lines)
    state.see(Seen(picture("orders")))
    assert text_of(state)[2] == ""


def clustered(**facts: Any) -> dict[str, Any]:
    lag = {"worst": None, "lag_records": 0, "lag_bytes": 0, "lag_s": 0.0}
    return {"node": "a", "role": "leader", "epoch": 3, "members": 3, "in_step": 3} | lag | facts


@pytest.mark.parametrize(
    ("facts", "line", "style"),
    [
        ({}, "node a: leader, epoch 3, 3 of 3 in step", ""),
        (
            {"in_step": 2, "worst": "c", "lag_records": 1_200, "lag_bytes": 3 * 2**20, "lag_s": 4.5},
            "node a: leader, epoch 3, 2 of 3 in step, c behind 1,200 records, 3 MiB, 4.5 s",
            "yellow",
        ),
        (
            {"role": "closing", "in_step": None, "lag_records": None},
            "node a: closing, epoch 3, 3 members",
            "",
        ),
    ],
)
def test_of_a_broker_in_a_cluster_a_line_says_what_it_is_and_who_is_furthest_behind(
    facts: dict[str, Any], line: str, style: str
) -> None:
    state = State()
    state.see(Seen(picture("orders", cluster=clustered(**facts))))
    drawn = screen(state, "127.0.0.1:9182", 80, 24)
    assert (drawn[2].plain, drawn[2].style) == (line, style)
    state.see(Seen(None, lost="no broker at 127.0.0.1:9182"))
    assert text_of(state)[3] == "trying again: no broker at 127.0.0.1:9182"


@pytest.mark.parametrize("facts", [{}, {"cluster": None}])
def test_of_a_broker_that_is_alone_no_line_speaks_of_a_cluster(facts: dict[str, Any]) -> None:
    state = State()
    state.see(Seen(picture("orders", **facts)))
    assert text_of(state)[2:4] == ["", "1 queue, by pressure"]


def test_a_line_is_written_for_a_queue_that_is_other_than_before() -> None:
    first, second = row("a", ready=1), row("b")
    assert changed_lines({}, [first, second], "12:00:00") == [  # type: ignore[list-item]  # rows of a picture
        "12:00:00  a  idle  ready 1  held 0  in 0/s  out 0/s  queue a is idle and empty",
        "12:00:00  b  idle  ready 0  held 0  in 0/s  out 0/s  queue b is idle and empty",
    ]
    before: Any = {"a": first, "b": second}
    assert changed_lines(before, [row("a", ready=1), row("b", came=2.5)], "12:00:01") == [  # type: ignore[list-item]  # as above
        "12:00:01  b  idle  ready 0  held 0  in 2.5/s  out 0/s  queue b is idle and empty"
    ]


def test_who_has_no_connection_of_its_own_has_the_rate_of_all_of_them_and_none_where_nothing_moves() -> None:
    rates = PartyRates()

    def after(now: float, *messages: int) -> list[float]:
        senders = [{"id": None, "role": "sender", "client": "", "messages": each} for each in messages]
        found: Any = {"flow": {"name": "orders", "senders": senders, "receivers": []}}
        rates.add(found, now)
        return [each["rate"] for each in senders]

    assert after(0.0, 7, 100) == [0.0, 0.0]
    assert after(1.0, 100, 7) == [0.0, 0.0]
    assert after(2.0, 110, 12) == [15.0, 0.0]


def test_rates_of_parties_are_from_one_picture_to_the_next_of_the_same_queue() -> None:
    rates = PartyRates()

    def seen(queue: str | None, messages: int, now: float) -> Any:
        found = picture("a", flow=queue)
        if found["flow"] is not None:
            found["flow"]["senders"][0]["messages"] = messages
        rates.add(found, now)
        return None if found["flow"] is None else found["flow"]["senders"][0]["rate"]

    assert seen("a", 10, 1.0) == 0
    assert seen("a", 14, 3.0) == 2
    assert seen("a", 3, 4.0) == 0
    assert seen("b", 9, 5.0) == 0
    assert seen(None, 0, 6.0) is None
    assert seen("b", 20, 7.0) == 0


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        {},
        {"totals": {}, "matching": 1, "queues": [{}], "flow": None},
        {"totals": {}, "matching": 1, "queues": [], "flow": {"senders": 1}},
        {"totals": [], "matching": 1, "queues": [], "flow": None},
        {"totals": {}, "matching": 1, "queues": [], "flow": None, "cluster": "a"},
    ],
)
def test_an_answer_of_another_shape_is_refused(answer: Any) -> None:
    with pytest.raises(RemoteProtocolError, match="something else"):
        checked(answer)
    assert checked(json.loads(json.dumps(picture("a", flow="a"))))["matching"] == 1


@pytest.mark.parametrize("breaks", ["picture", "connections"])
def test_behind_a_connection_that_broke_the_next_question_has_one_of_its_own(
    run: Any, monkeypatch: pytest.MonkeyPatch, breaks: str
) -> None:
    made: list[Any] = []

    class Client:
        def __init__(self, _address: str, **_options: Any) -> None:
            made.append(self)
            self.closed = False

        async def __aenter__(self) -> None:
            pass

        async def close(self) -> None:
            self.closed = True

        async def picture(self) -> Any:
            return self._answer("picture")

        async def connections(self) -> Any:
            return self._answer("connections")

        def _answer(self, what: str) -> str:
            if what == breaks and self is made[0]:
                raise ConnectionLostError("gone")
            return what

    monkeypatch.setattr(_top_sources, "Administration", Client)

    async def main() -> None:
        pictures = NativePictures("127.0.0.1:1", Access(), 1.0)
        with pytest.raises(ConnectionLostError):
            await (pictures.picture({}) if breaks == "picture" else pictures.connections())
        assert made[0].closed
        answers: list[Any] = [await pictures.picture({}), await pictures.connections()]
        assert answers == ["picture", "connections"]
        assert len(made) == 2

    run(main)


def test_over_http_a_secret_does_not_go_over_a_network_in_the_clear() -> None:
    known = Access(user="ann", password="a long password")
    with pytest.raises(LocalProtocolError, match=r"not sent in the clear to broker\.example"):
        HttpPictures("http://broker.example:9180", known, 1.0)
    assert HttpPictures("http://127.0.0.1:9180/", known, 1.0).where == "http://127.0.0.1:9180"
    assert HttpPictures("https://broker.example", known, 1.0).where == "https://broker.example"
    for url in ("ftp://a", "broker", "http://", "http://a:b@c", "http://a:99999", "http://a/?x=1"):
        with pytest.raises(LocalProtocolError, match="is no address"):
            HttpPictures(url, Access(), 1.0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--sort", "size"], "there are pressure, rate, backlog, name"),
        (["--count", "0"], "--count"),
        (["--interval", "0"], "--interval"),
        (["--queue", ""], "--queue"),
        (["--http", "nothing"], "is no address"),
        (["--http", "http://127.0.0.1:1", "--address", "127.0.0.1:1"], "exclude one another"),
    ],
)
def test_wrong_use_is_told_in_a_line(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(app, ["top", *arguments])
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_answer_that_is_nested_too_deeply_is_no_json(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HttpPictures, "_got", lambda *_: (200, b"[" * 100_000))

    async def main() -> None:
        pictures = HttpPictures.__new__(HttpPictures)
        pictures.where, pictures._worker = "http://127.0.0.1:9180", None
        try:
            with pytest.raises(RemoteProtocolError, match="and no JSON"):
                await pictures.connections()
        finally:
            await pictures.close()

    run(main)
