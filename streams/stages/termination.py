"""Operators about the end of a stream: recover from a failure, watch how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from streams.contract import Subscriber
from streams.errors import null_element
from streams.materialize import Materialization
from streams.stages.stage import ControlledStage, describe

T = TypeVar("T")
NONE: Final[Any] = object()
"""No last element waits."""


class Recover(ControlledStage[T, T], Generic[T]):
    """Ends with one more element in place of the failure; the function returns None to let the failure pass."""

    __slots__ = ("_f", "_last")

    def __init__(self, downstream: Subscriber[T], f: Callable[[BaseException], T | None]) -> None:
        super().__init__(downstream, "recover")
        self._f = f
        self._last: T = NONE

    def on_next(self, element: T) -> None:
        """Passes on ``element``."""
        if element is None:
            raise null_element(self._name)
        self._demand -= 1
        self._push(element)

    def _failed(self, error: BaseException) -> None:
        try:
            last = self._f(error)
        except Exception as failure:  # noqa: BLE001 - whatever user code raises goes down the stream
            failure.add_note(f"in the stage {describe(self._name, self._f)}")
            super()._failed(failure)
            return
        if last is None:
            super()._failed(error)
            return
        self._last = last
        self._emit_last()

    def _demanded(self, n: int) -> None:
        if self._last is NONE:
            self._upstream.request(n)
        else:
            self._emit_last()

    def _emit_last(self) -> None:
        if self._demand and not self._done:
            push, downstream = self._push, self._downstream
            last, self._last = self._last, NONE
            self._finish()
            push(last)
            downstream.on_complete()


class WatchTermination(ControlledStage[T, T], Generic[T]):
    """Calls a function once, with how the stream ended at this place; a fault of the function is reported and changes nothing."""

    __slots__ = ("_callback", "_m")

    def __init__(
        self, downstream: Subscriber[T], m: Materialization, callback: Callable[[BaseException | None], object]
    ) -> None:
        super().__init__(downstream, "watch_termination")
        self._m = m
        self._callback = callback

    def on_next(self, element: T) -> None:
        """Passes on ``element``."""
        if element is None:
            raise null_element(self._name)
        self._push(element)

    def on_complete(self) -> None:
        """It has completed."""
        if not self._done:
            self._tell(None)
            super().on_complete()

    def cancel(self) -> None:
        """Downstream has cancelled."""
        if not self._done:
            super().cancel()
            self._tell(asyncio.CancelledError("downstream has cancelled"))

    def _demanded(self, n: int) -> None:
        self._upstream.request(n)

    def _failed(self, error: BaseException) -> None:
        self._tell(error)
        super()._failed(error)

    def _fail(self, error: BaseException, where: str | None = None) -> None:
        if not self._done:
            self._tell(error)
            super()._fail(error, where)

    def _tell(self, error: BaseException | None) -> None:
        try:
            self._callback(error)
        except Exception as fault:  # noqa: BLE001 - how the stream ended is settled; the function's fault is another matter
            self._m.report(f"{describe(self._name, self._callback)} failed", fault)
