"""The future of loop actors, awaited on an event loop, or waited for with ``get`` in any other thread; and an answer that comes later."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sys
import threading
from asyncio import _get_running_loop
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

import pykka

from actors.errors import ActorError, BlockingCallOnLoopError
from actors.runtime._pykka import Envelope, OptExcInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable


T = TypeVar("T")
J = TypeVar("J")
M = TypeVar("M")
R = TypeVar("R")
_Waiter: TypeAlias = "asyncio.Future[None] | threading.Event"

_UNSET: Final = object()
_LOCK = threading.RLock()
"""Shared by all futures: it is held for a few instructions, and a lock each would cost more than the contention.

Re-entrant because a finalizer may run, and set another future, wherever memory is allocated.
"""


class LoopFuture(pykka.Future[T]):
    """A value that is set once, from any thread.

    ``await future`` works on every event loop, for futures made by map, filter, reduce and join too, and never blocks
    it. ``future.get(timeout=...)`` blocks the calling thread, so on the thread of a running event loop it is refused
    unless the value is there. Cancelling an await leaves the future as it is.
    """

    __slots__ = ("_error", "_get_hook", "_get_hook_result", "_upstream", "_value", "_waiters")

    def __init__(self) -> None:
        # pykka's initialiser is not called: it would give each future an instance dictionary and a marker object.
        self._value: Any = _UNSET
        self._error: OptExcInfo | None = None
        self._get_hook = None
        self._waiters: dict[_Waiter, None] | None = None
        self._upstream: tuple[pykka.Future[Any], ...] = ()

    def __repr__(self) -> str:
        return f"<LoopFuture {'set' if self.done() else 'unset'}>"

    def done(self) -> bool:
        """Whether ``get`` returns or raises at once; False for a derived future that was not asked for yet."""
        return self._value is not _UNSET or self._error is not None

    def get(self, *, timeout: float | None = None) -> T:
        """Return the value or raise the exception, blocking this thread for up to ``timeout`` seconds.

        Raises:
            BlockingCallOnLoopError: it is unset and this is the thread of a running event loop.
            pykka.Timeout: it was not set in time.
        """
        if self._value is _UNSET and self._error is None:
            if self._get_hook is not None:
                return self._run_hook(timeout)
            self._block(timeout)
        if self._error is None:
            return cast("T", self._value)
        kind, error, traceback = self._error
        if error is None:
            assert kind is not None
            error = kind()
        try:
            raise error.with_traceback(traceback)
        finally:
            # The traceback holds this frame; a frame that holds the error would make a cycle for the collector.
            del self, error, traceback

    def set(self, value: T | None = None) -> None:
        """Set the value and wake everyone who waits.

        Raises:
            queue.Full: it is set already, or has a get hook (pykka's signal for both).
        """
        with _LOCK:
            self._refuse_second_result()
            self._value = value
            waiters, self._waiters = self._waiters, None
        if waiters is not None:
            _wake(waiters)

    def set_exception(self, exc_info: OptExcInfo | None = None) -> None:
        """Set an exception, by default the one being handled; raises as ``set`` does."""
        assert exc_info is None or len(exc_info) == 3
        if exc_info is None:
            exc_info = sys.exc_info()
        with _LOCK:
            self._refuse_second_result()
            self._error = exc_info
            waiters, self._waiters = self._waiters, None
        if waiters is not None:
            _wake(waiters)

    def set_get_hook(self, func: Callable[[float | None], T]) -> None:
        """Make ``get`` call ``func(timeout)`` once and keep what it returns; raises ``queue.Full`` if set already."""
        with _LOCK:
            if self.done():
                raise queue.Full
            self._get_hook = func

    def map(self, func: Callable[[T], M]) -> LoopFuture[M]:
        """As in pykka: a future of ``func(value)``, computed by who gets it first."""
        return _derived(super().map(func), self)

    def filter(self: LoopFuture[Iterable[J]], func: Callable[[J], bool]) -> LoopFuture[Iterable[J]]:
        """As in pykka: a future of the list of those items for which ``func`` is true."""
        return _derived(pykka.Future.filter(self, func), self)

    def reduce(self: LoopFuture[Iterable[J]], func: Callable[[R, J], R], *args: R) -> LoopFuture[R]:
        """As in pykka: a future of the items folded with ``func``, from ``args[0]`` if it is given."""
        return _derived(pykka.Future.reduce(self, func, *args), self)

    def join(self, *futures: pykka.Future[Any]) -> LoopFuture[Iterable[Any]]:
        """As in pykka: a future of the list of all the values, in the order of the futures."""
        return _derived(super().join(*futures), self, *futures)

    def __await__(self) -> Generator[Any, None, T]:
        yield from self._settle()
        return self.get()

    __iter__ = __await__

    def _settle(self) -> Generator[Any, None, None]:
        """Suspend until ``get`` need not block; raises nothing that the value may hold."""
        if self.done():
            return
        if self._get_hook is not None:
            for source in self._upstream:
                if isinstance(source, LoopFuture):
                    yield from source._settle()
                else:
                    # Another runtime's future can only be waited for in a thread.
                    yield from asyncio.get_running_loop().run_in_executor(None, _wait_quietly, source)
            return
        waiter = asyncio.get_running_loop().create_future()
        if self._add_waiter(waiter):
            try:
                yield from waiter
            finally:
                self._remove_waiter(waiter)

    def _block(self, timeout: float | None) -> None:
        if _get_running_loop() is not None:
            raise BlockingCallOnLoopError(
                "get() of an unset future would block this thread's event loop; await the future instead"
            )
        event = threading.Event()
        if self._add_waiter(event) and not event.wait(timeout):
            self._remove_waiter(event)
            # It may have been set between the end of the wait and here; then there is a value to return.
            if not self.done():
                raise pykka.Timeout(f"{timeout} seconds")

    def _run_hook(self, timeout: float | None) -> T:
        assert self._get_hook is not None
        value = self._get_hook(timeout)
        with _LOCK:
            # Two threads may have run the hook at once; everyone gets what the first of them returned.
            if self._value is _UNSET:
                self._value = value
            return cast("T", self._value)

    def _refuse_second_result(self) -> None:
        if self._value is not _UNSET or self._error is not None or self._get_hook is not None:
            raise queue.Full

    def _add_waiter(self, waiter: _Waiter) -> bool:
        """Register ``waiter``; False if the future is set, so there is nothing to wait for."""
        with _LOCK:
            if self.done():
                return False
            if self._waiters is None:
                self._waiters = {}
            self._waiters[waiter] = None
            return True

    def _remove_waiter(self, waiter: _Waiter) -> None:
        with _LOCK:
            if self._waiters is not None:
                self._waiters.pop(waiter, None)


def ask(ref: pykka.ActorRef[Any], message: Any) -> LoopFuture[Any]:
    """Ask an actor of any runtime for an answer that can be awaited.

    For a ThreadingActor, whose own futures block whoever awaits them; loop actors' ``ask(..., block=False)`` needs no
    help. A dead actor's answer is ActorDeadError, set on the future. Bound the wait with ``asyncio.timeout``.
    """
    future: LoopFuture[Any] = LoopFuture()
    if ref.is_alive():
        ref.actor_inbox.put(Envelope(message, reply_to=future))
    else:
        error = pykka.ActorDeadError(f"{ref} not found")
        future.set_exception((pykka.ActorDeadError, error, None))
    return future


def _derived(future: pykka.Future[M], *upstream: pykka.Future[Any]) -> LoopFuture[M]:
    """Complete a future that pykka made with ``self.__class__()`` and a get hook: remember what the hook reads."""
    assert isinstance(future, LoopFuture)
    future._upstream = upstream
    return future


def _wait_quietly(future: pykka.Future[Any]) -> None:
    with contextlib.suppress(Exception):
        future.get()


def _wake(waiters: Iterable[_Waiter]) -> None:
    running = _get_running_loop()
    for waiter in waiters:
        if isinstance(waiter, threading.Event):
            waiter.set()
            continue
        loop = waiter.get_loop()
        if loop is running:
            _finish(waiter)
        else:
            # A loop that was closed meanwhile has nobody left to wake.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_finish, waiter)


def _finish(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


@dataclass(eq=False, repr=False, slots=True)
class LaterReply:
    """Returned by a handler: whoever asked gets the value that ``set`` is given, whenever that is.

    To a message that was told it makes no difference. A handler that returns one sees to it that it is set, or failed, in the end.
    """

    _reply_to: pykka.Future[Any] | None = None
    _settled: bool = False
    _value: Any = None
    _error: BaseException | None = None

    def set(self, value: Any) -> None:
        """Answer with ``value``; only the first answer counts."""
        if not self._settled:
            self._settled = True
            self._value = value
            self._deliver()

    def fail(self, error: BaseException) -> None:
        """Have the ask raise ``error``."""
        if not self._settled:
            self._settled = True
            self._error = error
            self._deliver()

    def answer_to(self, reply_to: pykka.Future[Any]) -> None:
        """The future of whoever asked; called once, by the actor runtime."""
        if self._reply_to is not None:
            raise ActorError("a later reply answers one ask: return a new one for each message")
        self._reply_to = reply_to
        if self._settled:
            self._deliver()

    def _deliver(self) -> None:
        if self._reply_to is None:
            return
        if self._error is None:
            self._reply_to.set(self._value)
        else:
            self._reply_to.set_exception((type(self._error), self._error, self._error.__traceback__))
