"""AMQP's field tables as the values of the broker's own arguments, JSON's; a message's headers as they are compared with those."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from actors.exchanges.limits import MAX_TABLE_DEPTH
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.reply_codes import ReplyCode
from transport.gateways.amqp.tables import Field, FieldValue, Table

_INCOMPARABLE: Final = None
"""A value that is like no argument's; an argument without a value asks for the name alone."""


def plain(table: Table) -> dict[str, Any]:
    """The same as a dictionary; of two entries with one name the first counts.

    Raises:
        AmqpError: PRECONDITION_FAILED: bytes, or text that is none.
    """
    found: dict[str, Any] = {}
    for name, _, value in table:
        found.setdefault(name, _value(name, value))
    return found


def compared(table: Table) -> dict[str, Any]:
    """The same of a message's headers, to be compared with a binding's arguments: whatever they are, they are no error.

    What no argument can be is like none of them, and the header is there all the same.
    """
    found: dict[str, Any] = {}
    for name, _, value in table:
        if is_text(name):
            found.setdefault(name, _compared(value, 1))
    return found


def _compared(value: FieldValue, depth: int) -> Any:
    if isinstance(value, Table | tuple) and depth > MAX_TABLE_DEPTH:
        return _INCOMPARABLE
    if isinstance(value, Table):
        inner = {name: _compared(each, depth + 1) for name, _, each in reversed(value.entries) if is_text(name)}
        return inner if len(inner) == len({name for name, _, _ in value}) else _INCOMPARABLE
    if isinstance(value, tuple):
        return [_compared(each.value, depth + 1) for each in value]
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, str) and not is_text(value):
        return value.encode("utf-8", "surrogateescape")
    return value


def _value(name: str, value: FieldValue) -> Any:
    if isinstance(value, Table):
        return plain(value)
    if isinstance(value, tuple):
        return [_value(name, each.value) for each in value if isinstance(each, Field)]
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bytes) or (isinstance(value, str) and not is_text(value)):
        raise AmqpError(
            ReplyCode.PRECONDITION_FAILED,
            f"the argument '{name}' has bytes that are no text, which cannot be compared here",
        )
    return value


def is_text(value: str) -> bool:
    """Whether it is UTF-8 on the wire: bytes that are none are kept in a text as surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
