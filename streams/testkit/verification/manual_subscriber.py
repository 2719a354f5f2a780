"""A subscriber in the kit's hands: asks only when it is told to, and checks whatever it is sent."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final, Generic, TypeVar

from streams.contract import Subscriber, Subscription
from streams.demand import add_demand
from streams.testkit.verification.environment import RUNAWAY, Environment, fail, told

T = TypeVar("T")

NEXT: Final = "on_next"
ERROR: Final = "on_error"
COMPLETE: Final = "on_complete"


class ManualSubscriber(Subscriber[T], Generic[T]):
    """Records its signals, and notes those that no publisher may send, whatever is being tested.

    Subclasses that request or cancel from within a signal override `subscribed` and `received`.

    Attributes:
        subscription: what it was given, None before that.
        requested: elements asked for.
        count: elements received.
        subscriptions: calls of on_subscribe.
        ended: it has been told the end.
        deepest: most calls of on_next that were under way at once.
    """

    def __init__(self, env: Environment) -> None:
        self.subscription: Subscription | None = None
        self.requested = 0
        self.count = 0
        self.subscriptions = 0
        self.ended = False
        self.deepest = 0
        self._env = env
        self._depth = 0
        self._signals: deque[tuple[str, Any]] = deque()
        self._arrival = asyncio.Event()

    # What the publisher calls

    def on_subscribe(self, subscription: Subscription) -> None:
        """Takes the first subscription."""
        env = self._env
        env.check_thread("1.3", "on_subscribe")
        self.subscriptions += 1
        given: Any = subscription
        if given is None:
            env.violated("2.13", "on_subscribe(None) was called")
            return
        if self.subscription is not None:
            env.violated("2.12", "on_subscribe was called a second time on the same subscriber")
            return
        self.subscription = subscription
        self.subscribed()
        env.wake(self._arrival)

    def on_next(self, element: T) -> None:
        """Takes one element."""
        env = self._env
        env.check_thread("1.3", NEXT)
        if element is None:
            env.violated("2.13", "on_next(None) was called")
        self._check_order(NEXT)
        self.count += 1
        if self.count > self.requested:
            env.violated("1.1", f"{self.count} elements have come, but {self.requested} were requested")
        if self.count > RUNAWAY:
            env.run_away("1.8", f"{RUNAWAY} elements have come, and there is no end to them")
        self._depth += 1
        self.deepest = max(self.deepest, self._depth)
        try:
            self._record(NEXT, element)
            self.received(element)
        finally:
            self._depth -= 1

    def on_error(self, error: BaseException) -> None:
        """Takes the failure."""
        self._env.check_thread("1.3", ERROR)
        given: Any = error
        if not isinstance(given, BaseException):
            self._env.violated("2.13", f"on_error({error!r}) was called, which is no error")
        self._check_order(ERROR)
        self.ended = True
        self._record(ERROR, error)

    def on_complete(self) -> None:
        """Takes the end."""
        self._env.check_thread("1.3", COMPLETE)
        self._check_order(COMPLETE)
        self.ended = True
        self._record(COMPLETE, None)

    def subscribed(self) -> None:
        """Called from within on_subscribe; nothing, unless a subclass does something."""

    def received(self, _element: T) -> None:
        """Called from within on_next; nothing, unless a subclass does something."""

    def _check_order(self, signal: str) -> None:
        if self.subscription is None:
            self._env.violated("1.9", f"{signal} was called before on_subscribe")
        if self.ended:
            self._env.violated("1.7", f"{signal} was called after the end")

    def _record(self, signal: str, value: Any) -> None:
        self._signals.append((signal, value))
        self._env.wake(self._arrival)

    # What a test does

    def request(self, n: int) -> None:
        """Asks for ``n`` more; that this raises is against rule 3.16."""
        assert self.subscription is not None, "there is no subscription yet"
        if n > 0:
            self.requested = add_demand(self.requested, n)
        try:
            self.subscription.request(n)
        except Exception as error:  # noqa: BLE001 - a request that raises anything breaks the rule
            self._env.violated("3.16", f"request({n}) must return normally, but raised {error!r}")

    def cancel(self) -> None:
        """Cancels; that this raises is against rule 3.15."""
        assert self.subscription is not None, "there is no subscription yet"
        try:
            self.subscription.cancel()
        except Exception as error:  # noqa: BLE001 - a cancel that raises anything breaks the rule
            self._env.violated("3.15", f"cancel() must return normally, but raised {error!r}")

    async def subscription_comes(self) -> None:
        """Waits for on_subscribe."""
        while self.subscription is None:
            await self._wait("1.9", "on_subscribe")

    async def element(self, rule: str, what: str = "an element that was requested") -> T:
        """Waits for the next signal, which must be an element."""
        signal, value = await self._next(rule, what)
        if signal != NEXT:
            fail(rule, f"expected {what}, got {told(signal, value)}")
        element: T = value
        return element

    async def elements(self, n: int, rule: str) -> list[T]:
        """Waits for ``n`` elements."""
        return [await self.element(rule, f"element {i + 1} of {n} that were requested") for i in range(n)]

    async def complete(self, rule: str) -> None:
        """Waits for the next signal, which must be the end."""
        signal, value = await self._next(rule, COMPLETE)
        if signal != COMPLETE:
            fail(rule, f"expected {COMPLETE}, got {signal}({value!r})")

    async def error(self, rule: str, kind: type[BaseException] = BaseException) -> BaseException:
        """Waits for the next signal, which must be a failure of the given kind; returns it."""
        what = f"{ERROR} with {kind.__name__}"
        signal, value = await self._next(rule, what)
        if signal != ERROR or not isinstance(value, kind):
            fail(rule, f"expected {what}, got {told(signal, value)}")
        error: BaseException = value
        return error

    async def signal(self, rule: str, what: str) -> str:
        """Waits for the next signal, of any kind; returns its name."""
        return (await self._next(rule, what))[0]

    async def nothing(self, rule: str, why: str) -> None:
        """Waits for a while: no signal may come."""
        await self._env.quiet()
        self._env.verify()
        if self._signals:
            signal, value = self._signals[0]
            fail(rule, f"expected no signal ({why}), got {told(signal, value)}")

    async def in_flight(self) -> int:
        """Lets what is on its way come, and forgets it; returns how many signals there were."""
        await self._env.quiet()
        self._env.verify()
        count = len(self._signals)
        self._signals.clear()
        return count

    async def _next(self, rule: str, what: str) -> tuple[str, Any]:
        while not self._signals:
            await self._wait(rule, what)
        self._env.verify()
        return self._signals.popleft()

    async def _wait(self, rule: str, what: str) -> None:
        self._arrival.clear()
        await self._env.wait(self._arrival, rule, what)


class EagerSubscriber(ManualSubscriber[T], Generic[T]):
    """Requests from within its signals.

    Args:
        first: what it asks for in on_subscribe, one request each.
        then: what it asks for in on_next; 0 for nothing.
        stop: elements after which it cancels, from within on_next.
    """

    def __init__(self, env: Environment, first: tuple[int, ...] = (), then: int = 0, stop: int | None = None) -> None:
        super().__init__(env)
        self._first = first
        self._then = then
        self._stop = stop

    def subscribed(self) -> None:
        """The first requests."""
        for n in self._first:
            self.request(n)

    def received(self, _element: T) -> None:
        """The next request, or the cancellation."""
        if self._stop is not None and self.count >= self._stop:
            self.cancel()
        elif self._then:
            self.request(self._then)
