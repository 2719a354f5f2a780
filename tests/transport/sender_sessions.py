"""Sender sessions that are open, and what they send."""

from __future__ import annotations

from typing import Any

from transport.clients.sender_session import SenderSession
from transport.wire.messages import Send

FULL = "the queue is full"


def opened(messages: int = 1_000_000, size: int = 1 << 40, last: int | None = None, **limits: Any) -> SenderSession:
    session = SenderSession(**limits)
    session.connected(last)
    session.granted(messages, size)
    return session


def offer(session: SenderSession, *elements: Any) -> None:
    for element in elements:
        session.offer(element)


def shape(frames: list[Send]) -> list[tuple[int, list[bytes]]]:
    return [(frame.sequence, frame.batch.payloads.tolist()) for frame in frames]
