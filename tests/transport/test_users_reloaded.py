"""Users that change under connections: whoever may no longer do what they do is ended at once, and nobody else is disturbed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.transport.broker_helpers import batch
from transport import Broker
from transport.errors import LocalProtocolError
from transport.security import changes
from transport.security.principal import Grant, Right
from transport.security.proofs import TokenRecord, make_token, token_hash
from transport.security.users import User, Users
from transport.security.users_file import change_users
from transport.security.verifier import LEAST_ITERATIONS, Verifier
from transport.wire.messages import (
    VERSION,
    Auth,
    Command,
    Demand,
    Enlist,
    Error,
    Hello,
    Ping,
    Pong,
    Result,
    Send,
    Sent,
    Welcome,
)

pytestmark = pytest.mark.event_loop
ALL = Right.CONFIGURE | Right.WRITE | Right.READ
TOKENS = {name: make_token() for name in ("alice", "bob")}
START = datetime.now(UTC)


def user(name: str, **facts: Any) -> User:
    record = TokenRecord(token_hash(TOKENS[name]), START + timedelta(hours=1) if name == "alice" else None)
    return User(
        name, None, Right.MONITOR, (Grant("orders", ALL), Grant("others", ALL), Grant(name, ALL)), (record,), **facts
    )


@pytest.fixture
def users_file(tmp_path: Path) -> Path:
    path = tmp_path / "users.toml"
    change_users(path, lambda _: Users([user("alice"), user("bob")]))
    return path


async def opened(peers: Any, broker: Broker, who: str, role: str = "sender", queue: str | None = "orders") -> Any:
    address = broker.receive_address if role == "receiver" else broker.send_address
    options = {"writer": who, "version": 1} if role == "transaction" else {}
    return await peers.open(address, role, queue, who, token=TOKENS[who], **options)


async def still_served(admin: Any) -> None:
    admin.send(Command(1, "queue.list", {}))
    await admin.expect(Result)


CHANGES: dict[str, tuple[Callable[[Users], Users], str]] = {
    "the user is removed": (lambda users: changes.removed(users, "alice"), "authentication-failed"),
    "the token is revoked": (
        lambda users: changes.without_proof(users, "alice", TokenRecord(token_hash(TOKENS["alice"])).name),
        "authentication-failed",
    ),
    "the right to write is gone": (
        lambda users: changes.revoked(users, "alice", Right.WRITE, "orders"),
        "forbidden",
    ),
}


@pytest.mark.parametrize("case", sorted(CHANGES))
def test_a_sender_that_may_no_longer_send_is_ended_and_no_other_connection_is(
    run: Any, serve: Any, peers: Any, users_file: Path, case: str
) -> None:
    change, code = CHANGES[case]

    async def main() -> None:
        async with serve(users_file=str(users_file)) as broker, peers() as all_peers:
            alice = await opened(all_peers, broker, "alice")
            bob = await opened(all_peers, broker, "bob")
            admin = await opened(all_peers, broker, "bob", "admin", None)
            await bob.expect(Demand)
            change_users(users_file, change)
            assert await broker.reload_users()
            assert (await alice.refusal()).code == code
            bob.send(Send(0, None, batch(b"x")))
            await bob.expect_later(Sent)
            await still_served(admin)

    run(main)


def test_a_right_that_the_connection_does_not_use_may_go_and_it_stays(
    run: Any, serve: Any, peers: Any, users_file: Path
) -> None:
    async def main() -> None:
        async with serve(users_file=str(users_file)) as broker, peers() as all_peers:
            alice = await opened(all_peers, broker, "alice")
            await alice.expect(Demand)
            change_users(users_file, lambda users: changes.revoked(users, "alice", Right.READ, "orders"))
            change_users(users_file, lambda users: changes.revoked(users, "alice", ALL, "others"))
            assert await broker.reload_users()
            alice.send(Send(0, None, batch(b"x")))
            await alice.expect_later(Sent)

    run(main)


def test_an_administrator_has_the_rights_of_the_moment(run: Any, serve: Any, peers: Any, users_file: Path) -> None:
    async def main() -> None:
        async with serve(users_file=str(users_file)) as broker, peers() as all_peers:
            admin = await opened(all_peers, broker, "alice", "admin", None)
            await still_served(admin)
            change_users(users_file, lambda users: changes.revoked(users, "alice", Right.MONITOR, None))
            assert await broker.reload_users()
            admin.send(Command(1, "queue.list", {}))
            refused = await admin.expect(Error)
            assert (refused.code, refused.close) == ("forbidden", False)
            change_users(users_file, lambda users: changes.granted(users, "alice", Right.MONITOR, None))
            assert await broker.reload_users()
            await still_served(admin)

    run(main)


def test_what_was_enlisted_with_a_right_that_is_gone_is_not_committed(
    run: Any, serve: Any, peers: Any, users_file: Path
) -> None:
    async def main() -> None:
        async with serve(users_file=str(users_file)) as broker, peers() as all_peers:
            transaction = await opened(all_peers, broker, "alice", "transaction", None)
            transaction.send(Enlist("orders", "s", 1), Enlist("others", "s", 1))
            transaction.send(Ping(1))
            await transaction.expect(Pong)
            change_users(users_file, lambda users: changes.revoked(users, "alice", Right.WRITE, "others"))
            assert await broker.reload_users()
            assert (await transaction.refusal()).code == "forbidden"

    run(main)


def test_a_password_that_was_changed_ends_those_who_came_in_with_the_old_one(
    run: Any, serve: Any, peers: Any, users_file: Path, independent_client: Any
) -> None:
    def verifier() -> Verifier:
        return Verifier.of("pencil", LEAST_ITERATIONS)

    async def main() -> None:
        change_users(users_file, lambda users: changes.with_password(users, "alice", verifier()))
        async with serve(users_file=str(users_file)) as broker, peers() as all_peers:
            peer, exchange = await all_peers.connect(broker.send_address), independent_client.Scram("alice", "pencil")
            peer.send(Hello(VERSION, "sender", "orders", "c", {"mechanism": "SCRAM-SHA-256"}), Auth(exchange.first()))
            peer.send(Auth(exchange.final((await peer.expect(Auth)).data)))
            exchange.check((await peer.expect(Auth)).data)
            await peer.expect(Welcome)
            by_token = await opened(all_peers, broker, "alice", "admin", None)
            # The same password, set again: a new record, and whoever set it wants the others out.
            change_users(users_file, lambda users: changes.with_password(users, "alice", verifier()))
            assert await broker.reload_users()
            assert (await peer.rest())[-1].code == "authentication-failed"
            await still_served(by_token)

    run(main)


def spoil(users_file: Path, content: str | None) -> None:
    if content is None:
        users_file.chmod(0o644)
    else:
        users_file.write_text(content)


@pytest.mark.parametrize("wrong", ["version = 1\nwhat = 2\n", "", None])
def test_a_file_that_is_wrong_changes_nothing_and_the_log_says_why(
    run: Any, serve: Any, peers: Any, users_file: Path, caplog: pytest.LogCaptureFixture, wrong: str | None
) -> None:
    async def main() -> None:
        async with serve(users_file=str(users_file)) as broker, peers() as all_peers:
            admin = await opened(all_peers, broker, "bob", "admin", None)
            spoil(users_file, wrong)
            with caplog.at_level(logging.ERROR, "penstock.broker"):
                assert not await broker.reload_users()
            assert "users: not read again, and as before: " in caplog.text
            assert str(users_file) in caplog.text
            await still_served(admin)
            await opened(all_peers, broker, "alice")

    run(main)


@pytest.mark.parametrize("case", ["missing", "0644", "no TOML"])
def test_a_broker_does_not_start_with_a_users_file_that_is_wrong(
    run: Any, serve: Any, users_file: Path, case: str
) -> None:
    if case == "missing":
        users_file.unlink()
    elif case == "0644":
        users_file.chmod(0o644)
    else:
        users_file.write_text("[")

    async def main() -> None:
        with pytest.raises(LocalProtocolError, match=r"users_file: .*users\.toml"):
            await serve(users_file=str(users_file)).__aenter__()

    run(main)


def test_a_token_whose_time_is_over_ends_the_connections_that_came_in_with_it(
    run: Any, serve: Any, peers: Any, jump: Any, users_file: Path
) -> None:
    clock = [START]

    async def main() -> None:
        async with serve(users_file=str(users_file)) as broker, peers() as all_peers:
            broker._entrance.now = lambda: clock[0]
            assert await broker.reload_users()
            alice = await opened(all_peers, broker, "alice")
            admin = await opened(all_peers, broker, "bob", "admin", None)
            clock[0] = START + timedelta(hours=1)
            # What the timer does when it is over; no test waits for an hour.
            broker._entrance._look()
            assert (await alice.refusal()).code == "authentication-failed"
            await still_served(admin)
            assert broker._entrance._looking is None, "no other token has an end"

    run(main)
