"""Operators about the end of a stream: recover from a failure, watch how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from streams._stage import ControlledStage, describe
from streams.contract import Subscriber
from streams.errors import null_element

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

    def on_error(self, error: BaseException) -> None:
        """Asks the function; what it gives waits for demand."""
        if self._done:
            return
        try:
            last = self._f(error)
        except Exception as failure:  # noqa: BLE001 - whatever user code raises goes down the stream
            failure.add_note(f"in the stage {describe(self._name, self._f)}")
            super().on_error(failure)
            return
        if last is None:
            super().on_error(error)
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
    """Calls a function once, with how the stream ended at this place."""

    __slots__ = ("_callback",)

    def __init__(self, downstream: Subscriber[T], callback: Callable[[BaseException | None], object]) -> None:
        super().__init__(downstream, "watch_termination")
        self._callback = callback

    def on_next(self, element: T) -> None:
        """Passes on ``element``."""
        self._push(element)

    def on_error(self, error: BaseException) -> None:
        """It failed."""
        if not self._done and self._tell(error):
            super().on_error(error)

    def on_complete(self) -> None:
        """It completed."""
        if not self._done and self._tell(None):
            super().on_complete()

    def cancel(self) -> None:
        """Downstream cancelled."""
        if not self._done:
            super().cancel()
            self._tell(asyncio.CancelledError("downstream has cancelled"))

    def _demanded(self, n: int) -> None:
        self._upstream.request(n)

    def _tell(self, error: BaseException | None) -> bool:
        """Calls the function; False if it failed, which then is how the stream ends."""
        try:
            self._callback(error)
        except Exception as failure:  # noqa: BLE001 - whatever user code raises goes down the stream
            self._fail(failure, describe(self._name, self._callback))
            return False
        return True
