"""Whoever is not let in leaves a line: from where, why, and what to do; and one address leaves few of them, whatever it tries."""

from __future__ import annotations

import logging
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from tests.transport.test_tls import context_of, options_of, refused_by_tls
from transport import parse_address
from transport.broker import audit
from transport.broker.strangers import MOST_FAILURES
from transport.security.principal import Grant, Right
from transport.security.proofs import TokenRecord, make_token, token_hash
from transport.security.users import User, Users
from transport.security.users_file import change_users
from transport.wire.messages import VERSION, Error, Hello

if TYPE_CHECKING:
    from tests.transport.certificates import Certificates

ADMIN = Hello(VERSION, "admin", None, None, {})
TOKEN = make_token()
OWN_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "till 7")])


@pytest.fixture
def users_file(tmp_path: Path) -> str:
    path = tmp_path / "users.toml"
    grants = (Grant("*", Right.CONFIGURE | Right.WRITE),)
    alice = User("alice", grants=grants, tokens=(TokenRecord(token_hash(TOKEN), None, ""),))
    change_users(path, lambda _: Users([alice]))
    return str(path)


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Any:
    """The records of who did what."""
    caplog.set_level(logging.INFO, "penstock.audit")
    return lambda: [record for record in caplog.records if record.name == "penstock.audit"]


def fields(record: Any) -> tuple[str | None, str, str | None]:
    assert re.fullmatch(r"127\.0\.0\.1:\d+", record.peer)
    assert record.peer in record.getMessage()
    return record.who, record.what, record.resource


@pytest.mark.event_loop
def test_a_handshake_that_fails_is_told_with_its_reason_and_address(
    run: Any, serve: Any, until: Any, certificates: Certificates, told: Any
) -> None:
    options = options_of(certificates.server, tls_client_ca=certificates.ca, tls_client_certificates="required")

    async def main() -> None:
        async with serve(**options) as broker:
            await refused_by_tls(broker, context_of(certificates))
            await until(told)

    run(main)
    [record] = told()
    assert (record.levelno, fields(record)) == (logging.WARNING, (None, "tls", None))
    assert record.getMessage().endswith("failed: peer did not return a certificate")


@pytest.mark.event_loop
def test_whoever_speaks_plainly_to_tls_fills_no_log(
    run: Any, serve: Any, peers: Any, until: Any, certificates: Certificates, told: Any
) -> None:
    async def main() -> None:
        async with serve(**options_of(certificates.server)) as broker, peers() as opened:
            for _ in range(MOST_FAILURES + 3):
                peer = await opened.connect(broker.send_address)
                peer.send(ADMIN)
                while await peer._reader.read(1024):
                    continue
            await until(lambda: broker._entrance.unopened.count == 0)
            # It has guessed nothing, and so does not wait.
            assert broker._entrance.wait("127.0.0.1:1") == 0.0

    run(main)
    assert len(told()) == MOST_FAILURES
    assert ["no more of this address" in record.getMessage() for record in told()] == [False] * 4 + [True]


def test_a_broker_that_ends_tells_nothing_of_handshakes_that_it_ends_itself(
    run: Any, serve: Any, peers: Any, until: Any, certificates: Certificates, told: Any
) -> None:
    async def main() -> None:
        async with serve(**options_of(certificates.server)) as broker, peers() as opened:
            await opened.connect(broker.send_address)
            await until(lambda: broker._entrance.unopened.count == 1)

    run(main)
    assert told() == []


def test_who_says_nothing_of_who_they_are_is_told_and_fills_no_log(
    run: Any, serve: Any, peers: Any, users_file: str, told: Any
) -> None:
    async def main() -> None:
        async with serve(users_file=users_file) as broker, peers() as opened:
            for _ in range(MOST_FAILURES + 1):
                peer = await opened.connect(broker.send_address)
                peer.send(ADMIN)
                assert (await peer.expect(Error)).code == "authentication-required"
            assert broker._entrance.wait("127.0.0.1:1") == 0.0

    run(main)
    assert len(told()) == MOST_FAILURES
    record = told()[0]
    assert (record.levelno, fields(record)) == (logging.WARNING, (None, "authenticate", None))
    assert "says nothing of who they are, and this broker has users" in record.getMessage()


def test_a_certificate_that_is_nobodys_is_told_with_the_command_that_gives_it_to_a_user(
    run: Any, serve: Any, peers: Any, certificates: Certificates, users_file: str, told: Any
) -> None:
    context = context_of(certificates, certificates.client(OWN_NAME))
    options = options_of(certificates.server, tls_client_ca=certificates.ca, users_file=users_file)

    async def main() -> None:
        async with serve(**options) as broker, peers(context) as opened:
            peer = await opened.connect(broker.send_address)
            peer.send(ADMIN)
            assert (await peer.expect(Error)).code == "authentication-failed"

    run(main)
    [record] = told()
    assert (record.levelno, fields(record)) == (logging.WARNING, ("CN=till 7", "authenticate", None))
    assert record.getMessage() == (
        f"no user has the certificate CN=till 7 that came from {record.peer}: "
        "`penstock user certificate NAME 'CN=till 7'` gives it to one"
    )


def test_a_queue_that_is_made_by_being_used_is_one_that_was_created(
    run: Any, serve: Any, peers: Any, users_file: str, told: Any
) -> None:
    async def main() -> None:
        async with serve(users_file=users_file) as broker, peers() as opened:
            await opened.open(broker.send_address, "sender", "orders", token=TOKEN)

    run(main)
    [record] = told()
    assert (record.levelno, fields(record)) == (logging.INFO, ("alice", "queue.create", "orders"))
    assert record.getMessage() == f"alice: makes, as sender, the queue orders, from {record.peer}"


@pytest.mark.parametrize("subject", ["CN=" + "x" * 300, "CN=a\u200bb"])
def test_a_subject_that_cannot_be_shown_as_it_is_makes_no_command_that_would_store_another(
    told: Any, subject: str
) -> None:
    audit.unknown_certificate(subject, "127.0.0.1:1")
    [record] = told()
    assert "`penstock user certificate NAME SUBJECT`" in record.getMessage()


@pytest.mark.event_loop
def test_who_only_looks_whether_a_port_of_tls_is_there_is_no_warning(
    run: Any, serve: Any, until: Any, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def main() -> None:
        async with serve(**options_of(certificates.server)) as broker:
            with socket.create_connection(parse_address(broker.send_address)):
                pass
            await until(lambda: "ends before it stands" in caplog.text)

    run(main)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
