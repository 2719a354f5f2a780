"""What every role's port has: the broker's translation between one connection's frames and its actor's messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from actors import CaughtUp, LoopActorRef
from actors.queue.vocabulary.replies import Reply
from transport.broker.served import SHUTTING_DOWN, Connections, Served
from transport.broker.under_way import UnderWay
from transport.errors import RemoteProtocolError
from transport.wire import messages as wire
from transport.wire import protocol as wire_protocol
from transport.wire.cumulative import GrantedDemand

DRAIN_TOKEN = 1
"""Of the PING that asks a client for a sign when the broker is about to end; those of the heartbeat have 0."""

Greeting = Callable[[wire.Options], wire.Welcome]
"""Makes WELCOME of what a role is told: every role is told more."""


class Client(Served[wire.Frame]):
    """The broker's end of a connection that carries frames, as its role's port sees it.

    Args:
        connections: where it counts.
        greeting: makes WELCOME.
        states: its state machine.
        now: monotonic seconds.
    """

    opens_at_once = False

    def __init__(
        self, connections: Connections, greeting: Greeting, states: wire_protocol.Protocol, now: float
    ) -> None:
        super().__init__(connections, now)
        self._greeting = greeting
        self._states = states
        self._under_way = UnderWay()
        self._heard_out = False
        # Those that are still to come back after the client was heard out.
        self._marks = 0

    def hold_to(self, granted: GrantedDemand) -> None:
        """What the client sends is refused unseen where it exceeds this."""
        self._states.granted = granted

    def send(self, frame: wire.Frame) -> None:
        """Write ``frame``."""
        if self.connection is not None:
            self.connection.send(frame)

    def welcome(self, options: wire.Options) -> None:
        """Answer HELLO; what every role is told is added to ``options``."""
        self.send(self._greeting(options))

    def failed(self, error: Exception) -> None:
        """End the connection on a defect of ours, which goes into the log."""
        if self.connection is not None:
            self.connection.fail(error)

    def finished(self) -> None:
        """The client has said its last word: close in good order."""
        if self.connection is not None:
            self.connection.close()

    def hold(self) -> None:
        """Handle nothing more of this client, and read nothing, until `go_on`."""
        if self.connection is not None:
            self.connection.pause_reading()

    def go_on(self) -> None:
        """Handle again what the client says."""
        if self.connection is not None and not self._heard_out:
            self.connection.resume_reading()

    def caught_up(self) -> None:
        """The queue has handled what it had of this client when the last mark was told: go on."""
        if self._under_way.handled() and not self._heard_out and self.actor is not None and self.actor.is_alive():
            self.actor.tell(CaughtUp())
        if not self._under_way.full:
            self.go_on()
        if self._heard_out:
            self._marks -= 1
            self.settled()

    # The broker's end: the client may have said more than has come, and is answered what it said before the PING reached it.

    def ask_for_a_sign(self) -> None:
        """Ask for the PONG behind which nothing is left on its way that the client had said until then."""
        self._states.awaits_pong = DRAIN_TOKEN
        self.send(wire.Ping(DRAIN_TOKEN))

    def heard_out(self) -> None:
        """The sign has come: hear no more, and end once all is answered."""
        self._heard_out = True
        self.hold()
        if self.actor is not None and self.actor.is_alive():
            self._marks = self._under_way.marks + 1
            self.actor.actor_inbox.offer_beyond_bound(CaughtUp(answered=True))
        self.settled()

    def settled(self) -> None:
        """All that was handed on is answered, perhaps: end with the broker, if it ends."""
        if self._heard_out and not self._marks and self.owes_nothing():
            self.refused(*SHUTTING_DOWN)

    def owes_nothing(self) -> bool:
        """Whether everything is answered that the client asked for, and no queue knows of."""
        return True


class Tasks:
    """Work that goes on beside the connections, of which each has one under way at most, and ends with the broker."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], None] = {}  # in order, so that a simulation is the same each time

    def start(self, work: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
        """Have ``work`` done."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    async def finished(self, seconds: float) -> None:
        """Wait until all is done that was begun, but for ``seconds`` at most."""
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=max(0.0, seconds))

    def cancel(self) -> None:
        """Give up what is not done."""
        for task in list(self._tasks):
            task.cancel()


class Port:
    """One role's translation; `received` is told only frames that the protocol allows the role."""

    actor: LoopActorRef[Any] | None = None
    owes = False
    """Whether the client waits for an answer that its queue's actor knows nothing of."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def tell(self, reply: Reply) -> None:
        """What the queue says, as frames for the client."""

    def caught_up(self) -> None:
        """The queue has handled all that came before the last mark."""
        self._client.caught_up()

    def refused(self, code: str, text: str, close: bool) -> None:
        """Refuse one request, or end the connection."""
        if close:
            self._client.refused(code, text)
        else:
            self._client.send(wire.Error(code, text, close=False))

    def received(self, frame: wire.Frame) -> None:
        """Translate what the client says for the actor."""
        raise RemoteProtocolError(f"{type(frame).__name__.upper()} means nothing in this role")

    def drain(self) -> None:
        """The broker is about to end: ask the client for nothing more, and give it nothing new."""

    def ended(self) -> None:
        """The connection is over; the actor is told by itself."""
