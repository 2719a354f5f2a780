"""What a command on exchanges and bindings comes to: the events that carry it out, or the error that refuses it.

Nothing here changes anything. Whoever commands records the events together, so that they are durable together or not at all, applies them
before the next command is decided, and answers when they are durable. No event means that all is so already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from actors.exchanges.definitions import Definitions, Identity, binding_bytes, exchange_bytes, identity
from actors.exchanges.delayed import inner_kind
from actors.exchanges.errors import (
    BoundQueueNotFoundError,
    ExchangeExistsError,
    ExchangeInUseError,
    ExchangeLimitError,
    ExchangeNotFoundError,
    InvalidDefinitionError,
    InvalidExchangeNameError,
    ReservedExchangeError,
)
from actors.exchanges.hops import check_hops
from actors.exchanges.kinds import ALL_KINDS, BINDING_CHECKS, KINDS
from actors.exchanges.limits import ExchangeLimits
from actors.exchanges.names import check_key, check_name
from actors.exchanges.tables import Table, checked
from actors.exchanges.vocabulary import (
    ALTERNATE,
    DEFAULT_EXCHANGE,
    DELAYED,
    DELAYED_TYPE,
    RESERVED_PREFIX,
    Binding,
    Bound,
    Destination,
    Event,
    Exchange,
    ExchangeDeclared,
    ExchangeDeleted,
    QueueUnbound,
    Unbound,
)

_DELETE = "delete some that nobody uses, or raise it"


class Decisions:
    """Decides on commands.

    Args:
        definitions: what there is.
        queues: says whether the queue of a name is durable; None where there is none.
        limits: how much there may be.
    """

    __slots__ = ("_definitions", "_limits", "_queues")

    def __init__(self, definitions: Definitions, queues: Callable[[str], bool | None], limits: ExchangeLimits) -> None:
        self._definitions = definitions
        self._queues = queues
        self._limits = limits

    def declare(
        self,
        name: str,
        kind: str = "direct",
        *,
        durable: bool = True,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Table | None = None,
    ) -> tuple[Event, ...]:
        """An exchange is to be there (AMQP 0-9-1, ``exchange.declare``).

        One that is there has to be the same: of its arguments the alternate exchange counts, as RabbitMQ has it. An alternate exchange need
        not be there yet.

        Raises:
            ReservedExchangeError: the default exchange, or a name that begins with ``amq.`` and is none of the predeclared.
            InvalidExchangeNameError: no name.
            InvalidDefinitionError: an unknown kind, or arguments that are not what they have to be.
            ExchangeExistsError: it is there, and is another.
            ExchangeLimitError: there would be too much of something.
        """
        _check_not_default(name, "declared")
        if not isinstance(kind, str) or kind not in ALL_KINDS:
            raise InvalidDefinitionError(f"there is no kind of exchange {kind!r:.60}: there are {', '.join(ALL_KINDS)}")
        there = self._definitions.exchanges.get(check_name(name))
        if there is None and name.startswith(RESERVED_PREFIX):
            raise ReservedExchangeError(
                name,
                f"the name {name!r} begins with {RESERVED_PREFIX!r}, which the broker keeps for itself: use another name",
            )
        kept = checked(arguments, f"arguments of exchange {name!r}", self._limits.max_arguments_bytes)
        _check_alternate(name, kept)
        if kind == DELAYED:
            inner_kind(kept, KINDS)
        declared = Exchange(name, kind, durable, auto_delete, internal, kept)
        if there is not None:
            _check_same(there, declared)
            return ()
        self._check_room_for(declared)
        return (ExchangeDeclared(self._number(durable), declared),)

    def _check_room_for(self, declared: Exchange) -> None:
        count = self._definitions.declared_count() + 1
        if count > self._limits.max_exchanges:
            raise ExchangeLimitError("exchanges", count, "max_exchanges", self._limits.max_exchanges, _DELETE)
        self._check_bytes(exchange_bytes(declared))
        if declared.alternate is not None:
            check_hops(self._definitions, declared.name, declared.alternate, self._limits.max_hops)

    def look(self, name: str) -> Exchange:
        """The exchange of a name, which has to be there (``exchange.declare`` with ``passive``); raises ExchangeNotFoundError."""
        there = self._definitions.exchanges.get(name)
        if there is None:
            raise ExchangeNotFoundError(name)
        return there

    def delete(self, name: str, *, if_unused: bool = False) -> tuple[Event, ...]:
        """An exchange is to be gone, with the bindings at both its ends (AMQP 0-9-1, ``exchange.delete``).

        Whatever is deleted with its last binding goes too where that was one of these. That it is not there is no error, as in RabbitMQ.

        Args:
            name: the exchange's.
            if_unused: only where it has no bindings; those that lead to it do not count.

        Raises:
            ReservedExchangeError: the default exchange, or a predeclared one.
            ExchangeInUseError: it has bindings, and was to have none.
        """
        _check_not_default(name, "deleted")
        if name.startswith(RESERVED_PREFIX):
            raise ReservedExchangeError(
                name, f"exchange {name!r} is the broker's own, and cannot be deleted: unbind what is bound to it"
            )
        if name not in self._definitions.exchanges:
            return ()
        bindings = len(self._definitions.bound_from(name))
        if if_unused and bindings:
            raise ExchangeInUseError(name, bindings)
        return self._numbered(self._taken_with(name))

    def bind(
        self, source: str, destination: str, key: str = "", arguments: Table | None = None, *, to_exchange: bool = False
    ) -> tuple[Event, ...]:
        """What matches is to go from an exchange to a queue, or to another exchange (``queue.bind``; RabbitMQ's ``exchange.bind``).

        Args:
            source: the exchange's name.
            destination: the queue's name, or the other exchange's.
            key: what a routing key has to be, or its pattern.
            arguments: what headers have to be.
            to_exchange: whether ``destination`` is an exchange.

        Raises:
            ReservedExchangeError: one of them is the default exchange.
            ExchangeNotFoundError: one of them is an exchange that is not there.
            BoundQueueNotFoundError: there is no such queue.
            InvalidDefinitionError: the arguments are not what they have to be.
            ExchangeLimitError: there would be too much of something.
        """
        _check_not_default(source, "bound")
        if to_exchange:
            _check_not_default(destination, "bound")
        exchange = self.look(source)
        end = self._is_durable(destination, to_exchange)
        binding = self._binding(
            exchange, Destination(destination, to_exchange), key, arguments, exchange.durable and end
        )
        if self._definitions.has(identity(binding)):
            return ()
        self._check_room_for_binding(binding)
        return (Bound(self._number(binding.durable), binding),)

    def unbind(
        self, source: str, destination: str, key: str = "", arguments: Table | None = None, *, to_exchange: bool = False
    ) -> tuple[Event, ...]:
        """A binding is to be gone (``queue.unbind``; RabbitMQ's ``exchange.unbind``). Its arguments are as ``bind`` takes them.

        An exchange that is deleted with its last binding goes too where this was it. That there is none is no error, as in RabbitMQ.

        Raises:
            ReservedExchangeError: one of them is the default exchange.
            InvalidDefinitionError: the arguments are not what they have to be.
            ExchangeLimitError: the arguments or the key are more than any binding has.
        """
        _check_not_default(source, "unbound")
        if to_exchange:
            _check_not_default(destination, "unbound")
        exchange = self._definitions.exchanges.get(source)
        if exchange is None:
            return ()
        one = identity(self._binding(exchange, Destination(destination, to_exchange), key, arguments, durable=True))
        if not self._definitions.has(one):
            return ()
        there = self._definitions.kept(one)
        return self._numbered([(there.durable, Unbound(0, there)), *self._emptied([one], set())])

    def unbind_others(self, queue: str, kept: Iterable[tuple[str, str, Table | None]]) -> tuple[Event, ...]:
        """Of the exchanges that ``kept`` names, a queue is to have no bindings but these, which are there; each is as ``bind`` takes it."""
        destination = Destination(queue)
        bindings = [
            self._binding(self.look(source), destination, key, arguments, durable=True)
            for source, key, arguments in kept
        ]
        others = self._definitions.bound_to(destination).keys() - set(map(identity, bindings))
        sources = {binding.source for binding in bindings}
        # None of these exchanges has its last binding taken, so none goes with it.
        gone = [self._definitions.kept(one) for one in others if one.source in sources]
        gone.sort(key=lambda binding: (binding.source, binding.key))
        return self._numbered([(binding.durable, Unbound(0, binding)) for binding in gone])

    def queue_deleted(self, queue: str) -> tuple[Event, ...]:
        """What goes with a queue: its bindings, and whatever is deleted with its last binding where that was one of these."""
        taken = list(self._definitions.bound_to(Destination(queue)))
        if not taken:
            return ()
        durable = any(self._definitions.kept(one).durable for one in taken)
        return self._numbered([(durable, QueueUnbound(0, queue)), *self._emptied(taken, set())])

    def _is_durable(self, destination: str, is_exchange: bool) -> bool:
        if is_exchange:
            return self.look(destination).durable
        durable = self._queues(destination) if isinstance(destination, str) else None
        if durable is None:
            raise BoundQueueNotFoundError(destination)
        return durable

    def _binding(
        self, exchange: Exchange, destination: Destination, key: str, arguments: Table | None, durable: bool
    ) -> Binding:
        bound = self._limits.max_arguments_bytes
        kept = checked(arguments, f"arguments of a binding of exchange {exchange.name!r}", bound)
        check = BINDING_CHECKS.get(exchange.inner_kind)
        if check is not None:
            check(exchange.name, kept)
        return Binding(exchange.name, destination, check_key(key, "a binding's key"), kept, durable)

    def _check_room_for_binding(self, binding: Binding) -> None:
        limits = self._limits
        of_one = len(self._definitions.bound_from(binding.source)) + 1
        for what, count, limit, bound in (
            ("bindings", self._definitions.binding_count() + 1, "max_bindings", limits.max_bindings),
            (f"bindings of exchange {binding.source!r}", of_one, "max_exchange_bindings", limits.max_exchange_bindings),
        ):
            if count > bound:
                raise ExchangeLimitError(what, count, limit, bound, _DELETE)
        self._check_bytes(binding_bytes(binding))
        if binding.destination.is_exchange:
            check_hops(self._definitions, binding.source, binding.destination.name, limits.max_hops)

    def _check_bytes(self, more: int) -> None:
        whole = self._definitions.bytes + more
        bound = self._limits.max_definition_bytes
        if whole > bound:
            raise ExchangeLimitError("bytes of exchanges and bindings", whole, "max_definition_bytes", bound, _DELETE)

    # What goes with something else.

    def _taken_with(self, name: str) -> list[tuple[bool, Event]]:
        """The end of an exchange, and what goes with it."""
        inward = self._definitions.bound_to(Destination(name, is_exchange=True))
        end = (self._definitions.exchanges[name].durable, ExchangeDeleted(0, name))
        return [end, *self._emptied(inward, {name})]

    def _emptied(self, taken: Iterable[Identity], gone: set[str]) -> list[tuple[bool, Event]]:
        """The ends of exchanges that lose their last binding where these are taken, each with whether it is durable.

        Args:
            taken: bindings that go.
            gone: exchanges that go anyway, with all theirs.
        """
        ends: list[tuple[bool, Event]] = []
        left: dict[str, int] = {}
        waiting = list(taken)
        while waiting:
            source = waiting.pop().source
            if source in gone:
                continue
            left[source] = left.get(source, len(self._definitions.bound_from(source))) - 1
            exchange = self._definitions.exchanges[source]
            if exchange.auto_delete and not left[source]:
                gone.add(source)
                ends.append((exchange.durable, ExchangeDeleted(0, source)))
                waiting.extend(self._definitions.bound_to(Destination(source, is_exchange=True)))
        return ends

    def _number(self, durable: bool) -> int:
        return self._definitions.number + 1 if durable else 0

    def _numbered(self, events: list[tuple[bool, Any]]) -> tuple[Event, ...]:
        """The events, of which those that are durable have the next numbers."""
        number = self._definitions.number
        numbered: list[Event] = []
        for durable, event in events:
            if durable:
                number += 1
            numbered.append(event._replace(number=number if durable else 0))
        return tuple(numbered)


def _check_not_default(name: object, done: str) -> None:
    if not isinstance(name, str):
        raise InvalidExchangeNameError(f"an exchange's name is of type {type(name).__name__}: it has to be text")
    if name == DEFAULT_EXCHANGE:
        raise ReservedExchangeError(
            name, f"the default exchange has every queue by its name, and cannot be {done}: name another exchange"
        )


def _check_alternate(name: str, arguments: dict[str, Any]) -> None:
    alternate = arguments.get(ALTERNATE)
    if ALTERNATE not in arguments or alternate == DEFAULT_EXCHANGE:
        return
    if not isinstance(alternate, str):
        raise InvalidDefinitionError(
            f"{ALTERNATE} of exchange {name!r} is of type {type(alternate).__name__}: it is an exchange's name"
        )
    check_name(alternate)


def _check_same(there: Exchange, declared: Exchange) -> None:
    for field, present, wanted in (
        ("kind", there.kind, declared.kind),
        ("durable", there.durable, declared.durable),
        ("auto_delete", there.auto_delete, declared.auto_delete),
        ("internal", there.internal, declared.internal),
        (DELAYED_TYPE, there.inner_kind, declared.inner_kind),
        (ALTERNATE, there.alternate, declared.alternate),
    ):
        if present != wanted:
            raise ExchangeExistsError(there.name, field, present, wanted)
