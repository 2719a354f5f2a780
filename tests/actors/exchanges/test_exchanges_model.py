"""Any history of commands leaves what a simple model has, and messages go where the model sends them.

Beside the exchanges under test there are others: one that keeps no routes, and what is folded from the events that a journal would have,
each of them twice.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actors.exchanges.errors import ExchangeError
from actors.exchanges.exchanges import Exchanges
from actors.exchanges.limits import ExchangeLimits
from actors.exchanges.vocabulary import Destination, Event, Exchange
from tests.actors.exchanges.brute_force import matches
from tests.examples_tried import tried

PREDECLARED = {
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.topic": "topic",
    "amq.headers": "headers",
    "amq.match": "headers",
}
OWN = ["e1", "e2", "e3", "e4", "e5"]
EXCHANGES = st.sampled_from([*OWN, *OWN, "amq.topic", "amq.headers"])
QUEUES = st.sampled_from(["q1", "q2", "q3", "k"])
KEYS = st.sampled_from(["", "k", "k.l", "*", "#", "k.#"])
ARGUMENTS = st.sampled_from(
    [{}, {"a": 1}, {"a": "1", "x-match": "any"}, {"x-a": None, "a": [1], "x-match": "any-with-x"}]
)
HEADERS = st.sampled_from(
    [
        None,
        {},
        {"a": 1},
        {"a": "1"},
        {"a": [1]},
        {"x-a": True},
        {"x-delay": 5},
        {"x-delay": "7", "a": 1},
        {"x-delay": -5},
    ]
)
WAITS = (5, "7")
KINDS = ["direct", "fanout", "topic", "headers"]
MOSTLY = st.sampled_from([True, True, False])


class ModelBinding(NamedTuple):
    source: str
    end: str
    to_exchange: bool
    key: str
    arguments: dict[str, Any]


class ExchangesMachine(RuleBasedStateMachine):
    """The model: exchanges by name, a list of bindings, and every question answered by looking at all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.queues: dict[str, bool] = {}
        self.declared: dict[str, Exchange] = {}
        self.bound: list[ModelBinding] = []
        self.subject = Exchanges(self.queues.get)
        self.uncached = Exchanges(self.queues.get, ExchangeLimits(max_cached_keys=0))
        self.recorded: list[Event] = []
        self.checkpoint = self.subject.snapshot()

    def carry_out(self, decided: tuple[Event, ...]) -> None:
        before = self.subject.generation
        for event in decided:
            self.subject.apply(event)
            self.uncached.apply(event)
            self.uncached.apply(event)
            if event.number:
                self.recorded.append(event)
        assert self.subject.generation == before + len(decided)
        assert [e.number for e in self.recorded] == list(range(1, len(self.recorded) + 1)), "none is left out"

    def refused(self, error: str, command: Any, *arguments: Any, **named: Any) -> None:
        before = self.everything(self.subject)
        with pytest.raises(ExchangeError) as raised:
            command(*arguments, **named)
        assert type(raised.value).__name__ == error
        assert self.everything(self.subject) == before

    @staticmethod
    def everything(exchanges: Exchanges) -> Any:
        return list(exchanges), list(exchanges.bindings()), exchanges.statistics()

    def kind(self, name: str) -> str | None:
        there = self.declared.get(name)
        return PREDECLARED.get(name) if there is None else there.inner_kind

    @rule(
        name=st.sampled_from(OWN),
        kind=st.sampled_from([*KINDS, *(f"delayed {kind}" for kind in KINDS)]),
        durable=MOSTLY,
        auto_delete=st.booleans(),
        internal=MOSTLY.map(lambda it: not it),
        alternate=st.none() | EXCHANGES | st.just(""),
    )
    def declare(
        self, name: str, kind: str, durable: bool, auto_delete: bool, internal: bool, alternate: str | None
    ) -> None:
        arguments = {} if alternate is None else {"alternate-exchange": alternate}
        if kind not in KINDS:
            kind, arguments["x-delayed-type"] = "x-delayed-message", kind.removeprefix("delayed ")
        wanted = Exchange(name, kind, durable, auto_delete, internal, arguments)
        named = {"durable": durable, "auto_delete": auto_delete, "internal": internal, "arguments": arguments}
        if self.declared.get(name, wanted) != wanted:
            self.refused("ExchangeExistsError", self.subject.decide.declare, name, kind, **named)
            return
        decided = self.subject.decide.declare(name, kind, **named)
        assert len(decided) == (name not in self.declared)
        self.declared[name] = wanted
        self.carry_out(decided)

    @rule(name=EXCHANGES, if_unused=st.booleans())
    def delete(self, name: str, if_unused: bool) -> None:
        if name in PREDECLARED:
            self.refused("ReservedExchangeError", self.subject.decide.delete, name)
        elif name in self.declared and if_unused and any(one.source == name for one in self.bound):
            self.refused("ExchangeInUseError", self.subject.decide.delete, name, if_unused=True)
        else:
            decided = self.subject.decide.delete(name, if_unused=if_unused)
            self.gone(name)
            self.carry_out(decided)

    def gone(self, name: str) -> None:
        if self.declared.pop(name, None) is not None:
            self.lose([one for one in self.bound if one.source == name or (one.to_exchange and one.end == name)])

    def lose(self, bindings: list[ModelBinding]) -> None:
        """These bindings are gone, and with them what had no others and was to go with its last."""
        self.bound = [one for one in self.bound if one not in bindings]
        for one in bindings:
            there = self.declared.get(one.source)
            if there is not None and there.auto_delete and not any(b.source == one.source for b in self.bound):
                self.gone(one.source)

    @rule(source=EXCHANGES, queue=QUEUES, key=KEYS, arguments=ARGUMENTS)
    def bind_queue(self, source: str, queue: str, key: str, arguments: dict[str, Any]) -> None:
        self.bind(ModelBinding(source, queue, False, key, arguments))

    @rule(source=EXCHANGES, end=EXCHANGES, key=KEYS, arguments=ARGUMENTS)
    def bind_exchange(self, source: str, end: str, key: str, arguments: dict[str, Any]) -> None:
        self.bind(ModelBinding(source, end, True, key, arguments))

    def bind(self, one: ModelBinding) -> None:
        named = {"key": one.key, "arguments": one.arguments, "to_exchange": one.to_exchange}
        if self.kind(one.source) is None or (one.to_exchange and self.kind(one.end) is None):
            self.refused("ExchangeNotFoundError", self.subject.decide.bind, one.source, one.end, **named)
        elif not one.to_exchange and one.end not in self.queues:
            self.refused("BoundQueueNotFoundError", self.subject.decide.bind, one.source, one.end, **named)
        else:
            decided = self.subject.decide.bind(one.source, one.end, **named)
            assert len(decided) == (one not in self.bound)
            if one not in self.bound:
                self.bound.append(one)
            self.carry_out(decided)

    @rule(data=st.data())
    def unbind(self, data: st.DataObject) -> None:
        if not self.bound:
            return
        one = data.draw(st.sampled_from(self.bound))
        decided = self.subject.decide.unbind(
            one.source, one.end, one.key, dict(reversed(one.arguments.items())), to_exchange=one.to_exchange
        )
        self.lose([one])
        self.carry_out(decided)

    @rule(
        queue=QUEUES,
        said=st.lists(st.tuples(st.sampled_from(["amq.topic", "e1"]), KEYS, ARGUMENTS), min_size=2, max_size=5),
        kept=st.integers(1, 2),
    )
    def unbind_others(self, queue: str, said: list[tuple[str, str, dict[str, Any]]], kept: int) -> None:
        self.make_queue(queue, True)
        for source, key, arguments in said:
            self.bind(ModelBinding(source, queue, False, key, arguments))
        there = [one for one in self.bound if one.end == queue and not one.to_exchange]
        named = [(one.source, one.key, dict(reversed(one.arguments.items()))) for one in there[-kept:]]
        decided = self.subject.decide.unbind_others(queue, named)
        assert all(bool(event.number) == event.binding.durable for event in decided)
        sources = {one.source for one in there[-kept:]}
        self.lose([one for one in there[:-kept] if one.source in sources])
        self.carry_out(decided)

    @rule(source=EXCHANGES, queue=QUEUES)
    def unbind_what_is_not_bound(self, source: str, queue: str) -> None:
        assert self.subject.decide.unbind(source, queue, "another key") == ()

    @rule(queue=QUEUES, durable=MOSTLY)
    def make_queue(self, queue: str, durable: bool) -> None:
        self.queues.setdefault(queue, durable)

    @rule(queue=QUEUES)
    def delete_queue(self, queue: str) -> None:
        self.queues.pop(queue, None)
        decided = self.subject.decide.queue_deleted(queue)
        self.lose([one for one in self.bound if one.end == queue and not one.to_exchange])
        self.carry_out(decided)

    @rule()
    def make_checkpoint(self) -> None:
        self.checkpoint = self.subject.snapshot()

    @rule()
    def start_again(self) -> None:
        """What is durable is there, and nothing else."""
        self.declared = {name: one for name, one in self.declared.items() if one.durable}
        self.bound = [one for one in self.bound if self.would_be_durable(one)]
        for queue in [name for name, durable in self.queues.items() if not durable]:
            del self.queues[queue]
        for exchanges in (self.subject, self.uncached):
            exchanges.restore(self.checkpoint)
            for event in self.recorded:
                exchanges.apply(event)

    def would_be_durable(self, one: ModelBinding) -> bool:
        source = one.source in PREDECLARED or (one.source in self.declared and self.declared[one.source].durable)
        if not one.to_exchange:
            return source and self.queues[one.end]
        return source and (one.end in PREDECLARED or (one.end in self.declared and self.declared[one.end].durable))

    @rule(
        exchange=EXCHANGES | st.just(""),
        keys=st.lists(KEYS | QUEUES, min_size=1, max_size=2, unique=True),
        headers=HEADERS,
    )
    def publish(self, exchange: str, keys: list[str], headers: dict[str, Any] | None) -> None:
        if exchange and self.kind(exchange) is None:
            self.refused("ExchangeNotFoundError", self.subject.route, exchange, tuple(keys), headers)
            return
        if exchange in self.declared and self.declared[exchange].internal:
            with pytest.raises(ExchangeError, match="is internal"):
                self.subject.route(exchange, tuple(keys), headers)
        expected = tuple(sorted(self.reached(exchange, keys, headers or {})))
        for _again in range(2):
            assert self.subject.route(exchange, tuple(keys), headers, outside=False) == expected
        assert self.uncached.route(exchange, tuple(keys), headers, outside=False) == expected

    def reached(self, exchange: str, keys: list[str], headers: dict[str, Any]) -> set[str]:
        queues: set[str] = set()
        seen: set[str] = set()
        waiting = [exchange]
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            if not name:
                queues |= set(keys) & set(self.queues)
                continue
            kind = self.kind(name)
            if kind is None:
                continue
            there = self.declared.get(name)
            if there is not None and there.kind == "x-delayed-message" and headers.get("x-delay") in WAITS:
                queues.add(f"{name} delayed")
                continue
            matching = [b for b in self.bound if b.source == name and matches(kind, b.key, b.arguments, keys, headers)]
            queues |= {b.end for b in matching if not b.to_exchange}
            waiting += [b.end for b in matching if b.to_exchange]
            alternate = self.declared[name].alternate if name in self.declared else None
            if not matching and alternate is not None:
                waiting.append(alternate)
        return queues

    @invariant()
    def all_of_them_have_what_the_model_has(self) -> None:
        for exchanges in (self.subject, self.uncached):
            there = [one for one in exchanges if one.name and one.name not in PREDECLARED]
            assert there == [self.declared[name] for name in sorted(self.declared)]
            bindings = list(exchanges.bindings())
            assert [self.as_model(binding) for binding in bindings] == self.bound
            assert all(b.durable == self.would_be_durable(self.as_model(b)) for b in bindings)

    @staticmethod
    def as_model(binding: Any) -> ModelBinding:
        end: Destination = binding.destination
        return ModelBinding(binding.source, end.name, end.is_exchange, binding.key, binding.arguments)

    @invariant()
    def what_is_recorded_comes_to_what_is_durable(self) -> None:
        expected = self.subject.snapshot()
        whole, rest = Exchanges(self.queues.get), Exchanges(self.queues.get)
        rest.restore(self.checkpoint)
        for event in self.recorded:
            whole.apply(event)
            whole.apply(event)
        for event in self.recorded:
            rest.apply(event)  # those too that are in the checkpoint
        assert whole.snapshot() == rest.snapshot() == expected

    def teardown(self) -> None:
        """With its queues and exchanges all that was bound goes, and what it counted for."""
        for queue in list(self.queues):
            self.carry_out(self.subject.decide.queue_deleted(queue))
        for name in OWN:
            self.carry_out(self.subject.decide.delete(name))
        for binding in list(self.subject.bindings()):
            end: Destination = binding.destination
            self.carry_out(
                self.subject.decide.unbind(
                    binding.source, end.name, binding.key, binding.arguments, to_exchange=end.is_exchange
                )
            )
        assert self.subject.statistics()[:3] == (0, 0, 0)


class TestExchangesAgainstTheirModel(ExchangesMachine.TestCase):  # type: ignore[name-defined,misc]  # made by hypothesis
    settings = settings(max_examples=tried(150), stateful_step_count=50)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
class TestExchangesAgainstTheirModelForLong(ExchangesMachine.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=3_000, stateful_step_count=60)
