"""`transport.gateways.amqp.negotiation`: what is said before a connection is open, in which order, and what is refused."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transport.gateways.amqp.connection_methods import ConnectionOpen, ConnectionStartOk, ConnectionTuneOk
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.layout import MIN_FRAME_MAX
from transport.gateways.amqp.negotiation import (
    CHANNEL_MAX,
    FRAME_MAX,
    MOST_NAME_BYTES,
    Agreed,
    Certificate,
    Negotiation,
    Password,
    State,
)
from transport.gateways.amqp.reply_codes import ReplyCode
from transport.gateways.amqp.tables import Field, Table

AMQPLAIN = Table.of({"LOGIN": "ann", "PASSWORD": "secret"})


def started() -> Negotiation:
    negotiation = Negotiation("1.0")
    negotiation.start(external=False)
    return negotiation


def tuning() -> Negotiation:
    negotiation = started()
    negotiation.proof(start_ok())
    negotiation.tune()
    return negotiation


def start_ok(
    response: bytes = b"\0ann\0secret", mechanism: str = "PLAIN", properties: dict[str, Any] | None = None
) -> ConnectionStartOk:
    said = Table.of(properties or {})
    return ConnectionStartOk(client_properties=said, mechanism=mechanism, response=response, locale="en_US")


def tune_ok(channel_max: int = CHANNEL_MAX, frame_max: int = FRAME_MAX, heartbeat: int = 60) -> ConnectionTuneOk:
    return ConnectionTuneOk(channel_max=channel_max, frame_max=frame_max, heartbeat=heartbeat)


def refused(code: ReplyCode, text: str, does: Any, *arguments: Any) -> None:
    with pytest.raises(AmqpError) as caught:
        does(*arguments)
    assert (caught.value.reply_code, caught.value.explanation) == (code, text)
    assert caught.value.closes_connection


def test_it_goes_from_state_to_state() -> None:
    negotiation = Negotiation("1.0")
    states = [negotiation.state]
    assert negotiation.start(external=False).mechanisms == b"AMQPLAIN PLAIN"
    states.append(negotiation.state)
    assert negotiation.proof(start_ok()) == Password("ann", "secret")
    states.append(negotiation.state)
    proposed = negotiation.tune()
    assert (proposed.channel_max, proposed.frame_max) == (CHANNEL_MAX, FRAME_MAX)
    states.append(negotiation.state)
    assert negotiation.tuned(tune_ok(10, 8_192, 5)) == Agreed(10, 8_192, 5)
    states.append(negotiation.state)
    assert states == [State.HEADER, State.STARTING, State.SECURING, State.TUNING, State.OPENING]


@pytest.mark.parametrize("state", list(State))
def test_what_belongs_to_another_state_is_refused(state: State) -> None:
    for expected, does in (
        (State.STARTING, lambda negotiation: negotiation.proof(start_ok())),
        (State.TUNING, lambda negotiation: negotiation.tuned(tune_ok())),
        (State.OPENING, lambda negotiation: negotiation.expect(State.OPENING, ConnectionOpen.INDEX)),
    ):
        negotiation = Negotiation("1.0")
        negotiation.state = state
        if state is expected:
            does(negotiation)
            continue
        text = f"unexpected method in connection state {state.value}"
        refused(ReplyCode.CHANNEL_ERROR, text, does, negotiation)
        assert negotiation.state is state


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (
            tune_ok(channel_max=0),
            "negotiated channel_max = 0 (no limit) is higher than the maximum allowed value (2047)",
        ),
        (tune_ok(channel_max=2_048), "negotiated channel_max = 2048 is higher than the maximum allowed value (2047)"),
        (tune_ok(frame_max=0), "negotiated frame_max = 0 is higher than the maximum allowed value (131072)"),
        (tune_ok(frame_max=8_191), "negotiated frame_max = 8191 is lower than the minimum allowed value (8192)"),
        (
            tune_ok(frame_max=131_073),
            "negotiated frame_max = 131073 is higher than the maximum allowed value (131072)",
        ),
    ],
)
def test_limits_that_cannot_be_are_refused_as_rabbitmq_does(said: ConnectionTuneOk, text: str) -> None:
    refused(ReplyCode.NOT_ALLOWED, text, tuning().tuned, said)


@given(st.integers(1, CHANNEL_MAX), st.integers(MIN_FRAME_MAX, FRAME_MAX), st.integers(0, 2**16 - 1))
def test_limits_up_to_those_proposed_are_agreed(channels: int, frame: int, heartbeat: int) -> None:
    assert tuning().tuned(tune_ok(channels, frame, heartbeat)) == Agreed(channels, frame, heartbeat)


@pytest.mark.parametrize("response", [b"", b"ann", b"ann\0secret", b"\0ann\0secret\0", b"\0\0\0\0"])
def test_a_response_that_is_not_of_plain_is_refused(response: bytes) -> None:
    text = "response is not of the mechanism PLAIN"
    refused(ReplyCode.SYNTAX_ERROR, text, started().proof, start_ok(response))


def test_whom_one_is_to_act_for_is_passed_over() -> None:
    assert started().proof(start_ok(b"someone\0ann\0secret")) == Password("ann", "secret")


@pytest.mark.parametrize("response", [b"\0\xff\0secret", b"\0ann\0\xff"])
def test_a_user_or_a_password_that_is_no_text_is_refused(response: bytes) -> None:
    refused(ReplyCode.SYNTAX_ERROR, "a user or a password is no UTF-8", started().proof, start_ok(response))


def test_amqplain_is_a_table() -> None:
    proof = started().proof(start_ok(bytes(AMQPLAIN.raw), "AMQPLAIN"))
    assert proof == Password("ann", "secret")


@pytest.mark.parametrize(
    "table",
    [
        {},
        {"LOGIN": "ann"},
        {"PASSWORD": "secret"},
        {"LOGIN": 1, "PASSWORD": "secret"},
        {"LOGIN": "ann", "PASSWORD": Field("x", b"secret")},
        {"login": "ann", "password": "secret"},
    ],
)
def test_amqplain_without_a_login_and_a_password_is_refused(table: dict[str, Any]) -> None:
    response = bytes(Table.of(table).raw)
    text = "AMQPLAIN auth info has no LOGIN or PASSWORD that is a string"
    refused(ReplyCode.SYNTAX_ERROR, text, started().proof, start_ok(response, "AMQPLAIN"))


@given(st.binary(max_size=40), st.sampled_from(["PLAIN", "AMQPLAIN"]))
def test_any_response_is_a_proof_or_refused(response: bytes, mechanism: str) -> None:
    with suppress(AmqpError):
        assert isinstance(started().proof(start_ok(response, mechanism)), Password)


def test_only_what_is_offered_may_be_used() -> None:
    text = "unknown authentication mechanism 'EXTERNAL'"
    refused(ReplyCode.COMMAND_INVALID, text, started().proof, start_ok(mechanism="EXTERNAL"))
    secured = Negotiation("1.0")
    assert secured.start(external=True).mechanisms == b"EXTERNAL AMQPLAIN PLAIN"
    assert secured.proof(start_ok(b"", "EXTERNAL")) == Certificate()


def test_what_a_client_says_of_itself_is_kept_and_bounded() -> None:
    capabilities = {"basic.nack": True, "connection.blocked": False, "odd": 1}
    negotiation = started()
    negotiation.proof(start_ok(properties={"product": "p", "connection_name": "é" * 200, "capabilities": capabilities}))
    assert negotiation.client.capabilities == {"basic.nack"}
    assert negotiation.client.name == "é" * (MOST_NAME_BYTES // 2)
    negotiation = started()
    negotiation.proof(start_ok(properties={"product": Field("x", b"p\xff"), "capabilities": "all"}))
    assert negotiation.client.name == "p\N{REPLACEMENT CHARACTER}"
    assert negotiation.client.capabilities == frozenset()


def test_a_password_is_not_shown() -> None:
    assert "secret" not in f"{Password('ann', 'secret')!r} {Password('ann', 'secret')}"


def test_who_wants_to_know_is_told_that_the_login_was_refused_and_not_why() -> None:
    negotiation = started()
    negotiation.proof(start_ok())
    error = negotiation.refused()
    assert str(error) == (
        "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile."
    )
