"""Operators that make streams of a stream, or one stream of a stream of streams."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from streams.operators.via import Via, functions, not_negative, positive, positive_amount
from streams.shapes import FlowLike, SourceLike, ValuedFlow, expect_flow
from streams.stages.flatten import FlatMapConcat, FlatMapMerge
from streams.stages.prefix_and_tail import SUBSCRIPTION_TIMEOUT, PrefixAndTail
from streams.stages.splitting import GroupBy, Split
from streams.stages.stage import StageFlow
from streams.stages.substream import Substream

if TYPE_CHECKING:
    from streams.flow import Flow
    from streams.source import Source
    from streams.substream import SubFlow, SubSource

I = TypeVar("I")  # noqa: E741 - I and O name input and output all through the package
T = TypeVar("T")
V = TypeVar("V")
R = TypeVar("R")

SPLIT_BREADTH: Final = 16
"""Substreams of split_when and split_after that are at work at once: one is open, the others still have something under way."""


class SubstreamOperators(Via):
    """Operators that make streams of a stream, or one stream of a stream of streams."""

    @overload
    def group_by(
        self: SourceLike[T, V],
        max_substreams: int,
        key: Callable[[T], Hashable],
        *,
        allow_closed_substream_recreation: bool = ...,
    ) -> SubSource[T, V]: ...
    @overload
    def group_by(
        self: ValuedFlow[I, T, V],
        max_substreams: int,
        key: Callable[[T], Hashable],
        *,
        allow_closed_substream_recreation: bool = ...,
    ) -> SubFlow[I, T, V]: ...
    def group_by(
        self, max_substreams: int, key: Callable[[Any], Hashable], *, allow_closed_substream_recreation: bool = False
    ) -> Any:
        """A substream for each ``key(element)``.

        One element that its substream has not asked for holds up all. A substream that is cancelled (take, say) drops its elements.

        Args:
            max_substreams: more keys than that fail the stream with `TooManySubstreamsError`.
            key: gives an element's key; None is none.
            allow_closed_substream_recreation: an element of a cancelled substream begins another. Cancelled ones then count no more.
        """
        functions("group_by", key=key)
        positive("group_by", "max_substreams", max_substreams)
        reopen = allow_closed_substream_recreation
        splitter: StageFlow[Any, Substream[Any]] = StageFlow(
            lambda downstream, _m: GroupBy(downstream, max_substreams, key, reopen), "group_by"
        )
        return self._split(splitter, max_substreams)

    @overload
    def split_when(self: SourceLike[T, V], predicate: Callable[[T], object]) -> SubSource[T, V]: ...
    @overload
    def split_when(self: ValuedFlow[I, T, V], predicate: Callable[[T], object]) -> SubFlow[I, T, V]: ...
    def split_when(self, predicate: Callable[[Any], object]) -> Any:
        """One substream after the other: an element for which ``predicate`` is true begins the next."""
        functions("split_when", predicate=predicate)
        return self._split_at(predicate, after=False)

    @overload
    def split_after(self: SourceLike[T, V], predicate: Callable[[T], object]) -> SubSource[T, V]: ...
    @overload
    def split_after(self: ValuedFlow[I, T, V], predicate: Callable[[T], object]) -> SubFlow[I, T, V]: ...
    def split_after(self, predicate: Callable[[Any], object]) -> Any:
        """One substream after the other: an element for which ``predicate`` is true is the last of its substream."""
        functions("split_after", predicate=predicate)
        return self._split_at(predicate, after=True)

    @overload
    def flat_map_concat(self: SourceLike[T, V], f: Callable[[T], SourceLike[R]]) -> Source[R, V]: ...
    @overload
    def flat_map_concat(self: ValuedFlow[I, T, V], f: Callable[[T], SourceLike[R]]) -> Flow[I, R, V]: ...
    def flat_map_concat(self, f: Callable[[Any], SourceLike[Any]]) -> Any:
        """The elements of the source ``f(element)``, for each element, one source after the other."""
        functions("flat_map_concat", f=f)
        return self.via(StageFlow(lambda downstream, m: FlatMapConcat(downstream, m, f), "flat_map_concat"))

    @overload
    def flat_map_merge(self: SourceLike[T, V], breadth: int, f: Callable[[T], SourceLike[R]]) -> Source[R, V]: ...
    @overload
    def flat_map_merge(self: ValuedFlow[I, T, V], breadth: int, f: Callable[[T], SourceLike[R]]) -> Flow[I, R, V]: ...
    def flat_map_merge(self, breadth: int, f: Callable[[Any], SourceLike[Any]]) -> Any:
        """The elements of the sources ``f(element)``, ``breadth`` of them at a time, as they come."""
        functions("flat_map_merge", f=f)
        positive("flat_map_merge", "breadth", breadth)
        return self.via(StageFlow(lambda downstream, m: FlatMapMerge(downstream, m, breadth, f), "flat_map_merge"))

    @overload
    def prefix_and_tail(
        self: SourceLike[T, V], count: int, *, subscription_timeout: float = ...
    ) -> Source[tuple[list[T], Source[T]], V]: ...
    @overload
    def prefix_and_tail(
        self: ValuedFlow[I, T, V], count: int, *, subscription_timeout: float = ...
    ) -> Flow[I, tuple[list[T], Source[T]], V]: ...
    def prefix_and_tail(self, count: int, *, subscription_timeout: float = SUBSCRIPTION_TIMEOUT) -> Any:
        """One element: the list of the first ``count`` elements (or of all, if there are fewer) and the source of the rest.

        The tail runs once, and within this run, which lasts until the tail is over: use it in a flat_map, or start another run with it.

        Args:
            count: elements in the list.
            subscription_timeout: seconds within which the tail has to be run, or it fails with `SubscriptionTimeoutError`; may be
                ``math.inf``.
        """
        not_negative("prefix_and_tail", "count", count)
        positive_amount("prefix_and_tail", "subscription_timeout", subscription_timeout)
        return self.via(
            StageFlow(
                lambda downstream, m: PrefixAndTail(downstream, m, count, subscription_timeout, self._tail),
                "prefix_and_tail",
            )
        )

    @overload
    def flat_map_prefix(self: SourceLike[T, V], count: int, f: Callable[[list[T]], FlowLike[T, R]]) -> Source[R, V]: ...
    @overload
    def flat_map_prefix(
        self: ValuedFlow[I, T, V], count: int, f: Callable[[list[T]], FlowLike[T, R]]
    ) -> Flow[I, R, V]: ...
    def flat_map_prefix(self, count: int, f: Callable[[list[Any]], FlowLike[Any, Any]]) -> Any:
        """The first ``count`` elements choose the flow for the rest: it goes through ``f(prefix)``."""
        functions("flat_map_prefix", f=f)
        not_negative("flat_map_prefix", "count", count)

        @functools.wraps(f)  # for its name, in failures
        def continued(prefix_and_tail: tuple[list[Any], Source[Any]]) -> Source[Any]:
            prefix, tail = prefix_and_tail
            flow = f(prefix)
            expect_flow(flow)
            return tail.via(flow)

        return self.via(
            StageFlow(lambda downstream, m: PrefixAndTail(downstream, m, count, math.inf, self._tail), "prefix")
        ).via(
            StageFlow(
                lambda downstream, m: FlatMapConcat(downstream, m, continued, "flat_map_prefix"), "flat_map_prefix"
            )
        )

    def _split_at(self, predicate: Callable[[Any], object], after: bool) -> Any:
        splitter: StageFlow[Any, Substream[Any]] = StageFlow(
            lambda downstream, _m: Split(downstream, predicate, after), "split_after" if after else "split_when"
        )
        return self._split(splitter, SPLIT_BREADTH)

    def _tail(self, substream: Substream[Any]) -> Any:
        return self._source(substream.create, "tail")
