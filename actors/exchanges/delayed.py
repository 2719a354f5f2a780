"""Exchanges that have messages wait before they route them, as RabbitMQ's plugin rabbitmq_delayed_message_exchange has them.

Such an exchange, ``x-delayed-message``, has an inner kind. A message that says in the header ``x-delay`` for how many milliseconds it is to
wait goes to one queue, which waits for all of this exchange and is nobody else's. When its time has come it is routed by the inner kind, to
what is bound then. It says ``x-delay`` with a minus from then on, and so waits at no exchange again. Every other message is routed at once.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from actors.exchanges.errors import InvalidDefinitionError
from actors.exchanges.vocabulary import DELAYED, DELAYED_TYPE, Exchange
from actors.limits import MAX_DELAY_SECONDS, MAX_NAME_BYTES, time_text

if TYPE_CHECKING:
    from actors.exchanges.tables import Comparable, Frozen

DELAY: Final = "x-delay"
"""The header that says for how many milliseconds a message waits, and has waited where it is below zero."""
MS_PER_SECOND: Final = 1000
MAX_DELAY_MS: Final = round(MAX_DELAY_SECONDS * MS_PER_SECOND)
"""For how long one may wait: as long as in a queue."""
WAITING: Final = " delayed"
"""What the name of the queue ends with that waits for an exchange. Nobody can name it: no name that is given has a blank."""
_DIGEST_DIGITS: Final = 16


def is_delayed(exchange: Exchange | None) -> bool:
    """Whether messages may wait at an exchange."""
    return exchange is not None and exchange.kind == DELAYED


def waiting_queue(exchange: str) -> str:
    """The name of the queue in which messages of an exchange wait; a name too long for that is cut, with a digest of all of it."""
    encoded = exchange.encode()
    if len(encoded) + len(WAITING) <= MAX_NAME_BYTES:
        return exchange + WAITING
    import hashlib  # noqa: PLC0415 - of few names, and it loads OpenSSL

    ending = f"~{hashlib.sha256(encoded).hexdigest()[:_DIGEST_DIGITS]}{WAITING}"
    return encoded[: MAX_NAME_BYTES - len(ending)].decode(errors="ignore") + ending


def is_waiting_queue(name: str) -> bool:
    """Whether a queue of this name waits for an exchange."""
    return name.endswith(WAITING)


def wait_of(value: object) -> int:
    """For how many milliseconds a message waits that has this value in `DELAY`; 0 or less for one that does not.

    Integers, texts of digits and fractions count, as for the plugin. Other types do not.

    Raises:
        InvalidDefinitionError: a text that is no number, or more than `MAX_DELAY_MS`: the same comes of it however often it is sent.
    """
    found = _number(value)
    if found > MAX_DELAY_MS:
        most = f"{MAX_DELAY_MS}, which is {time_text(MAX_DELAY_MS / MS_PER_SECOND)}"
        raise InvalidDefinitionError(
            f"the header {DELAY} is {found:.30g} milliseconds: a message waits for at most {most}"
        )
    return found


def _number(value: object) -> int:
    if isinstance(value, bool):
        return 0
    if isinstance(value, int):
        return value
    if isinstance(value, float | Decimal):
        return int(value) if isfinite(value) else 0
    if isinstance(value, str | bytes):
        text = value if isinstance(value, str) else value.decode("utf-8", "replace")
        digits = text.removeprefix("-") if text.startswith("-") else text.removeprefix("+")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= MAX_NAME_BYTES):
            raise InvalidDefinitionError(f"the header {DELAY} is {text!r:.60}: it is a whole number of milliseconds")
        return int(text)
    return 0


def waits(headers: Frozen) -> bool:
    """Whether a message waits that has these headers, in the form in which they are compared; errors as of `wait_of`."""
    for name, value in headers:
        if name == DELAY:
            return wait_of(_said(value)) > 0
    return False


def _said(value: Comparable) -> object:
    """The value of a header that is there in the form in which headers are compared."""
    kind, found = value[0], value[-1]
    if kind == "float":
        return struct.unpack("<d", found)[0]  # type: ignore[arg-type]  # the bytes of one
    if kind == "decimal":
        return Decimal(found)  # type: ignore[arg-type]  # the parts of one
    return found if kind in ("integer", "text") else None


def inner_kind(arguments: Mapping[str, Any], kinds: Collection[str]) -> str:
    """The inner kind that these arguments of an exchange name.

    Raises:
        InvalidDefinitionError: they name none, or one that is not there; the texts are those of the plugin and of RabbitMQ.
    """
    inner = arguments.get(DELAYED_TYPE)
    if inner == DELAYED:
        raise InvalidDefinitionError(f"Invalid argument, '{DELAYED}' can't be used for '{DELAYED_TYPE}'")
    if not isinstance(inner, str):
        raise InvalidDefinitionError(f"Invalid argument, '{DELAYED_TYPE}' must be an existing exchange type")
    if inner not in kinds:
        raise InvalidDefinitionError(f"unknown exchange type '{inner:.60}'")
    return inner
