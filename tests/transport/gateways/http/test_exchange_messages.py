"""Publishing to exchanges over HTTP: what is answered is in every queue that it went to, and what no queue took is told."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from actors.queue.exchange_publishing import ExchangePublishing
from tests.actors.stored_queues import turns
from transport.broker import exchange_requests
from transport.broker.exchange_requests import MAX_KEYS
from transport.gateways.http import requests
from transport.security.principal import Grant, Right
from transport.security.users import User, Users
from transport.security.users_file import change_users
from transport.security.verifier import LEAST_ITERATIONS, Verifier

MENU = "/api/v1/exchanges/menu/messages"
DEFAULT = "/api/v1/exchanges/amq.default/messages"

pytestmark = pytest.mark.event_loop


@pytest.fixture(params=["in memory", "on disk"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    return {} if request.param == "in memory" else {"directory": str(tmp_path / "data")}


async def menu(http: Any, kind: str = "topic", /, **bound: str) -> None:
    """An exchange, and queues that are bound to it, each by its key."""
    assert (await http.ask("PUT", "/api/v1/exchanges/menu", {"kind": kind}))[0] == 201
    for queue, key in bound.items():
        assert (await http.ask("POST", "/api/v1/queues", {"name": queue}))[0] in (201, 409)
        binding = {"source": "menu", "destination": queue, "key": key}
        assert (await http.ask("POST", "/api/v1/bindings", binding))[0] == 201


async def queue(http: Any, name: str, **settings: Any) -> None:
    assert (await http.ask("POST", "/api/v1/queues", {"name": name, **settings}))[0] == 201


def messages(*payloads: str, key: str | None = None) -> dict[str, Any]:
    return {"messages": [{"payload": each} | ({} if key is None else {"key": key}) for each in payloads]}


async def taken(http: Any, name: str) -> list[str]:
    return [each["payload"] for each in await http.take(name, messages=1000)]


async def ready(http: Any, *names: str) -> list[int]:
    return [(await http.queue(name))["ready"] for name in names]


def test_a_message_goes_to_every_queue_that_its_key_leads_to_and_says_where_it_was_published(
    run: Any, api: Any, stored: dict[str, Any]
) -> None:
    async def main() -> None:
        async with api(**stored) as http:
            await menu(http, hot="*.hot", all="#")
            sent = [{"payload": "soup", "key": "soup.hot"}, {"payload": "ice", "key": "ice.cold"}, {"payload": "tea"}]
            path = f"{MENU}?routing_key=tea.hot"
            assert await http.ask("POST", path, {"messages": sent}) == (201, {"published": 3})
            assert await http.ask("POST", MENU, {"payload": "one", "key": "a.hot"}) == (201, {"published": 1})
            for name, payloads in (("hot", ["soup", "tea", "one"]), ("all", ["soup", "ice", "tea", "one"])):
                found = await http.take(name)
                assert [each["payload"] for each in found] == payloads
                keys = {"soup": "soup.hot", "ice": "ice.cold", "tea": "tea.hot", "one": "a.hot"}
                assert {each["payload"]: each["routing_key"] for each in found}.items() <= keys.items()
                assert {each["exchange"] for each in found} == {"menu"}
                assert [each.get("key") for each in found if each["payload"] == "tea"] == [None]

    run(main)


def test_a_message_that_says_a_routing_key_and_no_key_is_published_by_that(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            await menu(http, hot="*.hot")
            sent = [
                {"payload": "soup", "routing_key": "soup.hot"},
                {"payload": "ice", "key": "a", "routing_key": "b.hot"},
            ]
            path = f"{MENU}?mandatory=true&routing_key=other"
            status, answer = await http.ask("POST", path, {"messages": sent})
            assert (status, answer["returned"]) == (200, [1])
            assert await taken(http, "hot") == ["soup"]

    run(main)


def test_what_was_answered_is_there_after_the_broker_is_started_anew(run: Any, api: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with api(directory=str(tmp_path / "data")) as http:
            await menu(http, hot="#", all="#")
            assert (await http.ask("POST", MENU, messages("a", "b")))[0] == 201
        async with api(directory=str(tmp_path / "data")) as http:
            assert [await taken(http, name) for name in ("hot", "all")] == [["a", "b"], ["a", "b"]]

    run(main)


def test_bytes_of_any_type_are_one_message_with_its_key_and_times(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            await menu(http, "direct", hot="soup", cold="ice")
            for query, payload in (("key=soup", b"\x00\xff"), ("routing_key=soup&delay=1h", b"later")):
                headers = {"Content-Type": "application/octet-stream"}
                async with http.session.post(f"{MENU}?{query}", data=payload, headers=headers) as answer:
                    assert (answer.status, await answer.json()) == (201, {"published": 1})
            (found,) = await http.take("hot")
            assert (found["payload_base64"], found["key"]) == (b64encode(b"\x00\xff").decode(), "soup")
            assert (await http.queue("hot"))["delayed"] == 1
            assert await ready(http, "cold") == [0]

    run(main)


def test_who_wants_to_know_is_told_which_messages_no_queue_took_and_why(
    run: Any, api: Any, stored: dict[str, Any]
) -> None:
    async def main() -> None:
        async with api(**stored) as http:
            await menu(http, hot="*.hot")
            keys = ("a.hot", "b.cold", "c.cold", "d.hot", "e.cold")
            sent = {"messages": [{"payload": key, "key": key, "delay": n % 2} for n, key in enumerate(keys)]}
            status, answer = await http.ask("POST", f"{MENU}?mandatory=true", sent)
            assert (status, answer["published"], answer["returned"]) == (200, 5, [1, 2, 4])
            assert answer["reason"] == "no queue is bound to exchange 'menu' that takes the routing key 'b.cold'"
            assert await http.ask("POST", f"{MENU}?mandatory=true", {"payload": "f", "key": "f.hot"}) == (
                201,
                {"published": 1, "returned": []},
            )
            assert await http.ask("POST", MENU, {"payload": "g", "key": "g.cold"}) == (201, {"published": 1})
            row = (await http.ask("GET", "/api/v1/exchanges/menu"))[1]
            assert (row["published"], row["unroutable"], row["returned"]) == (7, 4, 3)
            status, answer = await http.ask("POST", f"{DEFAULT}?mandatory=true", {"payload": "h", "key": "nobody"})
            assert (status, answer["returned"], "there is no queue 'nobody'" in answer["reason"]) == (200, [0], True)

    run(main)


def test_headers_decide_at_a_headers_exchange(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            await queue(http, "teas")
            binding = {"source": "amq.headers", "destination": "teas", "arguments": {"kind": "tea"}}
            assert (await http.ask("POST", "/api/v1/bindings", binding))[0] == 201
            sent = [{"payload": kind, "headers": {"kind": kind}} for kind in ("tea", "ale")]
            path = "/api/v1/exchanges/amq.headers/messages?mandatory=true"
            status, answer = await http.ask("POST", path, {"messages": sent})
            assert (status, answer["returned"]) == (200, [1])
            assert await taken(http, "teas") == ["tea"]

    run(main)


def test_the_fullest_queue_holds_a_request_back_and_no_queue_does_that_it_does_not_go_to(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            await queue(http, "full", max_messages=1)
            await menu(http, "direct", full="a", free="a", other="b")
            for path in (MENU, DEFAULT):
                key = "a" if path == MENU else "full"
                assert (await http.ask("POST", path, {"payload": "1", "key": key}))[0] == 201
                async with http.session.post(f"{path}?wait=20ms", json={"payload": "2", "key": key}) as answer:
                    problem = await answer.json(content_type="application/problem+json")
                    assert (answer.status, answer.headers["Retry-After"], problem["code"]) == (503, "1", "queue-full")
                    assert "queue full is full (1 of 1 messages)" in problem["detail"]
                    assert problem["stored"] == 0
                mixed = [{"payload": "3", "key": "b" if path == MENU else "other"}, {"payload": "3", "key": key}]
                assert (await http.ask("POST", path, {"messages": mixed}))[0] == 503
                assert (await http.ask("POST", path, mixed[0]))[0] == 201
                waiting = asyncio.create_task(http.ask("POST", f"{path}?wait=30s", {"payload": "4", "key": key}))
                (first,) = await http.take("full")
                await http.settle("acknowledge", first["receipt"], queue="full")
                assert await waiting == (201, {"published": 1})
                (second,) = await http.take("full")
                assert second["payload"] == "4"
                await http.settle("acknowledge", second["receipt"], queue="full")
            assert await taken(http, "free") == ["1", "4"]
            assert await ready(http, "full", "other") == [0, 2]

    run(main)


def test_many_messages_are_published_in_parts_in_their_order_as_queues_have_room_for_them(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            await queue(http, "small", max_messages=1000)
            await menu(http, small="#", large="#")
            payloads = [f"{n}" for n in range(900)]
            assert (await http.ask("POST", MENU, messages(*payloads)))[0] == 201
            assert [await taken(http, name) for name in ("small", "large")] == [payloads, payloads]
            status, problem = await http.ask("POST", MENU, messages(*payloads))
            assert (status, problem["code"]) == (503, "queue-full")
            assert 0 < problem["stored"] <= 100
            assert await taken(http, "small") == payloads[: problem["stored"]]
            assert await taken(http, "large") == payloads[: problem["stored"]]

    run(main)


def test_a_queue_that_rejects_refuses_the_request_and_what_the_others_have_stays_theirs(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            await queue(http, "picky", max_messages=2, overflow="reject")
            await menu(http, "direct", picky="a", other="a")
            assert (await http.ask("POST", MENU, messages("1", "2", key="a")))[0] == 201
            status, problem = await http.ask("POST", f"{MENU}?mandatory=true", messages("3", key="a"))
            assert (status, problem["code"], problem["stored"]) == (503, "queue-full", 0)
            assert problem["returned"] == []
            assert "picky" in problem["detail"]
            assert await ready(http, "picky", "other") == [2, 3]
            # It is one request's business: the next is judged by itself.
            first = (await http.take("picky"))[0]
            await http.settle("acknowledge", first["receipt"], queue="picky")
            assert (await http.ask("POST", MENU, messages("4", key="a")))[0] == 201

    run(main)


LONG = "k" * 256


@pytest.mark.parametrize(
    ("path", "body", "status", "code", "text"),
    [
        ("none/messages", {"payload": "a"}, 404, "not-found", "no exchange 'none'"),
        ("inner/messages", {"payload": "a"}, 403, "forbidden", "internal"),
        ("a%20b/messages", {"payload": "a"}, 400, "invalid-name", "exchange name 'a b'"),
        ("menu/messages?mandatory=yes", {"payload": "a"}, 400, "protocol-error", "mandatory"),
        ("menu/messages?wait=2h", {"payload": "a"}, 400, "protocol-error", "wait"),
        (f"menu/messages?routing_key={LONG}", {"payload": "a"}, 400, "protocol-error", "256 bytes exceeds 255"),
        ("menu/messages", {"payload": "a", "key": LONG}, 400, "protocol-error", "256 bytes exceeds 255"),
        ("amq.headers/messages", {"payload": "a", "key": LONG}, 400, "protocol-error", "256 bytes exceeds 255"),
        ("menu/messages", {"payload": "a", "kee": "b"}, 400, "protocol-error", "'kee' is no field"),
        ("menu/messages", {"messages": []}, 400, "protocol-error", "no list of 1 to"),
        ("menu/messages", [], 400, "protocol-error", "no JSON object"),
    ],
)
def test_what_cannot_be_published_is_refused_and_nothing_is_stored(
    run: Any, api: Any, path: str, body: Any, status: int, code: str, text: str
) -> None:
    async def main() -> None:
        async with api() as http:
            await menu(http, all="#")
            await http.ask("PUT", "/api/v1/exchanges/inner", {"kind": "fanout", "internal": True})
            answered, problem = await http.ask("POST", f"/api/v1/exchanges/{path}", body)
            assert (answered, problem["code"], text in problem["detail"]) == (status, code, True), problem
            assert await ready(http, "all") == [0]

    run(main)


def test_a_request_has_so_many_different_keys_and_no_more(run: Any, api: Any) -> None:
    def keyed(keys: int) -> dict[str, Any]:
        return {"messages": [{"payload": "x", "key": f"k{n % keys}"} for n in range(MAX_KEYS + 1)]}

    async def main() -> None:
        async with api() as http:
            await menu(http, all="#")
            status, problem = await http.ask("POST", MENU, keyed(MAX_KEYS + 1))
            assert (status, problem["code"]) == (400, "protocol-error")
            assert f"{MAX_KEYS + 1} different routing keys exceed the {MAX_KEYS}" in problem["detail"]
            assert await http.ask("POST", MENU, keyed(MAX_KEYS)) == (201, {"published": MAX_KEYS + 1})
            assert await ready(http, "all") == [MAX_KEYS + 1]

    run(main)


def test_it_takes_the_right_to_write_to_the_exchange_and_none_on_queues(
    run: Any, api: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proof = Verifier.of("secret", LEAST_ITERATIONS)

    def user(name: str, *grants: Grant, broker: Right = Right.NONE) -> User:
        return User(name, proof, broker, grants)

    users = Users(
        [
            user("admin", Grant("*", Right.CONFIGURE | Right.WRITE | Right.READ), broker=Right.MONITOR),
            user("cook", Grant("menu", Right.WRITE)),
            user("guest", Grant("menu", Right.READ), Grant("all", Right.WRITE | Right.READ)),
        ]
    )

    def as_(name: str) -> dict[str, Any]:
        return {"headers": {"Authorization": f"Basic {b64encode(f'{name}:secret'.encode()).decode()}"}}

    async def main() -> None:
        change_users(tmp_path / "users.toml", lambda _: users)
        async with api(users_file=str(tmp_path / "users.toml")) as http:
            await http.ask("PUT", "/api/v1/exchanges/menu", {"kind": "topic"}, **as_("admin"))
            await http.ask("POST", "/api/v1/queues", {"name": "all"}, **as_("admin"))
            binding = {"source": "menu", "destination": "all", "key": "#"}
            assert (await http.ask("POST", "/api/v1/bindings", binding, **as_("admin")))[0] == 201
            assert (await http.ask("POST", MENU, {"payload": "a"}, **as_("cook")))[0] == 201
            with monkeypatch.context() as patched:
                patched.setattr(requests, "body_of", lambda *_: pytest.fail("what one may not publish was read"))
                for path, name in ((MENU, "guest"), (DEFAULT, "cook"), ("/api/v1/exchanges/none/messages", "cook")):
                    status, problem = await http.ask("POST", path, {"payload": "a"}, **as_(name))
                    assert (status, problem["code"]) == (403, "forbidden"), name
                    assert "may not write the exchange" in problem["detail"]
            assert (await http.ask("POST", MENU, {"payload": "a"}))[0] == 401
            row = await http.ask("GET", "/api/v1/queues/all", **as_("admin"))
            assert row[1]["ready"] == 1

    run(main)


def test_who_goes_away_while_waiting_has_published_nothing_and_holds_no_room(run: Any, api: Any, until: Any) -> None:
    async def main() -> None:
        async with api() as http:
            await queue(http, "full", max_messages=1)
            await menu(http, full="#", free="#")
            assert (await http.ask("POST", MENU, {"payload": "1"}))[0] == 201
            waiting = [asyncio.create_task(http.ask("POST", f"{MENU}?wait=30s", {"payload": "2"})) for _ in range(5)]
            requests_there = http.broker._publishers.to_exchanges
            await until(lambda: len(requests_there._requests) == 5)
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            await until(lambda: not requests_there._requests)
            assert requests_there._bytes == 0
            await turns()
            (first,) = await http.take("full")
            await http.settle("acknowledge", first["receipt"], queue="full")
            assert (await http.ask("POST", MENU, {"payload": "3"}))[0] == 201
            rows = [await http.queue(name) for name in ("full", "free")]
            assert [row["capacity_granted"] for row in rows] == [0, 0]
            assert await taken(http, "free") == ["1", "3"]

    run(main)


def test_more_requests_or_bytes_than_may_wait_are_refused_at_once(
    run: Any, api: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with api() as http:
            await queue(http, "full", max_messages=1)
            await menu(http, full="#")
            assert (await http.ask("POST", MENU, {"payload": "1"}))[0] == 201
            waiting = asyncio.create_task(http.ask("POST", f"{MENU}?wait=30s", {"payload": "2"}))
            await until(lambda: len(http.broker._publishers.to_exchanges._requests) == 1)
            for limit in ("MAX_WAITING", "MAX_WAITING_BYTES"):
                with monkeypatch.context() as patched:
                    patched.setattr(exchange_requests, limit, 1)
                    status, problem = await http.ask("POST", MENU, {"payload": "3"})
                    assert (status, problem["code"]) == (429, "limit-exceeded"), limit
            (first,) = await http.take("full")
            await http.settle("acknowledge", first["receipt"], queue="full")
            assert (await waiting)[0] == 201

    run(main)


def test_an_exchange_or_a_queue_that_is_deleted_meanwhile_answers_who_waits(run: Any, api: Any, until: Any) -> None:
    async def main() -> None:
        async with api() as http:
            await queue(http, "full", max_messages=1)
            await menu(http, full="#", free="#")
            assert (await http.ask("POST", MENU, {"payload": "1"}))[0] == 201
            there = http.broker._publishers.to_exchanges._requests
            waiting = asyncio.create_task(http.ask("POST", f"{MENU}?wait=30s", {"payload": "2"}))
            await until(lambda: len(there) == 1)
            await http.ask("DELETE", "/api/v1/queues/full")
            assert await waiting == (201, {"published": 1})
            assert await taken(http, "free") == ["1", "2"]
            await queue(http, "full", max_messages=1)
            binding = {"source": "menu", "destination": "full", "key": "#"}
            await http.ask("POST", "/api/v1/bindings", binding)
            assert (await http.ask("POST", MENU, {"payload": "3"}))[0] == 201
            waiting = asyncio.create_task(http.ask("POST", f"{MENU}?wait=30s", {"payload": "4"}))
            await until(lambda: len(there) == 1)
            await http.ask("DELETE", "/api/v1/exchanges/menu")
            status, problem = await waiting
            assert (status, problem["code"], "'menu'" in problem["detail"]) == (404, "not-found", True)

    run(main)


def test_a_request_that_no_queue_answers_for_is_answered_in_time(
    run: Any, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with api() as http:
            await menu(http, all="#")
            with monkeypatch.context() as patched:
                patched.setattr(exchange_requests, "ANSWER_SECONDS", 0.05)
                patched.setattr(ExchangePublishing, "_tell", lambda *_: None)
                status, problem = await http.ask("POST", MENU, {"payload": "1"})
                assert (status, problem["code"], problem["stored"]) == (504, "timeout", 0)
            assert not http.broker._publishers.to_exchanges._requests

    run(main)


def test_a_broker_that_drains_answers_who_waits_for_room(run: Any, api: Any, until: Any) -> None:
    async def main() -> None:
        async with api() as http:
            await queue(http, "full", max_messages=1)
            await menu(http, full="#")
            assert (await http.ask("POST", MENU, {"payload": "1"}))[0] == 201
            waiting = asyncio.create_task(http.ask("POST", f"{MENU}?wait=30s", {"payload": "2"}))
            await until(lambda: len(http.broker._publishers.to_exchanges._requests) == 1)
            http.broker._publishers.drain()
            status, problem = await waiting
            assert (status, problem["code"], problem["stored"]) == (503, "shutting-down", 0)
            assert (await http.ask("POST", MENU, {"payload": "3"}))[1]["code"] == "shutting-down"

    run(main)
