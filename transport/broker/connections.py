"""The connections of a broker: how many there may be, which there are, and when the last of them has gone."""

from __future__ import annotations

import asyncio
from typing import Generic, Protocol, TypeVar

from transport.broker.descriptors import POLITE_REFUSALS
from transport.errors import BrokerError, LimitExceededError

SHUTTING_DOWN = ("shutting-down", "the broker is stopping; connect again later")


class RefusalError(BrokerError):
    """A refusal on its way to the client; the text goes as it is."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(code, text)
        self.args = (text,)


class Numbered(Protocol):
    """A connection by its number."""

    number: int


C = TypeVar("C", bound=Numbered)


class Connections(Generic[C]):
    """Every connection, from when it is accepted to its end.

    Attributes:
        most: how many there may be.
        configured: how many there might be if enough files could be open.
        standing: those that are told of, by number.
        numbers: how many there ever were; the next one's number.
        ending: whether the broker stops, and takes no more.
    """

    def __init__(self, configured: int) -> None:
        self.most = self.configured = configured
        self.standing: dict[int, C] = {}
        self.numbers = 0
        self.ending = False
        self._accepted: set[int] = set()
        self._drained: asyncio.Future[None] | None = None

    def has_room(self) -> bool:
        """Whether one more may be accepted; some above the limit are, to be refused in good order."""
        return len(self._accepted) < self.most + POLITE_REFUSALS

    def accept(self) -> int:
        """The number of a connection that is accepted."""
        number = self.numbers
        self.numbers += 1
        self._accepted.add(number)
        return number

    def add(self, connection: C) -> None:
        """Take in one that stands; raises LimitExceededError where there is no room, and RefusalError where the broker stops."""
        if self.ending:
            raise RefusalError(*SHUTTING_DOWN)
        if len(self.standing) >= self.most:
            raise LimitExceededError(self.too_many())
        self.standing[connection.number] = connection

    def remove(self, connection: C) -> None:
        """Forget one that is over."""
        self._accepted.discard(connection.number)
        self.standing.pop(connection.number, None)
        if not self._accepted and self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    async def drain(self, seconds: float) -> None:
        """Wait until there are none, those too that are accepted and do not stand yet; not for longer than ``seconds``."""
        if self._accepted:
            self._drained = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._drained], timeout=seconds)

    def too_many(self) -> str:
        """Why one more is refused, and what to do."""
        more = "raise max_connections" if self.most == self.configured else "raise ulimit -n"
        return f"{self.most} connections are open, which is the limit; close some, or {more}"
