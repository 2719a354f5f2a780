"""The end of a stream in a test's hands: it asks by hand, and says what must come."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from streams.contract import UNBOUNDED, Publisher, Subscriber, Subscription
from streams.demand import add_demand
from streams.errors import null_element, storable
from streams.materialize import Materialization
from streams.testkit.expectations import DEFAULT_TIMEOUT, Expectations, settle

T = TypeVar("T")

MOST_ELEMENTS: Final = 1_000_000
"""Elements that `TestSubscriber.to_strict` and the like keep: a stream without end fails the test before it fills the memory."""


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

    __slots__ = ()

    def __repr__(self) -> str:
        return "complete"


Signal = _Next | _Error | _Complete


class TestSubscriber(Expectations, Subscriber[T], Generic[T]):
    """A subscriber that records every signal, checks the rules for publishers, and requests only what it is told to.

    Signals that break a rule (an element that nobody asked for, anything after the end) fail the next expectation.

    Attributes:
        violations: the rules broken so far, as text.
    """

    __test__ = False  # not for pytest to collect

    def __init__(self, timeout: float = DEFAULT_TIMEOUT) -> None:
        super().__init__(timeout)
        self.violations: list[str] = []
        self._signals: deque[Signal] = deque()
        self._subscription: Subscription | None = None
        self._demand = 0
        self._ended = False

    # Subscriber

    def on_subscribe(self, subscription: Subscription) -> None:
        """Keeps the subscription; a second one is cancelled (2.5)."""
        if subscription is None:
            raise null_element("on_subscribe")
        if self._subscription is not None:
            subscription.cancel()
            return
        self._subscription = subscription
        self._arrival.set()

    def on_next(self, element: T) -> None:
        """Records an element."""
        if element is None:
            raise null_element("on_next")
        self._demand -= 1
        if self._demand < 0:
            self.violations.append(f"1.1: {element!r} came without demand")
        self._record(_Next(element))

    def on_error(self, error: BaseException) -> None:
        """Records the failure."""
        if error is None:
            raise null_element("on_error")
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

    # What the test does

    def request(self, n: int) -> None:
        """Asks for ``n`` more.

        Raises:
            AssertionError: not subscribed yet: see `expect_subscription`.
        """
        if self._subscription is None:
            raise AssertionError("request before on_subscribe")
        self._demand = add_demand(self._demand, max(n, 0))
        self._subscription.request(n)

    def cancel(self) -> None:
        """Cancels the subscription.

        Raises:
            AssertionError: not subscribed yet.
        """
        if self._subscription is None:
            raise AssertionError("cancel before on_subscribe")
        self._subscription.cancel()

    async def request_next(self, *expected: T) -> T:
        """Asks for as many as are expected (one, if nothing is), then `expect_next`."""
        await self.expect_subscription()
        self.request(len(expected) or 1)
        return await self.expect_next(*expected)

    # What the test expects

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
            if element != value:
                raise AssertionError(f"expected next {value!r}, got next {element!r}")
        return element

    async def expect_next_n(self, n: int) -> list[T]:
        """Waits for ``n`` elements and returns them."""
        return [await self._next_element(f"element {i + 1} of {n}") for i in range(n)]

    expect_n = expect_next_n

    async def expect_next_unordered(self, *expected: T) -> list[T]:
        """Waits for as many elements as are expected, which must be those, in any order; returns them as they came."""
        missing = list(expected)
        came: list[T] = []
        while missing:
            element = await self._next_element(f"one of next {missing!r}")
            if element not in missing:
                raise AssertionError(f"expected one of next {missing!r}, got next {element!r}")
            missing.remove(element)
            came.append(element)
        return came

    async def expect_complete(self) -> None:
        """Waits for the end, which must be the next signal."""
        signal = await self._next_signal("complete")
        if not isinstance(signal, _Complete):
            raise AssertionError(f"expected complete, got {signal}")

    async def expect_error(self, kind: type[BaseException] = BaseException) -> BaseException:
        """Waits for a failure of the given kind, which must be the next signal; returns it."""
        return self._failure(await self._next_signal(f"error {kind.__name__}"), kind)

    async def expect_next_or_complete(self, *expected: T) -> T | None:
        """Waits for an element (equal to the one expected, if one is) or the end; returns the element, or None for the end."""
        signal = await self._next_signal(f"next{_values(expected)} or complete")
        if isinstance(signal, _Complete):
            return None
        return self._one_of(signal, expected, "complete")

    async def expect_next_or_error(self, *expected: T, kind: type[BaseException] = BaseException) -> T | BaseException:
        """Waits for an element (equal to the one expected, if one is) or a failure of the given kind; returns which it was."""
        what = f"error {kind.__name__}"
        signal = await self._next_signal(f"next{_values(expected)} or {what}")
        if isinstance(signal, _Error):
            return self._failure(signal, kind)
        return self._one_of(signal, expected, what)

    async def expect_subscription_and_complete(self, *, request: int = 1) -> None:
        """Waits for a subscription, asks for ``request`` elements (0: asks nothing), and waits for the end without any of them."""
        await self._subscribe_and_ask(request)
        await self.expect_complete()

    async def expect_subscription_and_error(
        self, kind: type[BaseException] = BaseException, *, request: int = 1
    ) -> BaseException:
        """Waits for a subscription, asks for ``request`` elements (0: asks nothing), and waits for a failure without any of them."""
        await self._subscribe_and_ask(request)
        return await self.expect_error(kind)

    async def expect_no_message(self, seconds: float = 0.0) -> None:
        """Lets ``seconds`` pass, and all that is ready run; no signal may come."""
        await settle(seconds)
        self._check()
        if self._signals:
            raise AssertionError(f"expected no signal, got {self._signals[0]}")

    async def receive_within(self, seconds: float, most: int = MOST_ELEMENTS) -> list[T]:
        """Lets ``seconds`` pass; returns the elements there are then, ``most`` at most. The end stays to be expected."""
        await settle(seconds)
        self._check()
        return self._take(lambda _element: True, most)

    async def receive_while(self, holds: Callable[[T], bool], most: int = MOST_ELEMENTS) -> list[T]:
        """Waits for elements as long as ``holds`` is true of them; returns those. What ends them stays to be expected."""
        came = self._take(holds, most)
        while len(came) < most and not self._signals:
            await self._wait("an element, or what ends them")
            self._check()
            came += self._take(holds, most - len(came))
        return came

    async def to_strict(self, most: int = MOST_ELEMENTS) -> list[T]:
        """Asks for everything, waits for the end, each element within the timeout, and returns all elements.

        Raises:
            AssertionError: there are more than ``most``, or the stream fails, or pauses for too long.
        """
        await self.expect_subscription()
        self.request(UNBOUNDED)
        came = await self.receive_while(lambda _element: True, most + 1)
        if len(came) > most:
            raise AssertionError(f"expected complete after at most {most} elements, got more")
        await self.expect_complete()
        return came

    async def _subscribe_and_ask(self, n: int) -> None:
        await self.expect_subscription()
        if n:
            self.request(n)

    async def _next_element(self, what: str) -> T:
        signal = await self._next_signal(what)
        if not isinstance(signal, _Next):
            raise AssertionError(f"expected {what}, got {signal}")
        element: T = signal.element
        return element

    async def _next_signal(self, what: str) -> Signal:
        self._check()
        while not self._signals:
            await self._wait(what)
        self._check()
        return self._signals.popleft()

    def _take(self, holds: Callable[[T], bool], most: int) -> list[T]:
        """The elements at the head of what has come."""
        came: list[T] = []
        while len(came) < most and self._signals:
            signal = self._signals[0]
            if not isinstance(signal, _Next) or not holds(signal.element):
                break
            self._signals.popleft()
            came.append(signal.element)
        return came

    @staticmethod
    def _one_of(signal: Signal, expected: tuple[T, ...], other: str) -> T:
        what = f"next{_values(expected)} or {other}"
        if not isinstance(signal, _Next):
            raise AssertionError(f"expected {what}, got {signal}")
        if expected and signal.element not in expected:
            raise AssertionError(f"expected {what}, got {signal}")
        element: T = signal.element
        return element

    @staticmethod
    def _failure(signal: Signal, kind: type[BaseException]) -> BaseException:
        if not isinstance(signal, _Error):
            raise AssertionError(f"expected error {kind.__name__}, got {signal}")
        if not isinstance(signal.error, kind):
            raise AssertionError(f"expected error {kind.__name__}, got {signal}")
        return signal.error

    def _check(self) -> None:
        if self.violations:
            raise AssertionError(f"rules of Reactive Streams broken: {'; '.join(self.violations)}")


def _values(expected: tuple[Any, ...]) -> str:
    return f" {' or '.join(map(repr, expected))}" if expected else ""


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
        if self._future is not None:
            raise AssertionError("a TestSink is for one run")
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
