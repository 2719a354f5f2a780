"""Operators that look on and change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from streams.operators.via import Via
from streams.shapes import FlowLike, SourceLike
from streams.stages.stage import StageFlow
from streams.stages.termination import WatchTermination

if TYPE_CHECKING:
    from streams.flow import Flow
    from streams.source import Source

I = TypeVar("I")  # noqa: E741 - I and O name input and output all through the package
T = TypeVar("T")


class WatchingOperators(Via):
    """Operators that look on and change nothing."""

    @overload
    def watch_termination(self: SourceLike[T], callback: Callable[[BaseException | None], object]) -> Source[T]: ...
    @overload
    def watch_termination(self: FlowLike[I, T], callback: Callable[[BaseException | None], object]) -> Flow[I, T]: ...
    def watch_termination(self, callback: Callable[[BaseException | None], object]) -> Any:
        """Calls ``callback`` once: with None at completion, with the failure, or with ``CancelledError`` when downstream cancels."""
        return self.via(StageFlow(lambda downstream, m: WatchTermination(downstream, m, callback), "watch_termination"))
