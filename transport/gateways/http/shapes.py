"""Shapes of JSON as OpenAPI 3.1 describes them (JSON Schema, draft 2020-12): what answers have, and what the answers of routes are."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, Final, NamedTuple

from transport.wire.field_checks import MAX_INTEGER
from transport.wire.names import MAX_NAME_BYTES

Shape = Mapping[str, Any]

JSON: Final = "application/json"
TEXT: Final[Shape] = {"type": "string"}
FLAG: Final[Shape] = {"type": "boolean"}
NUMBER: Final[Shape] = {"type": "number"}
COUNT: Final[Shape] = {"type": "integer", "minimum": 0}
WHOLE: Final[Shape] = {"type": "integer", "minimum": 0, "maximum": MAX_INTEGER}
"""As an argument; in an answer a number may be larger."""
NAME: Final[Shape] = {"type": "string", "minLength": 1, "maxLength": MAX_NAME_BYTES}
"""Of a queue, and of what else has a name: up to so many bytes, printable, without blanks."""
_PART: Final = r"[0-9][0-9_]*(\.[0-9]+)? ?(d|h|m|min|s|ms)\s*"
DURATION_PATTERN: Final = rf"^\s*([0-9][0-9_]*(\.[0-9]+)?\s*|({_PART})+)$"
"""What a duration looks like, as `transport.config.units` reads it."""
BASE64: Final[Shape] = {
    "type": "string",
    "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
}
BYTES: Final[Shape] = {"type": "string", "format": "binary"}
_KINDS: Final[Mapping[Any, Shape]] = {int: {"type": "integer"}, float: NUMBER, str: TEXT, bool: FLAG}


class Answered(NamedTuple):
    """One way in which a route answers.

    Attributes:
        text: what it means.
        content: the shape of the body of each media type; none where there is no body.
        headers: of the answer, beside those of every answer; each with what it says.
    """

    text: str
    content: Mapping[str, Shape] = {}
    headers: Mapping[str, str] = {}


def answers(shape: Shape, text: str = "done", status: int = 200) -> dict[int, Answered]:
    """A route that answers with JSON of this shape, where it does what it is asked."""
    return {status: Answered(text, {JSON: shape})}


def record(**parts: Shape) -> dict[str, Any]:
    """An object that has all of these fields."""
    return {"type": "object", "required": list(parts), "properties": parts}


def several(shape: Shape) -> dict[str, Any]:
    """A list."""
    return {"type": "array", "items": shape}


def by_name(shape: Shape) -> dict[str, Any]:
    """An object with fields of any name."""
    return {"type": "object", "additionalProperties": shape}


def maybe(shape: Shape) -> dict[str, Any]:
    """It, or null."""
    if isinstance(kind := shape.get("type"), str) and "enum" not in shape:
        return {**shape, "type": [kind, "null"]}
    return {"anyOf": [shape, {"type": "null"}]}


def one_of(one: str, other: str) -> dict[str, Any]:
    """What is said of an object that has one of two fields, and not the other."""
    return {"oneOf": [both(one), both(other)]}


def both(*names: str) -> dict[str, Any]:
    """What is said of an object that has these fields, and none of them null."""
    return {"required": list(names), "properties": {name: {"not": {"type": "null"}} for name in names}}


def from_one_to(most: int) -> dict[str, Any]:
    """What is said of a whole number."""
    return {"minimum": 1, "maximum": most}


def seconds_to(most: float) -> dict[str, Any]:
    """What is said of a duration."""
    return {
        "anyOf": [{"type": "number", "minimum": 0, "maximum": most}, {"type": "string", "pattern": DURATION_PATTERN}]
    }


def page(row: Shape) -> dict[str, Any]:
    """A part of a list."""
    return record(rows=several(row), next=maybe(TEXT))


def optional(shape: dict[str, Any], **parts: Shape) -> dict[str, Any]:
    """An object that may have these fields beside its own."""
    return {**shape, "properties": {**shape["properties"], **parts}}


@cache
def fields_of(kind: type, but: tuple[str, ...] = ()) -> Mapping[str, Shape]:
    """The shapes of the fields of a dataclass or a named tuple of plain values, but for some."""
    hints = typing.get_type_hints(kind)
    names = kind._fields if issubclass(kind, tuple) else [each.name for each in fields(kind)]  # type: ignore[attr-defined,arg-type]
    return {name: _of_hint(hints[name]) for name in names if name not in but}


def _of_hint(hint: Any) -> Shape:
    if isinstance(hint, types.UnionType):
        one, none = typing.get_args(hint)
        assert none is type(None), f"a shape of one kind, not {hint}"
        return maybe(_of_hint(one))
    if typing.get_origin(hint) is tuple:
        return several(_of_hint(typing.get_args(hint)[0]))
    return _KINDS[hint]
