"""How HELLO names what a sender publishes to; docs/protocol.md, section "Exchanges".

The queue's field is nil then. So a broker from before the option refuses HELLO, for a queue is missing in it, and makes none.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from actors.exchanges.limits import MAX_ROUTING_KEY_BYTES
from transport.errors import BrokerError, LocalProtocolError, OldBrokerError, RemoteProtocolError
from transport.wire.messages import Hello, Options, brief
from transport.wire.names import check_name
from transport.wire.queue_named import EXISTING_QUEUE

EXCHANGE: Final = "exchange"
ROUTING_KEY: Final = "routing_key"
MANDATORY: Final = "mandatory"
"""The options."""
NEXT_SEQUENCE: Final = "next_sequence"
"""WELCOME's option: the number from which a client numbers that begins anew under a known name."""


class PublishesTo(NamedTuple):
    """Where a sender publishes, instead of sending to a queue.

    Attributes:
        exchange: the exchange's name; empty for the default exchange.
        routing_key: of the messages that have no key of their own; None where each has one.
        mandatory: whether the sender is told of what no queue took.
    """

    exchange: str
    routing_key: str | None = None
    mandatory: bool = False


def publishing_options(to: PublishesTo) -> Options:
    """HELLO's options for ``to``."""
    options: Options = {EXCHANGE: to.exchange}
    if to.routing_key is not None:
        options[ROUTING_KEY] = to.routing_key
    if to.mandatory:
        options[MANDATORY] = True
    return options


def checked_target(exchange: str, routing_key: str | None, mandatory: bool) -> PublishesTo:
    """What a client's program asks for.

    Raises:
        InvalidNameError: no exchange can have the name.
        LocalProtocolError: a routing key that is no text, or too long.
    """
    if exchange:
        check_name(exchange, "exchange")
    if routing_key is not None:
        check_routing_key(routing_key)
    return PublishesTo(exchange, routing_key, mandatory)


def check_routing_key(key: object) -> str:
    """``key`` if a message can have it as its routing key; raises LocalProtocolError."""
    if not isinstance(key, str):
        raise LocalProtocolError(f"a routing key must be text, not {type(key).__name__}")
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise LocalProtocolError(f"the routing key {key!r:.60} is no Unicode: use another") from None
    if size > MAX_ROUTING_KEY_BYTES:
        raise LocalProtocolError(
            f"a routing key of {size} bytes exceeds {MAX_ROUTING_KEY_BYTES}: use a shorter one, and put the rest into a header"
        )
    return key


def read_target(hello: Hello) -> PublishesTo | None:
    """Where the sender of ``hello`` publishes; None where it sends to a queue.

    Raises:
        RemoteProtocolError: a queue is named too, an option is of the wrong type, or one is there without the exchange.
        InvalidNameError: a name out of its limits.
    """
    options = hello.options
    exchange, key, mandatory = options.get(EXCHANGE), options.get(ROUTING_KEY), options.get(MANDATORY, False)
    if hello.role != "sender" or options.keys().isdisjoint((EXCHANGE, ROUTING_KEY, MANDATORY)):
        return None
    if exchange is None:
        raise RemoteProtocolError(f"HELLO: {ROUTING_KEY} and {MANDATORY} belong to the option {EXCHANGE}")
    if not isinstance(exchange, str):
        raise RemoteProtocolError(f"HELLO: {EXCHANGE} is {brief(exchange)}, not a name")
    if hello.queue is not None or options.get(EXISTING_QUEUE) is not None:
        raise RemoteProtocolError(f"HELLO names a queue and an {EXCHANGE}: give one of them")
    if key is not None and not isinstance(key, str):
        raise RemoteProtocolError(f"HELLO: {ROUTING_KEY} is {brief(key)}, not text")
    if type(mandatory) is not bool:
        raise RemoteProtocolError(f"HELLO: {MANDATORY} is {brief(mandatory)}, not true or false")
    if exchange:
        check_name(exchange, "exchange")
    return PublishesTo(exchange, key, mandatory)


def refusal(error: Exception, address: object) -> Exception:
    """``error`` in better words where a broker has refused the option for its age."""
    # The name itself was judged before it was sent.
    if not isinstance(error, BrokerError) or error.code != "invalid-name":
        return error
    better = OldBrokerError(
        f"the broker at {address} is older than this client and has no exchanges: update it, or send to a queue"
    )
    better.__cause__ = error
    return better
