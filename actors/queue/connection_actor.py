"""What the actors of a queue's connections have in common: they know one queue, and end with it or with their connection."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar
from typing import Protocol as TypingProtocol

from pykka import ActorDeadError

from actors.queue.vocabulary.commands import CaughtUp, Command, ExplainWait, Left
from actors.queue.vocabulary.replies import MarkReached, QueueDeleted, Refused, Reply, WaitExplained
from actors.runtime.loop_actor import LoopActor
from actors.runtime.loop_ref import LoopActorRef


class Port(TypingProtocol):
    """The way back to the client."""

    def tell(self, reply: Reply) -> None:
        """What the queue says to connections of the client's kind."""

    def caught_up(self) -> None:
        """Everything that the client had said before the last mark is handled."""

    def refused(self, code: str, text: str, close: bool) -> None:
        """A request was refused; with ``close`` the client broke a rule, or the queue is gone, and the connection is to end."""


class ConnectionActor(LoopActor):
    """The actor of one connection to a queue.

    Args:
        queue: the queue actor.
        port: the way back to the client.
    """

    what: ClassVar[str]
    """What kind of connection it is, for messages."""
    deleted: ClassVar[str] = "the queue was deleted; connecting again creates it anew"
    marks_answers: ClassVar[bool] = False
    """Whether a mark waits for the answers before it, too."""

    def __init__(self, queue: LoopActorRef[Any], port: Port) -> None:
        super().__init__()
        self._queue = queue
        self._port = port
        self._ended = False
        self._left = Left()

    def attaching(self) -> Command:
        """What makes the connection known to the queue."""
        raise NotImplementedError

    def on_start(self) -> None:
        """Make the connection known to the queue."""
        # It may end before it has heard of this one.
        self.watch(self._queue, self._queue_ended)
        with suppress(ActorDeadError):
            self._queue.tell(self.attaching())

    def on_stop(self) -> None:
        """The connection is gone: the queue takes back what it is to have back at once."""
        if self._queue.is_alive():
            self.pass_on(self._left)

    def on_failure(self, *_args: object) -> None:
        """A defect of ours ends this connection only."""
        self._port.refused("internal-error", f"the {self.what} connection's actor failed; connect again", close=True)
        self.on_stop()

    def on_receive(self, message: Any) -> None:
        """Dispatch by type; what the queue may not be there for any more is passed over."""
        try:
            self.handle(type(message), message)
        except ActorDeadError:
            if self._queue.is_alive():
                raise
            # Its word on why is behind this message: it tells all its connections as it ends.

    def handle(self, kind: type, message: Any) -> None:
        """What every connection is told; those of a kind come before."""
        if kind is CaughtUp:
            self._queue.tell(CaughtUp(self.marks_answers or message.answered, self.actor_ref))
        elif kind is MarkReached:
            self._port.caught_up()
        elif kind is ExplainWait:
            self.pass_on(message)
        elif kind is WaitExplained:
            self._port.tell(message)
        elif kind is Refused:
            self._refused(message)
        elif kind is QueueDeleted:
            self._end("queue-deleted", self.deleted)
        else:
            super().on_receive(message)

    def pass_on(self, command: Any) -> None:
        """Tell the queue what the client wants, in this connection's name."""
        self._queue.tell(command if command.connection is not None else _of(command, self.actor_ref))

    def _refused(self, message: Refused) -> None:
        self._end(message.code, message.text)

    def _queue_ended(self, failure: BaseException | None) -> None:
        if failure is None:
            self._end("queue-deleted", self.deleted)
        else:
            self._end("internal-error", "the queue failed for good, with what it held")

    def _end(self, code: str, text: str) -> None:
        if not self._ended:
            self._ended = True
            self._port.refused(code, text, close=True)


def _of(command: Any, connection: LoopActorRef[Any]) -> Any:
    """A command in the name of a connection; the frequent ones are named tuples, the others dataclasses."""
    if isinstance(command, tuple):
        return command._replace(connection=connection)  # type: ignore[attr-defined]  # a named one
    return replace(command, connection=connection)
