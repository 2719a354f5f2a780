"""What the bodies of requests and answers take of memory together: each is bounded, and so is their sum."""

from __future__ import annotations

import asyncio
from typing import Final

from transport.gateways.http.problems import ProblemError

MOST_HELD_BYTES: Final = 256 * 1024 * 1024
"""Of all bodies of requests and answers there are at a time."""
FREE_BYTES: Final = 64 * 1024
"""Of each request, in any case: small ones go on while large ones fill the rest."""


class Held:
    """Counts the bytes of all bodies.

    Args:
        most: there may be at a time.

    Attributes:
        bytes: those there are.
        aside: to be had by whoever has a thread look at a body.
    """

    def __init__(self, most: int = MOST_HELD_BYTES) -> None:
        self.most = most
        self.bytes = 0
        self.aside = asyncio.Semaphore()

    def share(self) -> Share:
        """One request's."""
        return Share(self)


class Share:
    """What one request and its answer hold.

    Args:
        held: counts it.
    """

    def __init__(self, held: Held) -> None:
        self._held = held
        self._bytes = 0
        self._counted = 0

    @property
    def aside(self) -> asyncio.Semaphore:
        """As of `Held`."""
        return self._held.aside

    def take(self, size: int) -> None:
        """Hold so many bytes more.

        Raises:
            ProblemError: all requests together would hold too many.
        """
        counted = max(self._bytes + size - FREE_BYTES, 0)
        more = counted - self._counted
        if more and self._held.bytes + more > self._held.most:
            raise ProblemError(
                "limit-exceeded",
                f"requests and answers hold {self._held.bytes} bytes here, and {self._held.most} are the most:"
                " send or take less at a time, or try again",
                headers={"Connection": "close"},
            )
        self._bytes += size
        self._counted = counted
        self._held.bytes += more

    def give_back(self) -> None:
        """All of it."""
        self._held.bytes -= self._counted
        self._bytes = self._counted = 0
