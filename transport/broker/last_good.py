"""What the brokers of one node have read last that was good. One that stands by turns goes on with it where a file cannot be read then.

A broker that is alone refuses to start with a users file that is wrong: somebody sees that. Nobody looks at a node that takes over, and
others wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar

from transport.broker import audit
from transport.errors import TransportError

if TYPE_CHECKING:
    import ssl

    from transport.broker.unhurried import Unhurried
    from transport.security.users import Users

T = TypeVar("T")

TAKE_OVER_READ_SECONDS: Final = 5.0
"""After which a file is given up where there is something to go on with: a cluster waits."""


class LastGood(Generic[T]):
    """Of one thing.

    Args:
        name: what it is called in the log, as where it is read anew.

    Attributes:
        value: what was read; None before.
    """

    def __init__(self, name: str) -> None:
        self.value: T | None = None
        self._name = name

    async def read(self, file: Unhurried[T]) -> T:
        """What is there now, or what was good last where it cannot be read, which the log says; raises where there is nothing yet."""
        last = self.value
        try:
            self.value = now = await file.later(None if last is None else TAKE_OVER_READ_SECONDS)
        except (TransportError, OSError, ValueError) as error:
            if last is None:
                raise
            audit.not_read(self._name, error)
            return last
        return now


class FilesOfANode:
    """All that the brokers of one node read: whichever of them stands."""

    def __init__(self) -> None:
        self.users: LastGood[Users] = LastGood("users")
        self.certificates: LastGood[ssl.SSLContext] = LastGood("certificates")
