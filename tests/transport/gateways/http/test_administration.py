"""Administration over HTTP: each route does what its command does, for whoever may, and the description says all of it."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from streams import Sink, Source
from tests.transport.gateways.http.conftest import FREE, Api
from transport import Receiver, Sender
from transport.broker.operations import OPERATIONS
from transport.gateways.http import openapi, requests
from transport.gateways.http.gateway import ROUTES
from transport.security.principal import Grant, Right
from transport.security.proofs import TokenRecord, make_token, token_hash
from transport.security.users import User, Users
from transport.security.users_file import change_users
from transport.security.verifier import LEAST_ITERATIONS, Verifier

DESCRIPTION = Path(__file__).parents[4] / "docs" / "openapi.json"

pytestmark = pytest.mark.event_loop


def test_queues_are_made_altered_shown_listed_purged_and_deleted(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            for name in ("a/b", "orders", "orders.dead"):
                status, made = await http.ask("POST", "/api/v1/queues", {"name": name, "max_messages": 7})
                assert (status, made["max_messages"]) == (201, 7)
            status, problem = await http.ask("POST", "/api/v1/queues", {"name": "orders", "max_messages": 8})
            assert (status, problem["code"]) == (409, "already-exists")
            status, altered = await http.ask("PATCH", "/api/v1/queues/a%2Fb", {"max_messages": 9, "ttl_ms": 1000})
            assert (status, altered["max_messages"], altered["ttl"]) == (200, 9, 1.0)
            assert (await http.queue("a%2Fb"))["max_messages"] == 9
            status, altered = await http.ask("PATCH", "/api/v1/queues/a%2Fb", {"max_messages": 0, "ttl_ms": -1})
            assert (status, altered["max_messages"], altered["ttl"]) == (200, None, 0.0)
            names: list[str] = []
            after: str | None = ""
            while after is not None:
                _, page = await http.ask(
                    "GET", "/api/v1/queues", params={"limit": "2"} | ({"after": after} if after else {})
                )
                names += [row["name"] for row in page["rows"]]
                after = page["next"]
            assert names == ["a/b", "orders", "orders.dead"]
            _, page = await http.ask("GET", "/api/v1/queues?contains=dead")
            assert [row["name"] for row in page["rows"]] == ["orders.dead"]
            await http.publish("1", "2")
            _, found = await http.ask("GET", "/api/v1/queues/orders/browse?count=1&newest=true")
            assert [each["number"] for each in found["messages"]] == [1]
            assert (await http.ask("POST", "/api/v1/queues/orders/move", {"to": "orders.dead", "count": 1}))[0] == 200
            assert (await http.queue("orders.dead"))["ready"] == 1
            assert (await http.ask("POST", "/api/v1/queues/orders/purge"))[0] == 200
            assert (await http.queue())["ready"] == 0
            assert (await http.ask("DELETE", "/api/v1/queues/orders"))[0] == 200
            status, problem = await http.ask("GET", "/api/v1/queues/orders")
            assert (status, problem["code"]) == (404, "not-found")

    run(main)


def test_every_page_of_a_filtered_list_goes_on_where_the_one_before_ended(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            for number in range(20):
                await http.ask("POST", "/api/v1/queues", {"name": f"{'odd' if number % 2 else 'even'}-{number:02}"})
            names: list[str] = []
            asked = {"limit": "3", "contains": "odd"}
            while True:
                _, page = await http.ask("GET", "/api/v1/queues", params=asked)
                names += [row["name"] for row in page["rows"]]
                if page["next"] is None:
                    break
                asked["after"] = page["next"]
            assert names == [f"odd-{number:02}" for number in range(1, 20, 2)]

    run(main)


def test_connections_are_listed_and_closed_and_what_there_is_of_the_rest_is_shown(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            await Source.single(b"x").to(Sender(http.broker.send_address, queue="orders")).run()
            receiving = Receiver(http.broker.receive_address, queue="orders").to(Sink.ignore()).run()
            while not (await http.queue())["receivers"]:
                pass
            _, page = await http.ask("GET", "/api/v1/connections")
            (number,) = [row["id"] for row in page["rows"] if row["role"] == "receiver"]
            assert (await http.ask("DELETE", f"/api/v1/connections/{number}", {"reason": "for a test"}))[0] == 200
            status, problem = await http.ask("DELETE", "/api/v1/connections/999999")
            assert (status, problem["code"]) == (404, "not-found")
            _, page = await http.ask("GET", "/api/v1/connections")
            assert number not in [row["id"] for row in page["rows"]]
            await receiving.stop()
            for path in ("subscriptions", "transactions"):
                assert await http.ask("GET", f"/api/v1/{path}") == (200, {"rows": [], "next": None})
            assert await http.ask("GET", "/api/v1/journal") == (200, {"journal": None})
            for method, path in (
                ("POST", "subscriptions/orders/report/release"),
                ("DELETE", "subscriptions/orders/report"),
            ):
                status, problem = await http.ask(method, f"/api/v1/{path}")
                assert (status, problem["code"]) == (404, "not-found"), path
            assert (await http.ask("DELETE", "/api/v1/transactions/w/3"))[0] == 200

    run(main)


def basic(name: str, password: str) -> str:
    return f"Basic {b64encode(f'{name}:{password}'.encode()).decode()}"


@pytest.fixture
def users_file(tmp_path: Path) -> tuple[Path, str]:
    """Ann has a password and may do everything with orders; Bob has a token and may read. The token is beside it."""
    token = make_token()
    record = TokenRecord(token_hash(token))
    users = Users(
        [
            User(
                "ann",
                Verifier.of("secret", LEAST_ITERATIONS),
                Right.MONITOR,
                (Grant("orders*", Right.CONFIGURE | Right.WRITE | Right.READ),),
            ),
            User("bob", None, Right.NONE, (Grant("orders", Right.READ),), (record,)),
        ]
    )
    path = tmp_path / "users.toml"
    change_users(path, lambda _: users)
    return path, token


def test_who_asks_is_asked_for_and_has_their_rights(
    run: Any, api: Any, users_file: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, token = users_file

    async def main() -> None:
        async with api(users_file=str(path)) as http:
            ann = {"headers": {"Authorization": basic("ann", "secret")}}
            bob = {"headers": {"Authorization": f"Bearer {token}"}}
            async with http.session.get("/api/v1/whoami") as answer:
                assert answer.status == 401
                assert answer.headers["WWW-Authenticate"].startswith("Basic")
            for wrong in (
                {"headers": {"Authorization": basic("ann", "wrong")}},
                {"headers": {"Authorization": "Bearer nonsense"}},
                {"headers": {"Authorization": "Basic !!!"}},
                {"headers": {"Authorization": "Basic \u00e9"}},
                {"headers": {"Authorization": "Bearer \u00e9"}},
            ):
                status, problem = await http.ask("GET", "/api/v1/whoami", **wrong)
                assert (status, problem["code"]) == (401, "authentication-failed")
            status, who = await http.ask("GET", "/api/v1/whoami", **ann)
            assert (status, who["user"], who["broker"]) == (200, "ann", ["monitor"])
            assert who["grants"] == [{"on": "orders*", "rights": ["configure", "write", "read"]}]
            assert (await http.ask("POST", "/api/v1/queues/orders/messages", {"payload": "a"}, **ann))[0] == 201
            status, problem = await http.ask("POST", "/api/v1/queues/orders/messages", {"payload": "a"}, **bob)
            assert (status, problem["code"]) == (403, "forbidden")
            with monkeypatch.context() as patched:
                patched.setattr(
                    requests, "body_of", lambda *_: pytest.fail("the body of one who may not publish was read")
                )
                assert (await http.ask("POST", "/api/v1/queues/orders/messages", {"payload": "a"}, **bob))[0] == 403
            assert (await http.ask("POST", "/api/v1/queues/orders/take", {}, **bob))[0] == 200
            status, problem = await http.ask("GET", "/api/v1/queues", **bob)
            assert (status, problem["code"]) == (403, "forbidden")
            assert (await http.ask("GET", "/health/live"))[0] == 200

    run(main)


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"Host": "evil.example"}, 421, "misdirected"),
        ({"Host": ""}, 421, "misdirected"),
        ({"Host": "[::1"}, 421, "misdirected"),
        ({"Host": "[nonsense]"}, 421, "misdirected"),
        ({"Host": "evil.example@localhost"}, 421, "misdirected"),
        ({"Host": "localhost/evil.example"}, 421, "misdirected"),
        ({"Origin": "http://evil.example"}, 403, "forbidden"),
        ({"Origin": "null"}, 403, "forbidden"),
        ({"Origin": "http://[::1"}, 403, "forbidden"),
        ({"Sec-Fetch-Site": "cross-site"}, 403, "forbidden"),
        ({"Sec-Fetch-Site": "same-site"}, 403, "forbidden"),
    ],
)
def test_another_page_and_another_name_change_and_read_nothing(
    run: Any, api: Any, headers: dict[str, str], status: int, code: str
) -> None:
    async def main() -> None:
        async with api() as http:
            for method, path in (("POST", "/api/v1/queues/orders/messages"), ("GET", "/api/v1/queues")):
                body = {"payload": "a"} if method == "POST" else None
                answered, problem = await http.ask(method, path, body, headers=headers)
                assert (answered, problem["code"]) == (status, code)
            assert "orders" not in http.broker.queues

    run(main)


def test_a_page_of_its_own_and_names_of_this_machine_are_answered(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            port = http.address[1]
            for host in (f"127.0.0.1:{port}", f"localhost:{port}", "[::1]:9", "LOCALHOST"):
                headers = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
                assert (await http.ask("GET", "/api/v1/whoami", headers=headers))[0] == 200

    run(main)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "not-found"),
        ("GET", "/api/v1/queues/", 404, "not-found"),
        ("GET", "/api/v1/queues/a/b/c/d/e/f/g", 404, "not-found"),
        ("PUT", "/api/v1/queues", 405, "method-not-allowed"),
        ("GET", "/api/v1/queues/%ff", 400, "invalid-name"),
        ("DELETE", "/api/v1/connections/first", 400, "protocol-error"),
        ("GET", "/api/v1/queues?limit=0", 400, "protocol-error"),
        ("GET", "/api/v1/queues?after=nonsense", 400, "protocol-error"),
        ("GET", "/api/v1/queues/orders/browse?count=-1", 400, "protocol-error"),
    ],
)
def test_what_is_not_there_is_told_so(run: Any, api: Any, method: str, path: str, status: int, code: str) -> None:
    async def main() -> None:
        async with api() as http:
            from yarl import URL

            answered, problem = await http.ask(
                method, URL(f"http://{FREE}{path}", encoded=True).with_port(http.address[1])
            )
            assert (answered, problem["code"], problem["status"]) == (status, code, status)

    run(main)


def test_every_route_names_a_row_of_operations_and_every_command_has_a_route() -> None:
    named = {route.operation for route in ROUTES if route.operation is not None}
    assert named <= set(OPERATIONS)
    commands = {name for name, operation in OPERATIONS.items() if operation.handler is not None}
    assert commands - named == {"journal.backup", "journal.read", "journal.release"}, (
        "a copy of it all is no matter of HTTP"
    )


def test_the_description_that_is_committed_is_that_of_the_routes_and_the_broker_gives_it(run: Any, api: Any) -> None:
    described = openapi.document(ROUTES)
    assert json.loads(DESCRIPTION.read_text("utf-8")) == json.loads(json.dumps(described)), "python scripts/openapi.py"

    async def main() -> None:
        async with api() as http:
            assert await http.ask("GET", "/api/v1/openapi.json") == (200, json.loads(json.dumps(described)))

    run(main)


def test_a_listener_without_aiohttp_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from transport.errors import LocalProtocolError
    from transport.gateways.http.listener import HttpListener

    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(LocalProtocolError, match=r"needs the extra http: pip install 'penstock-mq\[http\]'"):
        HttpListener(FREE)


def test_one_client_that_asks_for_much_holds_up_nobody(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            busy: list[Api] = [http] * 20
            asked = [asyncio.create_task(each.ask("GET", "/api/v1/queues")) for each in busy]
            assert (await http.ask("GET", "/health/live"))[0] == 200
            assert {status for status, _ in await asyncio.gather(*asked)} == {200}

    run(main)


def test_http_is_carried_by_tls_where_the_broker_has_a_certificate(run: Any, api: Any, certificates: Any) -> None:
    import ssl

    async def main() -> None:
        async with api(tls_certificate=certificates.server.certificate, tls_key=certificates.server.key) as http:
            context = ssl.create_default_context(cafile=certificates.ca)
            host, port = http.address
            url = f"https://localhost:{port}/api/v1/whoami"
            async with http.session.get(url, ssl=context) as answer:
                assert (answer.status, (await answer.json())["user"]) == (200, "anyone")
            # A page without TLS may be anybody's on the way, whatever name it has.
            for scheme, status in (("https", 200), ("http", 403)):
                origin = {"Origin": f"{scheme}://localhost:{port}"}
                async with http.session.get(url, ssl=context, headers=origin) as answer:
                    assert answer.status == status
            _, writer = await asyncio.open_connection(host, port)
            writer.write(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await writer.drain()
            writer.close()

    run(main)
