"""The reference to a loop actor: pykka's ``ActorRef`` with answers to await and an end to watch."""

from __future__ import annotations

import contextlib
import sys
import weakref
from asyncio import _get_running_loop
from queue import Full
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

import pykka

from actors.errors import BlockingCallOnLoopError
from actors.runtime._loop_inbox import Watch
from actors.runtime._pykka import ActorStop, Envelope
from actors.runtime.loop_future import LoopFuture

if TYPE_CHECKING:
    import asyncio
    import threading
    from collections.abc import Callable

    from actors.runtime._loop_inbox import LoopInbox
    from actors.runtime.loop_actor import LoopActor

A = TypeVar("A", bound="LoopActor")


class LoopActorRef(pykka.ActorRef[A], Generic[A]):
    """A reference that may be passed around, used from any thread, and outlive its actor without holding it.

    On an event loop ``await ref.ask(message, block=False)`` and ``await ref.stop(block=False)``; with ``block=True``,
    pykka's default, both are refused there before anything is sent. In other threads they block as in pykka.
    """

    __slots__ = ("_actor_weakref", "actor_class", "actor_inbox", "actor_urn")

    actor_inbox: LoopInbox

    def __init__(self, actor: A) -> None:
        # pykka's initialiser is not called: it copies actor_stopped, which here is made only when asked for.
        self._actor_weakref = weakref.ref(actor)
        self.actor_class = actor.__class__
        self.actor_urn = actor.actor_urn
        self.actor_inbox = actor.actor_inbox

    @property
    def actor_stopped(self) -> threading.Event:  # type: ignore[override]  # read-only, so that it can be made late
        """Set when the actor stops taking messages."""
        return self.actor_inbox.stopped_event()

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop that the actor runs on; None while its ``__init__`` runs."""
        return self.actor_inbox.loop

    @property
    def waiting(self) -> int:
        """Messages told and not yet handled."""
        return len(self.actor_inbox.queue)

    def is_alive(self) -> bool:
        """Whether the actor takes messages: it has not stopped and its loop is not closed."""
        inbox = self.actor_inbox
        return not (inbox.closed or inbox.is_loop_closed())

    def tell(self, message: Any) -> None:
        """Queue ``message``; never blocks, never runs the actor's code.

        Raises:
            InboxOverflowError: the inbox is full; the message was not queued.
            pykka.ActorDeadError: the actor has stopped or its loop is closed.
        """
        # The body of LoopInbox.offer, without the call: this is the toolkit's hottest line.
        inbox = self.actor_inbox
        queue = inbox.queue
        if len(queue) >= inbox.bound:
            inbox.refuse()
        queue.append(message)
        if inbox.idle:
            inbox.wake()
        elif inbox.is_loop_closed():
            inbox.abandon()
            raise inbox.dead_error()

    def deliver(self, message: Any) -> None:
        """As ``tell``, but a plain message is handled before this returns where the actor has nothing else to do, on its loop's thread.

        The rules of actors hold: messages are handled one at a time and in order, and what is told to an actor at work waits until it is
        done. What the handler raises is the actor's own. For chains that are short by nature: each link is a call.
        """
        if not self.actor_inbox.handled(message):
            self.tell(message)

    @overload
    def ask(self, message: Any, *, block: Literal[False], timeout: float | None = None) -> LoopFuture[Any]: ...

    @overload
    def ask(self, message: Any, *, block: Literal[True], timeout: float | None = None) -> Any: ...

    @overload
    def ask(self, message: Any, *, block: bool = True, timeout: float | None = None) -> Any | LoopFuture[Any]: ...

    def ask(self, message: Any, *, block: bool = True, timeout: float | None = None) -> Any | LoopFuture[Any]:
        """Queue ``message`` and get what the handler returns or raises; ActorDeadError if it is never handled.

        Args:
            message: what to handle.
            block: wait here for up to ``timeout`` seconds; else return a future at once.
            timeout: seconds, for ``block=True`` only; bound an await with ``asyncio.timeout``.

        Raises:
            BlockingCallOnLoopError: ``block=True`` on the thread of a running event loop; nothing was sent.
            InboxOverflowError: the inbox is full; nothing was sent.
            pykka.Timeout: no answer in time.
        """
        if block:
            _refuse_to_block("ask")
        future: LoopFuture[Any] = LoopFuture()
        try:
            self.actor_inbox.offer_ask(Envelope(message, reply_to=future))
        except pykka.ActorDeadError:
            # An abandoned inbox has answered already what it found queued, this ask perhaps included.
            with contextlib.suppress(Full):
                future.set_exception(sys.exc_info())
        return future.get(timeout=timeout) if block else future

    @overload
    def stop(self, *, block: Literal[True], timeout: float | None = None) -> bool: ...

    @overload
    def stop(self, *, block: Literal[False], timeout: float | None = None) -> LoopFuture[bool]: ...

    @overload
    def stop(self, *, block: bool = True, timeout: float | None = None) -> bool | LoopFuture[bool]: ...

    def stop(self, *, block: bool = True, timeout: float | None = None) -> bool | LoopFuture[bool]:
        """Ask the actor to stop after the messages that it has; a full inbox is no obstacle.

        Returns, or its future holds, True when the actor has stopped and False if it was dead before the call.
        Arguments and errors are those of ``ask``.
        """
        if block:
            _refuse_to_block("stop")
        if not self.is_alive():
            dead: LoopFuture[bool] = LoopFuture()
            dead.set(False)
            return False if block else dead
        self.stop_nowait()
        stopped = self.actor_inbox.termination().map(_true)
        return stopped.get(timeout=timeout) if block else stopped

    def stop_nowait(self) -> None:
        """Ask the actor to stop after the messages that it has, and forget about it; nothing happens if it is dead."""
        self.actor_inbox.request_stop()

    def stop_now(self) -> None:
        """As `stop_nowait`, but the actor ends before this returns where it has nothing else to do, on its loop's thread; see `deliver`."""
        inbox = self.actor_inbox
        if inbox.stop_requested or not inbox.handled(ActorStop()):
            inbox.request_stop()

    def stopped(self) -> LoopFuture[BaseException | None]:
        """A future of the actor's end: its value is the failure that ended it, or None; it does not ask it to stop."""
        return self.actor_inbox.termination()

    def watch(self, callback: Callable[[BaseException | None], None]) -> Watch:
        """Call ``callback(failure)`` once, on the actor's loop, when it has stopped; ``failure`` is None if stopped.

        An actor that has stopped already is reported in the loop's next turn. A failure carries its traceback, and with
        it the handler's frames, for as long as a ref to the failed actor is kept. An actor that watches another uses
        ``LoopActor.watch``.

        Returns:
            the watch, whose ``cancel()`` ends it.

        Raises:
            pykka.ActorDeadError: there is no loop to call back on any more.
        """
        watch = Watch(self.actor_inbox, callback)
        self.actor_inbox.watch(watch)
        return watch


def _true(_failure: BaseException | None) -> bool:
    return True


def _refuse_to_block(verb: str) -> None:
    if _get_running_loop() is not None:
        raise BlockingCallOnLoopError(
            f"{verb}() would block this thread's event loop, nothing was sent; await {verb}(..., block=False) instead"
        )
