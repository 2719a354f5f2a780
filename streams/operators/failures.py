"""Operators about what happens when a stream fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from streams.operators.via import Via
from streams.shapes import FlowLike, SourceLike
from streams.stages.stage import StageFlow
from streams.stages.termination import Recover

if TYPE_CHECKING:
    from streams.flow import Flow
    from streams.source import Source

I = TypeVar("I")  # noqa: E741 - I and O name input and output all through the package
T = TypeVar("T")


class FailureOperators(Via):
    """Operators about what happens when a stream fails."""

    @overload
    def recover(self: SourceLike[T], f: Callable[[BaseException], T | None]) -> Source[T]: ...
    @overload
    def recover(self: FlowLike[I, T], f: Callable[[BaseException], T | None]) -> Flow[I, T]: ...
    def recover(self, f: Callable[[BaseException], Any]) -> Any:
        """In place of a failure, ``f(failure)`` as the last element; where that is None, the failure."""
        return self.via(StageFlow(lambda downstream, _m: Recover(downstream, f), "recover"))
