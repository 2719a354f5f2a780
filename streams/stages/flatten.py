"""flat_map_concat and flat_map_merge: a stream of sources becomes a stream of their elements.

Each source runs as a part of the run (`Materialization.part`), so what it owns goes with it, however many there are.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from streams.contract import Publisher, Subscriber, Subscription
from streams.errors import FAILURES, null_element
from streams.materialize import Materialization, Part
from streams.shapes import SourceLike
from streams.stages.stage import UNSUBSCRIBED, DrainingStage, I, O
from streams.stages.substream import decline

T = TypeVar("T")

SUBSTREAM_PREFETCH: Final = 16
"""Elements asked of each source that is merged ahead of demand: so one that is slow does not hold up the others."""


class Inner(Subscriber[T], Generic[T]):
    """The subscription to one source.

    Attributes:
        upstream: of the source.
        waiting: elements that have come and downstream has not asked for; none where they are passed straight on.
        completed: the source has ended.
    """

    __slots__ = ("_hub", "_part", "completed", "freed", "upstream", "waiting")

    def __init__(self, hub: _Flatten[Any, T], part: Part) -> None:
        self._hub = hub
        self._part = part
        self.upstream: Subscription = UNSUBSCRIBED
        self.waiting: deque[T] = deque()
        self.completed = False
        self.freed = 0

    def on_subscribe(self, subscription: Subscription) -> None:
        """Asks for the first elements."""
        if subscription is None:
            raise null_element("on_subscribe")
        if self.upstream is not UNSUBSCRIBED or not self._hub.has(self):
            subscription.cancel()
            return
        self.upstream = subscription
        self._hub.joined(self)

    def on_next(self, element: T) -> None:
        """One element."""
        if element is None:
            raise null_element("on_next")
        self._hub.passed(self, element)

    def on_error(self, error: BaseException) -> None:
        """Fails the whole."""
        if error is None:
            raise null_element("on_error")
        self._hub.inner_failed(self, error)

    def on_complete(self) -> None:
        """This source has ended."""
        if not self.completed:
            self.completed = True
            self._hub.inner_ended(self)

    def leave(self) -> None:
        """Stops the source, if it has not ended, and lets go of what it owns."""
        self.waiting.clear()
        if not self.completed:
            self.completed = True
            self.upstream.cancel()
        self._part.end()


class _Flatten(DrainingStage[I, O], Generic[I, O]):
    """What both share: sources are made of elements, and opened one by one in a loop, so that the stack stays flat."""

    __slots__ = ("_again", "_f", "_m")

    def __init__(
        self, downstream: Subscriber[O], m: Materialization, f: Callable[[I], SourceLike[O]], name: str
    ) -> None:
        super().__init__(downstream, name)
        self._m = m
        self._f = f
        self._again = False

    def _dropped(self) -> None:
        self._drain()

    def _drain(self) -> None:
        """Does what there is to do; a call from within only leaves its mark."""
        self._again = True
        if self._busy:
            return
        self._busy = True
        while self._again and not self._done:
            self._again = False
            self._advance()
        self._busy = False

    def _open(self, element: I) -> None:
        """Runs the source that the function makes of ``element``."""
        part: Part | None = None
        try:
            source: Any = self._f(element)
            if not hasattr(source, "create"):
                raise TypeError(f"{self._name} needs a function that returns a source, not {type(source).__name__}")
            part = self._m.part()
            publisher: Publisher[O] = source.create(part)[0]
        except FAILURES as error:  # whatever user code raises goes down the stream
            if part is not None:
                part.cancel()
                part.end()
            decline(element)
            self._function_failed(error, self._f, element)
            return
        inner: Inner[O] = Inner(self, part)
        self._add(inner)
        publisher.subscribe(inner)

    def inner_failed(self, inner: Inner[O], error: BaseException) -> None:
        """The failure of one source is that of the whole."""
        if not inner.completed and not self._done:
            inner.completed = True
            self._finish()
            self._upstream.cancel()
            self._downstream.on_error(error)

    def inner_ended(self, inner: Inner[O]) -> None:  # noqa: ARG002 - for those that tell them apart
        """A source has ended."""
        self._drain()

    @abstractmethod
    def has(self, inner: Inner[O]) -> bool:
        """``inner`` is one of those that are open."""

    @abstractmethod
    def joined(self, inner: Inner[O]) -> None:
        """The subscription of ``inner`` is there."""

    @abstractmethod
    def passed(self, inner: Inner[O], element: O) -> None:
        """``inner`` has an element."""

    @abstractmethod
    def _add(self, inner: Inner[O]) -> None:
        """``inner`` is about to be opened."""

    @abstractmethod
    def _advance(self) -> None:
        """Goes on: opens, emits, asks or ends; whatever leaves its mark has it called again."""


class FlatMapConcat(_Flatten[I, O], Generic[I, O]):
    """One source after the other: downstream's demand is the source's whose turn it is, so nothing is held."""

    __slots__ = ("_asked", "_element", "_inner")

    def __init__(
        self,
        downstream: Subscriber[O],
        m: Materialization,
        f: Callable[[I], SourceLike[O]],
        name: str = "flat_map_concat",
    ) -> None:
        super().__init__(downstream, m, f, name)
        self._asked = False
        self._element: I | None = None
        self._inner: Inner[O] | None = None

    def on_next(self, element: I) -> None:
        """The next source."""
        if element is None:
            raise null_element(self._name)
        self._asked = False
        if not self._done:
            self._element = element
            self._drain()

    def has(self, inner: Inner[O]) -> bool:
        """It is its turn."""
        return inner is self._inner

    def joined(self, inner: Inner[O]) -> None:
        """It gets the demand that is left."""
        if self._demand:
            inner.upstream.request(self._demand)

    def passed(self, inner: Inner[O], element: O) -> None:  # noqa: ARG002 - there is one at a time
        """Passes it on."""
        self._demand -= 1
        self._push(element)

    def _demanded(self, n: int) -> None:
        inner = self._inner
        if inner is None:
            self._drain()
        else:
            inner.upstream.request(n)

    def _add(self, inner: Inner[O]) -> None:
        self._inner = inner

    def _advance(self) -> None:
        inner = self._inner
        if inner is not None:
            if not inner.completed:
                return
            self._inner = None
            inner.leave()
        if self._element is not None:
            element, self._element = self._element, None
            self._open(element)
        elif self._completed:
            self._drained()
        elif self._demand and not self._asked:
            self._asked = True
            self._upstream.request(1)

    def _finish(self) -> None:
        super()._finish()
        element, self._element = self._element, None
        decline(element)
        inner, self._inner = self._inner, None
        if inner is not None:
            inner.leave()


class FlatMapMerge(_Flatten[I, O], Generic[I, O]):
    """Up to ``breadth`` sources at once, their elements as they come: those of each wait, `SUBSTREAM_PREFETCH` at most.

    A source that has ended keeps its place until downstream has taken what it left.
    """

    __slots__ = ("_breadth", "_elements", "_inners", "_order", "_outstanding")

    def __init__(
        self,
        downstream: Subscriber[O],
        m: Materialization,
        breadth: int,
        f: Callable[[I], SourceLike[O]],
        name: str = "flat_map_merge",
    ) -> None:
        super().__init__(downstream, m, f, name)
        self._breadth = breadth
        self._elements: deque[I] = deque()
        """Those whose source is about to be opened: no more than there is room for."""
        self._outstanding = 0
        self._inners: dict[Inner[O], None] = {}
        """In the order in which they were opened."""
        self._order: deque[Inner[O]] = deque()
        """One entry for each element that waits, in the order in which they came."""

    def on_next(self, element: I) -> None:
        """One source more."""
        if element is None:
            raise null_element(self._name)
        self._outstanding -= 1
        if not self._done:
            self._elements.append(element)
            self._drain()

    def has(self, inner: Inner[O]) -> bool:
        """It is one of those at work."""
        return inner in self._inners

    def joined(self, inner: Inner[O]) -> None:
        """Asks ahead."""
        inner.upstream.request(SUBSTREAM_PREFETCH)

    def passed(self, inner: Inner[O], element: O) -> None:
        """Passes it straight on when nothing waits."""
        if self._done:
            return
        if self._demand and not self._busy and not self._order:
            self._busy = True
            self._demand -= 1
            self._push(element)
            self._left(inner)
            self._busy = False
            if self._again:
                self._drain()
        else:
            inner.waiting.append(element)
            self._order.append(inner)
            self._drain()

    def _left(self, inner: Inner[O]) -> None:
        """An element of ``inner`` has gone on: room is asked for in steps of half."""
        inner.freed += 1
        if inner.completed:
            if not inner.waiting:
                self._close(inner)
        elif inner.freed >= SUBSTREAM_PREFETCH // 2:
            freed, inner.freed = inner.freed, 0
            inner.upstream.request(freed)

    def inner_ended(self, inner: Inner[O]) -> None:
        """Makes room for another, unless elements wait."""
        if not inner.waiting:
            self._close(inner)
        self._drain()

    def _close(self, inner: Inner[O]) -> None:
        if inner in self._inners:
            del self._inners[inner]
            inner.leave()
            self._again = True

    def _add(self, inner: Inner[O]) -> None:
        self._inners[inner] = None

    def _advance(self) -> None:
        while self._order and self._demand:
            inner = self._order.popleft()
            self._demand -= 1
            self._push(inner.waiting.popleft())
            self._left(inner)
        if self._done:
            return
        if self._elements:
            self._again = True
            self._open(self._elements.popleft())
        elif self._completed:
            if not self._inners:
                self._drained()
        elif self._demand or self._inners or self._outstanding:
            room = self._breadth - len(self._inners) - self._outstanding
            if room > 0:
                self._outstanding += room
                self._upstream.request(room)

    def _finish(self) -> None:
        super()._finish()
        while self._elements:
            decline(self._elements.popleft())
        self._order.clear()
        inners, self._inners = self._inners, {}
        for inner in inners:
            inner.leave()
