"""Signing in with a browser, over real sockets."""

from __future__ import annotations

import asyncio
import json
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from transport.gateways.http.signing import CHALLENGE, TOKEN_HEADER
from transport.gateways.http.signing_in import MOST_BODY
from transport.security import changes
from transport.security.principal import Grant, Right
from transport.security.proofs import TokenRecord, make_token, token_hash
from transport.security.users import User, Users
from transport.security.users_file import change_users
from transport.security.verifier import LEAST_ITERATIONS, Verifier

pytestmark = pytest.mark.event_loop
SESSION = "/api/v1/session"
ANN = {"user": "ann", "password": "secret"}
ALL = Right.CONFIGURE | Right.WRITE | Right.READ
TOKEN = make_token()


@pytest.fixture
def users_file(tmp_path: Path) -> Path:
    """Ann has a password and may monitor, and do everything with orders; Bob has a token and administers."""
    users = Users(
        [
            User("ann", Verifier.of("secret", LEAST_ITERATIONS), Right.MONITOR, (Grant("orders*", ALL),)),
            User("bob", None, Right.ADMINISTER, (), (TokenRecord(token_hash(TOKEN)),)),
        ]
    )
    path = tmp_path / "users.toml"
    change_users(path, lambda _: users)
    return path


class Page:
    """What a page has of its session.

    Attributes:
        headers: of what it asks: its cookie.
        told: of what it changes: the token beside it.
        facts: what the answer said.
        cookie: as it was set.
    """

    def __init__(self, facts: dict[str, Any], set_cookie: str) -> None:
        cookie: SimpleCookie = SimpleCookie(set_cookie)
        ((name, self.cookie),) = cookie.items()
        self.facts = facts
        self.headers = {"Cookie": f"{name}={self.cookie.value}"}
        self.told = self.headers | {TOKEN_HEADER: facts["csrf"]}


async def signed_in(http: Any, proof: dict[str, str] = ANN, **options: Any) -> Page:
    async with http.session.post(SESSION, json=proof, **options) as answer:
        facts = await answer.json()
        assert answer.status == 201, facts
        return Page(facts, answer.headers["Set-Cookie"])


def test_a_password_begins_a_session_whose_cookie_no_script_and_no_other_page_gets(
    run: Any, api: Any, users_file: Path
) -> None:
    async def main() -> None:
        async with api(users_file=str(users_file)) as http:
            assert await http.ask("GET", SESSION) == (200, {"users": True, "user": None})
            page = await signed_in(http)
            assert page.facts["user"] == "ann"
            assert page.facts["broker"] == ["monitor"]
            assert 0 < page.facts["expires_s"] <= 8 * 3600
            said = {name: page.cookie[name] for name in ("httponly", "samesite", "path", "max-age", "domain", "secure")}
            assert said == {
                "httponly": True, "samesite": "Strict", "path": "/", "max-age": "28800", "domain": "", "secure": "",
            }  # fmt: skip
            assert page.cookie.key == f"penstock-{http.address[1]}"
            status, who = await http.ask("GET", SESSION, headers=page.headers)
            assert (status, who["user"], who["csrf"]) == (200, "ann", page.facts["csrf"])
            assert (await http.ask("GET", "/api/v1/whoami", headers=page.headers))[1]["user"] == "ann"
            assert (await http.ask("GET", "/api/v1/users", headers=page.headers))[0] == 403

    run(main)


def test_a_token_begins_one_with_the_rights_of_its_user(run: Any, api: Any, users_file: Path) -> None:
    async def main() -> None:
        async with api(users_file=str(users_file)) as http:
            page = await signed_in(http, {"token": TOKEN})
            status, users = await http.ask("GET", "/api/v1/users", headers=page.headers)
            assert status == 200
            assert users["rows"][0] == {
                "name": "ann", "broker": ["monitor"], "grants": [{"on": "orders*", "rights": ["configure", "write", "read"]}],
                "password": True, "tokens": 0, "access_keys": 0, "certificates": 0,
            }  # fmt: skip
            assert "iterations" not in json.dumps(users)
            status, first = await http.ask("GET", "/api/v1/users", headers=page.headers, params={"limit": "1"})
            status, second = await http.ask(
                "GET", "/api/v1/users", headers=page.headers, params={"limit": "1", "after": first["next"]}
            )
            assert [row["name"] for row in first["rows"] + second["rows"]] == ["ann", "bob"]
            assert second["next"] is None

    run(main)


def test_what_changes_something_needs_the_sessions_token_beside_its_cookie(
    run: Any, api: Any, users_file: Path
) -> None:
    async def main() -> None:
        async with api(users_file=str(users_file)) as http:
            page, other = await signed_in(http), await signed_in(http)
            for wrong in (
                page.headers,
                page.headers | {TOKEN_HEADER: "x"},
                page.headers | {TOKEN_HEADER: other.facts["csrf"]},
            ):
                status, problem = await http.ask("POST", "/api/v1/queues", {"name": "orders"}, headers=wrong)
                assert (status, problem["code"]) == (403, "forbidden")
                assert TOKEN_HEADER in problem["detail"]
                assert (await http.ask("DELETE", SESSION, headers=wrong))[0] == 403
            assert list(http.broker.queues) == []
            assert (await http.ask("POST", "/api/v1/queues", {"name": "orders"}, headers=page.told))[0] == 201
            assert (await http.ask("GET", "/api/v1/queues", headers=page.headers))[0] == 200

    run(main)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"user": "ann", "password": "wrong"}, 401, "authentication-failed"),
        ({"user": "nobody", "password": "secret"}, 401, "authentication-failed"),
        ({"token": "penstock_wrong"}, 401, "authentication-failed"),
        ({"user": "ann"}, 400, "protocol-error"),
        ({"user": "ann", "password": "secret", "token": TOKEN}, 400, "protocol-error"),
        ({"user": ["ann"], "password": "secret"}, 400, "protocol-error"),
        ({"name": "ann"}, 400, "protocol-error"),
        ({}, 400, "protocol-error"),
        ({"user": "ann", "password": "x" * MOST_BODY}, 413, "frame-too-large"),
    ],
)
def test_whoever_proves_nothing_gets_no_session(
    run: Any, api: Any, users_file: Path, body: dict[str, Any], status: int, code: str
) -> None:
    async def main() -> None:
        async with api(users_file=str(users_file)) as http, http.session.post(SESSION, json=body) as answer:
            problem = await answer.json()
            assert (answer.status, problem["code"]) == (status, code)
            assert "Set-Cookie" not in answer.headers
            if status == 401:
                # A browser would ask for a password in a window of its own.
                assert answer.headers["WWW-Authenticate"] == CHALLENGE

    run(main)


def test_wrong_passwords_are_counted_and_slowed_as_elsewhere(run: Any, api: Any, users_file: Path) -> None:
    async def main() -> None:
        async with api(users_file=str(users_file)) as http:
            for each in range(12):
                assert (await http.ask("POST", SESSION, {"token": f"penstock_{each}"}))[0] == 401
                if wait := http.broker._entrance.wait("127.0.0.1:1"):
                    break
            assert wait > 0

    run(main)


def test_who_signs_out_is_nobody_and_their_stream_ends(run: Any, api: Any, users_file: Path) -> None:
    async def main() -> None:
        async with api(users_file=str(users_file)) as http:
            page = await signed_in(http)
            async with http.session.get("/api/v1/events", headers=page.headers) as stream:
                assert (await stream.content.readuntil(b"\n\n")).startswith(b"retry:")
                async with http.session.delete(SESSION, headers=page.told) as answer:
                    assert answer.status == 200
                    assert "Max-Age=0" in answer.headers["Set-Cookie"]
                async with asyncio.timeout(20):
                    assert b"event: end" in await stream.content.read()
            async with http.session.get("/api/v1/queues", headers=page.headers) as answer:
                assert answer.status == 401
                assert answer.headers["WWW-Authenticate"] == CHALLENGE
            # It is no error to sign out once more.
            assert (await http.ask("DELETE", SESSION, headers=page.told))[0] == 200

    run(main)


def test_who_signs_in_anew_ends_the_session_before(run: Any, api: Any, users_file: Path) -> None:
    async def main() -> None:
        async with api(users_file=str(users_file)) as http:
            before = await signed_in(http)
            now = await signed_in(http, headers=before.headers)
            assert (await http.ask("GET", "/api/v1/whoami", headers=before.headers))[0] == 401
            assert (await http.ask("GET", "/api/v1/whoami", headers=now.headers))[0] == 200

    run(main)


CHANGES: dict[str, Any] = {
    "the user is gone": lambda users: changes.removed(users, "ann"),
    "the password is another": lambda users: changes.with_password(users, "ann", Verifier.of("new", LEAST_ITERATIONS)),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_session_ends_with_its_users_proof(run: Any, api: Any, users_file: Path, case: str) -> None:
    async def main() -> None:
        async with api(users_file=str(users_file)) as http:
            page = await signed_in(http)
            async with http.session.get("/api/v1/events", headers=page.headers) as stream:
                await stream.content.readuntil(b"\n\n")
                change_users(users_file, CHANGES[case])
                await http.broker._entrance.reload()
                with pytest.raises(aiohttp.ClientPayloadError):
                    async with asyncio.timeout(20):
                        await stream.content.read()
            status, problem = await http.ask("GET", "/api/v1/queues", headers=page.headers)
            assert (status, problem["code"]) == (401, "authentication-required")

    run(main)


def test_a_session_has_the_rights_that_its_user_has_now(run: Any, api: Any, users_file: Path) -> None:
    async def main() -> None:
        async with api(users_file=str(users_file)) as http:
            page = await signed_in(http)
            assert (await http.ask("GET", "/api/v1/queues", headers=page.headers))[0] == 200
            change_users(users_file, lambda users: changes.revoked(users, "ann", Right.MONITOR, None))
            await http.broker._entrance.reload()
            assert (await http.ask("GET", "/api/v1/queues", headers=page.headers))[0] == 403

    run(main)


def test_a_page_that_is_nobody_is_told_so_without_a_window_of_the_browsers(
    run: Any, api: Any, users_file: Path
) -> None:
    async def main() -> None:
        async with api(users_file=str(users_file)) as http:
            for headers, challenge in (({}, "Basic"), ({TOKEN_HEADER: "-"}, "Session")):
                async with http.session.get("/api/v1/queues", headers=headers) as answer:
                    assert answer.status == 401
                    assert answer.headers["WWW-Authenticate"].startswith(challenge)

    run(main)


def test_without_users_nobody_signs_in(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            status, facts = await http.ask("GET", SESSION)
            assert (status, facts["users"], facts["user"]) == (200, False, "anyone")
            status, problem = await http.ask("POST", SESSION, ANN)
            assert (status, problem["code"]) == (400, "protocol-error")
            assert (await http.ask("GET", "/api/v1/users"))[1] == {"rows": [], "next": None}

    run(main)


def test_under_tls_the_cookie_is_sent_over_tls_alone(run: Any, api: Any, users_file: Path, certificates: Any) -> None:
    import ssl

    async def main() -> None:
        keys = {"tls_certificate": certificates.server.certificate, "tls_key": certificates.server.key}
        async with api(users_file=str(users_file), **keys) as http:
            context = ssl.create_default_context(cafile=certificates.ca)
            url = f"https://localhost:{http.address[1]}{SESSION}"
            async with http.session.post(url, json=ANN, ssl=context) as answer:
                assert answer.status == 201
                assert "; Secure" in answer.headers["Set-Cookie"]

    run(main)
