"""A source that goes into several sinks: every element into all of them, or each into one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from streams.graph import RunnableGraph, connect
from streams.shapes import name_of
from streams.sink import Sink
from streams.stages.fan_out import Balance, Broadcast, FanOut, Partition, attach_fan_out

if TYPE_CHECKING:
    from asyncio import Future

    from streams.shapes import SinkLike, SourceWith, SourceWithout

T = TypeVar("T")
V = TypeVar("V")
M = TypeVar("M")
M2 = TypeVar("M2")
M3 = TypeVar("M3")


class SeveralSinks:
    """What a source has for several sinks. What these materialize is lost."""

    @overload
    def broadcast(
        self: SourceWith[T, V], sink: SinkLike[T, M], second: SinkLike[T, M2], /
    ) -> RunnableGraph[list[M | M2], V]: ...
    @overload
    def broadcast(
        self: SourceWithout[T, V], sink: SinkLike[T, M], second: SinkLike[T, M2], /
    ) -> RunnableGraph[list[M | M2], V | Future[list[M | M2]]]: ...
    @overload
    def broadcast(
        self: SourceWith[T, V], sink: SinkLike[T, M], second: SinkLike[T, M2], third: SinkLike[T, M3], /
    ) -> RunnableGraph[list[M | M2 | M3], V]: ...
    @overload
    def broadcast(
        self: SourceWithout[T, V], sink: SinkLike[T, M], second: SinkLike[T, M2], third: SinkLike[T, M3], /
    ) -> RunnableGraph[list[M | M2 | M3], V | Future[list[M | M2 | M3]]]: ...
    @overload
    def broadcast(self: SourceWith[T, V], *sinks: SinkLike[T, M]) -> RunnableGraph[list[M], V]: ...
    @overload
    def broadcast(self: SourceWithout[T, V], *sinks: SinkLike[T, M]) -> RunnableGraph[list[M], V | Future[list[M]]]: ...
    def broadcast(self, *sinks: SinkLike[Any, Any]) -> RunnableGraph[list[Any]]:
        """Every sink gets every element, at the pace of the slowest; one that cancels leaves the others. Results in theirs, in order.

        A sink that fails ends the run, here and in `balance` and `partition`.
        """
        return self._fan_out("broadcast", sinks, lambda: Broadcast(len(sinks)))

    @overload
    def balance(
        self: SourceWith[T, V], sink: SinkLike[T, M], second: SinkLike[T, M2], /
    ) -> RunnableGraph[list[M | M2], V]: ...
    @overload
    def balance(
        self: SourceWithout[T, V], sink: SinkLike[T, M], second: SinkLike[T, M2], /
    ) -> RunnableGraph[list[M | M2], V | Future[list[M | M2]]]: ...
    @overload
    def balance(
        self: SourceWith[T, V], sink: SinkLike[T, M], second: SinkLike[T, M2], third: SinkLike[T, M3], /
    ) -> RunnableGraph[list[M | M2 | M3], V]: ...
    @overload
    def balance(
        self: SourceWithout[T, V], sink: SinkLike[T, M], second: SinkLike[T, M2], third: SinkLike[T, M3], /
    ) -> RunnableGraph[list[M | M2 | M3], V | Future[list[M | M2 | M3]]]: ...
    @overload
    def balance(self: SourceWith[T, V], *sinks: SinkLike[T, M]) -> RunnableGraph[list[M], V]: ...
    @overload
    def balance(self: SourceWithout[T, V], *sinks: SinkLike[T, M]) -> RunnableGraph[list[M], V | Future[list[M]]]: ...
    def balance(self, *sinks: SinkLike[Any, Any]) -> RunnableGraph[list[Any]]:
        """Each element goes to one sink that asks for it, in turn. Results in theirs, in order."""
        return self._fan_out("balance", sinks, lambda: Balance(len(sinks)))

    @overload
    def partition(
        self: SourceWith[T, V], f: Callable[[T], int], sink: SinkLike[T, M], second: SinkLike[T, M2], /
    ) -> RunnableGraph[list[M | M2], V]: ...
    @overload
    def partition(
        self: SourceWithout[T, V], f: Callable[[T], int], sink: SinkLike[T, M], second: SinkLike[T, M2], /
    ) -> RunnableGraph[list[M | M2], V | Future[list[M | M2]]]: ...
    @overload
    def partition(
        self: SourceWith[T, V],
        f: Callable[[T], int],
        sink: SinkLike[T, M],
        second: SinkLike[T, M2],
        third: SinkLike[T, M3],
        /,
    ) -> RunnableGraph[list[M | M2 | M3], V]: ...
    @overload
    def partition(
        self: SourceWithout[T, V],
        f: Callable[[T], int],
        sink: SinkLike[T, M],
        second: SinkLike[T, M2],
        third: SinkLike[T, M3],
        /,
    ) -> RunnableGraph[list[M | M2 | M3], V | Future[list[M | M2 | M3]]]: ...
    @overload
    def partition(
        self: SourceWith[T, V], f: Callable[[T], int], *sinks: SinkLike[T, M]
    ) -> RunnableGraph[list[M], V]: ...
    @overload
    def partition(
        self: SourceWithout[T, V], f: Callable[[T], int], *sinks: SinkLike[T, M]
    ) -> RunnableGraph[list[M], V | Future[list[M]]]: ...
    def partition(self, f: Callable[[Any], int], *sinks: SinkLike[Any, Any]) -> RunnableGraph[list[Any]]:
        """Each element goes to ``sinks[f(element)]``; those for a sink that has cancelled are dropped. Results in theirs, in order."""
        return self._fan_out("partition", sinks, lambda: Partition(len(sinks), f))

    def _fan_out(
        self, name: str, sinks: tuple[SinkLike[Any, Any], ...], hub: Callable[[], FanOut[Any]]
    ) -> RunnableGraph[list[Any]]:
        if not sinks:
            raise ValueError(f"{name}: at least one sink is needed")
        together: Sink[Any, list[Any]] = Sink(
            lambda publisher, m: attach_fan_out(publisher, m, hub(), sinks),
            f"{name}({', '.join(map(name_of, sinks))})",
        )
        itself: Any = self  # a source
        return connect(itself, together)
