"""What a receiver does not hand on of groups of which a message has failed: what comes behind that, until it has come again itself."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from actors.limits import GROUP_HEADER
from transport.errors import BadHeadersError

if TYPE_CHECKING:
    from transport.clients.delivery import Delivery

_SAID: Final = GROUP_HEADER.encode()
Name = str | bytes


def group_of(delivery: Delivery) -> Name | None:
    """The group that a message says; None for none. Of most messages nothing is read for it."""
    if _SAID not in delivery.headers_raw:
        return None
    try:
        return delivery.headers.get(GROUP_HEADER) or None
    except BadHeadersError:
        return None


@dataclass(slots=True)
class _Failed:
    """One group.

    Attributes:
        number: of the message that has failed.
        until: what is the how-manieth to come may have been on its way when that was given back; what comes later was not.
        came: the message itself is here again, or something behind it that the broker would not have given otherwise.
        back: numbers that were given back behind it and have not come again, ascending.
    """

    number: int
    until: int
    came: bool = False
    back: list[int] = field(default_factory=list)


class Behind:
    """Groups of which a message was given back because it has failed, on one connection.

    What was on its way then is behind it, and goes back, too. What comes when all of that must be here is in order: the group is
    forgotten. So there are no more groups here than messages that a receiver may have in flight, twice.
    """

    def __init__(self) -> None:
        self._groups: dict[Name, _Failed] = {}
        self._came = 0

    def __bool__(self) -> bool:
        return bool(self._groups)

    def failed(self, group: Name, number: int, on_their_way: int) -> None:
        """A message goes back to be tried again; so many others have not come yet, at most."""
        known = self._groups.get(group)
        if known is not None and not known.came and number > known.number:
            # Both were handled together, and the other comes first.
            self.given_back(group, number)
            return
        self._groups.pop(group, None)
        self._groups[group] = _Failed(number, self._came + on_their_way)

    def given_back(self, group: Name, number: int) -> None:
        """A message goes back untried."""
        known = self._groups.get(group)
        if known is not None and number > known.number:
            insort(known.back, number)

    def passes(self, group: Name, number: int) -> bool:
        """Whether a message that has come is to be handled; else it goes back."""
        known = self._groups.get(group)
        if known is None or number < known.number:
            return True
        back = known.back
        place = bisect_left(back, number)
        if number == known.number or (place < len(back) and back[place] == number):
            # What was given back before it and has not come is done: somebody else has had it.
            del back[: place + (number != known.number)]
            known.came = True
            if not back:
                del self._groups[group]
            return True
        return known.came and not place

    def come(self, messages: int) -> None:
        """So many have come; groups of which nothing can be on its way any more are forgotten."""
        self._came += messages
        for group, known in list(self._groups.items()):
            if known.until > self._came:
                break
            del self._groups[group]
