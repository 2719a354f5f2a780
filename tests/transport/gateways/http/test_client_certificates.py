"""Over HTTP as on the native ports a client certificate proves who somebody is, where the broker has an authority for it."""

from __future__ import annotations

import logging
import ssl
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from transport.security.principal import Grant, Right
from transport.security.users import User, Users
from transport.security.users_file import change_users
from transport.security.verifier import LEAST_ITERATIONS, Verifier

pytestmark = pytest.mark.event_loop


def named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


@pytest.fixture
def users(tmp_path: Path) -> Path:
    """Alice has a certificate, and Bob a password."""
    file = tmp_path / "users.toml"
    alice = User("alice", None, Right.MONITOR, (Grant("orders", Right.READ),), certificates=("CN=alice",))
    bob = User("bob", Verifier.of("secret", LEAST_ITERATIONS), Right.NONE, ())
    change_users(file, lambda _: Users([alice, bob]))
    return file


def shown_by(http: Any, certificates: Any, name: str | None) -> dict[str, Any]:
    """The options of a request on a connection that shows a certificate of this name."""
    context = ssl.create_default_context(cafile=certificates.ca)
    if name is not None:
        own = certificates.client(named(name))
        context.load_cert_chain(own.certificate, own.key)
    return {"ssl": context}


async def who(http: Any, **options: Any) -> tuple[int, Any]:
    # A connector of its own: no connection of another certificate is used again.
    async with aiohttp.ClientSession(f"https://localhost:{http.address[1]}") as session:
        return await replace(http, session=session).ask("GET", "/api/v1/whoami", **options)


def test_the_subject_of_a_certificate_names_the_user_unless_a_header_says_another(
    run: Any, api: Any, certificates: Any, users: Path
) -> None:
    tls = {"tls_certificate": certificates.server.certificate, "tls_key": certificates.server.key}

    async def main() -> None:
        async with api(users_file=str(users), tls_client_ca=certificates.ca, **tls) as http:
            alice = shown_by(http, certificates, "alice")
            status, said = await who(http, **alice)
            assert (status, said["user"], said["proof"], said["broker"]) == (200, "alice", "certificate", ["monitor"])
            basic = {"Authorization": f"Basic {b64encode(b'bob:secret').decode()}"}
            assert (await who(http, headers=basic, **alice))[1]["user"] == "bob"
            wrong = {"Authorization": "Bearer nonsense"}
            status, problem = await who(http, headers=wrong, **alice)
            assert (status, problem["code"]) == (401, "authentication-failed")
            status, problem = await who(http, **shown_by(http, certificates, None))
            assert (status, problem["code"]) == (401, "authentication-required")

    run(main)


def test_a_certificate_that_is_nobodys_is_refused_and_told_to_the_log_as_it_can_be_given_to_a_user(
    run: Any, api: Any, certificates: Any, users: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tls = {"tls_certificate": certificates.server.certificate, "tls_key": certificates.server.key}

    async def main() -> None:
        async with api(users_file=str(users), tls_client_ca=certificates.ca, **tls) as http:
            status, problem = await who(http, **shown_by(http, certificates, "mallory"))
            assert (status, problem["code"]) == (401, "authentication-failed")

    with caplog.at_level(logging.WARNING, "penstock.audit"):
        run(main)
    assert "no user has the certificate CN=mallory" in caplog.text


def test_who_loses_the_certificate_is_nobody_from_the_next_request_on(
    run: Any, api: Any, certificates: Any, users: Path
) -> None:
    tls = {"tls_certificate": certificates.server.certificate, "tls_key": certificates.server.key}

    async def main() -> None:
        async with api(users_file=str(users), tls_client_ca=certificates.ca, **tls) as http:
            alice = shown_by(http, certificates, "alice")
            async with aiohttp.ClientSession(f"https://localhost:{http.address[1]}") as session:
                held = replace(http, session=session)
                assert (await held.ask("GET", "/api/v1/whoami", **alice))[0] == 200
                change_users(users, lambda users: Users([replace(one, certificates=()) for one in users]))
                assert await http.broker.reload_users()
                assert (await held.ask("GET", "/api/v1/whoami", **alice))[0] == 401

    run(main)
