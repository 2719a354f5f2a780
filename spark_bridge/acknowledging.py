"""Being done with what a batch read of a subscription has read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

# First of all: it says which extra is missing.
from spark_bridge import _extra as _extra  # noqa: PLC0414 - only to be loaded

# isort: split

from spark_bridge.batch_reader import of_each_broker
from spark_bridge.clients import connect
from spark_bridge.errors import OptionError
from spark_bridge.options import SourceOptions
from transport import DEFAULT_RECEIVE_ADDRESS, Access, Backoff, BrokerError
from transport.security.access_sources import GivenAccess

NO_EPOCH = 0
"""Epochs begin at one: whoever asks to read for this owner learns only whether there is a subscription, and creates none."""


def acknowledge(
    *,
    queue: str,
    subscription: str,
    brokers: str | Sequence[str] = DEFAULT_RECEIVE_ADDRESS,
    token: str | None = None,
    access: Access | None = None,
) -> int:
    """Acknowledge everything that a subscription has reserved: what the last batch read of it planned, and what those before left.

    It takes the subscription over, as a read does. So it is nothing for a subscription that a streaming query reads, which acknowledges
    by itself and would end; and two programs that read and acknowledge need a subscription each. Again, it finds nothing left to do.

    Args:
        queue: the queue's name.
        subscription: the subscription's name.
        brokers: receiving addresses, ``host:port``, all those that were read; in one string separated by commas, or several.
        token: short for an access with a token alone.
        access: who this is, and whether TLS is spoken; None for what the environment says, nobody where it says nothing.

    Returns:
        how many messages were acknowledged, of all brokers together.

    Raises:
        OptionError: an argument cannot be a name or an address.
        QueueMissingError: no broker has the queue, or none the subscription.
        ConnectionLostError: a broker cannot be reached. Those before it are done; call it again.
    """
    addresses = brokers if isinstance(brokers, str) else ",".join(brokers)
    given = {"queue": queue, "subscription": subscription, "brokers": addresses}
    options = SourceOptions.parse(given if token is None else given | {"token": token})
    if access is not None:
        if token is not None:
            raise OptionError("give the token within the access, not beside it")
        options = replace(options, access=GivenAccess.of(access))

    def acknowledge_at(broker: str, retry: Backoff) -> int:
        with connect(options, broker, "browse", retry=retry) as client:
            client.open()  # opening a subscription would make the queue
        with connect(options, broker, "read", epoch=NO_EPOCH, retry=retry) as client:
            try:
                client.open()
            except BrokerError as error:
                if error.code != "stale-epoch":
                    raise
        with connect(options, broker, "own", retry=retry) as client:
            state = client.open()
            if state.high > state.base:
                client.commit(state.high)
        return state.high - state.base

    return sum(of_each_broker(options, acknowledge_at, "acknowledgement"))
