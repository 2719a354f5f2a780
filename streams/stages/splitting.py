"""group_by, split_when and split_after: one stream becomes a stream of substreams.

One element at a time is asked of upstream, and at most one is held: the one whose substream has not asked for it, which holds up the
rest. Where an element goes, and what it waits for, is all that differs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from streams.contract import Subscriber
from streams.errors import FAILURES, TooManySubstreamsError, null_element
from streams.plain import plain, truth
from streams.publishers.nobody import NOBODY
from streams.stages.stage import NONE, DrainingStage, discard
from streams.stages.substream import Substream

T = TypeVar("T")


class SplittingStage(DrainingStage[T, Substream[T]], Generic[T]):
    """What the splitting stages share: the element held, when upstream is asked, and how all ends.

    When downstream cancels it has only declined further substreams: the stage goes on as long as one is open.
    """

    __slots__ = ("_asked", "_declined", "_held")

    def __init__(self, downstream: Subscriber[Substream[T]], name: str) -> None:
        super().__init__(downstream, name)
        self._held: T = NONE
        self._asked = False
        self._declined = False

    def request(self, n: int) -> None:
        """Asks for ``n`` more substreams."""
        if not self._declined:
            super().request(n)

    def cancel(self) -> None:
        """No further substream is wanted; those that are open go on."""
        if not self._done and not self._declined:
            self._declined = True
            self._demand = 0
            self._push = discard
            self._downstream = NOBODY
            self._drain()

    def demanded_by(self, substream: Substream[T], n: int) -> None:  # noqa: ARG002 - the protocol's signature
        """A substream has asked for elements."""
        self._drain()

    def joined_by(self, substream: Substream[T]) -> None:
        """A substream has its subscriber."""

    def _dropped(self) -> None:
        self._drain()

    def _drain(self) -> None:
        """Places the held element and asks for the next; a call from within only leaves its mark, so the stack stays flat."""
        if self._busy:
            return
        self._busy = True
        while not self._done:
            if self._declined and self._idle():
                self._finish()
                self._upstream.cancel()
            elif self._held is not NONE:
                if not self._place():
                    break
            elif self._completed:
                substreams = self._open_substreams()
                self._drained()
                for substream in substreams:
                    substream.end()
            elif not self._asked and self._wanted():
                self._asked = True
                self._upstream.request(1)
            else:
                break
        self._busy = False

    def _take_held(self) -> T:
        held, self._held = self._held, NONE
        return held

    def _new_substream(self, key: Any = None) -> Substream[T]:
        """One that downstream has asked for."""
        self._demand -= 1
        return Substream(self, key)

    def _failed(self, error: BaseException) -> None:
        substreams = self._open_substreams()
        super()._failed(error)
        for substream in substreams:
            substream.end(error)

    def _fail(self, error: BaseException, where: str | None = None) -> None:
        if self._done:
            return
        substreams = self._open_substreams()
        super()._fail(error, where)
        for substream in substreams:
            substream.end(error)

    def _finish(self) -> None:
        super()._finish()
        self._held = NONE

    @abstractmethod
    def left_by(self, substream: Substream[T]) -> None:
        """A substream's subscriber has cancelled."""

    @abstractmethod
    def _place(self) -> bool:
        """Takes the held element one step on; False if it has to wait."""

    @abstractmethod
    def _wanted(self) -> bool:
        """The next element could be given to somebody."""

    @abstractmethod
    def _idle(self) -> bool:
        """No substream is open."""

    @abstractmethod
    def _open_substreams(self) -> list[Substream[T]]:
        """Those that have neither ended nor been cancelled."""


class GroupBy(SplittingStage[T], Generic[T]):
    """A substream for each key.

    Args:
        downstream: where the substreams go.
        most: substreams at most; one more fails the stage with `TooManySubstreamsError`.
        key: gives an element's key.
        reopen: a key whose substream was cancelled gets another; else its elements are dropped, and it still counts as one.
    """

    __slots__ = ("_active", "_closed", "_held_key", "_hungry", "_key", "_most", "_reopen")

    def __init__(
        self, downstream: Subscriber[Substream[T]], most: int, key: Callable[[T], Hashable], reopen: bool
    ) -> None:
        super().__init__(downstream, "group_by")
        self._most = most
        self._key = key
        self._reopen = reopen
        self._active: dict[Hashable, Substream[T]] = {}
        self._closed: set[Hashable] = set()
        self._held_key: Hashable = None
        self._hungry: set[Substream[T]] = set()
        """Substreams that have asked for elements: kept, for there may be too many to look at for each element."""

    def on_next(self, element: T) -> None:
        """Gives ``element`` to the substream of its key, or holds it until that asks."""
        if element is None:
            raise null_element(self._name)
        self._asked = False
        if self._done:
            return
        try:
            key = self._key(element)
            known = key in self._active or key in self._closed
            if not known:
                plain(key)
        except FAILURES as error:  # whatever user code raises goes down the stream
            self._function_failed(error, self._key)
            return
        if key is None:
            self._function_failed(TypeError("the key function has returned None, which is no key"), self._key)
        elif not known and len(self._active) + len(self._closed) >= self._most and not self._declined:
            self._fail(TooManySubstreamsError(self._most, key))
        else:
            self._held, self._held_key = element, key
            self._drain()

    def demanded_by(self, substream: Substream[T], n: int) -> None:
        """A substream has asked for elements."""
        self._hungry.add(substream)
        super().demanded_by(substream, n)

    def left_by(self, substream: Substream[T]) -> None:
        """The elements of this key are not wanted any more."""
        if self._done:
            return
        self._hungry.discard(substream)
        del self._active[substream.key]
        if not self._reopen:
            self._closed.add(substream.key)
        elif self._held is not NONE and self._held_key == substream.key:
            self._take_held()  # it was for the one that has left, not for the next
        self._drain()

    def _place(self) -> bool:
        key = self._held_key
        substream = self._active.get(key)
        if substream is not None:
            if not substream.demand:
                return False
            substream.demand -= 1
            if not substream.demand:
                self._hungry.discard(substream)
            substream.give(self._take_held())
        elif self._declined or key in self._closed:
            self._take_held()
        elif self._demand:
            substream = self._active[key] = self._new_substream(key)
            self._push(substream)
        else:
            return False
        return True

    def _wanted(self) -> bool:
        return bool(self._hungry) or self._demand > 0

    def _idle(self) -> bool:
        return not self._active

    def _open_substreams(self) -> list[Substream[T]]:
        return list(self._active.values())

    def _finish(self) -> None:
        super()._finish()
        self._active.clear()
        self._closed.clear()
        self._hungry.clear()
        self._held_key = None

    def _reset(self) -> None:
        """A restart ends the substreams there are; keys begin anew."""
        substreams = self._open_substreams()
        self._active.clear()
        self._closed.clear()
        self._hungry.clear()
        for substream in substreams:
            substream.end()


class Split(SplittingStage[T], Generic[T]):
    """One substream after the other, cut before or after the elements that a predicate picks.

    A substream that is cancelled drops its elements up to the next cut.

    Args:
        downstream: where the substreams go.
        predicate: picks where to cut; not asked of the first element of a substream that is cut before.
        after: cut after the elements picked, not before.
    """

    __slots__ = ("_after", "_current", "_last", "_predicate")

    def __init__(self, downstream: Subscriber[Substream[T]], predicate: Callable[[T], object], after: bool) -> None:
        super().__init__(downstream, "split_after" if after else "split_when")
        self._after = after
        self._predicate = predicate
        self._current: Substream[T] | None = None
        self._last = False
        """The held element is the last of its substream."""

    def on_next(self, element: T) -> None:
        """Gives ``element`` to the substream there is, or to the next."""
        if element is None:
            raise null_element(self._name)
        self._asked = False
        if self._done:
            return
        cut = False
        if self._after or self._current is not None:
            try:
                cut = truth(self._predicate(element))
            except FAILURES as error:  # whatever user code raises goes down the stream
                self._function_failed(error, self._predicate)
                return
        self._held = element
        if self._after:
            self._last = cut
        elif cut:
            self._cut()
        self._drain()

    def left_by(self, substream: Substream[T]) -> None:  # noqa: ARG002 - it is the current one: others have ended
        """What follows up to the next cut is dropped."""
        self._drain()

    def _place(self) -> bool:
        current = self._current
        if current is None:
            if not self._demand:
                return False
            current = self._current = self._new_substream()
            self._push(current)
            return True
        if not current.open:
            self._take_held()
        elif current.demand:
            current.demand -= 1
            current.give(self._take_held())
        else:
            return False
        if self._last:
            self._last = False
            self._cut()
        return True

    def _cut(self) -> None:
        """The next element begins another substream."""
        current, self._current = self._current, None
        if current is not None:
            current.end()

    def _wanted(self) -> bool:
        current = self._current
        if current is None:
            return self._demand > 0
        return current.demand > 0 or not current.open

    def _idle(self) -> bool:
        return self._current is None or not self._current.open

    def _open_substreams(self) -> list[Substream[T]]:
        current = self._current
        return [] if current is None or not current.open else [current]

    def _finish(self) -> None:
        super()._finish()
        self._current = None

    def _reset(self) -> None:
        self._cut()
