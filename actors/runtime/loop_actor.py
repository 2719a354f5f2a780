"""``LoopActor``: pykka's actor on an asyncio event loop, many thousands of them on one thread.

A message costs a deque entry; an actor that has work costs one loop callback for up to ``drain_budget`` messages; one
that has none costs nothing. Handlers run on the loop's thread, one message at a time and whole: nothing else on that
loop runs while a handler does, so a handler is a plain function that never blocks. What must block is the work of a
ThreadingActor.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import uuid
from types import CoroutineType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pykka
from pykka.messages import ProxyCall, ProxyGetAttr, ProxySetAttr

from actors.errors import (
    ActorError,
    AsyncHandlerError,
    NextTurnError,
    NoEventLoopError,
    StorageError,
    TooManyTimersError,
)
from actors.runtime._loop_inbox import DEFAULT_MAX_INBOX, LoopInbox, Watch, Watched
from actors.runtime._loop_timer import TimerHandle
from actors.runtime._pykka import ActorStop, Envelope
from actors.runtime.loop_future import LaterReply, LoopFuture
from actors.runtime.loop_ref import LoopActorRef
from actors.runtime.loop_registry import LoopActorRegistry
from actors.runtime.supervision import DEFAULT_MAX_RESTARTS, DEFAULT_RESTART_WINDOW, RestartBudget, Supervision

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

DRAIN_BUDGET = 256
"""Messages an actor handles before the loop's other work has its turn: some tens of microseconds of short handlers."""
DEFAULT_MAX_TIMERS = 10_000
"""Timers an actor may have pending; a heap of deadlines behind one timer needs one."""

_SPECIAL = frozenset((Envelope, ActorStop, ProxyCall, ProxyGetAttr, ProxySetAttr, Watched))
_ENDS_PROGRAM = (KeyboardInterrupt, SystemExit)
_HOOKS = ("on_receive", "on_start", "on_stop", "on_failure", "on_restart")

logger = logging.getLogger("penstock.actors")


class LoopActor(pykka.Actor):
    """Subclass, implement ``on_receive``, and ``start()`` it on a running event loop.

    As in pykka: ``__init__`` runs in the caller's thread, ``on_start`` before the first message, ``on_stop`` after the
    last; messages from one sender are handled in the order sent; a failing ``ask`` raises in the caller and the actor
    lives on; asks that a stopped actor never handled fail with ``ActorDeadError``.

    Other than in pykka: a failing ``tell`` is treated by ``supervision``; the inbox is bounded, and a full one raises
    ``InboxOverflowError`` in the sender; ``ref.stop()`` and ``ref.ask()`` that would block the loop are refused; the
    registry is ``LoopActorRegistry``. ``KeyboardInterrupt`` and ``SystemExit`` in a handler stop the actor and go on to
    the event loop, which ends.

    Nothing recurses: a tell only queues, also to oneself, and also inside a handler.
    """

    # The URN and the runtime's own state need no dictionary; a subclass with attributes of its own has one as usual.
    __slots__ = ("_actor_ref", "_restarts", "_timers", "_watching", "actor_inbox", "actor_urn", "asked")

    supervision: ClassVar[Supervision] = Supervision.STOP
    max_restarts: ClassVar[int] = DEFAULT_MAX_RESTARTS
    """With RESTART: how many in ``restart_window`` seconds; the failure after that stops the actor."""
    restart_window: ClassVar[float] = DEFAULT_RESTART_WINDOW
    max_inbox: ClassVar[int] = DEFAULT_MAX_INBOX
    drain_budget: ClassVar[int] = DRAIN_BUDGET
    max_timers: ClassVar[int] = DEFAULT_MAX_TIMERS

    actor_inbox: LoopInbox
    _actor_ref: LoopActorRef[Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for hook in _HOOKS:
            function = getattr(cls, hook)
            if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
                raise AsyncHandlerError(_no_coroutine(f"{cls.__name__}.{hook}"))
        if cls.max_inbox < 1 or cls.drain_budget < 1 or cls.max_timers < 0 or cls.max_restarts < 0:
            raise ValueError(f"{cls.__name__}: inboxes and budgets hold at least 1, timers and restarts at least 0")

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        # pykka's initialiser is not called: its Event and its ref are not the ones used here.
        self.actor_urn = uuid.uuid4().urn
        self.actor_inbox = LoopInbox(str(self), self.max_inbox)
        self._actor_ref = LoopActorRef(self)
        # Whether somebody waits for what the handler at work returns.
        self.asked = False
        self._restarts: RestartBudget | None = None
        self._timers: set[TimerHandle] | None = None
        self._watching: set[Watch] | None = None

    # --- starting

    @classmethod
    def start(cls, *args: Any, loop: asyncio.AbstractEventLoop | None = None, **kwargs: Any) -> LoopActorRef[Self]:
        """Create the actor here and now, and have its ``on_start`` and handlers run on ``loop``.

        Args:
            *args: for the constructor, as ``kwargs``.
            loop: where to run; by default the loop running in this thread. From other threads it must be given.
            **kwargs: for the constructor.

        Raises:
            NoEventLoopError: no loop was given and none runs in this thread, or the loop is closed.
        """
        if loop is None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError as error:
                raise NoEventLoopError(
                    f"no event loop runs in this thread: start {cls.__name__} on one, or pass start(loop=...)"
                ) from error
        if loop.is_closed():
            raise NoEventLoopError(f"the event loop given to {cls.__name__}.start is closed")
        actor = cls(*args, **kwargs)
        inbox = getattr(actor, "actor_inbox", None)
        assert inbox is not None, f"{cls.__name__}.__init__ must call super().__init__()"
        ref = actor.actor_ref
        inbox.on_abandoned = actor._let_go
        inbox.loop = loop
        LoopActorRegistry.register(ref, loop)
        inbox.open(loop, actor._first_drain)
        return ref

    @staticmethod
    def _create_actor_inbox() -> LoopInbox:
        return LoopInbox("an actor", DEFAULT_MAX_INBOX)

    @staticmethod
    def _create_future() -> LoopFuture[Any]:
        return LoopFuture()

    def _start_actor_loop(self) -> None:
        raise NoEventLoopError("a loop actor is started by its class: LoopActor.start(loop=...)")

    # --- what the actor knows

    @property
    def actor_ref(self) -> LoopActorRef[Self]:
        """The reference to this actor; give this away, never ``self``."""
        return self._actor_ref

    @property
    def actor_stopped(self) -> threading.Event:  # type: ignore[override]  # read-only, so that it can be made late
        """Set when the actor stops taking messages."""
        return self.actor_inbox.stopped_event()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop the actor runs on, from ``on_start`` on; ``NoEventLoopError`` before."""
        loop = self.actor_inbox.loop
        if loop is None:
            raise NoEventLoopError(f"{self} has no loop before it is started; use on_start, not __init__")
        return loop

    def stop(self) -> None:
        """Stop after the messages that are in the inbox now; from any thread."""
        self.actor_inbox.request_stop()

    def on_restart(self, failure: BaseException) -> None:
        """With ``Supervision.RESTART``: renew the state that ``failure`` may have left broken.

        Timers have been cancelled, watches are kept, the message that failed is not handled again. If this fails, the
        actor stops.
        """

    # --- timers and watches

    def schedule(self, delay: float, message: Any) -> TimerHandle:
        """Have ``message`` handled in ``delay`` seconds; see ``schedule_at``."""
        return self.schedule_at(self.loop.time() + delay, message)

    def schedule_at(self, when: float, message: Any) -> TimerHandle:
        """Have ``message`` handled at ``when`` on the loop's clock; dropped if the actor stops or restarts before.

        It takes its turn in the inbox, a full inbox included, since no sender is there to be refused. Only from the
        actor's own handlers.

        Raises:
            TooManyTimersError: ``max_timers`` are pending.
        """
        timers = self._timers
        if timers is None:
            timers = self._timers = set()
        if len(timers) >= self.max_timers:
            raise TooManyTimersError(str(self), self.max_timers)
        return TimerHandle(self.loop, when, message, self.actor_inbox, timers)

    def watch(self, ref: LoopActorRef[Any], callback: Callable[[BaseException | None], None]) -> Watch:
        """Call ``callback(failure)`` as one of this actor's messages, once, when ``ref``'s actor has stopped.

        ``failure`` is None after an ordinary stop. An actor on another loop can be watched, and one that has stopped
        already. The watch ends with ``cancel()`` and with this actor; a failing callback is a failing message.
        """
        if self._watching is None:
            self._watching = set()
        watch = Watch(ref.actor_inbox, callback, self.actor_inbox, self._watching)
        ref.actor_inbox.watch(watch)
        return watch

    # --- running, on the loop's thread

    def _first_drain(self) -> None:
        inbox = self.actor_inbox
        inbox.drain = self._drain
        inbox.handle = self._handle_now
        try:
            self.on_start()
        except BaseException as error:  # an actor must end in good order whatever ended it
            self._log_failure(error)
            self._terminate(error)
            if isinstance(error, _ENDS_PROGRAM):
                raise
        if not inbox.closed:
            self._drain()

    def _drain(self) -> None:
        inbox = self.actor_inbox
        queue = inbox.queue
        take = queue.popleft
        special = _SPECIAL
        for _ in range(self.drain_budget):
            if not queue:
                break
            message = take()
            if type(message) in special:
                if self._handle_special(message):
                    break
                if inbox.closed:
                    return
                continue
            try:
                # Looked up each time: an actor may assign self.on_receive to become another behaviour.
                result = self.on_receive(message)
                if result is not None:
                    _refuse_coroutine(self, result)
            except NextTurnError:
                queue.appendleft(message)
                break
            except BaseException as error:  # noqa: BLE001  # the policy decides; what ends the program is re-raised
                self._supervise(error)
                if inbox.closed:
                    return
        inbox.reschedule()

    def _handle_now(self, message: Any) -> None:
        """Handle one message for ``LoopInbox.handled``, which holds the token."""
        if type(message) in _SPECIAL:
            self._handle_special(message)
            return
        try:
            result = self.on_receive(message)
            if result is not None:
                _refuse_coroutine(self, result)
        except NextTurnError:
            self.actor_inbox.queue.appendleft(message)
        except BaseException as error:  # noqa: BLE001  # as in _drain
            self._supervise(error)

    def _handle_special(self, message: Any) -> bool:
        """Handle what is not a plain tell: an ask, a stop, a proxy's call, the end of a watched actor.

        Returns:
            whether it is to be handled again, before all others, and no more in this turn.
        """
        if type(message) is Envelope and message.reply_to is not None:
            try:
                self._answer(message.message, message.reply_to)
            except NextTurnError:
                self.actor_inbox.queue.appendleft(message)
                return True
            return False
        try:
            if type(message) is Watched:
                self._end_watch(message)
            else:
                self._refuse_or_return(message)
        except NextTurnError:
            self.actor_inbox.queue.appendleft(message)
            return True
        except BaseException as error:  # noqa: BLE001  # as in _drain
            self._supervise(error)
        return False

    def _answer(self, message: Any, reply_to: pykka.Future[Any]) -> None:
        self.asked = True
        try:
            result = self._refuse_or_return(message)
            if type(result) is LaterReply:
                result.answer_to(reply_to)
            else:
                reply_to.set(result)
        except _ENDS_PROGRAM as error:
            reply_to.set_exception((pykka.ActorDeadError, pykka.ActorDeadError(f"{self} ended by {error!r}"), None))
            self._supervise(error)
        except asyncio.CancelledError as error:
            # As it is, it would cancel the caller's task, which nobody cancelled.
            failure = ActorError(f"the handler of {self} read a result that was cancelled")
            failure.__cause__ = error
            reply_to.set_exception((ActorError, failure, error.__traceback__))
        except NextTurnError:
            raise
        except BaseException:  # the caller gets it, whatever it is
            logger.info("exception returned from %s to its caller", self, exc_info=True)
            reply_to.set_exception()
        finally:
            self.asked = False

    def _refuse_or_return(self, message: Any) -> Any:
        result = self._handle_receive(message.message if type(message) is Envelope else message)
        _refuse_coroutine(self, result)
        return result

    def _end_watch(self, message: Watched) -> None:
        watch = message.watch
        watch.leave_group()
        if not watch.cancelled:
            watch.callback(message.failure)

    # --- failing

    def _supervise(self, error: BaseException) -> None:
        """Do with a failed message what the policy says; called while ``error`` is being handled."""
        if isinstance(error, _ENDS_PROGRAM):
            logger.debug("%r in %s, which stops", error, self)
            self._terminate(error)
            raise error
        if isinstance(error, StorageError) and error.told:
            # The program ends for it, and whoever ends it says so.
            self._fail(error)
            return
        self._log_failure(error)
        if self.supervision is Supervision.RESUME:
            return
        if self.supervision is Supervision.STOP or not self._may_restart():
            self._fail(error)
            return
        self._cancel_timers()
        try:
            self.on_restart(error)
        except BaseException as second:  # an actor that cannot be renewed must not go on
            self._log_failure(second)
            self._fail(second)
            if isinstance(second, _ENDS_PROGRAM):
                raise

    def _may_restart(self) -> bool:
        if self._restarts is None:
            self._restarts = RestartBudget(self.max_restarts, self.restart_window)
        if self._restarts.take(self.loop.time()):
            return True
        logger.error("%s failed more than %d times in %s s and stops", self, self.max_restarts, self.restart_window)
        return False

    def _fail(self, error: BaseException) -> None:
        self._close()
        try:
            self.on_failure(type(error), error, error.__traceback__)
        except _ENDS_PROGRAM:
            raise
        except BaseException as second:  # noqa: BLE001  # the first failure is what ends the actor
            self._log_failure(second)
        finally:
            self._finish(error)

    def _log_failure(self, error: BaseException) -> None:
        if not (isinstance(error, StorageError) and error.told):
            logger.error("unhandled exception in %s", self, exc_info=error)

    # --- stopping

    def _stop(self) -> None:
        """Stop now: ``on_stop``, then fail the asks that are left, then tell who watches."""
        if self.actor_inbox.closed:
            return
        self._close()
        failure: BaseException | None = None
        try:
            self.on_stop()
        except BaseException as error:
            failure = error
            if isinstance(error, _ENDS_PROGRAM):
                raise
            self._log_failure(error)
        finally:
            self._finish(failure)

    def _terminate(self, failure: BaseException | None) -> None:
        """End without ``on_stop`` and ``on_failure``, which presuppose a start or a program that goes on."""
        if not self.actor_inbox.closed:
            self._close()
            self._finish(failure)

    def _close(self) -> None:
        """Take no more messages, and let go of timers, registry and watches."""
        self.actor_inbox.close()
        self._cancel_timers()
        self._let_go()

    def _let_go(self) -> None:
        """Leave the registry and every actor watched; all that is to do when the loop was closed under the actor."""
        LoopActorRegistry.unregister(self.actor_ref)
        for watch in tuple(self._watching or ()):
            watch.cancel()

    def _finish(self, failure: BaseException | None) -> None:
        inbox = self.actor_inbox
        inbox.fail_undelivered()
        inbox.announce_end(failure)

    def _cancel_timers(self) -> None:
        for timer in tuple(self._timers or ()):
            timer.cancel()


def _no_coroutine(what: str) -> str:
    return (
        f"{what} is a coroutine, but an actor handles each message whole: make it a plain function, and let "
        "awaitable work run elsewhere and tell its result to the actor"
    )


def _refuse_coroutine(actor: LoopActor, result: Any) -> None:
    if isinstance(result, CoroutineType):
        result.close()
        raise AsyncHandlerError(_no_coroutine(f"the handler of {actor}"))
