"""What definitions are made of: exchanges and bindings, and the events that change them.

An event that something durable depends on has a number, counted from 1 on, and is for the journal. One that concerns only what a restart
forgets has number 0. So an event of the journal that comes a second time is known by its number, and one of number 0 says how something
is now: both can be applied twice without harm.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

DEFAULT_EXCHANGE: Final = ""
"""The exchange that has every queue bound by its name (AMQP 0-9-1, 3.1.3.1, "the default exchange")."""
RESERVED_PREFIX: Final = "amq."
"""Names that begin so are the broker's (AMQP 0-9-1, 1.6, ``exchange.declare``, rule "reserved")."""
ALTERNATE: Final = "alternate-exchange"
"""The argument of an exchange that names where goes what none of its bindings matches."""

DELAYED: Final = "x-delayed-message"
"""The kind of an exchange at which messages wait (``delayed.py``)."""
DELAYED_TYPE: Final = "x-delayed-type"
"""The argument of such an exchange that names its inner kind."""

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Exchange(NamedTuple):
    """An exchange as it was declared.

    Attributes:
        name: its name.
        kind: how it matches: ``direct``, ``fanout``, ``topic`` or ``headers``; or `DELAYED`, whose arguments name one of these.
        durable: whether it outlives a restart.
        auto_delete: whether it is deleted with its last binding.
        internal: whether only other exchanges publish to it.
        arguments: what else was said of it; not to be changed.
    """

    name: str
    kind: str
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Mapping[str, Any] = _NOTHING

    @property
    def alternate(self) -> str | None:
        """The name of the exchange that gets what this one has no binding for; None where there is none."""
        return self.arguments.get(ALTERNATE)

    @property
    def inner_kind(self) -> str:
        """How it matches, where it has messages wait before it does; else its kind."""
        return self.kind if self.kind != DELAYED else self.arguments[DELAYED_TYPE]


class Destination(NamedTuple):
    """Where a binding leads: to a queue, or to another exchange."""

    name: str
    is_exchange: bool = False


class Binding(NamedTuple):
    """A binding: what of ``source`` goes to ``destination``.

    Attributes:
        source: the exchange's name.
        destination: where it leads.
        key: what the routing key has to be, or its pattern. Kinds that do not look at keys have it as a part of the name.
        arguments: what a headers exchange matches by; otherwise a part of the name too. Not to be changed.
        durable: whether it outlives a restart, as it does where both ends do.
    """

    source: str
    destination: Destination
    key: str = ""
    arguments: Mapping[str, Any] = _NOTHING
    durable: bool = True


class ExchangeDeclared(NamedTuple):
    """An exchange was made."""

    number: int
    exchange: Exchange


class ExchangeDeleted(NamedTuple):
    """An exchange is no more, nor is any binding that leads from it or to it."""

    number: int
    name: str


class Bound(NamedTuple):
    """A binding was made."""

    number: int
    binding: Binding


class Unbound(NamedTuple):
    """A binding is no more; ``durable`` of it says nothing here."""

    number: int
    binding: Binding


class QueueUnbound(NamedTuple):
    """A queue is no more, nor is any binding that leads to it."""

    number: int
    queue: str


Event: TypeAlias = ExchangeDeclared | ExchangeDeleted | Bound | Unbound | QueueUnbound


class Definitive(NamedTuple):
    """What a checkpoint has: all that is durable, but the predeclared exchanges.

    Attributes:
        number: of the last event that is in it.
        exchanges: by their names in order.
        bindings: each after both its ends, in the order in which they were made.
    """

    number: int
    exchanges: tuple[Exchange, ...]
    bindings: tuple[Binding, ...]
