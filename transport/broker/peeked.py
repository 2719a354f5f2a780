"""Stored messages as rows of JSON, for people who look at a queue: never more than an answer may hold."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import TYPE_CHECKING, Any

from actors import BatchError
from actors.batch import ID_BYTES, unpack_headers
from transport.wire.amqp_headers import told_headers

if TYPE_CHECKING:
    from actors.batch import MessageBatch
    from actors.queue.vocabulary.replies import FetchedMessages, PeekedRange

MOST_MESSAGES = 1000
"""Messages of one answer."""
MESSAGE_BYTES = 1024 * 1024
"""Bytes of a payload, of a key and of headers that are told of one message; of more only the beginning, and of headers nothing."""
ANSWER_BYTES = 2 * MESSAGE_BYTES
"""Bytes of all of it, at which nothing more is added, headers as JSON has them: with the last message it fits a frame all the same."""
NUMBER_BYTES = 8


class Rows:
    """The rows of one answer.

    Args:
        count: how many there may be.
        most: bytes of each payload, and key, that are told.
        id_prefix: the first bytes of the ids generated for the queue's messages.

    Attributes:
        rows: what there is.
    """

    def __init__(self, count: int, most: int, id_prefix: bytes) -> None:
        self._count = count
        self._most = most
        self._id_prefix = id_prefix
        self._bytes = 0
        self.rows: list[dict[str, Any]] = []

    @property
    def left(self) -> int:
        """How many more there may be."""
        return 0 if self._bytes >= ANSWER_BYTES else self._count - len(self.rows)

    def add(self, found: PeekedRange) -> int | None:
        """Add messages; the number of the first for which there is no room any more."""
        messages = found.messages
        for index in range(len(messages.batch)):
            if self.left <= 0:
                return messages.first + index
            self.rows.append(
                {
                    "number": messages.first + index,
                    "id": self._id(messages.batch, messages.first, index).hex(),
                    "enqueued_us": messages.enqueued_us,
                    "age_ms": found.age_us // 1000,
                    "deliveries": messages.delivery_count,
                    "replayed": messages.possibly_replayed,
                    **self._contents(messages.batch, index),
                    **_published(messages, index),
                    **({"priority": messages.priority} if messages.priority else {}),
                }
            )
        return None

    def _id(self, batch: MessageBatch, first: int, index: int) -> bytes:
        if batch.ids is None:
            return self._id_prefix + (first + index).to_bytes(NUMBER_BYTES, "big")
        return bytes(batch.ids[index * ID_BYTES : (index + 1) * ID_BYTES])

    def _contents(self, batch: MessageBatch, index: int) -> dict[str, Any]:
        payload = batch.payloads[index]
        key = b"" if batch.keys is None else batch.keys[index]
        packed = b"" if batch.headers is None else batch.headers[index]
        headers, size = _headers(packed) if len(packed) <= MESSAGE_BYTES else (None, 0)
        told = payload[: self._most]
        self._bytes += len(told) + len(key[: self._most]) + size
        return {
            "size": len(payload),
            "payload": b64encode(told).decode(),
            "key_size": len(key),
            "key": b64encode(key[: self._most]).decode() if key else None,
            "headers_size": len(packed),
            "headers": headers,
        }


def _published(messages: FetchedMessages, index: int) -> dict[str, str]:
    """Where a message was published, if it was."""
    published, keys = messages.published, messages.batch.keys
    if published is None:
        return {}
    key = published.key_of(b"" if keys is None else keys[index])
    return {"exchange": published.exchange, "routing_key": key}


def _headers(packed: bytes) -> tuple[dict[str, Any] | None, int]:
    """Headers with their values as they are, and their bytes in JSON, which may be six times as many as they take here.

    A value is a text, or an object of ``base64``. What is no map of headers is None.
    """
    try:
        headers = told_headers(unpack_headers(packed) or {})
        told = {
            name: value if isinstance(value, str) else {"base64": b64encode(value).decode()}
            for name, value in headers.items()
        }
        json.dumps(told, ensure_ascii=False).encode()
    except (BatchError, UnicodeError):
        return None, 0
    return told, len(json.dumps(told))
