"""The end of a stream in a test's hands: it asks by hand, and says what must come."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final, Generic, TypeVar

from streams.contract import Publisher, Subscriber, Subscription
from streams.errors import storable
from streams.materialize import Materialization
from streams.testkit.virtual_time import pass_time

T = TypeVar("T")

DEFAULT_TIMEOUT: Final = 3.0
"""Seconds (of the loop's time) within which what is expected must come."""


class _Next:
    """An element has come."""

    __slots__ = ("element",)

    def __init__(self, element: Any) -> None:
        self.element = element

    def __repr__(self) -> str:
        return f"next {self.element!r}"


class _Error:
    """The stream has failed."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __repr__(self) -> str:
        return f"error {self.error!r}"


class _Complete:
    """The stream has ended."""

    def __repr__(self) -> str:
        return "complete"


Signal = _Next | _Error | _Complete


class TestSubscriber(Subscriber[T], Generic[T]):
    """A subscriber that records every signal, checks the rules for publishers, and requests only what it is told to.

    Signals that break a rule (an element that nobody asked for, anything after the end) fail the next expectation.

    Attributes:
        violations: the rules broken so far, as text.
    """

    __test__ = False  # not for pytest to collect

    def __init__(self, timeout: float = DEFAULT_TIMEOUT) -> None:
        self.violations: list[str] = []
        self._timeout = timeout
        self._signals: deque[Signal] = deque()
        self._subscription: Subscription | None = None
        self._demand = 0
        self._ended = False
        self._arrival: asyncio.Event = asyncio.Event()

    # Subscriber

    def on_subscribe(self, subscription: Subscription) -> None:
        """Keeps the subscription; a second one is cancelled (2.5)."""
        if self._subscription is not None:
            subscription.cancel()
            return
        self._subscription = subscription
        self._arrival.set()

    def on_next(self, element: T) -> None:
        """Records an element."""
        self._demand -= 1
        if self._demand < 0:
            self.violations.append(f"1.1: {element!r} came without demand")
        self._record(_Next(element))

    def on_error(self, error: BaseException) -> None:
        """Records the failure."""
        self._record(_Error(error))
        self._ended = True

    def on_complete(self) -> None:
        """Records the end."""
        self._record(_Complete())
        self._ended = True

    def _record(self, signal: Signal) -> None:
        if self._subscription is None:
            self.violations.append(f"1.9: {signal} came before on_subscribe")
        if self._ended:
            self.violations.append(f"1.7: {signal} came after the end")
        self._signals.append(signal)
        self._arrival.set()

    # The test's side

    def request(self, n: int) -> None:
        """Asks for ``n`` more.

        Raises:
            AssertionError: not subscribed yet: see `expect_subscription`.
        """
        assert self._subscription is not None, "request before on_subscribe"
        self._demand += max(n, 0)
        self._subscription.request(n)

    def cancel(self) -> None:
        """Cancels the subscription.

        Raises:
            AssertionError: not subscribed yet.
        """
        assert self._subscription is not None, "cancel before on_subscribe"
        self._subscription.cancel()

    async def expect_subscription(self) -> Subscription:
        """Waits until there is a subscription, and returns it."""
        while self._subscription is None:
            await self._wait("on_subscribe")
        return self._subscription

    async def expect_next(self, *expected: T) -> T:
        """Waits for the next elements, which must equal ``expected``, or for one of any value; returns the last."""
        if not expected:
            return await self._next_element("an element")
        for value in expected:
            element = await self._next_element(f"next {value!r}")
            assert element == value, f"expected next {value!r}, got next {element!r}"
        return element

    async def request_next(self, *expected: T) -> T:
        """Asks for as many as are expected (one, if nothing is), then `expect_next`."""
        await self.expect_subscription()
        self.request(len(expected) or 1)
        return await self.expect_next(*expected)

    async def expect_n(self, n: int) -> list[T]:
        """Waits for ``n`` elements and returns them."""
        return [await self._next_element(f"element {i + 1} of {n}") for i in range(n)]

    async def expect_complete(self) -> None:
        """Waits for the end, which must be the next signal."""
        signal = await self._next_signal("complete")
        assert isinstance(signal, _Complete), f"expected complete, got {signal}"

    async def expect_error(self, kind: type[BaseException] = BaseException) -> BaseException:
        """Waits for a failure of the given kind, which must be the next signal; returns it."""
        signal = await self._next_signal(f"error {kind.__name__}")
        assert isinstance(signal, _Error), f"expected error {kind.__name__}, got {signal}"
        assert isinstance(signal.error, kind), f"expected error {kind.__name__}, got {signal}"
        return signal.error

    async def expect_no_message(self, seconds: float = 0.0) -> None:
        """Lets ``seconds`` pass, and all that is ready run; no signal may come."""
        await settle(seconds)
        self._check()
        assert not self._signals, f"expected no signal, got {self._signals[0]}"

    async def _next_element(self, what: str) -> T:
        signal = await self._next_signal(what)
        assert isinstance(signal, _Next), f"expected {what}, got {signal}"
        element: T = signal.element
        return element

    async def _next_signal(self, what: str) -> Signal:
        while not self._signals:
            await self._wait(what)
        self._check()
        return self._signals.popleft()

    async def _wait(self, what: str) -> None:
        self._check()
        self._arrival.clear()
        try:
            async with asyncio.timeout(self._timeout):
                await self._arrival.wait()
        except TimeoutError:
            raise AssertionError(f"expected {what}, but nothing came for {self._timeout:g} s") from None

    def _check(self) -> None:
        assert not self.violations, f"rules of Reactive Streams broken: {'; '.join(self.violations)}"


class TestSink(TestSubscriber[T], Generic[T]):
    """A sink for one run, whose probe it is itself: ``source.to(sink).run()``, then ``await sink.request_next(1)``.

    The run's handle is done when the stream has told the sink its end; `cancel` ends it too.
    """

    name = "test sink"

    def __init__(self, timeout: float = DEFAULT_TIMEOUT) -> None:
        super().__init__(timeout)
        self._future: asyncio.Future[None] | None = None

    def attach_sink(self, publisher: Publisher[T], m: Materialization, /) -> asyncio.Future[None]:
        """Subscribes the probe for its one run."""
        assert self._future is None, "a TestSink is for one run"
        self._future = m.loop.create_future()
        m.on_cancel(self._cancelled)
        publisher.subscribe(self)
        return self._future

    def on_error(self, error: BaseException) -> None:
        """Records the failure and ends the sink with it."""
        super().on_error(error)
        if self._future is not None and not self._future.done():
            self._future.set_exception(storable(error))

    def on_complete(self) -> None:
        """Records the end and ends the sink."""
        super().on_complete()
        self._finish()

    def cancel(self) -> None:
        """Cancels the subscription and ends the sink."""
        super().cancel()
        self._finish()

    def _finish(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    def _cancelled(self) -> None:
        if self._subscription is not None:
            self._subscription.cancel()


SETTLING_TURNS: Final = 10
"""Turns of the loop after which what was ready has run: a few stages that each put something off to the next turn."""


async def settle(seconds: float = 0.0) -> None:
    """Lets ``seconds`` of the loop's time pass, then gives the loop a few turns to run what is ready.

    On an ordinary loop the time is real: there it is a sleep, and `elapse` is the one that refuses.
    """
    if seconds:
        await pass_time(asyncio.get_running_loop(), seconds)
    for _ in range(SETTLING_TURNS):
        await asyncio.sleep(0)
