"""What a header field may hold: one check for each type that a frame's field is declared with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from transport.wire.names import check_name

MAX_RANGES_PER_FRAME = 200
"""Pairs in one ACK, NACK or EXTEND: so many fit a header even when every number takes its nine bytes."""
MAX_REASON_BYTES = 300
"""Bytes of the reason, or the error, in a NACK, in UTF-8: it fits a header beside all of those pairs."""
MAX_INTEGER = 2**63 - 1
Check = Callable[[object], bool]


def is_uint(value: object) -> bool:
    """A number of zero or more that fits 63 bits; a truth is none."""
    return type(value) is int and 0 <= value <= MAX_INTEGER


def or_nil(check: Check) -> Check:
    """What ``check`` takes, or nil."""
    return lambda value: value is None or check(value)


def is_boolean(value: object) -> bool:
    """A truth, and not a number."""
    return type(value) is bool


def _string(value: object) -> bool:
    return type(value) is str


def _bytes(value: object) -> bool:
    return type(value) is bytes


def _options(value: object) -> bool:
    return type(value) is dict and all(type(key) is str for key in value)


def _flat_ranges(value: object) -> bool:
    return (
        type(value) is list
        and len(value) % 2 == 0
        and 2 <= len(value) <= 2 * MAX_RANGES_PER_FRAME
        and set(map(type, value)) == {int}
        and min(value) >= 0
        and max(value) <= MAX_INTEGER
    )


def _name(value: object, what: str) -> bool:
    return type(value) is str and bool(check_name(value, what))


CHECKS: dict[str, Check] = {
    "int": is_uint,
    "bool": is_boolean,
    "str": _string,
    "bytes": _bytes,
    "Options": _options,
    "Ranges": _flat_ranges,
}
"""By the annotation of the frame's field. Names have limits, and an error of their own (`InvalidNameError`) that says what is named so."""


def check_of(field: str, annotation: str) -> Check:
    """The check of a frame's field."""
    kind, _, nil = annotation.partition(" | ")
    check = partial(_name, what=field.removesuffix("_id")) if kind == "Name" else CHECKS[kind]
    return or_nil(check) if nil else check
