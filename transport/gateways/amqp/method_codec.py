"""Methods of AMQP to the payload of a frame and back, by the layout that their classes have (AMQP 0-9-1, 4.2.2 to 4.2.5)."""

from __future__ import annotations

from dataclasses import fields
from itertools import groupby
from struct import Struct
from struct import error as struct_error
from typing import Any, Final, NamedTuple

from transport.errors import LocalProtocolError
from transport.gateways.amqp.errors import AmqpError, erlang_numbers
from transport.gateways.amqp.method import Method
from transport.gateways.amqp.methods import METHODS
from transport.gateways.amqp.reply_codes import ReplyCode
from transport.gateways.amqp.tables import MAX_ARGUMENT_ENTRIES, decode_table, encode_table

MOST_SHOWN_BYTES: Final = 64
"""Of a method that cannot be decoded, in the text about it: more would not fit a reply text."""
MAX_SHORT_STRING_BYTES: Final = 255
BITS_AN_OCTET: Final = 8

INDEX: Final = Struct(">I")
_LONG: Final = INDEX
_NUMBERS: Final = {
    "octet": Struct(">B"),
    "short": Struct(">H"),
    "long": _LONG,
    "longlong": Struct(">Q"),
    "timestamp": Struct(">Q"),
}


class _Step(NamedTuple):
    """An argument, or up to eight bits in a row, which share an octet."""

    kind: str
    names: tuple[str, ...]


def _steps(method: type[Any]) -> tuple[_Step, ...]:
    """What a method's payload is made of behind its index."""
    found: list[_Step] = []
    pairs = zip(method.LAYOUT.split(), (each.name for each in fields(method)), strict=True)
    for kind, group in groupby(pairs, key=lambda pair: pair[0]):
        names = [name for _, name in group]
        size = BITS_AN_OCTET if kind == "bit" else 1
        found += [_Step(kind, tuple(names[at : at + size])) for at in range(0, len(names), size)]
    return tuple(found)


_STEPS: Final = {index: _steps(method) for index, method in METHODS.items()}


def decode_method(payload: bytes) -> Method:
    """The method that a method frame's payload is.

    Raises:
        AmqpError: COMMAND_INVALID: no such method. FRAME_ERROR: other arguments than it has, or a short string that is no UTF-8.
            SYNTAX_ERROR: a malformed table.
    """
    if len(payload) < INDEX.size:
        raise AmqpError(ReplyCode.FRAME_ERROR, f"cannot decode {erlang_numbers(payload)}")
    (index,) = INDEX.unpack_from(payload)
    method = METHODS.get(index)
    if method is None:
        raise AmqpError(ReplyCode.COMMAND_INVALID, f"unimplemented method {index >> 16}.{index & 0xFFFF}", index)
    try:
        return method(**_arguments(method, payload))
    except (struct_error, IndexError) as error:
        shown = erlang_numbers(payload[INDEX.size : INDEX.size + MOST_SHOWN_BYTES])
        raise AmqpError(ReplyCode.FRAME_ERROR, f"cannot decode {shown}", index) from error
    except UnicodeDecodeError as error:
        raise AmqpError(ReplyCode.FRAME_ERROR, "Malformed UTF-8 in shortstr", index) from error
    except AmqpError as error:
        raise error.about(index, 0) from None


def _arguments(method: type[Method], payload: bytes) -> dict[str, Any]:
    """The arguments by their names; raises IndexError or struct.error where there are fewer bytes or more than they take."""
    at, end = INDEX.size, len(payload)
    values: dict[str, Any] = {}
    for kind, names in _STEPS[method.INDEX]:
        name = names[0]
        if kind == "bit":
            bits = payload[at]
            at += 1
            for position, each in enumerate(names):
                values[each] = bits >> position & 1 == 1
        elif kind == "shortstr":
            begin = at + 1
            at = begin + payload[at]
            values[name] = payload[begin:at].decode()
        elif kind in {"longstr", "table"}:
            begin = at + _LONG.size
            at = begin + _LONG.unpack_from(payload, at)[0]
            if at > end:
                raise IndexError(at)
            data = payload[begin:at]
            values[name] = decode_table(data, MAX_ARGUMENT_ENTRIES) if kind == "table" else data
        else:
            number = _NUMBERS[kind]
            (values[name],) = number.unpack_from(payload, at)
            at += number.size
    if at != end:
        raise IndexError(at)
    return values


def encode_method(method: Method) -> bytes:
    """The payload of a method's frame.

    Raises:
        LocalProtocolError: an argument that does not fit its type.
    """
    out = bytearray(INDEX.pack(method.INDEX))
    for kind, names in _STEPS[method.INDEX]:
        value = getattr(method, names[0])
        if kind == "bit":
            out.append(sum(getattr(method, each) << position for position, each in enumerate(names)))
        elif kind == "shortstr":
            out += short_string(value)
        elif kind in {"longstr", "table"}:
            data = encode_table(value) if kind == "table" else value
            out += _LONG.pack(len(data))
            out += data
        else:
            try:
                out += _NUMBERS[kind].pack(value)
            except struct_error as error:
                raise LocalProtocolError(f"{method.NAME}: {names[0]} cannot be {value!r}: it is a {kind}") from error
    return bytes(out)


def short_string(text: str) -> bytes:
    """The bytes of a short string, with its length.

    Raises:
        LocalProtocolError: one of more than ``MAX_SHORT_STRING_BYTES``.
    """
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"the text {text!r} cannot be written as UTF-8") from error
    if len(data) > MAX_SHORT_STRING_BYTES:
        raise LocalProtocolError(f"a short string of {len(data)} bytes exceeds {MAX_SHORT_STRING_BYTES}")
    return bytes((len(data),)) + data
