"""Where a message goes: from exchange to exchange, and at the end to queues, each once.

An exchange that is visited gives what its bindings match. Where they match nothing, its alternate exchange is visited, if there is one.
That holds for each exchange on the way, whatever the others find, as RabbitMQ has it ("Alternate Exchanges" in its documentation). An
exchange is visited once, so ways that are a circle end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.exchanges.cache import Queues, RouteCache
from actors.exchanges.definitions import Definitions
from actors.exchanges.errors import ExchangeLimitError, ExchangeNotFoundError, InternalExchangeError
from actors.exchanges.hops import too_far
from actors.exchanges.limits import MAX_CACHED_TOGETHER, ExchangeLimits
from actors.exchanges.names import check_key
from actors.exchanges.tables import Frozen, Table, frozen
from actors.exchanges.vocabulary import DEFAULT_EXCHANGE, Destination


class Routes:
    """Finds where messages go, and remembers it until a definition changes.

    What follows from an exchange and keys alone is kept. What follows from headers, or from which queues there are, is not.

    Args:
        definitions: what there is.
        queues: says whether the queue of a name is durable; None where there is none.
        limits: how much a message may ask for.

    Attributes:
        cache: what is kept.
    """

    __slots__ = ("_definitions", "_generation", "_limits", "_queues", "cache")

    def __init__(self, definitions: Definitions, queues: Callable[[str], bool | None], limits: ExchangeLimits) -> None:
        self._definitions = definitions
        self._queues = queues
        self._limits = limits
        self._generation = definitions.generation
        self.cache = RouteCache(limits.max_cached_keys, limits.max_cached_destinations)

    def route(
        self, exchange: str, keys: tuple[str, ...], headers: Table | None = None, *, outside: bool = True
    ) -> Queues:
        """The names of the queues that a message goes to, in order; none where nothing matches.

        Args:
            exchange: where it is published.
            keys: its routing keys: one, or several where it has copies (``copies.py``).
            headers: looked at by headers exchanges.
            outside: False where the broker itself publishes, as with dead letters, which may go to internal exchanges.

        Raises:
            ExchangeNotFoundError: there is no such exchange.
            InternalExchangeError: it takes messages from other exchanges only.
            ExchangeLimitError: a key is too long, or there are too many keys, queues, or steps.
            TooManyPatternsError: an exchange would have to look at too many of its bindings.
            InvalidDefinitionError: a key, or a header's value, is of a type that they do not have.
        """
        self.check(exchange, outside=outside)
        if self._generation != self._definitions.generation:
            self.cache.clear()
            self._generation = self._definitions.generation
        if exchange == DEFAULT_EXCHANGE:
            # What is there has a name that may be, and no way leads on from it.
            there = len(keys) == 1 and self._queues(keys[0]) is not None
            return keys if there else self._found(exchange, keys, headers)
        found = self.cache.get((exchange, keys)) if len(keys) <= MAX_CACHED_TOGETHER else None
        return self._found(exchange, keys, headers) if found is None else found

    def check(self, exchange: str, *, outside: bool = True) -> None:
        """Whether something can be published there; raises ExchangeNotFoundError or InternalExchangeError as `route` does."""
        there = self._definitions.exchanges.get(exchange)
        if there is None:
            raise ExchangeNotFoundError(exchange)
        if there.internal and outside:
            raise InternalExchangeError(exchange)

    def _found(self, exchange: str, keys: tuple[str, ...], headers: Table | None) -> Queues:
        if len(keys) > self._limits.max_routing_keys:
            advice = "publish it several times"
            bound = self._limits.max_routing_keys
            raise ExchangeLimitError("routing keys of a message", len(keys), "max_routing_keys", bound, advice)
        for key in keys:
            check_key(key, "a routing key")
        walk = _Walk(self._definitions, self._queues, keys, headers)
        queues = tuple(sorted(walk.queues_from(exchange, self._limits.max_hops, self._limits.max_destinations)))
        if walk.by_keys_alone and len(keys) <= MAX_CACHED_TOGETHER:
            self.cache.put((exchange, keys), queues)
        return queues


class _Walk:
    """The way of one message.

    Attributes:
        by_keys_alone: whether nothing else than its keys and the definitions has decided on it so far.
    """

    __slots__ = ("_definitions", "_frozen", "_headers", "_keys", "_queues", "by_keys_alone")

    def __init__(
        self,
        definitions: Definitions,
        queues: Callable[[str], bool | None],
        keys: tuple[str, ...],
        headers: Table | None,
    ) -> None:
        self._definitions = definitions
        self._queues = queues
        self._keys = keys
        self._headers = headers
        self._frozen: Frozen | None = None
        self.by_keys_alone = True

    def queues_from(self, exchange: str, max_hops: int, max_destinations: int) -> dict[str, None]:
        """The queues that are reached, in no order that means anything; raises ExchangeLimitError."""
        queues: dict[str, None] = {}
        seen = {exchange}
        here = [exchange]
        steps = 0
        while here:
            following: list[str] = []
            for name in here:
                for destination in self._matched(name):
                    if not destination.is_exchange:
                        queues[destination.name] = None
                    elif destination.name not in seen:
                        seen.add(destination.name)
                        following.append(destination.name)
                if len(queues) > max_destinations:
                    advice = "bind fewer queues to what it matches"
                    raise ExchangeLimitError(
                        "queues of one message", len(queues), "max_destinations", max_destinations, advice
                    )
            steps += 1
            if following and steps > max_hops:
                raise too_far(steps, max_hops)
            here = following
        return queues

    def _matched(self, name: str) -> dict[Destination, Any]:
        """Where an exchange has it go: where its bindings lead, or else to its alternate, if that is there."""
        found: dict[Destination, Any] = {}
        if name == DEFAULT_EXCHANGE:
            self.by_keys_alone = False
            return {Destination(key): None for key in self._keys if self._queues(key) is not None}
        matcher = self._definitions.matcher(name)
        matcher.match(self._keys, self._frozen_headers() if matcher.by_headers else (), found)
        if not found:
            alternate = self._definitions.exchanges[name].alternate
            if alternate is not None and alternate in self._definitions.exchanges:
                found[Destination(alternate, is_exchange=True)] = None
        return found

    def _frozen_headers(self) -> Frozen:
        self.by_keys_alone = False
        if self._frozen is None:
            self._frozen = frozen(self._headers)
        return self._frozen
