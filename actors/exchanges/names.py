"""What exchanges may be called, and how long keys may be."""

from __future__ import annotations

from actors.exchanges.errors import ExchangeLimitError, InvalidDefinitionError, InvalidExchangeNameError
from actors.exchanges.limits import MAX_ROUTING_KEY_BYTES
from actors.limits import MAX_NAME_BYTES


def check_name(name: object) -> str:
    """``name`` if an exchange can have it: the rules are those of queues.

    Raises:
        InvalidExchangeNameError: it is no text, empty, over MAX_NAME_BYTES, not printable, or has white space.
    """
    if not isinstance(name, str):
        raise InvalidExchangeNameError(f"an exchange's name is of type {type(name).__name__}: it has to be text")
    size = len(name.encode("utf-8", "surrogatepass"))
    if not 1 <= size <= MAX_NAME_BYTES:
        raise InvalidExchangeNameError(
            f"an exchange name of {size} bytes is outside 1-{MAX_NAME_BYTES}: use another name"
        )
    if " " in name or not name.isprintable():
        raise InvalidExchangeNameError(
            f"the exchange name {name!r:.60} has white space or unprintable characters: use another name"
        )
    return name


def check_key(key: object, what: str) -> str:
    """``key`` if it is a routing key, or a binding's.

    Args:
        key: whatever was given.
        what: it is, for the error's text: ``a routing key``.

    Raises:
        InvalidDefinitionError: it is no text.
        ExchangeLimitError: it is longer than MAX_ROUTING_KEY_BYTES.
    """
    if not isinstance(key, str):
        raise InvalidDefinitionError(f"{what} is of type {type(key).__name__}: it has to be text")
    try:
        size = len(key) if key.isascii() else len(key.encode())
    except UnicodeEncodeError:
        raise InvalidDefinitionError(f"{what} is {key!r:.60}, which is no Unicode: use another") from None
    if size > MAX_ROUTING_KEY_BYTES:
        advice = "use a shorter one, and put the rest into a header"
        raise ExchangeLimitError(f"bytes of {what}", size, "MAX_ROUTING_KEY_BYTES", MAX_ROUTING_KEY_BYTES, advice)
    return key
