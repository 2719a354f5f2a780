"""What exchanges, bindings and queues there are as far as a history tells: certainly, possibly, or not at all; and where that leads.

A command changes something between the moment when the broker was given it and the moment when it wrote the answer. Until then both may
be so. What was not answered may be so or not until the next start shows it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.actors.exchanges.brute_force import matches
from tests.simulation.exchange_plan import DEFAULT, Bound, ExchangesPlan
from tests.simulation.history import CommandAnswered, CommandHeard, Defined, Released

Fact: TypeAlias = tuple[str, str] | Bound
"""An exchange or a queue by its name, or a binding."""
EXCHANGE, QUEUE = "exchange", "queue"
ALWAYS = float("inf")
GIVEN_UP = 1.0
"""Seconds after the end of its connection in which the broker carries out a command that it was given, at most."""


@dataclass(slots=True)
class Known:
    """What is known of a fact.

    Attributes:
        so: whether it may be so, and whether it may be not so: one of the two, or both.
        since: the event since which it is certainly so.
        last: the event up to which it may have been so.
    """

    so: frozenset[bool] = frozenset({False})
    since: float = ALWAYS
    last: float = -1.0

    def become(self, so: Iterable[bool], at: int) -> None:
        """What may be is this from an event on."""
        before, self.so = self.so, frozenset(so)
        certain = self.so == {True}
        if not certain:
            self.since = ALWAYS
        elif before != {True}:
            self.since = at
        if True in self.so:
            self.last = ALWAYS
        elif True in before:
            self.last = at

    def widen(self, so: bool, at: int) -> None:
        """It may be this, too."""
        self.become(self.so | {so}, at)


@dataclass(slots=True)
class _Command:
    connection: int
    request: int
    facts: dict[Fact, bool]
    overlapped: dict[Fact, None] = field(default_factory=dict)
    released: float = ALWAYS


class Facts:
    """Follows the commands of a history.

    Attributes:
        wrong: what a start has found that was answered otherwise.
        changes: grows whenever something may be otherwise.
    """

    def __init__(self, plan: ExchangesPlan) -> None:
        self.plan = plan
        self.known: dict[Fact, Known] = {}
        self.changes = 0
        self._commands: list[_Command] = []
        self._exchanges = plan.known

    def of(self, fact: Fact) -> Known:
        return self.known.setdefault(fact, Known())

    # What happens.

    def heard(self, event: CommandHeard, at: int) -> None:
        """A command may be carried out from now on."""
        self._commands = [each for each in self._commands if event.time <= each.released + GIVEN_UP]
        kind, verb = event.name.split(".")
        made = verb == "create"
        arguments = dict(event.arguments)
        facts: dict[Fact, bool] = {}
        if kind == "binding":
            bound = _bound(arguments)
            facts[bound] = made
            if not made:
                self._may_go_with(bound, at)
        else:
            fact = (kind, str(arguments["name"]))
            facts[fact] = made
            if not made:
                facts |= dict.fromkeys(self._touching(fact), False)
        command = _Command(event.connection, event.request, facts)
        for other in self._commands:
            for fact in facts.keys() & other.facts.keys():
                command.overlapped[fact] = other.overlapped[fact] = None
        self._commands.append(command)
        for fact, so in facts.items():
            self.of(fact).widen(so, at)
            if isinstance(fact, Bound) and not so:
                self._may_go_with(fact, at)
        self.changes += 1

    def answered(self, event: CommandAnswered, at: int) -> None:
        """A command was carried out, or refused, which changes nothing; what may be stays as wide as it was then."""
        for command in self._commands:
            if (command.connection, command.request) == (event.connection, event.request):
                break
        else:
            return
        self._commands.remove(command)
        if event.code is None:
            for fact, so in command.facts.items():
                if fact not in command.overlapped:
                    self.of(fact).become({so}, at)
            self.changes += 1

    def released(self, event: Released) -> None:
        """A connection has ended: what it asked is carried out soon, or never."""
        for command in self._commands:
            if command.connection == event.connection:
                command.released = event.time

    def crashed(self, at: int) -> None:
        """What a restart forgets may be gone."""
        self._commands = []
        for fact, known in self.known.items():
            if not self.is_durable(fact):
                known.widen(False, at)
        self.changes += 1

    def found(self, event: Defined, at: int) -> list[str]:
        """What a start has; returns what is wrong with that."""
        there: dict[Fact, None] = {(EXCHANGE, name): None for name in event.exchanges}
        there |= {(QUEUE, name): None for name in event.queues}
        there |= {Bound(*each): None for each in event.bindings}
        wrong = []
        for fact in {**there, **self.known}:
            known = self.of(fact)
            if known.so == {True} and fact not in there:
                wrong.append(f"{fact} was answered as made, and is gone")
            if known.so == {False} and fact in there and at and known.last >= 0:
                wrong.append(f"{fact} was answered as gone, and is there")
            known.become({fact in there}, at)
        self.changes += 1
        return wrong

    def is_durable(self, fact: Fact) -> bool:
        """Whether it outlives a restart."""
        if not isinstance(fact, Bound):
            return fact[0] == QUEUE or self._exchanges[fact[1]].durable
        ends = [fact.source] + [fact.destination] * fact.to_exchange
        return all(self._exchanges[name].durable for name in ends)

    def _touching(self, fact: tuple[str, str]) -> list[Bound]:
        kind, name = fact
        return [
            each
            for each in self.known
            if isinstance(each, Bound)
            and (
                (kind == EXCHANGE and each.source == name)
                or (each.destination == name and each.to_exchange == (kind == EXCHANGE))
            )
        ]

    def _may_go_with(self, bound: Bound, at: int) -> None:
        """An exchange may go with its last binding, and whatever leads to it."""
        if bound.source in self._exchanges and self._exchanges[bound.source].auto_delete:
            fact = (EXCHANGE, bound.source)
            for each in (fact, *self._touching(fact)):
                self.of(each).widen(False, at)

    # Where it leads.

    def surely(self, offered: int, exchange: str, key: str, headers: dict[str, str]) -> set[str]:
        """The queues that a message went to for certain that was offered at an event, and is stored by now."""
        return self._route(offered, exchange, key, headers)[0]

    def perhaps(self, offered: int, exchange: str, key: str, headers: dict[str, str]) -> set[str]:
        """The queues that it may have gone to."""
        return self._route(offered, exchange, key, headers)[1]

    def _route(self, offered: int, exchange: str, key: str, headers: dict[str, str]) -> tuple[set[str], set[str]]:
        def surely(fact: Fact) -> bool:
            return self.of(fact).since < offered

        def perhaps(fact: Fact) -> bool:
            return self.of(fact).last >= offered

        if exchange == DEFAULT:
            fact = (QUEUE, key)
            return ({key} if surely(fact) else set()), ({key} if perhaps(fact) else set())
        matching = [
            each
            for each in self.known
            if isinstance(each, Bound)
            and perhaps(each)
            and matches(self._exchanges[each.source].kind, each.key, dict(each.arguments), (key,), headers)
        ]
        certain, possible = ({name} for name in (exchange, exchange))
        sure, may = set[str](), set[str]()
        done = False
        while not done:
            before = len(certain), len(possible), len(sure), len(may)
            for each in matching:
                if each.source in possible:
                    (possible if each.to_exchange else may).add(each.destination)
                if each.source in certain and surely(each):
                    (certain if each.to_exchange else sure).add(each.destination)
            for name in (*possible,):
                alternate = self._exchanges[name].alternate
                if alternate is None:
                    continue
                # It gets what nothing else took: for certain where nothing can have, and perhaps where nothing must have.
                leads = [each for each in matching if each.source == name]
                if not any(surely(each) for each in leads):
                    possible.add(alternate)
                if name in certain and not leads:
                    certain.add(alternate)
            done = before == (len(certain), len(possible), len(sure), len(may))
        return sure, may


def _bound(arguments: dict[str, object]) -> Bound:
    table = arguments.get("arguments")
    said = json.loads(table) if isinstance(table, str) else {}
    return Bound(
        str(arguments["source"]),
        str(arguments["destination"]),
        bool(arguments.get("to_exchange", False)),
        str(arguments.get("key") or ""),
        tuple(sorted(said.items())),
    )
