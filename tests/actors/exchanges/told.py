"""Exchanges that carry out at once what they have decided, for tests."""

from __future__ import annotations

from typing import Any

from actors.exchanges.exchanges import Exchanges
from actors.exchanges.limits import ExchangeLimits
from actors.exchanges.vocabulary import Event


class Told:
    """Exchanges, the queues that there are, and the events so far.

    Args:
        queues: names of durable queues that there are.
        limits: of the exchanges, by name.
    """

    def __init__(self, *queues: str, **limits: int) -> None:
        self.queues = dict.fromkeys(queues, True)
        self.exchanges = Exchanges(self.queues.get, ExchangeLimits(**limits))
        self.events: list[Event] = []

    def __getattr__(self, command: str) -> Any:
        """A command of ``Exchanges.decide``, carried out."""

        def tell(*arguments: Any, **named: Any) -> tuple[Event, ...]:
            decided: tuple[Event, ...] = getattr(self.exchanges.decide, command)(*arguments, **named)
            for event in decided:
                self.exchanges.apply(event)
            self.events += decided
            return decided

        return tell

    def route(self, exchange: str, *keys: str, headers: Any = None, outside: bool = True) -> tuple[str, ...]:
        return self.exchanges.route(exchange, keys, headers, outside=outside)

    def names(self) -> list[str]:
        """The exchanges beside those that are always there."""
        return [one.name for one in self.exchanges if one.name and not one.name.startswith("amq.")]

    def state(self) -> Any:
        """All that there is, to be compared."""
        return list(self.exchanges), list(self.exchanges.bindings())
