"""What a test needs to have a time limit of the product be over in a turn of the loop of its own choice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def time_limits_noted() -> Iterator[list[asyncio.Timeout]]:
    """Every ``asyncio.timeout`` that is made within, in order; each can be moved."""
    noted: list[asyncio.Timeout] = []
    bounded = asyncio.timeout

    def note(seconds: float | None) -> asyncio.Timeout:
        noted.append(bounded(seconds))
        return noted[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio, "timeout", note)
        yield noted
