"""How a receiver's HELLO has its queue bound to exchanges before anything is delivered; docs/protocol.md, section "Exchanges"."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from transport.errors import BrokerError, LocalProtocolError, OldBrokerError, RemoteProtocolError
from transport.wire.exchange_named import check_routing_key
from transport.wire.messages import Hello, brief
from transport.wire.names import check_name

BIND: Final = "bind"
"""HELLO's option: JSON, an array of objects with ``exchange``, ``key`` and ``arguments``."""
BOUND: Final = "bound"
"""WELCOME's option: how many bindings there are now for the receiver. A broker from before the option binds none, and does not say it."""
OWN_QUEUE: Final = "own_queue"
"""HELLO's option, a truth: the receiver wants a queue of its own, that goes when its connection ends. The queue's field is nil then."""
QUEUE: Final = "queue"
"""WELCOME's option: what such a queue is called."""
MAX_BIND_BYTES: Final = 2_048
"""Of the option: it shares a header with names and proofs."""


class Binding(NamedTuple):
    """What a `Receiver` has its queue bound to.

    Attributes:
        exchange: the exchange's name.
        key: what the routing key has to be; of a topic exchange a pattern.
        arguments: of a headers exchange, what the headers have to be.
    """

    exchange: str
    key: str = ""
    arguments: Mapping[str, Any] | None = None


def checked_bindings(bind: Any) -> tuple[Binding, ...]:
    """What a program gives as ``bind``: one `Binding` or tuple, or several of them.

    Raises:
        LocalProtocolError: something else, or more than HELLO can say.
        InvalidNameError: no exchange can have the name.
    """
    if bind is None:
        return ()
    several = (
        [bind] if isinstance(bind, Binding) or (isinstance(bind, tuple) and bind and isinstance(bind[0], str)) else bind
    )
    if isinstance(several, str) or not isinstance(several, Sequence) or not several:
        raise LocalProtocolError(f"bind is {brief(bind)}: give a Binding(exchange, key), or a list of them")
    bindings = []
    for each in several:
        if not isinstance(each, tuple) or not 1 <= len(each) <= 3 or not isinstance(each[0], str):
            raise LocalProtocolError(f"bind has {brief(each)}: give a Binding(exchange, key)")
        binding = Binding(*each)
        check_name(binding.exchange, "exchange")
        check_routing_key(binding.key)
        bindings.append(binding)
    size = len(said_bindings(bindings).encode())
    if size > MAX_BIND_BYTES:
        raise LocalProtocolError(
            f"bindings of {size} bytes exceed {MAX_BIND_BYTES}: make them with Administration.bind, once, and leave bind out"
        )
    return tuple(bindings)


def said_bindings(bindings: Sequence[Binding]) -> str:
    """The option's value."""
    try:
        return json.dumps([_said(binding) for binding in bindings], separators=(",", ":"), ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise LocalProtocolError(f"a binding's arguments are what JSON has: {error}") from None


def _said(binding: Binding) -> dict[str, Any]:
    said: dict[str, Any] = {"exchange": binding.exchange, "key": binding.key}
    if binding.arguments:
        said["arguments"] = dict(binding.arguments)
    return said


def read_bindings(hello: Hello) -> tuple[Binding, ...]:
    """The bindings that a receiver asks for.

    Raises:
        RemoteProtocolError: the option is not what it has to be.
    """
    said = hello.options.get(BIND)
    if said is None:
        return ()
    try:
        found = json.loads(said) if isinstance(said, str) and len(said.encode()) <= MAX_BIND_BYTES else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not found or not all(map(_is_binding, found)):
        raise RemoteProtocolError(
            f"HELLO: {BIND} is {brief(said)}, not a JSON array of objects with exchange, key and arguments, of {MAX_BIND_BYTES} "
            "bytes at most"
        )
    return tuple(Binding(each["exchange"], each.get("key", ""), each.get("arguments")) for each in found)


def wants_own_queue(hello: Hello) -> bool:
    """Whether a receiver wants a queue of its own.

    Raises:
        RemoteProtocolError: it names a queue too, or binds it to nothing, or the option is no truth.
    """
    own = hello.options.get(OWN_QUEUE)
    if own is None or own is False or hello.role != "receiver":
        return False
    if own is not True:
        raise RemoteProtocolError(f"HELLO: {OWN_QUEUE} is {brief(own)}, not true or false")
    if hello.queue is not None:
        raise RemoteProtocolError(f"HELLO names a queue and {OWN_QUEUE}: the field is nil beside the option")
    if hello.options.get(BIND) is None:
        raise RemoteProtocolError(f"HELLO: {OWN_QUEUE} without {BIND}: nothing would come into it")
    return True


def refusal(error: Exception, address: object) -> Exception:
    """``error`` in better words where a broker has refused the option for its age."""
    if not isinstance(error, BrokerError) or error.code != "invalid-name":
        return error
    better = OldBrokerError(
        f"the broker at {address} is older than this client and makes no queues of one's own: name a queue"
    )
    better.__cause__ = error
    return better


def _is_binding(each: Any) -> bool:
    return (
        isinstance(each, dict)
        and isinstance(each.get("exchange"), str)
        and isinstance(each.get("key", ""), str)
        and isinstance(each.get("arguments", {}), dict)
        and not each.keys() - {"exchange", "key", "arguments"}
    )
