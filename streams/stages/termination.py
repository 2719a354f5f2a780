"""recover: one more element in the place of a failure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from streams.contract import Subscriber
from streams.errors import null_element
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
