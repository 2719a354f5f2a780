"""Browsing against a model of the queue: in any order of what happens, a browser sees what there is and changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from actors.queue.operations import browsing
from actors.queue.vocabulary.settings import QueueSettings
from tests.actors.browsed_queues import LARGE, browsed, payloads, steps, store
from tests.actors.driven import QueueState, Reserved
from tests.examples_tried import tried

VISIBILITY = 10.0


class BrowsedQueue(RuleBasedStateMachine):
    """Whatever receivers, subscriptions and times do: what is browsed is what the log says is stored, each message once."""

    @initialize(counts=st.sampled_from([None, 3]), most=st.integers(1, 9))
    def declare(self, counts: int | None, most: int) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(browsing, "BROWSE_MESSAGES", most)
        self.now = 0.0
        self.events: list[Any] = []
        self.queue = QueueState(
            "q", 0, QueueSettings(visibility_timeout=VISIBILITY, max_receives=counts), record=self._record
        )
        self.queue.attach_sender("s", None)
        self.queue.request_capacity("s", 100_000, 10**8)
        self.held: list[tuple[int, int, float]] = []
        self.ledger = self.queue.open_subscription(
            "owner", "sub", "own", epoch=None, starting="earliest", owner_timeout=None
        ).high
        self.queue.attach_receiver("r")
        self._taken()

    def _record(self, event: Any) -> int:
        self.events.append(event)
        return len(self.events)

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            self.patch.undo()

    def _taken(self) -> None:
        for effect in self.queue.take_effects():
            if hasattr(effect, "batch") and hasattr(effect, "receiver"):
                self.held.append((effect.first, len(effect.batch), self.now))
            elif isinstance(effect, Reserved):
                self.ledger = max(self.ledger, effect.end)

    @rule(count=st.integers(1, 8))
    def send(self, count: int) -> None:
        store(self.queue, count, self.now)
        self._taken()

    @rule(count=st.integers(1, 6))
    def take(self, count: int) -> None:
        self.queue.receive("r", count, LARGE, self.now)
        self._taken()

    @rule(give_back=st.booleans(), delay=st.sampled_from([0.0, 5.0]), data=st.data())
    def answer(self, give_back: bool, delay: float, data: st.DataObject) -> None:
        if not self.held:
            return
        first, count, _ = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        if give_back:
            # One that was lost to the timeout and delivered again is answered once for both, so neither is held for certain.
            self.held = [(low, many, at) for low, many, at in self.held if low + many <= first or first + count <= low]
            self.queue.negative_acknowledge("r", [(first, count)], delay, self.now)
        else:
            self.queue.acknowledge("r", [(first, count)])
        self._taken()

    @rule(count=st.integers(1, 6))
    def reserve(self, count: int) -> None:
        self.queue.reserve("owner", 1, self.ledger, messages=count, size=LARGE, wait=0.0, below=None, now=self.now)
        self._taken()

    @rule(count=st.integers(1, 4))
    def commit(self, count: int) -> None:
        base = self.queue.log.ledgers["sub"].base
        self.queue.commit_position("owner", min(self.ledger, base + count))
        self._taken()

    @rule()
    def release(self) -> None:
        self.queue.release_subscription("sub", self.now, force=True)
        self._taken()

    @rule()
    def purge(self) -> None:
        self.queue.purge()
        self._taken()

    @rule(seconds=st.sampled_from([1.0, 6.0, 11.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.queue.tick(self.now)
        self._taken()

    @rule()
    def start_again(self) -> None:
        self.queue.reset(self.now)
        self.held.clear()
        self.queue.attach_sender("s", None)
        self.queue.request_capacity("s", 100_000, 10**8)
        self.queue.attach_receiver("r")
        facts = self.queue.open_subscription("owner", "sub", "own", epoch=None, starting="earliest", owner_timeout=None)
        self.ledger = facts.high
        self._taken()

    @rule(start=st.integers(0, 40), length=st.integers(0, 40))
    def a_part_is_the_same_part_of_the_whole(self, start: int, length: int) -> None:
        whole = [number for low, high in self.queue.log.stored() for number in range(low, high)]
        expected = [number for number in whole if start <= number < start + length]
        assert browsed(self.queue, start, start + length) == payloads(*expected)

    @invariant()
    def what_is_browsed_is_what_is_stored(self) -> None:
        if not hasattr(self, "queue"):
            return
        events = len(self.events)
        stored = [number for low, high in self.queue.log.stored() for number in range(low, high)]
        assert browsed(self.queue) == payloads(*stored)
        held = {
            number
            for first, count, at in self.held
            if self.now < at + VISIBILITY
            for number in range(first, first + count)
        }
        for part in steps(self.queue):
            if held & set(range(part.first, part.first + len(part.batch))):
                assert part.delivery_count >= 1, "what somebody holds was delivered"
        assert (len(self.events), self.queue.take_effects()) == (events, [])


TestBrowsedQueue = BrowsedQueue.TestCase

TestBrowsedQueue.settings = settings(max_examples=tried(60), stateful_step_count=40, deadline=None)
