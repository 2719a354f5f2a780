"""Stages that look on: how a stream ends, and what is written to a log about it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Generic, TypeVar

from streams.contract import Publisher, Subscriber
from streams.errors import FAILURES, null_element, storable
from streams.materialize import Materialization
from streams.stages.stage import ControlledStage, PassingStage, StagePublisher, describe

T = TypeVar("T")

DOWNSTREAM_CANCELLED: Final = "downstream has cancelled"


class Watcher(PassingStage[T], ControlledStage[T, T], Generic[T]):
    """Lets everything through; subclasses learn by `_ended` how it ended, once."""

    __slots__ = ()

    def on_complete(self) -> None:
        """It has completed."""
        if not self._done:
            self._ended(None)
            super().on_complete()

    def cancel(self) -> None:
        """Downstream has cancelled."""
        if not self._done:
            super().cancel()
            self._ended(asyncio.CancelledError(DOWNSTREAM_CANCELLED))

    def _demanded(self, n: int) -> None:
        self._upstream.request(n)

    def _failed(self, error: BaseException) -> None:
        self._ended(error)
        super()._failed(error)

    def _fail(self, error: BaseException, where: str | None = None) -> None:
        if not self._done:
            self._ended(error)
            super()._fail(error, where)

    def _ended(self, error: BaseException | None) -> None:
        """It has ended: None for completion, the failure, or ``CancelledError`` where downstream has cancelled."""
        raise NotImplementedError


class WatchTermination(Watcher[T], Generic[T]):
    """Calls a function once, with how the stream ended at this place; a fault of the function is reported and changes nothing."""

    __slots__ = ("_callback", "_m")

    def __init__(
        self, downstream: Subscriber[T], m: Materialization, callback: Callable[[BaseException | None], object]
    ) -> None:
        super().__init__(downstream, "watch_termination")
        self._m = m
        self._callback = callback

    def _ended(self, error: BaseException | None) -> None:
        try:
            self._callback(error)
        except FAILURES as fault:  # how the stream ended is settled; the function's fault is another matter
            self._m.report(f"{describe(self._name, self._callback)} failed", fault)


class Termination(Enum):
    """How a stream ended at the place of a ``watch_termination``, other than by a failure."""

    COMPLETED = "completed"
    """Upstream had no more."""
    CANCELLED = "cancelled"
    """Downstream wanted no more, or the run was cancelled."""


def watch_termination(publisher: Publisher[T], m: Materialization) -> tuple[Publisher[T], asyncio.Future[Termination]]:
    """Puts a watcher behind ``publisher``; the future gets how the stream ended there, or its failure."""
    future: asyncio.Future[Termination] = m.loop.create_future()

    def tell(error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(Termination.COMPLETED)
        elif isinstance(error, asyncio.CancelledError):
            future.set_result(Termination.CANCELLED)
        else:
            future.set_exception(storable(error))
            future.exception()  # whoever holds the run's handle learns of it: nobody needs to await this future as well

    def settle() -> None:
        if not future.done():  # the run has ended without this place having been subscribed to
            future.set_result(Termination.CANCELLED)

    m.on_end(settle)
    return StagePublisher(publisher, lambda downstream: WatchTermination(downstream, m, tell)), future


@dataclass(frozen=True, slots=True)
class LogLevels:
    """At which levels of `logging` a ``log()`` writes; None for not at all.

    Attributes:
        element: each element.
        finish: the end, and downstream's cancellation.
        failure: a failure, with its traceback.
    """

    element: int | None = logging.DEBUG
    finish: int | None = logging.DEBUG
    failure: int | None = logging.ERROR


class Log(Watcher[T], Generic[T]):
    """Writes what passes to a log."""

    __slots__ = ("_element_level", "_extract", "_levels", "_logger", "_title")

    def __init__(
        self,
        downstream: Subscriber[T],
        title: str,
        extract: Callable[[T], object] | None,
        logger: logging.Logger,
        levels: LogLevels,
    ) -> None:
        super().__init__(downstream, "log")
        self._title = title
        self._extract = extract
        self._logger = logger
        self._levels = levels
        self._element_level = levels.element

    def on_next(self, element: T) -> None:
        """Writes ``element`` to the log and passes it on."""
        if element is None:
            raise null_element(self._name)
        level = self._element_level
        if level is not None and self._logger.isEnabledFor(level) and not self._done:
            extract = self._extract
            try:
                shown = element if extract is None else extract(element)
            except FAILURES as error:  # whatever user code raises goes down the stream
                self._function_failed(error, extract)
                return
            self._logger.log(level, "[%s] element: %s", self._title, shown)
        self._push(element)

    def _ended(self, error: BaseException | None) -> None:
        levels = self._levels
        if error is None:
            if levels.finish is not None:
                self._logger.log(levels.finish, "[%s] completed", self._title)
        elif isinstance(error, asyncio.CancelledError):
            if levels.finish is not None:
                self._logger.log(levels.finish, "[%s] cancelled by downstream", self._title)
        elif levels.failure is not None:
            self._logger.log(levels.failure, "[%s] failed: %s", self._title, error, exc_info=error)
