"""Exchanges and bindings over HTTP: each route does what its command does."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.event_loop


def test_exchanges_and_bindings_are_made_shown_listed_and_deleted(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            assert (await http.ask("POST", "/api/v1/queues", {"name": "europe"}))[0] == 201
            declared = {"kind": "topic", "alternate": "amq.fanout", "durable": True}
            made = {"name": "a/b", "kind": "topic", "durable": True, "auto_delete": False, "internal": False}
            made["arguments"] = {"alternate-exchange": "amq.fanout"}
            assert await http.ask("PUT", "/api/v1/exchanges/a%2Fb", declared) == (201, made | {"changed": True})
            assert await http.ask("PUT", "/api/v1/exchanges/a%2Fb", declared) == (200, made | {"changed": False})
            binding = {"source": "a/b", "destination": "europe", "key": "eu.*"}
            whole = binding | {"to_exchange": False, "arguments": {}}
            assert await http.ask("POST", "/api/v1/bindings", binding) == (201, whole | {"changed": True})
            assert await http.ask("POST", "/api/v1/bindings", binding) == (200, whole | {"changed": False})
            figures = {"bindings": 1, "published": 0, "unroutable": 0, "returned": 0, "waiting": 0}
            assert await http.ask("GET", "/api/v1/exchanges/a%2Fb") == (200, made | figures)
            listed = {"rows": [whole | {"durable": True}], "next": None}
            for query in ("", "?source=a%2Fb", "?destination=europe", "?source=a%2Fb&destination=europe"):
                assert await http.ask("GET", f"/api/v1/bindings{query}") == (200, listed), query
            for query in ("?source=amq.topic", "?destination=a%2Fb&to_exchange=true"):
                assert (await http.ask("GET", f"/api/v1/bindings{query}"))[1]["rows"] == [], query
            status, routed = await http.ask("GET", "/api/v1/exchanges/a%2Fb/route?key=eu.tea")
            assert (status, routed["queues"]) == (200, ["europe"])
            assert await http.ask("DELETE", "/api/v1/bindings", binding) == (200, whole | {"changed": True})
            assert await http.ask("DELETE", "/api/v1/bindings", binding) == (200, whole | {"changed": False})
            assert (await http.ask("GET", "/api/v1/exchanges/a%2Fb/route?key=eu.tea"))[1]["queues"] == []
            assert await http.ask("DELETE", "/api/v1/exchanges/a%2Fb") == (200, {"name": "a/b"})
            status, problem = await http.ask("GET", "/api/v1/exchanges/a%2Fb")
            assert (status, problem["code"]) == (404, "not-found")

    run(main)


def test_an_exchange_that_has_messages_wait_is_made_and_says_how_many_do(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            path, declared = "/api/v1/exchanges/later", {"kind": "topic", "delayed": True, "alternate": "amq.fanout"}
            status, made = await http.ask("PUT", path, declared)
            assert (status, made["kind"]) == (201, "x-delayed-message")
            assert made["arguments"] == {"x-delayed-type": "topic", "alternate-exchange": "amq.fanout"}
            assert (await http.ask("PUT", path, declared))[0] == 200
            assert (await http.ask("PUT", path, declared | {"kind": "fanout"}))[0] == 409
            assert (await http.ask("PUT", path, {"kind": "topic", "alternate": "amq.fanout"}))[0] == 409
            await http.ask("POST", "/api/v1/queues", {"name": "q"})
            await http.ask("POST", "/api/v1/bindings", {"source": "later", "destination": "q", "key": "a.#"})
            said = {"payload": "m", "key": "a.b", "headers": {"x-delay": "3600000"}}
            assert await http.ask("POST", f"{path}/messages", said) == (201, {"published": 1})
            bad = said | {"headers": {"x-delay": "soon"}}
            status, problem = await http.ask("POST", f"{path}/messages", bad)
            assert (status, "the header x-delay is 'soon'" in problem["detail"]) == (400, True)
            assert (await http.ask("GET", path))[1]["waiting"] == 1
            assert (await http.ask("GET", "/api/v1/stats"))[1]["exchanges"]["waiting"] == 1
            assert [row["name"] for row in (await http.ask("GET", "/api/v1/queues"))[1]["rows"]] == ["q"]
            assert (await http.ask("GET", "/api/v1/queues/later%20delayed"))[0] == 400
            assert (await http.ask("DELETE", path))[0] == 200
            assert (await http.ask("GET", "/api/v1/stats"))[1]["exchanges"]["waiting"] == 0

    run(main)


def test_the_default_exchange_has_a_name_in_paths_and_is_in_the_first_page(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            assert (await http.ask("POST", "/api/v1/queues", {"name": "orders"}))[0] == 201
            assert (await http.ask("GET", "/api/v1/exchanges/amq.default"))[1]["name"] == ""
            status, routed = await http.ask("GET", "/api/v1/exchanges/amq.default/route?key=orders")
            assert (status, routed) == (200, {"name": "", "key": "orders", "queues": ["orders"]})
            names: list[str] = []
            asked = {"limit": "2"}
            while True:
                _, page = await http.ask("GET", "/api/v1/exchanges", params=asked)
                names += [row["name"] for row in page["rows"]]
                if page["next"] is None:
                    break
                asked["after"] = page["next"]
            assert names == ["", "amq.direct", "amq.fanout", "amq.headers", "amq.match", "amq.topic"]

    run(main)


def test_headers_decide_and_their_arguments_are_an_object(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            assert (await http.ask("POST", "/api/v1/queues", {"name": "teas"}))[0] == 201
            arguments = {"x-match": "any", "kind": "tea", "size": "xl"}
            binding = {"source": "amq.headers", "destination": "teas", "arguments": arguments}
            status, bound = await http.ask("POST", "/api/v1/bindings", binding)
            assert (status, bound["arguments"]) == (201, arguments)
            for headers, queues in (('{"kind": "tea"}', ["teas"]), ('{"kind": "ale"}', [])):
                _, routed = await http.ask("GET", "/api/v1/exchanges/amq.headers/route", params={"headers": headers})
                assert routed["queues"] == queues

    run(main)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code", "text"),
    [
        ("GET", "exchanges/none", None, 404, "not-found", "no exchange 'none'"),
        ("DELETE", "exchanges/none", None, 404, "not-found", "no exchange 'none'"),
        ("DELETE", "exchanges/amq.topic", None, 403, "forbidden", "the broker's own"),
        ("DELETE", "exchanges/used?if_unused=true", None, 409, "in-use", "has 1 bindings"),
        ("DELETE", "exchanges/used?if_unused=1", None, 400, "protocol-error", "if_unused"),
        ("PUT", "exchanges/used", {"kind": "fanout"}, 409, "already-exists", "kind 'topic'"),
        ("PUT", "exchanges/new", {"kind": "ring"}, 400, "protocol-error", "no kind of exchange 'ring'"),
        ("PUT", "exchanges/new", {"durable": "yes"}, 400, "protocol-error", "durable"),
        ("PUT", "exchanges/new", {"alternate": 7}, 400, "protocol-error", "alternate"),
        ("PUT", "exchanges/new", {"arguments": {}}, 400, "protocol-error", "'arguments' is no field"),
        ("PUT", "exchanges/a%20b", {}, 400, "invalid-name", "the exchange name 'a b'"),
        ("PUT", "exchanges/amq.mine", {}, 403, "forbidden", "keeps for itself"),
        ("GET", "exchanges/none/route", None, 404, "not-found", "no exchange 'none'"),
        ("GET", "exchanges/used/route?headers=[]", None, 400, "protocol-error", "a JSON object"),
        ("POST", "bindings", {"destination": "q"}, 400, "protocol-error", "source"),
        ("POST", "bindings", {"source": "used", "destination": "none"}, 404, "not-found", "no queue 'none'"),
        ("POST", "bindings", {"source": "none", "destination": "q"}, 404, "not-found", "no exchange 'none'"),
        ("POST", "bindings", {"source": "used", "destination": "q", "arguments": [1]}, 400, "protocol-error", "object"),
        ("POST", "bindings", {"source": "used", "destination": "q", "what": 1}, 400, "protocol-error", "no field"),
        ("DELETE", "bindings", {"source": "", "destination": "q"}, 400, "invalid-name", "an exchange name of 0 bytes"),
        ("DELETE", "bindings", {"source": "used", "destination": ""}, 400, "invalid-name", "of 0 bytes"),
        ("GET", "bindings?limit=0", None, 400, "protocol-error", "limit"),
        ("POST", "exchanges", None, 405, "method-not-allowed", "GET"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    run: Any, api: Any, method: str, path: str, body: Any, status: int, code: str, text: str
) -> None:
    async def main() -> None:
        async with api() as http:
            await http.ask("POST", "/api/v1/queues", {"name": "q"})
            await http.ask("PUT", "/api/v1/exchanges/used", {"kind": "topic"})
            await http.ask("POST", "/api/v1/bindings", {"source": "used", "destination": "q", "key": "#"})
            before = [(await http.ask("GET", f"/api/v1/{what}"))[1]["rows"] for what in ("exchanges", "bindings")]
            answered, problem = await http.ask(method, f"/api/v1/{path}", body)
            assert (answered, problem["code"], text in problem["detail"]) == (status, code, True), problem
            after = [(await http.ask("GET", f"/api/v1/{what}"))[1]["rows"] for what in ("exchanges", "bindings")]
            assert after == before
            assert len(before[1]) == 1

    run(main)
