"""The headers exchange: a binding's arguments say which headers a message has to have, and with what values.

The argument ``x-match`` says how many of the others have to match: ``all``, which holds where there is none, or ``any``. Arguments
whose names begin with ``x-`` are not looked at, but with ``all-with-x`` and ``any-with-x``; ``x-match`` never is. An argument without a
value asks only that the header is there. So RabbitMQ 4 has it ("Headers exchange" in its documentation); AMQP 0-9-1, 3.1.3.4, knows
``all`` and ``any``. No argument that counts is all of them, so ``all`` then matches everything, and ``any`` nothing.

Bindings that ask for the same share one pattern. Patterns are found by the headers that they name: a message costs what its headers are
named, not as much as there are bindings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from actors.exchanges.counted import Counted
from actors.exchanges.errors import InvalidDefinitionError, TooManyPatternsError
from actors.exchanges.limits import MAX_MATCH_STEPS
from actors.exchanges.tables import NOTHING, Comparable, Frozen, frozen
from actors.exchanges.vocabulary import Destination

X_MATCH: Final = "x-match"
NOT_LOOKED_AT: Final = "x-"


class Match(NamedTuple):
    """What a value of ``x-match`` means: whether one argument is enough, and whether those count whose names begin with ``x-``."""

    any: bool
    with_x: bool


MATCHES: Final = {
    "all": Match(any=False, with_x=False),
    "any": Match(any=True, with_x=False),
    "all-with-x": Match(any=False, with_x=True),
    "any-with-x": Match(any=True, with_x=True),
}


def check_match(exchange: str, arguments: Mapping[str, Any]) -> None:
    """Whether a binding's arguments can be matched by.

    Raises:
        InvalidDefinitionError: ``x-match`` is there and none of ``MATCHES``.
    """
    value = arguments.get(X_MATCH, "all")
    if not isinstance(value, str) or value not in MATCHES:
        raise InvalidDefinitionError(
            f"{X_MATCH} of a binding of exchange {exchange!r} is {value!r:.60}: it can be {', '.join(MATCHES)}"
        )


class _Asked(NamedTuple):
    """What a pattern asks for: it is its name."""

    any: bool
    headers: Frozen


class _Pattern:
    """What several bindings may ask for alike.

    Attributes:
        needed: how many headers have to match.
        leads: where those bindings lead.
    """

    __slots__ = ("leads", "needed")

    def __init__(self, asked: _Asked) -> None:
        self.needed = 1 if asked.any else len(asked.headers)
        self.leads = Counted()


def _asked(arguments: Mapping[str, Any]) -> _Asked:
    one, with_x = MATCHES[arguments.get(X_MATCH, "all")]
    counting = {
        name: value
        for name, value in arguments.items()
        if name != X_MATCH and (with_x or not name.startswith(NOT_LOOKED_AT))
    }
    return _Asked(one, frozen(counting, "arguments"))


class HeadersMatcher:
    """The patterns of one headers exchange."""

    __slots__ = ("_by_name", "_by_value", "_patterns", "_unasking")

    by_headers = True

    def __init__(self) -> None:
        self._patterns: dict[_Asked, _Pattern] = {}
        self._by_value: dict[tuple[str, Comparable], dict[_Pattern, None]] = {}
        self._by_name: dict[str, dict[_Pattern, None]] = {}
        self._unasking: _Pattern | None = None
        """The one that asks for nothing, and so matches everything."""

    def add(self, destination: Destination, key: str, arguments: Mapping[str, Any]) -> None:  # noqa: ARG002 - of all kinds
        """Take in a binding that is not there."""
        asked = _asked(arguments)
        pattern = self._patterns.get(asked)
        if pattern is None:
            pattern = self._patterns[asked] = _Pattern(asked)
            for name, value in asked.headers:
                if value == NOTHING:
                    self._by_name.setdefault(name, {})[pattern] = None
                else:
                    self._by_value.setdefault((name, value), {})[pattern] = None
            if not pattern.needed:
                self._unasking = pattern
        pattern.leads.add(destination)

    def remove(self, destination: Destination, key: str, arguments: Mapping[str, Any]) -> None:  # noqa: ARG002 - of all kinds
        """Forget a binding that is there, with its pattern where nothing else asks for it."""
        asked = _asked(arguments)
        pattern = self._patterns[asked]
        pattern.leads.remove(destination)
        if pattern.leads:
            return
        del self._patterns[asked]
        if pattern is self._unasking:
            self._unasking = None
        for name, value in asked.headers:
            if value == NOTHING:
                _forget(self._by_name, name, pattern)
            else:
                _forget(self._by_value, (name, value), pattern)

    def match(self, keys: Sequence[str], headers: Frozen, found: dict[Destination, Any]) -> None:  # noqa: ARG002 - of all kinds
        """Put into ``found`` where the headers lead; raises TooManyPatternsError."""
        if self._unasking is not None:
            found.update(self._unasking.leads)
        matched: dict[_Pattern, int] = {}
        left = MAX_MATCH_STEPS
        for header in headers:
            for patterns in (self._by_value.get(header), self._by_name.get(header[0])):
                if patterns is None:
                    continue
                left -= len(patterns)
                if left < 0:
                    raise TooManyPatternsError("headers", MAX_MATCH_STEPS, "bind by headers that tell more apart")
                for pattern in patterns:
                    matched[pattern] = matched.get(pattern, 0) + 1
        for pattern, count in matched.items():
            if count >= pattern.needed:
                found.update(pattern.leads)


def _forget(index: dict[Any, dict[_Pattern, None]], name: object, pattern: _Pattern) -> None:
    there = index[name]
    del there[pattern]
    if not there:
        del index[name]
