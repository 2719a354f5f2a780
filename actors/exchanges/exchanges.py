"""The exchanges of a broker, in one: what there is, what commands come to, and where messages go.

A command is decided by ``decide``, which gives events and changes nothing. ``apply`` carries out an event. Between the two, what has a
number is recorded. ``route`` says where a message goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from actors.exchanges.cache import Queues
from actors.exchanges.decisions import Decisions
from actors.exchanges.definitions import Definitions
from actors.exchanges.limits import ExchangeLimits
from actors.exchanges.reach import Reach, Reached
from actors.exchanges.routing import Routes
from actors.exchanges.tables import Table
from actors.exchanges.vocabulary import Binding, Definitive, Destination, Event, Exchange


class ExchangeStatistics(NamedTuple):
    """How much there is.

    Attributes:
        exchanges: beside the predeclared ones.
        bindings: of all exchanges.
        bytes: what these count for.
        generation: how many changes there were; another number means that routes may be others.
        cached_routes: routes that are kept.
        cache_misses: how often one had to be found that was not kept; those by headers and through the default exchange are never kept.
    """

    exchanges: int
    bindings: int
    bytes: int
    generation: int
    cached_routes: int
    cache_misses: int


class Exchanges:
    """All exchanges and bindings of a broker.

    Args:
        queues: says whether the queue of a name is durable; None where there is none.
        limits: how much there may be.
        definitions: what there is already; whoever has it may be the one that applies events. None for nothing yet.

    Attributes:
        decide: what commands come to.
    """

    __slots__ = ("_definitions", "_reach", "_routes", "decide")

    def __init__(
        self,
        queues: Callable[[str], bool | None],
        limits: ExchangeLimits | None = None,
        definitions: Definitions | None = None,
    ) -> None:
        limits = ExchangeLimits() if limits is None else limits
        self._definitions = Definitions() if definitions is None else definitions
        self._routes = Routes(self._definitions, queues, limits)
        self._reach = Reach(self._definitions)
        self.decide = Decisions(self._definitions, queues, limits)

    def apply(self, event: Event) -> None:
        """Carry out an event; one that was carried out before changes nothing."""
        self._definitions.apply(event)

    def route(
        self, exchange: str, keys: tuple[str, ...], headers: Table | None = None, *, outside: bool = True
    ) -> Queues:
        """The names of the queues that a message goes to, in order: ``Routes.route``, with its errors."""
        return self._routes.route(exchange, keys, headers, outside=outside)

    def check(self, exchange: str) -> None:
        """Whether something can be published there from outside: ``Routes.check``, with its errors."""
        self._routes.check(exchange)

    def reached(self, exchange: str) -> Reached:
        """What messages that are published there may come to: ``Reach.of``."""
        return self._reach.of(exchange)

    @property
    def generation(self) -> int:
        """Grows with each change of a definition: what was routed before may be routed otherwise."""
        return self._definitions.generation

    @property
    def number(self) -> int:
        """The number of the last event that something durable depends on."""
        return self._definitions.number

    def get(self, name: str) -> Exchange | None:
        """The exchange of a name, or None."""
        return self._definitions.exchanges.get(name)

    def __iter__(self) -> Iterator[Exchange]:
        """All exchanges, the predeclared ones too, by their names in order."""
        return iter(sorted(self._definitions.exchanges.values(), key=lambda exchange: exchange.name))

    def bindings(self) -> Iterator[Binding]:
        """All bindings, in the order in which they were made."""
        return self._definitions.bindings()

    def binding_count_from(self, source: str) -> int:
        """How many bindings an exchange has."""
        return len(self._definitions.bound_from(source))

    def bindings_made_after(
        self, last: int, source: str | None = None, destination: Destination | None = None
    ) -> list[tuple[int, Binding]]:
        """Bindings with the numbers by which they are listed: ``Definitions.made_after``."""
        return self._definitions.made_after(last, source, destination)

    def bindings_from(self, source: str) -> list[Binding]:
        """The bindings of an exchange, in the order in which they were made."""
        return [self._definitions.kept(one) for one in self._definitions.bound_from(source)]

    def bindings_to(self, destination: Destination) -> list[Binding]:
        """The bindings that lead to a queue, or to an exchange, in the order in which they were made."""
        return [self._definitions.kept(one) for one in self._definitions.bound_to(destination)]

    def snapshot(self) -> Definitive:
        """All that is durable, for a checkpoint."""
        return self._definitions.snapshot()

    def restore(self, definitive: Definitive) -> None:
        """Have what a checkpoint has, and nothing else."""
        self._definitions.restore(definitive)

    def statistics(self) -> ExchangeStatistics:
        """How much there is now."""
        definitions, cache = self._definitions, self._routes.cache
        return ExchangeStatistics(
            definitions.declared_count(),
            definitions.binding_count(),
            definitions.bytes,
            definitions.generation,
            len(cache),
            cache.misses,
        )
