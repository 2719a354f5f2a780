"""Where bytes are received: into one buffer a thread, and what is kept of them beyond a receive, which a `Room` grants."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, field

SHARED_BUFFER_BYTES = 256 * 1024
"""One receive between frames takes at most this from the socket; larger gains nothing on loopback, smaller costs system calls."""

Part = bytes | bytearray | memoryview


class Room:
    """Where a receiver asks for the memory of what is not complete; this one grants it always, as suits who has few connections."""

    __slots__ = ()

    line: Collection[object] = ()
    """Not empty while memory is scarce: little is received at a time then."""

    def take(self, size: int, whole: int) -> bool:  # noqa: ARG002 - for others to know
        """Whether ``size`` bytes may be kept of an event of ``whole``; where not, `Receiver.go_on` is to be called when they may."""
        return True

    def keep(self, size: int) -> None:
        """So many bytes are kept, for they have come already."""

    def hold(self, size: int) -> None:
        """An event that is complete waits to be handled: so many bytes are kept, and no more are to come for it."""

    def leave(self) -> None:
        """Nothing is kept any more."""


AMPLE = Room()


class _ThreadLocal(threading.local):
    """One receive buffer a thread: an event loop, or a blocking client, finishes with it before the next receive."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(SHARED_BUFFER_BYTES))


_local = _ThreadLocal()


def shared_view() -> memoryview:
    """The calling thread's shared buffer."""
    return _local.view


@dataclass(eq=False, repr=False, slots=True)
class Receiver(ABC):
    """What a connection has received of its peer and not handled. Its protocol takes events out of it.

    Attributes:
        idle: whether nothing is kept and nothing waits, so that there is nothing to be asked.
        stalled: whether the event that has begun waits for room: nothing is to be received before `go_on`.
    """

    idle: bool = field(default=True, init=False)
    stalled: bool = field(default=False, init=False)

    @abstractmethod
    def keep_in(self, room: Room) -> None:
        """Count what is kept in ``room``."""

    @abstractmethod
    def get_buffer(self) -> memoryview:
        """Where the next bytes go; valid until they are reported, which must follow on the same thread at once."""

    @abstractmethod
    def received(self, nbytes: int) -> None:
        """Take the ``nbytes`` just received. What waits for later must be kept by `keep`.

        Raises:
            TransportError: what has begun is over a limit, or the stream had ended with an error before.
        """

    @abstractmethod
    def keep(self) -> None:
        """Have what waits outlive this receive: the shared buffer is reused at once."""

    @abstractmethod
    def handled(self) -> None:
        """All that was given is handled: what it took counts no more."""

    @property
    @abstractmethod
    def waiting(self) -> bool:
        """Whether there is something that was received and not looked at."""

    @property
    @abstractmethod
    def mid_event(self) -> bool:
        """Whether an event has begun and is not complete."""

    @property
    def renewed(self) -> bool:
        """Whether a piece of the event that has begun came whole since this was asked: its time to be complete begins anew."""
        return False

    @property
    def begun(self) -> int:
        """Bytes that have come of an event that is not complete and has memory of its own; its turn pays for them as they come."""
        return 0

    def go_on(self) -> None:  # noqa: B027 - nothing waits for room where nothing asks for it
        """There is room for the event that has begun, or more of it."""

    @abstractmethod
    def drop(self) -> None:
        """Let go of what was received: nothing more will be read of this stream."""

    def close(self) -> None:
        """The stream is over: nothing is kept, and nobody is told of anything."""
        self.drop()
