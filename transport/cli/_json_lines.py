"""A message as a JSON object on a line, both ways: what ``penstock receive --jsonl`` prints, and ``send --jsonl`` takes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from transport.clients.json_messages import Given, json_of, message_of

if TYPE_CHECKING:
    from actors.batch import Message
    from transport.clients.delivery import DeliveredBatch
    from transport.wire.timing import Timing

MAX_JSON_LINE_BYTES: Final = 100 * 1024 * 1024
"""Of an object: a byte takes six at most, so every message that fits a frame fits, with some room for names and white space."""


def read_message(line: bytes, given: Given) -> tuple[Message, Timing]:
    """The message that a line holds, and its own timing.

    Raises:
        ValueError: the line holds none; the text says what is wrong with it.
    """
    try:
        found = json.loads(line.decode())
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no JSON object: {error}") from None
    return message_of(found, given)


def write_messages(delivered: DeliveredBatch) -> tuple[bytes, int | None]:
    """The lines of a delivered batch, and the number of the first of its messages whose headers are no map of strings, if any."""
    batch, lines, bad = delivered.batch, [], None
    enqueued = (datetime.fromtimestamp(delivered.enqueued_us // 1_000_000, UTC)).replace(
        microsecond=delivered.enqueued_us % 1_000_000
    )
    told: dict[str, Any] = {
        "queue": delivered.queue,
        "deliveries": delivered.delivery_count,
        "possibly_replayed": delivered.possibly_replayed,
        "enqueued": enqueued.isoformat(timespec="microseconds").replace("+00:00", "Z"),
    }
    if delivered.priority:
        told["priority"] = delivered.priority
    for index, payload in enumerate(delivered.payloads()):
        key = b"" if batch.keys is None else batch.keys[index]
        said = json_of(payload, key, b"" if batch.headers is None else batch.headers[index])
        if "headers_base64" in said and bad is None:
            bad = delivered.first + index
        said["id"] = delivered.message_id(index).hex()
        said["number"] = delivered.first + index
        said |= told
        if delivered.exchange is not None:
            said |= {"exchange": delivered.exchange, "routing_key": delivered.routing_key_of(index)}
        lines.append(json.dumps(said, ensure_ascii=False, separators=(",", ":")))
    lines.append("")
    return "\n".join(lines).encode(), bad
