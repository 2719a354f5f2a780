"""Messages that somebody looks at without receiving them."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from transport.errors import RemoteProtocolError

Ask = Callable[[dict[str, Any]], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class PeekedMessage:
    """A stored message as it is.

    Attributes:
        number: the queue's number of it.
        id: 16 bytes, its own or generated.
        enqueued_us: when it was stored, microseconds since the epoch.
        age_ms: how old it is, milliseconds.
        deliveries: how often it was delivered, as far as the queue knows: of a message that nobody holds and that never came back, 0.
        replayed: whether it may have been delivered before.
        payload: its payload, or only the beginning of it.
        size: bytes of the whole payload.
        key: its key, or the beginning of it; None where it has none.
        key_size: bytes of the whole key.
        headers: its headers; None where they are too large to be shown, or cannot be read.
        headers_size: bytes of the headers as they are stored.
        exchange: where it was published, empty for the default exchange; None where it was sent to the queue itself.
        routing_key: the key that it was published with; likewise None.
        priority: its level in the queue; 0 where that has none, or the broker is older.
    """

    number: int
    id: bytes
    enqueued_us: int
    age_ms: int
    deliveries: int
    replayed: bool
    payload: bytes
    size: int
    key: bytes | None
    key_size: int
    headers: Mapping[str, str | bytes] | None
    headers_size: int
    exchange: str | None = None
    routing_key: str | None = None
    priority: int = 0


async def peek(ask: Ask, count: int, start: int | None, newest: bool) -> list[PeekedMessage]:
    """See `Administration.peek`; ``ask`` gives what one command does, with these arguments besides."""
    found: list[PeekedMessage] = []
    arguments: dict[str, Any] = {"newest": True} if newest else {} if start is None else {"start": start}
    while len(found) < count:
        answer = await ask({"count": count - len(found), **arguments})
        try:
            more, following = [_message(row) for row in answer["messages"]], answer["next"]
            if type(following) is int and more and following <= more[-1].number:
                raise ValueError("it leads back")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RemoteProtocolError(
                f"the broker's answer about messages is of another shape: {error!r:.80}"
            ) from error
        found += more
        if type(following) is not int or not more:
            break
        arguments = {"start": following}
    return found[:count]


def _message(row: Mapping[str, Any]) -> PeekedMessage:
    headers = row["headers"]
    return PeekedMessage(
        number=int(row["number"]),
        id=bytes.fromhex(row["id"]),
        enqueued_us=int(row["enqueued_us"]),
        age_ms=int(row["age_ms"]),
        deliveries=int(row["deliveries"]),
        replayed=bool(row["replayed"]),
        payload=b64decode(row["payload"]),
        size=int(row["size"]),
        key=None if row["key"] is None else b64decode(row["key"]),
        key_size=int(row["key_size"]),
        headers=None
        if headers is None
        else {
            name: b64decode(value["base64"]) if isinstance(value, dict) else value for name, value in headers.items()
        },
        headers_size=int(row["headers_size"]),
        exchange=row.get("exchange"),
        routing_key=row.get("routing_key"),
        priority=int(row.get("priority", 0)),
    )
