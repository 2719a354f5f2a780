"""What somebody at the screen of `penstock top` has chosen, and what each key makes of it; no terminal, no broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from transport.cli._top_looks import Seen, Wanted
from transport.clients.picture import Picture

ORDER_KEYS: Final = {"p": "pressure", "r": "rate", "b": "backlog", "n": "name"}
LIST: Final = "list"
FLOW: Final = "flow"
CONNECTIONS: Final = "connections"
HELP: Final = "help"
MAX_FILTER: Final = 255
"""Characters, as many as a name may have."""
PAGE: Final = 10
"""Rows that page up and page down pass."""


@dataclass(slots=True)
class State:
    """What is chosen, and what was seen last.

    Attributes:
        order: of the queues.
        contains: the filter.
        view: which of the four pages is shown.
        selected: the name of the queue that is selected; None before there is one.
        editing: whether the filter is being typed.
        picture: what was seen last.
        connections: likewise.
        lost: why nothing newer is seen; None where all is well.
        ended: whether it is over.
    """

    order: str = "pressure"
    contains: str = ""
    view: str = LIST
    selected: str | None = None
    editing: bool = False
    picture: Picture | None = None
    connections: list[dict[str, object]] | None = None
    lost: str | None = None
    ended: bool = False
    _before: str = ""
    _place: int = 0

    @property
    def names(self) -> list[str]:
        """The queues that are seen, in order."""
        return [] if self.picture is None else [row["name"] for row in self.picture["queues"]]

    @property
    def wanted(self) -> Wanted:
        """What is to be asked for."""
        return Wanted(self.order, self.contains, self.selected, self.view == CONNECTIONS)

    def see(self, seen: Seen) -> None:
        """Take in what a look has found. What was seen before stays where the broker is away."""
        self.lost = seen.lost
        if seen.picture is None:
            return
        self.picture = seen.picture
        self.connections = seen.connections if seen.connections is not None else self.connections
        names = self.names
        if self.selected in names:
            self._place = names.index(self.selected)
        elif names and self.view == LIST:
            # It is gone, or filtered out: the one that stands in its place now.
            self._place = min(self._place, len(names) - 1)
            self.selected = names[self._place]
        elif not names and self.view == LIST:
            self.selected = None

    def press(self, key: str) -> None:
        """What a key does."""
        if self.editing:
            self._edit(key)
        elif key == "q":
            self.ended = True
        elif key in {"h", "?"}:
            self.view = LIST if self.view == HELP else HELP
        elif key == "c":
            self.view = LIST if self.view == CONNECTIONS else CONNECTIONS
        elif key in ORDER_KEYS:
            self.order, self.view = ORDER_KEYS[key], LIST
        elif key == "/":
            self.editing, self.view, self._before = True, LIST, self.contains
        elif key == "enter":
            self.view = FLOW if self.view == LIST and self.selected is not None else LIST
        elif key in {"back", "erase"}:
            self._back()
        else:
            self._move(key)

    def _back(self) -> None:
        if self.view == LIST:
            self.contains = ""
        self.view = LIST

    def _edit(self, key: str) -> None:
        if key == "enter":
            self.editing = False
        elif key == "back":
            self.editing, self.contains = False, self._before
        elif key == "erase":
            self.contains = self.contains[:-1]
        elif len(key) == 1 and len(self.contains) < MAX_FILTER:
            self.contains += key

    def _move(self, key: str) -> None:
        names = self.names
        if not names or self.view not in {LIST, FLOW}:
            return
        steps = {"up": -1, "k": -1, "down": 1, "j": 1, "page up": -PAGE, "page down": PAGE}
        if key in steps:
            place = self._place + steps[key]
        elif key in {"home", "g"}:
            place = 0
        elif key in {"end", "G"}:
            place = len(names) - 1
        else:
            return
        self._place = max(0, min(place, len(names) - 1))
        self.selected = names[self._place]

    @property
    def place(self) -> int:
        """Where in the list the selected queue is."""
        return self._place
