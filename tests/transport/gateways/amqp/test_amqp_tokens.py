"""A token in a password's place: who has one comes in by any client that asks for a user and a password."""

from __future__ import annotations

import amqp
import pika
import pytest
from amqp.exceptions import AccessRefused
from pika.exceptions import ConnectionClosedByBroker, ProbableAuthenticationError

from tests.transport.gateways.amqp.peers import SECONDS, USER, Secured
from transport.security.proofs import make_token


def connected(secured: Secured, user: str, password: str) -> pika.BlockingConnection:
    credentials = pika.PlainCredentials(user, password)
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", secured.port, credentials=credentials))


@pytest.mark.parametrize("user", [USER, ""])
def test_who_shows_a_token_is_its_user_by_name_or_without(secured: Secured, user: str) -> None:
    with connected(secured, user, secured.token) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        # The broker knows by it who they are.
        channel.basic_publish("", queue, b"x", pika.BasicProperties(user_id=USER))
        assert channel.basic_get(queue, auto_ack=True)[2] == b"x"


@pytest.mark.parametrize(("user", "others"), [("bob", False), (USER, True), ("", True)])
def test_a_token_of_another_user_or_of_nobody_is_refused(secured: Secured, user: str, others: bool) -> None:
    with pytest.raises(ProbableAuthenticationError, match="Login was refused"):
        connected(secured, user, make_token() if others else secured.token)


def test_a_token_is_taken_by_amqplain_too_and_renews_a_password(secured: Secured) -> None:
    said = {"userid": USER, "password": secured.token, "login_method": "AMQPLAIN", "connect_timeout": SECONDS}
    with amqp.Connection(f"127.0.0.1:{secured.port}", **said) as connection:
        assert connection.channel().queue_declare("", exclusive=True).queue
    with (
        pytest.raises(AccessRefused),
        amqp.Connection(f"127.0.0.1:{secured.port}", **said | {"password": make_token()}),
    ):
        pass
    with connected(secured, USER, secured.token) as connection:
        connection.update_secret(secured.token, "renewed")
        with pytest.raises(ConnectionClosedByBroker, match="New secret was refused"):
            connection.update_secret(make_token(), "a mistake")
