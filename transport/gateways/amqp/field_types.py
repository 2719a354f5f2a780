"""What RabbitMQ's texts say of an argument: its type, and its value."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Final, NoReturn

from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.reply_codes import ReplyCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from transport.gateways.amqp.tables import Field, FieldValue

INTEGERS: Final = frozenset("bBsuIil")
"""The kinds of fields that are integers."""
_TYPES: Final = {
    "b": "byte",
    "B": "unsignedbyte",
    "s": "short",
    "u": "unsignedshort",
    "I": "signedint",
    "i": "unsignedint",
    "l": "long",
    "f": "float",
    "d": "double",
    "D": "decimal",
    "T": "timestamp",
    "t": "bool",
    "S": "longstr",
    "x": "binary",
    "A": "array",
    "F": "table",
    "V": "void",
}
"""What RabbitMQ's texts call the types of fields."""


def type_of(field: Field) -> str:
    """What they call a field's type."""
    return _TYPES.get(field.kind, field.kind)


def term_of(value: FieldValue) -> str:
    """How they write a value of an argument: as Erlang does. What is in a table or an array is left out."""
    if value is None:
        return "undefined"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | bytes):
        text = value if isinstance(value, str) else value.decode("utf-8", "replace")
        return f'<<"{text:.80}">>' if text else "<<>>"
    if isinstance(value, int | float | Decimal):
        return str(value)
    return "[...]" if len(value) else "[]"


def check_text(name: str, field: Field | None, text: str) -> None:
    """Whether an argument that names something is a text, where it is there.

    Args:
        name: the argument's.
        field: what it is; None where it is not there.
        text: how texts speak of what is declared with it.

    Raises:
        AmqpError: PRECONDITION_FAILED: it is none.
    """
    if field is not None and field.kind != "S":
        said = f"invalid type '{type_of(field)}' for arg '{name}' in {text}"
        raise AmqpError(ReplyCode.PRECONDITION_FAILED, said)


def integer_of(field: Field, refuse: Callable[[str], NoReturn]) -> int:
    """The integer that a field has; one that has none is refused, with why."""
    if field.kind not in INTEGERS or not isinstance(field.value, int):
        refuse(f'"expected integer, got {type_of(field)}"')
    return field.value


def unacceptable(field: Field) -> str:
    """Why one is refused whose type is another than what is wanted."""
    return f"{{unacceptable_type,{type_of(field)}}}"


def boolean_of(field: Field, refuse: Callable[[str], NoReturn]) -> bool:
    """The truth that a field is; one that is none is refused, with why."""
    if field.kind != "t" or not isinstance(field.value, bool):
        refuse(unacceptable(field))
    return field.value
