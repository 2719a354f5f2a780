"""Operators about what happens when a stream, or a function in it, fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from streams.operators.via import Via, functions
from streams.shapes import SourceLike, ValuedFlow
from streams.stages.recover import MapError, OnErrorComplete, Recover, RecoverWith
from streams.stages.stage import StageFlow
from streams.supervision import Decider

if TYPE_CHECKING:
    from streams.flow import Flow
    from streams.source import Source

I = TypeVar("I")  # noqa: E741 - I and O name input and output all through the package
T = TypeVar("T")
V = TypeVar("V")


class FailureOperators(Via):
    """Operators about what happens when a stream, or a function in it, fails."""

    @overload
    def recover(self: SourceLike[T, V], f: Callable[[BaseException], T | None]) -> Source[T, V]: ...
    @overload
    def recover(self: ValuedFlow[I, T, V], f: Callable[[BaseException], T | None]) -> Flow[I, T, V]: ...
    def recover(self, f: Callable[[BaseException], Any]) -> Any:
        """In place of a failure, ``f(failure)`` as the last element; where that is None, the failure."""
        functions("recover", f=f)
        return self.via(StageFlow(lambda downstream, _m: Recover(downstream, f), "recover"))

    @overload
    def recover_with(
        self: SourceLike[T, V], attempts: int, f: Callable[[BaseException], SourceLike[T] | None]
    ) -> Source[T, V]: ...
    @overload
    def recover_with(
        self: ValuedFlow[I, T, V], attempts: int, f: Callable[[BaseException], SourceLike[T] | None]
    ) -> Flow[I, T, V]: ...
    def recover_with(self, attempts: int, f: Callable[[BaseException], Any]) -> Any:
        """In place of a failure, the elements of the source ``f(failure)``; where that is None, the failure.

        Args:
            attempts: sources that may stand in, as that of ``f`` may fail, too; -1 for any number. There is no pause between them:
                see `RestartSource` for that.
            f: gets the failure; what it raises takes the place of the failure.
        """
        functions("recover_with", f=f)
        if attempts < -1:
            raise ValueError(f"recover_with: attempts must be a number of sources, or -1 for any, not {attempts}")
        return self.via(StageFlow(lambda downstream, m: RecoverWith(downstream, m, attempts, f), "recover_with"))

    @overload
    def map_error(self: SourceLike[T, V], f: Callable[[BaseException], BaseException | None]) -> Source[T, V]: ...
    @overload
    def map_error(self: ValuedFlow[I, T, V], f: Callable[[BaseException], BaseException | None]) -> Flow[I, T, V]: ...
    def map_error(self, f: Callable[[BaseException], BaseException | None]) -> Any:
        """In place of a failure, the exception ``f(failure)``, which gets it as its cause; where that is None, the failure."""
        functions("map_error", f=f)
        return self.via(StageFlow(lambda downstream, _m: MapError(downstream, f), "map_error"))

    @overload
    def on_error_complete(
        self: SourceLike[T, V],
        predicate: type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], object] = ...,
    ) -> Source[T, V]: ...
    @overload
    def on_error_complete(
        self: ValuedFlow[I, T, V],
        predicate: type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], object] = ...,
    ) -> Flow[I, T, V]: ...
    def on_error_complete(self, predicate: Any = Exception) -> Any:
        """In place of a failure, the end.

        Args:
            predicate: which failures: a class of exceptions, several in a tuple, or a function of the failure.
        """
        accepts: Callable[[BaseException], object] = predicate
        if isinstance(predicate, (type, tuple)):
            kinds = cast("type[BaseException] | tuple[type[BaseException], ...]", predicate)
            isinstance(None, kinds)  # raises TypeError now if they are no classes

            def accepts(error: BaseException) -> bool:
                return isinstance(error, kinds)

        else:
            functions("on_error_complete", predicate=predicate)
        return self.via(StageFlow(lambda downstream, _m: OnErrorComplete(downstream, accepts), "on_error_complete"))

    @overload
    def with_supervision(self: SourceLike[T, V], decider: Decider) -> Source[T, V]: ...
    @overload
    def with_supervision(self: ValuedFlow[I, T, V], decider: Decider) -> Flow[I, T, V]: ...
    def with_supervision(self, decider: Decider) -> Any:
        """The same stages, but where a user's function fails on an element, ``decider(failure)`` says what its stage does.

        It holds for all stages of this source or flow so far, but those that have a decider already. Which operators can go on is in
        docs/failures.md; `Supervision` has deciders that answer every failure alike.
        """
        functions("with_supervision", decider=decider)
        part: Any = self
        if not isinstance(part, Via):
            raise TypeError(f"with_supervision() is for a source or a flow, not {type(part).__name__}")
        return part._supervised(decider)
