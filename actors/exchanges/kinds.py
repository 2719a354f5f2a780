"""The kinds of exchanges, by their names, and those that need no module of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from actors.exchanges.counted import Counted
from actors.exchanges.delayed import is_delayed, waiting_queue, waits
from actors.exchanges.headers import HeadersMatcher, check_match
from actors.exchanges.tables import Frozen
from actors.exchanges.topics import TopicMatcher
from actors.exchanges.vocabulary import DEFAULT_EXCHANGE, DELAYED, Destination, Exchange


class Matcher(Protocol):
    """The bindings of one exchange, arranged so that those are found that a message matches."""

    by_headers: bool
    """Whether it depends on the headers where a message goes, and not on its keys."""

    def add(self, destination: Destination, key: str, arguments: Mapping[str, Any]) -> None:
        """Take in a binding that is not there."""

    def remove(self, destination: Destination, key: str, arguments: Mapping[str, Any]) -> None:
        """Forget a binding that is there."""

    def match(self, keys: Sequence[str], headers: Frozen, found: dict[Destination, Any]) -> None:
        """Put the destinations of those that match into ``found``, as keys."""


class DirectMatcher:
    """A message goes where the binding's key is one of its own (AMQP 0-9-1, 3.1.3.1)."""

    __slots__ = ("_by_key",)

    by_headers = False

    def __init__(self) -> None:
        self._by_key: dict[str, Counted] = {}

    def add(self, destination: Destination, key: str, arguments: Mapping[str, Any]) -> None:  # noqa: ARG002 - of all kinds
        """Take in a binding that is not there."""
        self._by_key.setdefault(key, Counted()).add(destination)

    def remove(self, destination: Destination, key: str, arguments: Mapping[str, Any]) -> None:  # noqa: ARG002 - of all kinds
        """Forget a binding that is there."""
        there = self._by_key[key]
        there.remove(destination)
        if not there:
            del self._by_key[key]

    def match(self, keys: Sequence[str], headers: Frozen, found: dict[Destination, Any]) -> None:  # noqa: ARG002 - of all kinds
        """Put into ``found`` what is bound by one of the keys."""
        for key in keys:
            there = self._by_key.get(key)
            if there is not None:
                found.update(there)


class FanoutMatcher:
    """A message goes wherever a binding leads (AMQP 0-9-1, 3.1.3.2)."""

    __slots__ = ("_all",)

    by_headers = False

    def __init__(self) -> None:
        self._all = Counted()

    def add(self, destination: Destination, key: str, arguments: Mapping[str, Any]) -> None:  # noqa: ARG002 - of all kinds
        """Take in a binding that is not there."""
        self._all.add(destination)

    def remove(self, destination: Destination, key: str, arguments: Mapping[str, Any]) -> None:  # noqa: ARG002 - of all kinds
        """Forget a binding that is there."""
        self._all.remove(destination)

    def match(self, keys: Sequence[str], headers: Frozen, found: dict[Destination, Any]) -> None:  # noqa: ARG002 - of all kinds
        """Put into ``found`` all that is bound."""
        found.update(self._all)


class DelayedMatcher:
    """A message that is to wait goes to the queue that waits; every other as the inner kind has it.

    Args:
        exchange: the exchange's name.
        inner: the matcher of its inner kind.
    """

    __slots__ = ("_inner", "_waiting")

    by_headers = True

    def __init__(self, exchange: str, inner: Matcher) -> None:
        self._inner = inner
        self._waiting = Destination(waiting_queue(exchange))

    def add(self, destination: Destination, key: str, arguments: Mapping[str, Any]) -> None:
        """Take in a binding that is not there."""
        self._inner.add(destination, key, arguments)

    def remove(self, destination: Destination, key: str, arguments: Mapping[str, Any]) -> None:
        """Forget a binding that is there."""
        self._inner.remove(destination, key, arguments)

    def match(self, keys: Sequence[str], headers: Frozen, found: dict[Destination, Any]) -> None:
        """Put the destinations of those that match into ``found``, or the one queue in which the message waits."""
        if waits(headers):
            found[self._waiting] = None
        else:
            self._inner.match(keys, headers, found)


KINDS: Final[dict[str, Callable[[], Matcher]]] = {
    "direct": DirectMatcher,
    "fanout": FanoutMatcher,
    "topic": TopicMatcher,
    "headers": HeadersMatcher,
}
"""What makes the matcher of each kind."""
ALL_KINDS: Final = (*KINDS, DELAYED)
"""What an exchange can be declared as."""


def matcher_of(exchange: Exchange) -> Matcher:
    """A matcher without bindings for an exchange."""
    matcher = KINDS[exchange.inner_kind]()
    return DelayedMatcher(exchange.name, matcher) if is_delayed(exchange) else matcher


BINDING_CHECKS: Final[dict[str, Callable[[str, Mapping[str, Any]], None]]] = {"headers": check_match}
"""What judges the arguments of a binding, of the kinds that look at them: it is given the exchange's name and the arguments."""

PREDECLARED: Final = (
    Exchange(DEFAULT_EXCHANGE, "direct"),
    Exchange("amq.direct", "direct"),
    Exchange("amq.fanout", "fanout"),
    Exchange("amq.headers", "headers"),
    Exchange("amq.match", "headers"),
    Exchange("amq.topic", "topic"),
)
"""They are always there (AMQP 0-9-1, 3.1.3); ``amq.match`` is the specification's name of ``amq.headers``."""
