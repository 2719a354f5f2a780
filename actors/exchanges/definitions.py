"""All exchanges and bindings there are: the fold over the events that change them.

It judges nothing. Whoever decides on a change (``decisions.py``) has judged it before it became an event; what was stored is taken in as
it is. An event of a binding whose exchange is not there changes nothing: a repair of the journal has lost the exchange.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from actors.exchanges.counted import Counted
from actors.exchanges.kinds import PREDECLARED, Matcher, matcher_of
from actors.exchanges.limits import DEFINITION_OVERHEAD_BYTES, WORD_OVERHEAD_BYTES
from actors.exchanges.tables import Frozen, frozen, table_bytes
from actors.exchanges.vocabulary import (
    Binding,
    Bound,
    Definitive,
    Destination,
    Event,
    Exchange,
    ExchangeDeclared,
    ExchangeDeleted,
    Unbound,
)

_PREDECLARED_NAMES = frozenset(exchange.name for exchange in PREDECLARED)


class Identity(NamedTuple):
    """What makes a binding another one: all of it but whether it is durable. Arguments are the same where their values are."""

    source: str
    destination: Destination
    key: str
    arguments: Frozen


def identity(binding: Binding) -> Identity:
    """What tells the binding from others."""
    return Identity(binding.source, binding.destination, binding.key, frozen(binding.arguments, "arguments"))


def exchange_bytes(exchange: Exchange) -> int:
    """How many bytes an exchange counts for."""
    return DEFINITION_OVERHEAD_BYTES + len(exchange.name.encode()) + table_bytes(exchange.arguments)


def binding_bytes(binding: Binding) -> int:
    """How many bytes a binding counts for."""
    names = len(binding.source.encode()) + len(binding.destination.name.encode()) + len(binding.key.encode())
    words = WORD_OVERHEAD_BYTES * binding.key.count(".")
    return DEFINITION_OVERHEAD_BYTES + words + names + table_bytes(binding.arguments)


class _Kept(NamedTuple):
    """A binding that is there, what it counts for, and which one it is of all that were made."""

    binding: Binding
    size: int
    made: int


class Definitions:
    """The fold.

    Attributes:
        exchanges: by name, to be looked at only; the predeclared ones are there.
        number: of the last numbered event.
        generation: grows with each change, so that who keeps what follows from definitions knows when it is old.
        bytes: what all that was declared and bound counts for.
    """

    __slots__ = (
        "_bindings",
        "_from",
        "_inward",
        "_made",
        "_matchers",
        "_onward",
        "_to",
        "bytes",
        "exchanges",
        "generation",
        "number",
    )

    def __init__(self) -> None:
        self.number = 0
        self.generation = 0
        self._clear()

    def _clear(self) -> None:
        self.bytes = 0
        self.exchanges: dict[str, Exchange] = {}
        self._matchers: dict[str, Matcher] = {}
        self._bindings: dict[Identity, _Kept] = {}
        # Numbers that were given to bindings, of which none comes twice.
        self._made = 0
        self._from: dict[str, dict[Identity, None]] = {}
        self._to: dict[Destination, dict[Identity, None]] = {}
        self._onward: dict[str, Counted] = {}
        """By an exchange's name where it leads: to which exchanges, each with by how many bindings, or as its alternate;"""
        self._inward: dict[str, Counted] = {}
        """and from where something leads to it, whether it is there or not."""
        for exchange in PREDECLARED:
            self._add(exchange)

    def apply(self, event: Event) -> None:
        """Take in a change; one that was taken in before changes nothing."""
        number = event.number
        if number:
            if number <= self.number:
                return
            self.number = number
        self.generation += 1
        if isinstance(event, Bound):
            self._bind(event.binding)
        elif isinstance(event, Unbound):
            self._unbind(identity(event.binding))
        elif isinstance(event, ExchangeDeclared):
            if event.exchange.name not in self.exchanges:
                self._declare(event.exchange)
        elif isinstance(event, ExchangeDeleted):
            self._delete(event.name)
        else:
            for one in list(self._to.get(Destination(event.queue), ())):
                self._unbind(one)

    # What there is.

    def bindings(self) -> Iterator[Binding]:
        """All bindings, in the order in which they were made."""
        return iter([kept.binding for kept in self._bindings.values()])

    def made_after(
        self, last: int, source: str | None = None, destination: Destination | None = None
    ) -> list[tuple[int, Binding]]:
        """The bindings made behind the ``last`` one, each with its number, which lasts as long as the broker; all, or those of an end."""
        if source is not None:
            found = [self._bindings[one] for one in self._from.get(source, ())]
        elif destination is not None:
            found = [self._bindings[one] for one in self._to.get(destination, ())]
        else:
            found = list(self._bindings.values())
        return [(kept.made, kept.binding) for kept in found if kept.made > last]

    def binding_count(self) -> int:
        """How many bindings there are."""
        return len(self._bindings)

    def declared_count(self) -> int:
        """How many exchanges there are beside the predeclared ones."""
        return len(self.exchanges) - len(PREDECLARED)

    def has(self, one: Identity) -> bool:
        """Whether the binding is there."""
        return one in self._bindings

    def kept(self, one: Identity) -> Binding:
        """The binding, which is there."""
        return self._bindings[one].binding

    def bound_from(self, source: str) -> Mapping[Identity, None]:
        """The bindings of an exchange, to be looked at only."""
        return self._from.get(source, {})

    def bound_to(self, destination: Destination) -> Mapping[Identity, None]:
        """The bindings that lead to a destination, to be looked at only."""
        return self._to.get(destination, {})

    def onward(self, exchange: str) -> Mapping[Destination, int]:
        """The exchanges to which one leads by a binding or as its alternate; they need not be there. To be looked at only."""
        return self._onward.get(exchange, {})

    def inward(self, exchange: str) -> Mapping[Destination, int]:
        """The exchanges that lead to one, which need not be there. To be looked at only."""
        return self._inward.get(exchange, {})

    def matcher(self, exchange: str) -> Matcher:
        """The matcher of an exchange that is there."""
        return self._matchers[exchange]

    # Checkpoints.

    def snapshot(self) -> Definitive:
        """All that is durable, for a checkpoint."""
        exchanges = [self.exchanges[name] for name in sorted(self.exchanges.keys() - _PREDECLARED_NAMES)]
        return Definitive(
            self.number,
            tuple([exchange for exchange in exchanges if exchange.durable]),
            tuple([binding for binding in self.bindings() if binding.durable]),
        )

    def restore(self, definitive: Definitive) -> None:
        """Have what a checkpoint has, and nothing else."""
        self._clear()
        self.number = definitive.number
        self.generation += 1
        for exchange in definitive.exchanges:
            self._declare(exchange)
        for binding in definitive.bindings:
            self._bind(binding)

    # The changes.

    def _declare(self, exchange: Exchange) -> None:
        self._add(exchange)
        self.bytes += exchange_bytes(exchange)
        if exchange.alternate is not None:
            self._lead(exchange.name, exchange.alternate)

    def _add(self, exchange: Exchange) -> None:
        self.exchanges[exchange.name] = exchange
        self._matchers[exchange.name] = matcher_of(exchange)

    def _delete(self, name: str) -> None:
        exchange = self.exchanges.get(name)
        if exchange is None or name in _PREDECLARED_NAMES:
            return
        for one in [*self._from.get(name, ()), *self._to.get(Destination(name, is_exchange=True), ())]:
            self._unbind(one)
        if exchange.alternate is not None:
            self._lead_no_more(name, exchange.alternate)
        del self.exchanges[name], self._matchers[name]
        self.bytes -= exchange_bytes(exchange)

    def _bind(self, binding: Binding) -> None:
        source, destination, key, arguments, _durable = binding
        one = identity(binding)
        missing = source not in self.exchanges or (destination.is_exchange and destination.name not in self.exchanges)
        if missing or one in self._bindings:
            return
        size = binding_bytes(binding)
        self._made += 1
        self._bindings[one] = _Kept(binding, size, self._made)
        self._from.setdefault(source, {})[one] = None
        self._to.setdefault(destination, {})[one] = None
        self._matchers[source].add(destination, key, arguments)
        self.bytes += size
        if destination.is_exchange:
            self._lead(source, destination.name)

    def _unbind(self, one: Identity) -> None:
        kept = self._bindings.pop(one, None)
        if kept is None:
            return
        source, destination, key, arguments, _durable = kept.binding
        _forget(self._from, source, one)
        _forget(self._to, destination, one)
        self._matchers[source].remove(destination, key, arguments)
        self.bytes -= kept.size
        if destination.is_exchange:
            self._lead_no_more(source, destination.name)

    def _lead(self, source: str, destination: str) -> None:
        self._onward.setdefault(source, Counted()).add(Destination(destination, is_exchange=True))
        self._inward.setdefault(destination, Counted()).add(Destination(source, is_exchange=True))

    def _lead_no_more(self, source: str, destination: str) -> None:
        for ways, start, end in ((self._onward, source, destination), (self._inward, destination, source)):
            ways[start].remove(Destination(end, is_exchange=True))
            if not ways[start]:
                del ways[start]


def _forget(index: dict[Any, dict[Identity, None]], name: object, one: Identity) -> None:
    there = index[name]
    del there[one]
    if not there:
        del index[name]
