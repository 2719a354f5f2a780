"""What a client says of a broker that ends a connection before it said anything: the same, however the system tells of it."""

from __future__ import annotations

import pytest

from transport.clients.authentication import Credentials
from transport.clients.tls_errors import explained
from transport.errors import ConnectionLostError
from transport.security.access import NOBODY
from transport.wire.address import Address

BROKER = Address("127.0.0.1", 9182)


@pytest.mark.parametrize(
    "error",
    [
        ConnectionLostError("the broker closed the connection"),
        ConnectionResetError(104, "Connection reset by peer"),
        BrokenPipeError(32, "Broken pipe"),
    ],
)
def test_a_broker_that_closes_without_a_word_is_told_of_alike_whatever_was_on_its_way(error: Exception) -> None:
    said = str(explained(error, BROKER, Credentials(NOBODY)))
    assert said.startswith("the broker closed the connection, before it said anything; ")


def test_an_error_behind_a_word_of_the_broker_stays_as_it_is() -> None:
    error = ConnectionResetError(104, "Connection reset by peer")
    assert explained(error, BROKER, Credentials(NOBODY), heard=1) is error
