"""What may become of messages that are published to an exchange, whatever their keys and headers: an over-estimate that is kept.

Whoever publishes there has room of all these queues before it is known where a message goes. And headers are looked at only where an
exchange on the way looks at them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from actors.exchanges.definitions import Definitions
from actors.exchanges.delayed import is_delayed, waiting_queue
from actors.exchanges.vocabulary import DEFAULT_EXCHANGE, Destination

MAX_KEPT: Final = 1_000
"""Exchanges of which this is kept; all of it is found anew when a definition changes."""


class Reached(NamedTuple):
    """What can be reached from an exchange.

    Attributes:
        queues: the names of all those to which a message may go, in order; none through the default exchange, which leads to every queue.
        by_headers: whether some exchange on the way looks at headers.
        delays: whether messages may wait at one.
    """

    queues: tuple[str, ...]
    by_headers: bool
    delays: bool = False


class Reach:
    """Finds what can be reached from exchanges, and remembers it until a definition changes.

    Args:
        definitions: what there is.
    """

    __slots__ = ("_definitions", "_generation", "_kept")

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._generation = definitions.generation
        self._kept: dict[str, Reached] = {}

    def of(self, exchange: str) -> Reached:
        """What can be reached from an exchange; nothing where there is none of this name."""
        if self._generation != self._definitions.generation or len(self._kept) >= MAX_KEPT:
            self._kept.clear()
            self._generation = self._definitions.generation
        found = self._kept.get(exchange)
        if found is None:
            found = self._kept[exchange] = self._found(exchange)
        return found

    def _found(self, exchange: str) -> Reached:
        definitions = self._definitions
        queues: dict[str, None] = {}
        by_headers = delays = False
        seen = {exchange}
        here = [exchange]
        while here:
            name = here.pop()
            there = definitions.exchanges.get(name)
            if there is None or name == DEFAULT_EXCHANGE:
                continue
            by_headers = by_headers or definitions.matcher(name).by_headers
            if is_delayed(there):
                delays = True
                queues[waiting_queue(name)] = None
            ends = [definitions.kept(one).destination for one in definitions.bound_from(name)]
            if there.alternate is not None:
                ends.append(Destination(there.alternate, is_exchange=True))
            for end in ends:
                if not end.is_exchange:
                    queues[end.name] = None
                elif end.name not in seen:
                    seen.add(end.name)
                    here.append(end.name)
        return Reached(tuple(sorted(queues)), by_headers, delays)
