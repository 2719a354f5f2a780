"""The registry of running loop actors: starting and stopping one costs the same among ten or ten thousand.

The ``ActorRegistry`` of pykka scans a list to unregister, so ending n actors costs n * n comparisons. Loop actors are kept here instead,
and only here. **``pykka.ActorRegistry`` does not know them: its ``stop_all()`` stops threading actors, and ``LoopActorRegistry.stop_all()``
stops loop actors.** A program with both calls both, first for those that send to the others.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, overload

if TYPE_CHECKING:
    from actors.runtime.loop_actor import LoopActor
    from actors.runtime.loop_future import LoopFuture
    from actors.runtime.loop_ref import LoopActorRef

A = TypeVar("A", bound="LoopActor")

DEFAULT_STOP_TIMEOUT = 30.0
"""Seconds that ``shutdown`` gives all the actors of a loop together."""


class LoopActorRegistry:
    """Every running loop actor of the process, in the order of starting; safe from any thread.

    The registry is also what keeps a running actor alive when nobody holds a ref to it.
    """

    _refs: ClassVar[dict[asyncio.AbstractEventLoop, dict[str, LoopActorRef[Any]]]] = {}
    _lock: ClassVar[threading.RLock] = threading.RLock()

    @classmethod
    def register(cls, ref: LoopActorRef[Any], loop: asyncio.AbstractEventLoop) -> None:
        """Add a started actor; ``LoopActor.start`` calls this."""
        with cls._lock:
            of_loop = cls._refs.get(loop)
            if of_loop is None:
                # A loop closed with actors on it would stay for ever; a new loop is the rare moment to look for one.
                closed = [other for other in cls._refs if other.is_closed()]
                lost = [lost_ref for other in closed for lost_ref in cls._refs.pop(other).values()]
                of_loop = cls._refs[loop] = {}
            else:
                lost = []
            of_loop[ref.actor_urn] = ref
        for lost_ref in lost:
            lost_ref.actor_inbox.abandon()

    @classmethod
    def unregister(cls, ref: LoopActorRef[Any]) -> None:
        """Remove an actor that stops; nothing happens if it is not registered."""
        loop = ref.loop
        if loop is None:
            return
        with cls._lock:
            of_loop = cls._refs.get(loop)
            if of_loop is None:
                return
            of_loop.pop(ref.actor_urn, None)
            if not of_loop:
                del cls._refs[loop]

    @classmethod
    def get_all(cls, loop: asyncio.AbstractEventLoop | None = None) -> list[LoopActorRef[Any]]:
        """The running actors, oldest first on each loop; of ``loop`` only if one is given."""
        with cls._lock:
            return [
                ref
                for owner, of_loop in cls._refs.items()
                if (loop is None or owner is loop) and not owner.is_closed()
                for ref in of_loop.values()
            ]

    @classmethod
    def get_by_class(cls, actor_class: type[A]) -> list[LoopActorRef[A]]:
        """The running actors of this class and its subclasses."""
        return [ref for ref in cls.get_all() if issubclass(ref.actor_class, actor_class)]

    @classmethod
    def get_by_urn(cls, actor_urn: str) -> LoopActorRef[Any] | None:
        """The running actor with this URN, or None."""
        with cls._lock:
            for loop, of_loop in cls._refs.items():
                ref = of_loop.get(actor_urn)
                if ref is not None:
                    return None if loop.is_closed() else ref
            return None

    @overload
    @classmethod
    def stop_all(cls, *, block: Literal[True], timeout: float | None = None) -> list[bool]: ...

    @overload
    @classmethod
    def stop_all(cls, *, block: Literal[False], timeout: float | None = None) -> list[LoopFuture[bool]]: ...

    @overload
    @classmethod
    def stop_all(cls, *, block: bool = True, timeout: float | None = None) -> list[bool] | list[LoopFuture[bool]]: ...

    @classmethod
    def stop_all(cls, *, block: bool = True, timeout: float | None = None) -> list[bool] | list[LoopFuture[bool]]:
        """Stop every loop actor of the process, last started first; as ``LoopActorRef.stop`` for each.

        With ``block=True`` each has stopped before the next is asked to, with ``timeout`` seconds each. On an event
        loop that is refused: use ``block=False`` and await the futures, or ``await shutdown()``.
        """
        refs = reversed(cls.get_all())
        if block:
            return [ref.stop(block=True, timeout=timeout) for ref in refs]
        return [ref.stop(block=False) for ref in refs]

    @classmethod
    async def shutdown(cls, *, timeout: float = DEFAULT_STOP_TIMEOUT) -> int:  # noqa: ASYNC109  # names who was late
        """Stop the actors of the running loop, last started first, each after the one before has stopped.

        Returns:
            how many were stopped.

        Raises:
            TimeoutError: not all of them stopped within ``timeout`` seconds; its text names the one that is late.
        """
        left = cls.get_all(asyncio.get_running_loop())
        stopped = 0
        try:
            async with asyncio.timeout(timeout):
                while left:
                    stopped += await left[-1].stop(block=False)
                    left.pop()
        except TimeoutError as error:
            raise TimeoutError(f"{left[-1]} and {len(left) - 1} more did not stop within {timeout} s") from error
        return stopped
