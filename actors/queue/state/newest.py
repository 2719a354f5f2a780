"""Of connections under one name the one that was accepted last stands.

A client that comes again has given up the connection before. Yet its broker may hear of the two in the other order: where it stood still
for a while, or was frozen, both wait for it, and which it hears first is chance. By that order the dead one would turn the living one out.
"""

from __future__ import annotations

from typing import ClassVar, Final, Protocol

from actors.errors import QueueError

OF_CLIENT: Final = "a newer connection carries this client id"
OF_STAGE: Final = "a newer connection carries this stage"
OF_SUBSCRIPTION: Final = "a newer connection owns this subscription"


class TakenOverError(QueueError):
    """A connection that was accepted later has the name under which this one comes; the text says which."""

    code: ClassVar[str] = "taken-over"


class Arrived(Protocol):
    """Who came on a connection.

    Attributes:
        arrival: the connection's number, in the order in which the broker accepted them; 0 for who came on none.
    """

    @property
    def arrival(self) -> int:
        """See the class."""


def check_newest(present: Arrived | None, newcomer: Arrived, what: str) -> None:
    """Raise TakenOverError where whoever has the name, if anybody, came behind the newcomer; ``what`` says so in words."""
    if present is not None and present.arrival > newcomer.arrival:
        raise TakenOverError(what)
