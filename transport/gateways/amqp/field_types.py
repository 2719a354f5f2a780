"""What RabbitMQ's texts say of the type of an argument."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

    from transport.gateways.amqp.tables import Field

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


def integer_of(field: Field, refuse: Callable[[str], NoReturn]) -> int:
    """The integer that a field has; one that has none is refused, with why."""
    if field.kind not in INTEGERS or not isinstance(field.value, int):
        refuse(f'"expected integer, got {type_of(field)}"')
    return field.value


def unacceptable(field: Field) -> str:
    """Why one is refused whose type is another than what is wanted."""
    return f"{{unacceptable_type,{type_of(field)}}}"
