"""The inbox of a loop actor: a bounded deque, the wake-up protocol, and what is known about the actor's end.

The inbox is what a ref and its actor share. A ref must not keep a stopped actor alive, so the only way from here to the
actor is ``drain``, its bound method, and closing the inbox drops it.

The wake-up protocol, safe from any thread without a lock on the way of a message:

- ``_token`` is held by whoever has to see to it that a drain happens: from the wake-up until the drain found nothing
  left. So there is at most one drain scheduled, whatever the number of senders.
- ``idle`` says, cheaply, that the token is free. A sender appends first and looks at ``idle`` second; a drain says
  ``idle`` first and looks at the queue second. One of the two always sees the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import threading
from asyncio import _get_running_loop
from collections import deque
from dataclasses import dataclass, field
from queue import Full
from typing import TYPE_CHECKING, Any

import pykka

from actors.errors import InboxOverflowError
from actors.runtime._pykka import ActorStop, Envelope
from actors.runtime.loop_future import LoopFuture

if TYPE_CHECKING:
    from collections.abc import Callable

    WatchCallback = Callable[[BaseException | None], None]


logger = logging.getLogger("penstock.actors")

WATCH_LOCK = threading.RLock()
"""Guards the ends of all actors against those who ask about them from other threads; never held over a callback."""


@dataclass(eq=False, repr=False, slots=True)
class Watched:
    """In a watching actor's own inbox: an actor it watches has ended."""

    watch: Watch
    failure: BaseException | None


@dataclass(eq=False, repr=False, slots=True)
class Watch:
    """A callback for the end of ``target``: ``callback(failure)``, failure being None after an ordinary stop.

    With a ``watcher`` the callback runs as one of that actor's messages, on its loop; without, on the target's loop.
    """

    target: LoopInbox
    callback: WatchCallback
    watcher: LoopInbox | None = None
    group: set[Watch] | None = None
    cancelled: bool = False

    def __post_init__(self) -> None:
        if self.group is not None:
            self.group.add(self)

    def cancel(self) -> None:
        """Never call back; from the thread where the callback would run this holds without exception."""
        self.cancelled = True
        self.target.unwatch(self)
        self.leave_group()

    def leave_group(self) -> None:
        """Drop out of the watcher's own set of watches that are still to come."""
        if self.group is not None:
            self.group.discard(self)

    def deliver(self, failure: BaseException | None) -> None:
        """Tell the watcher, or call back here and now; a failing callback is logged, as others wait their turn."""
        if self.cancelled:
            return
        if self.watcher is not None:
            self.watcher.offer_beyond_bound(Watched(self, failure))
            return
        try:
            self.callback(failure)
        except Exception:
            logger.exception("a callback watching %s failed", self.target.name)


DEFAULT_MAX_INBOX = 100_000
"""Messages an inbox holds. Demand keeps real inboxes far below; this is where a sender that ignores demand is told."""

_REFUSE_ALL = -1
"""The bound of a closed inbox: one comparison on the way of a message covers both full and dead."""


def _not_closed() -> bool:
    return False


def _not_open(*_unused: object) -> None:
    """Runs nothing: one that is not open has nobody who handles."""


@dataclass(eq=False, repr=False, slots=True)
class LoopInbox:
    """A bounded, ordered inbox with pykka's ``put``, ``get`` and ``empty``.

    Plain tells are queued as they are; an ask is queued in pykka's ``Envelope``, which is how the two are told apart.
    """

    name: str
    max_inbox: int
    queue: deque[Any] = field(default_factory=deque)
    bound: int = field(init=False)
    idle: bool = False
    _token: threading.Lock = field(default_factory=threading.Lock)
    _take: Callable[..., bool] = field(init=False)
    loop: asyncio.AbstractEventLoop | None = None
    is_loop_closed: Callable[[], bool] = _not_closed
    context: contextvars.Context | None = None
    _run: Callable[..., Any] = _not_open
    drain: Callable[[], None] | None = None
    handle: Callable[[Any], None] | None = None
    on_abandoned: Callable[[], None] | None = None
    closed: bool = False
    ended: bool = False
    stop_requested: bool = False
    failure: BaseException | None = None
    _watches: dict[Watch, None] | None = None
    _termination: LoopFuture[BaseException | None] | None = None
    _stopped_event: threading.Event | None = None

    def __post_init__(self) -> None:
        self.bound = self.max_inbox
        # Held from the beginning: what is told before the start waits for the first drain, which the start schedules.
        self._take = self._token.acquire
        self._take()

    # --- starting

    def open(self, loop: asyncio.AbstractEventLoop, drain: Callable[[], None]) -> None:
        """Begin to run on ``loop``: schedule the first drain, from the loop's thread or any other."""
        self.loop = loop
        self.is_loop_closed = loop.is_closed
        # One context for the actor's whole life; else each drain would run in that of whichever sender woke it.
        self.context = contextvars.copy_context()
        self._run = self.context.run
        self.drain = drain
        self._schedule()

    # --- sending, from any thread

    def offer(self, item: Any) -> None:
        """Queue ``item`` and see to it that it is handled.

        Raises:
            InboxOverflowError: the inbox is full; nothing was queued.
            pykka.ActorDeadError: the actor has stopped or its loop is closed.
        """
        queue = self.queue
        if len(queue) >= self.bound:
            self.refuse()
        queue.append(item)
        if self.idle:
            self.wake()
        elif self.is_loop_closed():
            self.abandon()
            raise self.dead_error()

    def offer_ask(self, envelope: Envelope[Any]) -> None:
        """Queue an ask, as ``offer`` does; whatever happens to the actor, its future is set."""
        self.offer(envelope)
        if self.closed:
            # The actor stopped in its own thread between the check and the append, and may not have seen this one.
            self.fail_undelivered()

    def offer_beyond_bound(self, item: Any) -> None:
        """Queue an item the runtime itself owes the actor (a stop, a timer, a watch); dropped if the actor is dead.

        Their number is bounded where they come from: one stop, ``max_timers`` timers, one item for each watch.
        """
        if self.closed:
            return
        self.queue.append(item)
        if self.idle:
            with contextlib.suppress(pykka.ActorDeadError):
                self.wake()

    def refuse(self) -> None:
        """Raise the reason why the inbox takes no message now."""
        if self.closed:
            raise self.dead_error()
        raise InboxOverflowError(self.name, self.max_inbox)

    def dead_error(self) -> pykka.ActorDeadError:
        """The error for whoever sends to this inbox after its end."""
        return pykka.ActorDeadError(f"{self.name} not found")

    def request_stop(self) -> None:
        """Queue the stop behind what is there; the second and later requests add nothing."""
        if not self.stop_requested:
            self.stop_requested = True
            self.offer_beyond_bound(ActorStop())

    def wake(self) -> None:
        """Schedule a drain unless someone else is about to."""
        if self._token.acquire(blocking=False):
            self.idle = False
            self._schedule()

    def handled(self, item: Any) -> bool:
        """Have ``item`` handled at once; False where a drain is to come first, or on another thread than the loop's.

        It is a drain of one item: whoever holds the token drains.
        """
        if not self.idle or self.queue or _get_running_loop() is not self.loop or not self._take(False):
            return False
        self.idle = False
        self._run(self.handle, item)
        # The usual end of `reschedule`: nothing came meanwhile.
        if self.queue or self.closed:
            self.reschedule()
            return True
        self.idle = True
        self._token.release()
        if self.queue and self._take(False):
            self.idle = False
            self.reschedule()
        return True

    def _schedule(self) -> None:
        loop, drain = self.loop, self.drain
        assert loop is not None
        if drain is None:
            return
        try:
            if _get_running_loop() is loop:
                loop.call_soon(drain, context=self.context)
            else:
                loop.call_soon_threadsafe(drain, context=self.context)
        except RuntimeError as error:
            if not loop.is_closed():
                raise
            self.abandon()
            raise self.dead_error() from error

    # --- draining, on the loop's thread

    def reschedule(self) -> None:
        """End a drain: go on in the loop's next turn if anything is left, else wait for a sender."""
        if self.closed:
            return
        loop = self.loop
        assert loop is not None
        assert self.drain is not None
        if not self.queue:
            self.idle = True
            self._token.release()
            if not self.queue or not self._token.acquire(blocking=False):
                return
            self.idle = False
        loop.call_soon(self.drain, context=self.context)

    # --- ending

    def close(self) -> None:
        """Refuse every message from now on; what is queued stays for ``fail_undelivered``."""
        self.closed = True
        self.bound = _REFUSE_ALL
        self.idle = False
        self.drain = None
        self.handle = None
        self.on_abandoned = None
        with WATCH_LOCK:
            if self._stopped_event is not None:
                self._stopped_event.set()

    def fail_undelivered(self) -> None:
        """Answer the asks left in a closed inbox: ActorDeadError, or for a stop that it is done.

        Safe to call from several threads: each message is popped once.
        """
        queue = self.queue
        while queue:
            try:
                item = queue.popleft()
            except IndexError:
                return
            if type(item) is not Envelope or item.reply_to is None:
                continue
            # Of an ask that noticed the end itself, the caller may have set the future already.
            with contextlib.suppress(Full):
                if isinstance(item.message, ActorStop):
                    item.reply_to.set(None)
                else:
                    error = pykka.ActorDeadError(f"{self.name} stopped before handling the message")
                    item.reply_to.set_exception((pykka.ActorDeadError, error, None))

    def announce_end(self, failure: BaseException | None) -> None:
        """Tell everyone who watches or waits that the actor has stopped; on the loop's thread, once."""
        for watch in self._take_watches(failure):
            watch.deliver(failure)

    def abandon(self) -> None:
        """The actor's loop was closed under it: it can run no more, so fail what waits for it. From any thread."""
        with WATCH_LOCK:
            if self.closed:
                return
            self.closed = True
        forget = self.on_abandoned
        self.close()
        if forget is not None:
            forget()
        self.fail_undelivered()
        failure = pykka.ActorDeadError(f"the event loop of {self.name} was closed")
        for watch in self._take_watches(failure):
            # Callbacks belong to the closed loop's thread; only other actors, on other loops, can still be told.
            if watch.watcher is not None:
                watch.deliver(failure)

    def _take_watches(self, failure: BaseException | None) -> tuple[Watch, ...]:
        with WATCH_LOCK:
            self.ended = True
            self.failure = failure
            watches, self._watches = self._watches, None
            if self._termination is None:
                self._termination = LoopFuture()
        self._termination.set(failure)
        return tuple(watches or ())

    # --- watching

    def watch(self, watch: Watch) -> None:
        """Have ``watch`` delivered at the end, or in the loop's next turn if that has come already."""
        with WATCH_LOCK:
            if not self.ended:
                if self._watches is None:
                    self._watches = {}
                self._watches[watch] = None
                return
        if watch.watcher is not None:
            watch.deliver(self.failure)
            return
        loop = self.loop
        if loop is None or loop.is_closed():
            raise self.dead_error()
        loop.call_soon_threadsafe(watch.deliver, self.failure)

    def unwatch(self, watch: Watch) -> None:
        """Forget ``watch``; nothing happens if it was delivered."""
        with WATCH_LOCK:
            if self._watches is not None:
                self._watches.pop(watch, None)

    def termination(self) -> LoopFuture[BaseException | None]:
        """The one future of the actor's end, made when first asked for; its value is the failure or None."""
        with WATCH_LOCK:
            if self._termination is None:
                self._termination = LoopFuture()
            return self._termination

    def stopped_event(self) -> threading.Event:
        """The event behind ``actor_stopped``, made when first asked for: few actors need its third of a KiB."""
        with WATCH_LOCK:
            if self._stopped_event is None:
                self._stopped_event = threading.Event()
                if self.closed:
                    self._stopped_event.set()
            return self._stopped_event

    # --- pykka's inbox protocol

    def put(self, envelope: Envelope[Any], /) -> None:
        """Queue pykka's envelope; raises as ``offer`` does."""
        if envelope.reply_to is None:
            self.offer(envelope.message)
        else:
            self.offer_ask(envelope)

    def get(self) -> Envelope[Any]:
        """Take the oldest item as pykka's envelope; ``IndexError`` if there is none."""
        item = self.queue.popleft()
        return item if type(item) is Envelope else Envelope(item)

    def empty(self) -> bool:
        """Whether nothing is queued."""
        return not self.queue
