"""The formats of ``penstock receive``: a delivered batch as bytes, which ``penstock send`` of the same format takes in again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from transport.cli._splitting import LENGTH_BYTES, NEWLINE, NUL

if TYPE_CHECKING:
    from transport.clients.delivery import DeliveredBatch

Warn = Callable[[str], None]
Encoder = Callable[["DeliveredBatch"], bytes]


def encoder_of(name: str | None, warn: Warn) -> Encoder:
    """What writes the format ``null``, ``length-prefixed`` or ``jsonl``, or lines.

    ``warn`` is told, once, when a message cannot be told from others in what is written.
    """
    if name == "length-prefixed":
        return _length_prefixed
    if name == "jsonl":
        return _json_lines(warn)
    if name == "null":
        return _separated(NUL, "a NUL", "--length-prefixed or --jsonl", warn)
    return _separated(NEWLINE, "a newline", "--null or --jsonl", warn)


def _separated(separator: bytes, what: str, better: str, warn: Warn) -> Encoder:
    warned = False

    def encode(delivered: DeliveredBatch) -> bytes:
        nonlocal warned
        lines = delivered.payloads()
        lines.append(b"")
        written = separator.join(lines)
        if not warned and written.count(separator) >= len(lines):
            warned = True
            at = next(index for index, line in enumerate(lines) if separator in line)
            warn(
                f"message {delivered.first + at} has {what} in it, so that it is written as several: use {better} "
                "to tell messages apart. Further ones are not reported"
            )
        return written

    return encode


def _length_prefixed(delivered: DeliveredBatch) -> bytes:
    parts: list[bytes] = []
    for payload in delivered.payloads():
        parts += (len(payload).to_bytes(LENGTH_BYTES), payload)
    return b"".join(parts)


def _json_lines(warn: Warn) -> Encoder:
    from transport.cli._json_lines import write_messages  # noqa: PLC0415 - for this format alone

    warned = False

    def encode(delivered: DeliveredBatch) -> bytes:
        nonlocal warned
        written, bad = write_messages(delivered)
        if bad is not None and not warned:
            warned = True
            warn(
                f"the headers of message {bad} are no map of strings: they stand in headers_base64 as they came, and "
                "`penstock send --jsonl` refuses them. Further ones are not reported"
            )
        return written

    return encode
