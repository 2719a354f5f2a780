"""One look after another for `penstock top`, and the rates of those who send and receive between two of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any, Final, NamedTuple

from transport.cli._run import failures
from transport.cli._top_sources import Pictures
from transport.clients.administration import Facts
from transport.clients.backoff import is_transient
from transport.clients.picture import Picture

ROWS: Final = 200
"""Queues that are asked for: more than a screen has room for."""


FORGETS: Final = 4.0
"""Seconds behind a look in which the broker surely goes on with its samples (`LINGER_SECONDS`, less what an answer may take)."""
AHEAD: Final = 1.5
"""Where it does not, it is asked so many seconds before a look too: it takes a sample a second, and of one there are no rates."""


class Wanted(NamedTuple):
    """What is to be seen.

    Attributes:
        order: of the queues.
        contains: what their names have.
        queue: of which to tell who sends and who receives; None for the first.
        connections: whether to list those too.
    """

    order: str = "pressure"
    contains: str = ""
    queue: str | None = None
    connections: bool = False


def wanted_of(order: str, contains: str, queue: str | None) -> Wanted:
    """What the options ask for."""
    return Wanted(order, contains, queue)


class Seen(NamedTuple):
    """What one look found; of a broker that is away only why.

    Attributes:
        picture: None where there is none.
        connections: where they were wanted.
        lost: why nobody could be asked; None where all is well.
    """

    picture: Picture | None
    connections: list[Facts] | None = None
    lost: str | None = None


class Looks:
    """Looks at a broker.

    Args:
        pictures: whom to ask.
        interval: seconds from one look to the next.
        count: looks that find something; None for no end.
    """

    def __init__(self, pictures: Pictures, interval: float, count: int | None) -> None:
        self._pictures = pictures
        self._interval = interval
        self._count = count
        self._rates = PartyRates()
        self.where = pictures.where
        self.wanted = Wanted()
        self._soon = asyncio.Event()

    def want(self, wanted: Wanted) -> None:
        """See this from now on; what is other than before is looked at at once."""
        if wanted != self.wanted:
            self.wanted = wanted
            self._soon.set()

    async def all(self) -> AsyncGenerator[Seen, None]:
        """What is seen, until the last look; who breaks off closes it.

        Raises:
            TransportError, OSError: of the first look, where nobody answers; later a refusal, or what is not the protocol.
        """
        left = self._count
        first = True
        try:
            while left is None or left > 0:
                self._soon.clear()
                try:
                    seen = await self._look()
                except failures() as error:
                    if first or not is_transient(error):
                        raise
                    seen = Seen(None, lost=str(error))
                first = False
                yield seen
                # Where something else is wanted now, this was no look at it.
                if left is not None and seen.picture is not None and not self._soon.is_set():
                    left -= 1
                if left != 0:
                    await self._until_next()
        finally:
            await self._pictures.close()

    async def _look(self) -> Seen:
        wanted = self.wanted
        asked = {"order": wanted.order, "contains": wanted.contains, "limit": ROWS, "queue": wanted.queue}
        picture = await self._pictures.picture(asked)
        self._rates.add(picture, monotonic())
        connections = await self._pictures.connections() if wanted.connections else None
        return Seen(picture, connections)

    async def _until_next(self) -> None:
        left = self._interval
        if left > FORGETS:
            if await self._wanted_within(left - AHEAD):
                return
            # Where this fails, the look itself says so.
            with suppress(*failures()):
                await self._pictures.picture({"limit": 1})
            left = AHEAD
        await self._wanted_within(left)

    async def _wanted_within(self, seconds: float) -> bool:
        """Whether something else is wanted by then."""
        try:
            async with asyncio.timeout(seconds):
                await self._soon.wait()
        except TimeoutError:
            return False
        return True


class PartyRates:
    """Messages a second of each who sends or receives, from one picture to the next: a broker tells one who asks once how many in all."""

    def __init__(self) -> None:
        self._queue: str | None = None
        self._at = 0.0
        self._counts: dict[tuple[Any, ...], int] = {}

    def add(self, picture: Picture, now: float) -> None:
        """Fill in the rates of ``picture``, which was seen at ``now`` seconds."""
        flow = picture["flow"]
        if flow is None:
            self._queue, self._counts = None, {}
            return
        name = flow["name"]
        known = self._counts if name == self._queue and now > self._at else {}
        seconds = now - self._at
        counts: dict[tuple[Any, ...], int] = {}
        parties = (*flow["senders"], *flow["receivers"])
        for party in parties:
            # What sends and takes by request has no connection: those of one queue are told as one, at the first of them.
            key = _key(party)
            counts[key] = counts.get(key, 0) + party.get("messages", 0)
        told: set[tuple[Any, ...]] = set()
        for party in parties:
            key = _key(party)
            party["rate"] = 0.0 if key in told or key not in known else max(0, counts[key] - known[key]) / seconds
            told.add(key)
        self._queue, self._at, self._counts = name, now, counts


def _key(party: Mapping[str, Any]) -> tuple[Any, ...]:
    return party.get("id"), party.get("role"), party.get("client")
