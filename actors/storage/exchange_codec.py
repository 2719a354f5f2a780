"""Exchanges and bindings as records of the journal and in its checkpoints, and back.

A record of the kind ``EXCHANGES_CHANGED`` is a msgpack array ``[[change, ...], number of a queue | nil]``: what happened in one instant to
what is durable of the definitions, with the queue that was deleted in the same instant, if one was. A change is::

    [0, number, exchange]      it was declared
    [1, number, name]          an exchange was deleted
    [2, number, binding]       it was bound
    [3, number, binding]       it was unbound
    [4, number, name]          a queue was deleted
    [5, number, exchange]      one at which messages wait was declared: a program that knows of none refuses the directory

``number`` counts the changes. An exchange is ``[name, kind, auto-delete, internal, arguments]``, and a binding ``[source, destination,
whether that is an exchange, key, arguments]``. Both are durable, or they would not be here. A checkpoint has ``[number of changes,
[exchange, ...], [binding, ...]]``.

Arguments are msgpack maps. A time in them is an extension of type 1, a decimal number one of type 2: each is its text (ISO 8601).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeAlias

import msgpack

from actors.errors import StorageError
from actors.exchanges.delayed import is_delayed
from actors.exchanges.vocabulary import (
    Binding,
    Bound,
    Definitive,
    Destination,
    Event,
    Exchange,
    ExchangeDeclared,
    ExchangeDeleted,
    QueueUnbound,
    Unbound,
)

ROWS: Final = 512
"""Exchanges or bindings in one piece of a checkpoint: some milliseconds of work where all have large arguments."""
_TIME, _DECIMAL = 1, 2

Fields: TypeAlias = "Sequence[Any]"


def encode_changes(events: Iterable[Event], deleted_queue: int | None = None) -> bytes:
    """The payload of EXCHANGES_CHANGED; every event has a number."""
    packed: bytes = _packer().pack([[_change(event) for event in events], deleted_queue])
    return packed


def decode_changes(payload: bytes | memoryview) -> tuple[list[Event], int | None]:
    """The reverse: the events, and the number of the queue that was deleted with them; raises StorageError."""
    try:
        changes, deleted_queue = unpack(payload)
        return [_CHANGES[kind](number, what) for kind, number, what in changes], deleted_queue
    except (ValueError, TypeError, KeyError, IndexError, InvalidOperation, msgpack.UnpackException) as error:
        raise StorageError(f"a change of exchanges or bindings cannot be decoded: {error!r}") from error


def encoded_definitions(definitive: Definitive) -> Iterator[bytes]:
    """What a checkpoint has of them, piece by piece."""
    packer = _packer()
    yield packer.pack_array_header(3) + packer.pack(definitive.number)
    yield from _pieces(packer, definitive.exchanges, _exchange_fields)
    yield from _pieces(packer, definitive.bindings, _binding_fields)


def decoded_definitions(fields: Fields) -> Definitive:
    """The reverse, of what ``unpack`` has made of it; raises what a checkpoint that cannot be decoded raises there."""
    number, exchanges, bindings = fields
    return Definitive(int(number), tuple(map(_exchange, exchanges)), tuple(map(_binding, bindings)))


def unpack(payload: bytes | memoryview) -> Any:
    """Whatever was packed, with the times and decimal numbers that are in it."""
    return msgpack.unpackb(payload, ext_hook=_read_extension, strict_map_key=False)


def _packer() -> Any:
    return msgpack.Packer(default=_extension)


def _extension(value: object) -> object:
    if isinstance(value, datetime):
        return msgpack.ExtType(_TIME, value.isoformat().encode())
    if isinstance(value, Decimal):
        return msgpack.ExtType(_DECIMAL, str(value).encode())
    if isinstance(value, Mapping):
        return dict(value)  # what has no arguments has a view of nothing
    raise TypeError(f"no record has a value of type {type(value).__name__}")


def _read_extension(code: int, data: bytes) -> object:
    if code == _TIME:
        return datetime.fromisoformat(data.decode())
    if code == _DECIMAL:
        return Decimal(data.decode())
    raise ValueError(f"a value of the unknown extension type {code}")


def _pieces(packer: Any, rows: Sequence[Any], fields: Callable[[Any], Fields]) -> Iterator[bytes]:
    yield packer.pack_array_header(len(rows))
    for at in range(0, len(rows), ROWS):
        yield b"".join([packer.pack(fields(row)) for row in rows[at : at + ROWS]])


def _exchange_fields(exchange: Exchange) -> Fields:
    return [exchange.name, exchange.kind, exchange.auto_delete, exchange.internal, exchange.arguments]


def _exchange(fields: Fields) -> Exchange:
    name, kind, auto_delete, internal, arguments = fields
    return Exchange(name, kind, durable=True, auto_delete=auto_delete, internal=internal, arguments=arguments)


def _binding_fields(binding: Binding) -> Fields:
    return [binding.source, *binding.destination, binding.key, binding.arguments]


def _binding(fields: Fields) -> Binding:
    source, destination, is_exchange, key, arguments = fields
    return Binding(source, Destination(destination, is_exchange), key, arguments)


def _change(event: Event) -> Fields:
    if isinstance(event, ExchangeDeclared):
        return [5 if is_delayed(event.exchange) else 0, event.number, _exchange_fields(event.exchange)]
    if isinstance(event, ExchangeDeleted):
        return [1, event.number, event.name]
    if isinstance(event, Bound):
        return [2, event.number, _binding_fields(event.binding)]
    if isinstance(event, Unbound):
        return [3, event.number, _binding_fields(event.binding)]
    return [4, event.number, event.queue]


_CHANGES: Final[dict[int, Callable[[int, Any], Event]]] = {
    0: lambda number, fields: ExchangeDeclared(number, _exchange(fields)),
    1: ExchangeDeleted,
    2: lambda number, fields: Bound(number, _binding(fields)),
    3: lambda number, fields: Unbound(number, _binding(fields)),
    4: QueueUnbound,
    5: lambda number, fields: ExchangeDeclared(number, _exchange(fields)),
}
