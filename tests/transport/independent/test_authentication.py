"""docs/protocol.md, section "Authentication", by the client that was written from it alone: each refusal with its code."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.transport.independent.conftest import SECONDS, Bench, payloads
from transport.security.principal import Grant, Right
from transport.security.proofs import TokenRecord, make_token, token_hash
from transport.security.users import User, Users
from transport.security.users_file import change_users
from transport.security.verifier import LEAST_ITERATIONS, Verifier

ALICE = ("alice", "pencil")
TOKEN, OLD_TOKEN = make_token(), make_token()
NOW = datetime.now(UTC)
USERS = Users(
    [
        User(
            "alice",
            Verifier.of("pencil", LEAST_ITERATIONS),
            Right.MONITOR,
            (Grant("orders", Right.CONFIGURE | Right.WRITE | Right.READ), Grant("w", Right.WRITE)),
            (TokenRecord(token_hash(TOKEN)), TokenRecord(token_hash(OLD_TOKEN), NOW - timedelta(seconds=1))),
        ),
        User("without-password"),
    ]
)
SCRAM = {"mechanism": "SCRAM-SHA-256"}


@pytest.fixture
def users_file(tmp_path: Path) -> str:
    path = tmp_path / "users.toml"
    change_users(path, lambda _: USERS)
    return str(path)


@pytest.fixture
def bench(on_broker: Any, users_file: str) -> Iterator[Bench]:
    with on_broker(users_file=users_file) as opened:
        yield opened


class Bare:
    """A connection on which nothing was said yet, and what the broker says at its end."""

    def __init__(self, client: ModuleType, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self.client = client
        self.connection = client.Connection.__new__(client.Connection)
        self.connection._socket = socket.create_connection((host, int(port)), timeout=SECONDS)
        self.connection._buffer = b""

    def hello(self, **options: Any) -> None:
        self.connection.write([self.client.HELLO, 1, "sender", "orders", "till", options])

    def auth(self, data: bytes) -> None:
        self.connection.write([self.client.AUTH, data])

    def answer(self) -> bytes:
        data: bytes = self.connection.read(self.client.AUTH)[0][1]
        return data

    def refusal(self) -> tuple[str, str]:
        """The code and the text; the connection ends with it."""
        with pytest.raises(self.client.Refused) as caught:
            self.connection.read()
        assert caught.value.close
        assert self.connection.next() is None
        self.connection.close()
        return caught.value.code, caught.value.text


def bare(bench: Bench) -> Bare:
    return Bare(bench.client, bench.broker.send_address)


def test_both_sides_prove_themselves_in_every_role_and_the_work_goes_on_as_ever(bench: Bench) -> None:
    address, receiving = bench.broker.send_address, bench.broker.receive_address
    sender = bench._opened(bench.client.Sender(address, "orders", "till", ALICE))
    receiver = bench._opened(bench.client.Receiver(receiving, "orders", login=ALICE))
    admin = bench._opened(bench.client.Admin(address, ALICE))
    transaction = bench._opened(bench.client.Transaction(address, "w", 1, ALICE))
    sender.send_payloads(b"a", b"b")
    sender.confirm()
    receiver.request(2)
    assert payloads(receiver.receive(2)) == [b"a", b"b"]
    assert {row["user"] for row in admin.command("connection.list")} == {"alice"}
    assert transaction.commit() == 0


def test_a_token_is_a_proof_too(bench: Bench) -> None:
    sender = bench.sender(token=TOKEN)
    sender.send_payloads(b"a")
    sender.confirm()
    assert sender.firsts == [0]


def failures(bench: Bench) -> dict[str, tuple[str, str]]:
    """What is said of every way to fail."""
    said = {}
    for name, login in {
        "wrong password": ("alice", "pen"),
        "unknown user": ("mallory", "pencil"),
        "user without a password": ("without-password", "pencil"),
    }.items():
        stranger, exchange = bare(bench), bench.client.Scram(*login)
        stranger.hello(**SCRAM)
        stranger.auth(exchange.first())
        stranger.auth(exchange.final(stranger.answer()))
        said[name] = stranger.refusal()
    for name, token in {"token of nobody": make_token(), "token that ended": OLD_TOKEN, "no token": "x"}.items():
        stranger = bare(bench)
        stranger.hello(token=token)
        said[name] = stranger.refusal()
    return said


def test_whatever_fails_is_told_with_one_code_and_one_text(bench: Bench) -> None:
    said = failures(bench)
    assert {code for code, _ in said.values()} == {"authentication-failed"}, said
    assert len(set(said.values())) == 1, said


def test_a_name_that_nobody_has_is_challenged_as_one_that_somebody_has_and_always_alike(bench: Bench) -> None:
    salts = set()
    for _ in range(2):
        stranger = bare(bench)
        stranger.hello(**SCRAM)
        stranger.auth(b"n,,n=mallory,r=abc")
        fields = stranger.answer().decode().split(",")
        assert [field[:2] for field in fields] == ["r=", "s=", "i="]
        salts.add(fields[1])
        stranger.connection.close()
    assert len(salts) == 1


def test_without_any_proof_it_is_required(bench: Bench) -> None:
    stranger = bare(bench)
    stranger.hello()
    assert stranger.refusal()[0] == "authentication-required"


def test_a_proof_of_another_exchange_is_refused(bench: Bench) -> None:
    recorded: list[bytes] = []
    honest, exchange = bare(bench), bench.client.Scram(*ALICE)
    honest.hello(**SCRAM)
    honest.auth(exchange.first())
    recorded.append(exchange.final(honest.answer()))
    honest.auth(recorded[0])
    exchange.check(honest.answer())
    honest.connection.close()
    replayed = bare(bench)
    replayed.hello(**SCRAM)
    replayed.auth(exchange.first())
    replayed.answer()
    replayed.auth(recorded[0])
    assert replayed.refusal()[0] == "authentication-failed"


@pytest.mark.parametrize("steps", [1, 2])
def test_an_exchange_that_is_cut_leaves_nothing_and_the_next_one_succeeds(bench: Bench, steps: int) -> None:
    cut, exchange = bare(bench), bench.client.Scram(*ALICE)
    cut.hello(**SCRAM)
    if steps > 1:
        cut.auth(exchange.first())
        cut.answer()
    cut.connection.close()
    bench._opened(bench.client.Sender(bench.broker.send_address, "orders", "till", ALICE))
    rows = bench._opened(bench.client.Admin(bench.broker.send_address, ALICE)).command("connection.list")
    assert sorted(row["role"] for row in rows if row["role"]) == ["admin", "sender"]


@pytest.mark.parametrize(
    "case", ["before HELLO", "without a mechanism", "for a token", "for the challenge", "HELLO twice"]
)
def test_auth_out_of_its_turn_is_a_protocol_error(bench: Bench, case: str) -> None:
    stranger = bare(bench)
    if case == "before HELLO":
        stranger.auth(b"n,,n=alice,r=abc")
    elif case == "for a token":
        stranger.hello(token=TOKEN)
        stranger.connection.read(bench.client.WELCOME)
        stranger.auth(b"n,,n=alice,r=abc")
    elif case == "for the challenge":
        # Two first messages: the second is no last one.
        stranger.hello(**SCRAM)
        stranger.auth(b"n,,n=alice,r=abc")
        stranger.answer()
        stranger.auth(b"n,,n=alice,r=abc")
    elif case == "HELLO twice":
        stranger.hello(**SCRAM)
        stranger.hello(**SCRAM)
    else:
        stranger.hello()
        stranger.auth(b"n,,n=alice,r=abc")
        assert stranger.refusal()[0] == "authentication-required"
        return
    for _ in range(2):
        # What was granted to the one with a token comes before.
        with pytest.raises((bench.client.Refused, AssertionError)) as caught:
            stranger.connection.read()
        if isinstance(caught.value, bench.client.Refused):
            break
    assert caught.value.code == "protocol-error"
    stranger.connection.close()


@pytest.mark.parametrize(
    ("first", "code"),
    [
        (b"", "protocol-error"),
        (b"\xff", "protocol-error"),
        (b"p=tls-unique,,n=alice,r=abc", "protocol-error"),
        (b"n,a=bob,n=alice,r=abc", "protocol-error"),
        (b"n,,m=x,n=alice,r=abc", "protocol-error"),
        (b"n,,n=al=ice,r=abc", "authentication-failed"),
        (b"n,,n=" + b"x" * 2048 + b",r=abc", "protocol-error"),
    ],
)
def test_a_first_message_that_cannot_be_is_refused(bench: Bench, first: bytes, code: str) -> None:
    stranger = bare(bench)
    stranger.hello(**SCRAM)
    stranger.auth(first)
    assert stranger.refusal()[0] == code


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"mechanism": "PLAIN"}, "authentication-failed"),
        ({"mechanism": 5}, "protocol-error"),
        ({"token": b"x"}, "protocol-error"),
        ({"mechanism": "SCRAM-SHA-256", "token": TOKEN}, "protocol-error"),
    ],
)
def test_options_that_cannot_be_are_refused(bench: Bench, options: dict[str, Any], code: str) -> None:
    stranger = bare(bench)
    stranger.hello(**options)
    said = stranger.refusal()
    assert said[0] == code
    assert TOKEN not in said[1]


def test_what_is_forbidden_is_told_alike_whether_the_queue_exists_or_not(bench: Bench) -> None:
    bench._opened(bench.client.Sender(bench.broker.send_address, "orders", "till", ALICE))
    texts = set()
    for queue in ("secret-1", "secret-2"):
        with pytest.raises(bench.client.Refused) as caught:
            bench.client.Sender(bench.broker.send_address, queue, "till", ALICE)
        assert (caught.value.code, caught.value.close) == ("forbidden", True)
        texts.add(caught.value.text.replace(queue, "Q"))
    assert len(texts) == 1


@pytest.mark.parametrize(
    ("command", "arguments"),
    [("queue.create", {"name": "secret"}), ("queue.delete", {"name": "secret"}), ("queue.purge", {"name": "secret"})],
)
def test_a_forbidden_command_is_refused_and_the_connection_goes_on(
    bench: Bench, command: str, arguments: dict[str, Any]
) -> None:
    admin = bench._opened(bench.client.Admin(bench.broker.send_address, ALICE))
    with pytest.raises(bench.client.Refused) as caught:
        admin.command(command, **arguments)
    assert (caught.value.code, caught.value.close) == ("forbidden", False)
    admin.command("queue.create", name="orders")


def test_a_stage_of_a_queue_that_may_not_be_written_to_is_not_enlisted(bench: Bench) -> None:
    transaction = bench._opened(bench.client.Transaction(bench.broker.send_address, "w", 1, ALICE))
    transaction.enlist("secret", "s", 1)
    with pytest.raises(bench.client.Refused) as caught:
        transaction.commit()
    assert caught.value.code == "forbidden"


def test_without_users_a_mechanism_is_refused_and_a_token_is_not_looked_at(on_broker: Any) -> None:
    with on_broker() as open_to_all:
        stranger = bare(open_to_all)
        stranger.hello(**SCRAM)
        stranger.auth(b"n,,n=alice,r=abc")
        assert stranger.refusal()[0] == "authentication-failed"
        for token in (TOKEN, "x", 5):
            open_to_all.sender(token=token).close()
        assert [row["user"] for row in open_to_all.admin().command("connection.list")][-1] is None
