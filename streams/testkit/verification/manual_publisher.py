"""A publisher's side in the kit's hands: it signals when it is told to, and checks what the subscriber does with its subscription."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from streams.contract import Subscriber, Subscription
from streams.testkit.verification.environment import Environment, fail, told

T = TypeVar("T")


class TestError(Exception):
    """What the kit's publishers fail with."""

    __test__ = False  # not for pytest to collect


class ManualSubscription(Subscription):
    """Records what a subscriber asks for, and notes what no subscriber may do, whatever is being tested.

    Args:
        env: what the test runs in.
        name: tells it from another subscription.

    Attributes:
        requests: what was asked for and has not been looked at by the test.
        demand: elements asked for, less those sent.
        cancelled: calls of cancel.
        ending: the signal of the end that is being delivered, None at other times.
        ended: the end has been signalled.
        on_request: called from within each request.
    """

    def __init__(self, env: Environment, name: str = "the subscription") -> None:
        self.requests: deque[int] = deque()
        self.demand = 0
        self.cancelled = 0
        self.ending: str | None = None
        self.ended = False
        self.on_request: Callable[[int], None] | None = None
        self._env = env
        self._name = name
        self._change = asyncio.Event()

    def request(self, n: int) -> None:
        """Records a request."""
        self._check("request")
        if n < 1:
            self._env.violated("3.9", f"the subscriber called request({n}) on {self._name}: n must be at least 1")
            return
        if self.cancelled:
            return  # of no effect (3.6)
        self.demand += n
        self.requests.append(n)
        self._env.wake(self._change)
        if self.on_request is not None:
            self.on_request(n)

    def cancel(self) -> None:
        """Records a cancellation."""
        self._check("cancel")
        self.cancelled += 1
        self._env.wake(self._change)

    def _check(self, call: str) -> None:
        self._env.check_thread("2.7", call)
        if self.ending is not None:
            self._env.violated("2.3", f"{call} was called on {self._name} from within {self.ending}")
        elif self.ended:
            self._env.violated("2.4", f"{call} was called on {self._name} after the end, which has cancelled it")

    def answer_once(self, answer: Callable[[], object]) -> None:
        """Has ``answer`` called from within the first request."""

        def once(_n: int) -> None:
            self.on_request = None
            answer()

        self.on_request = once

    async def expect_request(self, rule: str, what: str = "a request") -> int:
        """Waits for the next request; returns how many it asks for."""
        while not self.requests:
            self._change.clear()
            await self._env.wait(self._change, rule, what)
        return self.requests.popleft()

    async def is_used(self, rule: str) -> bool:
        """Waits for a request that has not been looked at, and leaves it there (true), or a cancellation without one (false)."""
        while not self.requests and not self.cancelled:
            self._change.clear()
            await self._env.wait(self._change, rule, "a request")
        return bool(self.requests)

    async def wants_more(self) -> bool:
        """Whether there is demand, or comes some in the time for which nothing may come."""
        if self.demand < 1 and not self.cancelled:
            self._change.clear()
            await self._env.quiet_until(self._change)
        return self.demand > 0 and not self.cancelled

    async def expect_demand(self, n: int, rule: str) -> None:
        """Waits until ``n`` elements are asked for in all, in as many requests as it takes."""
        while self.demand < n:
            self._change.clear()
            await self._env.wait(self._change, rule, f"requests for {n} elements (have {self.demand})")

    async def expect_cancel(self, rule: str, what: str = "a cancellation") -> None:
        """Waits for a cancellation."""
        while not self.cancelled:
            self._change.clear()
            await self._env.wait(self._change, rule, what)


class ManualPublisher(Generic[T]):
    """Signals to one subscriber, each time checking that it returns normally (2.13).

    Args:
        env: what the test runs in.
        subscriber: whom to signal to.
        create_element: makes the elements, by number.
        name: tells its subscription from another.

    Attributes:
        subscription: what the subscriber is given.
    """

    def __init__(
        self,
        env: Environment,
        subscriber: Subscriber[T],
        create_element: Callable[[int], T],
        name: str = "the subscription",
    ) -> None:
        self.subscription = ManualSubscription(env, name)
        self._create_element = create_element
        self._env = env
        self._number = 0
        self._subscriber = subscriber

    def subscribe(self) -> None:
        """Signals on_subscribe."""
        self._call("on_subscribe", self._subscriber.on_subscribe, self.subscription)

    def next(self) -> T:
        """Signals one element, and returns it."""
        element = self._create_element(self._number)
        self._number += 1
        self.subscription.demand -= 1
        self._call("on_next", self._subscriber.on_next, element)
        return element

    def error(self) -> TestError:
        """Signals a failure, and returns it."""
        error = TestError("the kit's publisher fails")
        self._end("on_error", self._subscriber.on_error, error)
        return error

    def complete(self) -> None:
        """Signals the end."""
        self._end("on_complete", self._subscriber.on_complete)

    def _end(self, signal: str, call: Callable[..., None], *arguments: Any) -> None:
        subscription = self.subscription
        before, subscription.ending = subscription.ending, signal
        try:
            self._call(signal, call, *arguments)
        finally:
            subscription.ending = before
            subscription.ended = True

    def _call(self, signal: str, call: Callable[..., None], *arguments: Any) -> None:
        try:
            call(*arguments)
        except Exception as error:  # noqa: BLE001 - a signal that raises anything breaks the rule
            what = ", ".join(map(repr, arguments))
            fail("2.13", f"{signal}({what}) must return normally, but raised {error!r}")


class Downstream(Generic[T]):
    """What a subscriber under test has seen, as it tells a probe."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._signals: deque[tuple[str, Any]] = deque()
        self._arrival = asyncio.Event()

    def record(self, signal: str, value: Any = None) -> None:
        """Notes a signal."""
        self._signals.append((signal, value))
        self._env.wake(self._arrival)

    async def expect(self, signal: str, value: Any, rule: str) -> None:
        """Waits for the next signal, which must be this one."""
        what = f"the subscriber to take {told(signal, value)}"
        found, got = await self._next(what, rule)
        if found != signal or got != value:
            fail(rule, f"expected {what}, but it took {told(found, got)}")

    async def expect_all(self, signal: str, values: list[Any], rule: str) -> None:
        """Waits for as many signals, which must be these in any order."""
        missing = list(values)
        while missing:
            found, got = await self._next(f"the subscriber to take {signal} with each of {missing!r}", rule)
            if found != signal or got not in missing:
                fail(
                    rule,
                    f"expected the subscriber to take {signal} with one of {missing!r}, but it took {told(found, got)}",
                )
            missing.remove(got)

    async def _next(self, what: str, rule: str) -> tuple[str, Any]:
        while not self._signals:
            self._arrival.clear()
            await self._env.wait(self._arrival, rule, what)
        return self._signals.popleft()

    async def nothing(self, rule: str, why: str) -> None:
        """Waits for a while: no signal may be seen."""
        await self._env.quiet()
        self._env.verify()
        if self._signals:
            found, got = self._signals[0]
            fail(rule, f"expected the subscriber to take no signal ({why}), but it took {told(found, got)}")
