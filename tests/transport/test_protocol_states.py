"""The state machine: which frame may come when, from whom, for every role, state and type."""

from __future__ import annotations

from typing import Any

import pytest

from actors.batch import MessageBatch
from tests.decoding import FrameDecoder
from transport.errors import (
    BrokerError,
    InvalidNameError,
    RemoteProtocolError,
    UnknownRoleError,
    UnsupportedVersionError,
)
from transport.wire import messages as wire
from transport.wire.codec import encode
from transport.wire.frames import MAX_FRAME_BYTES, RawFrame
from transport.wire.protocol import (
    ALWAYS,
    FROM_BROKER,
    FROM_CLIENT,
    RECEIVING_ROLES,
    SENDING_ROLES,
    Protocol,
    Side,
    State,
)

BATCH = MessageBatch.from_payloads([b"x"])
EVERY: list[wire.Frame] = [
    wire.Hello(1, "sender", "q", "c", {}),
    wire.Welcome(1, 1, {}),
    wire.Error("not-found", "no", close=False),
    wire.Ping(1),
    wire.Pong(1),
    wire.Auth(b"x"),
    wire.Why(1),
    wire.Because(1, "full", "it is"),
    wire.Returned([(0, 2)], "no queue"),
    wire.Tally(1),
    wire.Tallied(1, "q", 2),
    wire.Demand(1, 1),
    wire.Send(0, None, BATCH),
    wire.Sent(1, 0),
    wire.Request(1, 1),
    wire.Deliver(0, 1, 1, False, BATCH),
    wire.Ack([(0, 1)]),
    wire.Nack([(0, 1)], 0),
    wire.Extend([(0, 1)], 1),
    wire.Cancel(),
    wire.Turn(True),
    wire.Reserve(1, 0, 1, 1, 0, None),
    wire.Reserved(1, 0, {}),
    wire.Commit(1, 0),
    wire.Committed(1, 0),
    wire.Fetch(1, 0, 1),
    wire.Fetched(1, 0, 0, 1, 1, False, BATCH),
    wire.FetchEnd(1, 0),
    wire.Command(1, "stats", {}),
    wire.Result(1, b"{}"),
    wire.Enlist("q", "s", 1),
    wire.CommitTransaction(1),
    wire.AbortTransaction(1),
    wire.TransactionEnded(1, 1),
]
ROLES = sorted(SENDING_ROLES | RECEIVING_ROLES)


def raw(frame: wire.Frame) -> RawFrame:
    return FrameDecoder(MAX_FRAME_BYTES).receive_data(b"".join(bytes(part) for part in encode(frame)))[0]


def hello(role: str = "sender", **changes: Any) -> wire.Hello:
    values: dict[str, Any] = {"version": 1, "role": role, "queue": "q", "client_id": "c", "options": {}}
    return wire.Hello(**(values | changes))


def roles_beside(role: str) -> frozenset[str]:
    return SENDING_ROLES if role in SENDING_ROLES else RECEIVING_ROLES


def open_broker(role: str) -> Protocol:
    protocol = Protocol(Side.BROKER, roles_beside(role))
    protocol.receive(raw(hello(role)))
    protocol.said_welcome()
    return protocol


def open_client(role: str) -> Protocol:
    protocol = Protocol(Side.CLIENT, frozenset({role}))
    protocol.said_hello(hello(role))
    protocol.receive(raw(wire.Welcome(1, 1, {})))
    return protocol


def proving(side: Side) -> Protocol:
    """Behind a HELLO that names a mechanism."""
    said = hello(options={"mechanism": "SCRAM-SHA-256"})
    protocol = Protocol(side, SENDING_ROLES)
    if side is Side.BROKER:
        protocol.receive(raw(said))
    else:
        protocol.said_hello(said)
    return protocol


def allowed(protocol: Protocol) -> set[type[wire.Frame]]:
    """The types that it takes in the state it is in; none of `EVERY` but HELLO and WELCOME changes it."""
    taken: set[type[wire.Frame]] = set()
    for frame in EVERY:
        if isinstance(frame, wire.Hello | wire.Welcome):
            continue
        refusal = ""
        try:
            protocol.receive(raw(frame))
        except RemoteProtocolError as error:
            refusal = str(error)
        if not refusal:
            taken.add(type(frame))
        else:
            assert "is not allowed" in refusal
    return taken


def test_every_type_of_frame_is_in_the_table_of_this_test() -> None:
    names = {value.__name__ for value in wire.Frame.__subclasses__()}
    assert {type(frame).__name__ for frame in EVERY} == names
    assert len(EVERY) == len(names)


@pytest.mark.parametrize("role", ROLES)
def test_an_open_broker_takes_what_its_clients_role_may_send_and_nothing_else(role: str) -> None:
    assert allowed(open_broker(role)) == FROM_CLIENT[role] | ALWAYS


@pytest.mark.parametrize("role", ROLES)
def test_an_open_client_takes_what_the_broker_may_send_its_role_and_nothing_else(role: str) -> None:
    assert allowed(open_client(role)) == FROM_BROKER[role] | ALWAYS


@pytest.mark.parametrize("role", ROLES)
def test_no_type_goes_both_ways_in_a_role(role: str) -> None:
    assert not FROM_CLIENT[role] & FROM_BROKER[role]


@pytest.mark.parametrize("roles", [SENDING_ROLES, RECEIVING_ROLES], ids=["sending", "receiving"])
def test_before_hello_a_broker_takes_nothing_else(roles: frozenset[str]) -> None:
    assert allowed(Protocol(Side.BROKER, roles)) == set()
    with pytest.raises(RemoteProtocolError, match="WELCOME is not allowed while the connection is connected"):
        Protocol(Side.BROKER, roles).receive(raw(wire.Welcome(1, 1, {})))


@pytest.mark.parametrize("role", ROLES)
def test_between_hello_and_welcome_no_request_is_taken(role: str) -> None:
    protocol = Protocol(Side.BROKER, roles_beside(role))
    protocol.receive(raw(hello(role)))
    assert protocol.state is State.OPENING
    assert allowed(protocol) == ALWAYS


def test_before_welcome_a_client_takes_welcome_or_error_only() -> None:
    protocol = Protocol(Side.CLIENT, frozenset({"sender"}))
    assert allowed(protocol) == set()
    protocol.said_hello(hello())
    assert allowed(protocol) == {wire.Error}
    assert protocol.receive(raw(wire.Welcome(1, 9, {}))) == wire.Welcome(1, 9, {})
    assert protocol.state is State.OPEN


@pytest.mark.parametrize("mechanism", [{}, {"mechanism": "SCRAM-SHA-256"}])
def test_a_client_that_has_asked_for_signs_takes_them_once_it_has_proved_itself(mechanism: dict[str, str]) -> None:
    protocol = Protocol(Side.CLIENT, frozenset({"sender"}))
    protocol.said_hello(hello(options={"sign_ms": 500, **mechanism}))
    if mechanism:
        with pytest.raises(
            RemoteProtocolError, match="PING is not allowed while the connection is opening; AUTH comes"
        ):
            protocol.receive(raw(wire.Ping(0)))
        for _ in range(2):
            protocol.receive(raw(wire.Auth(b"x")))
    assert allowed(protocol) == ALWAYS
    assert protocol.receive(raw(wire.Welcome(1, 9, {}))) == wire.Welcome(1, 9, {})


@pytest.mark.parametrize("side", Side)
def test_auth_comes_only_where_hello_names_a_mechanism(side: Side) -> None:
    opening = Protocol(side, SENDING_ROLES)
    if side is Side.BROKER:
        opening.receive(raw(hello()))
    else:
        opening.said_hello(hello())
    with pytest.raises(RemoteProtocolError, match="AUTH is not allowed while the connection is opening"):
        opening.receive(raw(wire.Auth(b"x")))
    assert proving(side).receive(raw(wire.Auth(b"x"))) == wire.Auth(b"x")


@pytest.mark.parametrize("came", [0, 1])
def test_a_client_takes_no_welcome_from_a_broker_that_has_not_proved_itself(came: int) -> None:
    protocol = proving(Side.CLIENT)
    for _ in range(came):
        protocol.receive(raw(wire.Auth(b"x")))
    with pytest.raises(RemoteProtocolError, match="WELCOME is not allowed while the connection is opening; AUTH comes"):
        protocol.receive(raw(wire.Welcome(1, 1, {})))


@pytest.mark.parametrize("came", [0, 1])
def test_before_a_client_has_proved_itself_a_broker_takes_nothing_but_auth(came: int) -> None:
    protocol = proving(Side.BROKER)
    for _ in range(came):
        protocol.receive(raw(wire.Auth(b"x")))
    for frame in EVERY:
        if not isinstance(frame, wire.Auth | wire.Error):
            with pytest.raises(RemoteProtocolError, match="is not allowed"):
                protocol.receive(raw(frame))


@pytest.mark.parametrize("side", Side)
def test_each_side_says_auth_twice(side: Side) -> None:
    protocol = proving(side)
    for _ in range(2):
        protocol.receive(raw(wire.Auth(b"x")))
    with pytest.raises(RemoteProtocolError, match="AUTH is not allowed while the connection is opening"):
        protocol.receive(raw(wire.Auth(b"x")))
    if side is Side.CLIENT:
        assert protocol.receive(raw(wire.Welcome(1, 1, {}))) == wire.Welcome(1, 1, {})


@pytest.mark.parametrize("role", ROLES)
def test_hello_and_welcome_come_once(role: str) -> None:
    with pytest.raises(RemoteProtocolError, match="HELLO is not allowed"):
        open_broker(role).receive(raw(hello(role)))
    with pytest.raises(RemoteProtocolError, match="WELCOME is not allowed"):
        open_client(role).receive(raw(wire.Welcome(1, 1, {})))


@pytest.mark.parametrize("role", ROLES)
def test_hello_opens_for_the_role_that_it_names(role: str) -> None:
    protocol = open_broker(role)
    assert (protocol.role, protocol.state) == (role, State.OPEN)


@pytest.mark.parametrize("version", [0, 2, 2**40])
def test_another_version_is_refused_naming_the_one_spoken(version: int) -> None:
    with pytest.raises(UnsupportedVersionError, match="this broker speaks version 1"):
        Protocol(Side.BROKER, SENDING_ROLES).receive(raw(hello(version=version)))


@pytest.mark.parametrize("role", [*ROLES, "", "Sender", "broker"])
def test_a_role_of_the_other_address_is_refused_naming_those_served(role: str) -> None:
    wrong = RECEIVING_ROLES if role in SENDING_ROLES else SENDING_ROLES
    with pytest.raises(UnknownRoleError, match=", ".join(sorted(wrong))):
        Protocol(Side.BROKER, wrong).receive(raw(hello(role)))


@pytest.mark.parametrize("role", ["sender", "receiver", "subscription"])
@pytest.mark.parametrize("queue", [None, "", "a\nb", "a b", "x" * 256])
def test_a_queue_that_cannot_be_named_so_is_refused(role: str, queue: str | None) -> None:
    with pytest.raises(InvalidNameError):
        Protocol(Side.BROKER, roles_beside(role)).receive(raw(hello(role, queue=queue)))


@pytest.mark.parametrize("role", ["admin", "transaction"])
def test_who_speaks_to_the_broker_as_a_whole_names_no_queue(role: str) -> None:
    protocol = Protocol(Side.BROKER, SENDING_ROLES)
    protocol.receive(raw(hello(role, queue=None, client_id=None)))
    assert protocol.role == role


@pytest.mark.parametrize("client_id", ["", "a\nb", "x" * 256])
def test_a_client_that_cannot_be_named_so_is_refused(client_id: str) -> None:
    with pytest.raises(InvalidNameError, match="client name"):
        Protocol(Side.BROKER, SENDING_ROLES).receive(raw(hello(client_id=client_id)))


def test_a_sender_has_a_client_id() -> None:
    # docs/protocol.md: it may be nil for receivers and admins, and for a sender it is the producer id.
    with pytest.raises(RemoteProtocolError):
        Protocol(Side.BROKER, SENDING_ROLES).receive(raw(hello(client_id=None)))


def test_an_error_that_closes_ends_the_connection_and_one_that_does_not_is_an_answer() -> None:
    protocol = open_client("admin")
    refusal = wire.Error("not-found", "there is no queue", close=False)
    assert protocol.receive(raw(refusal)) == refusal
    with pytest.raises(BrokerError, match="shutting-down: bye") as caught:
        protocol.receive(raw(wire.Error("shutting-down", "bye", close=True)))
    assert (caught.value.code, caught.value.text) == ("shutting-down", "bye")
    assert protocol.state is State.CLOSED


@pytest.mark.parametrize(
    ("code", "transient"),
    [
        ("shutting-down", True),
        ("timeout", True),
        ("internal-error", True),
        ("limit-exceeded", True),
        ("queue-deleted", True),
        ("journal-failed", True),
        ("protocol-error", False),
        ("taken-over", False),
        ("demand-exceeded", False),
        ("unknown-acknowledgement", False),
        ("invalid-name", False),
        ("unsupported-version", False),
        ("of a later version", False),
    ],
)
def test_only_trouble_that_passes_is_worth_another_connection(code: str, transient: bool) -> None:
    assert BrokerError(code, "").transient is transient
