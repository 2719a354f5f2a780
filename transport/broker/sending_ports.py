"""The ports of the sending address: role ``sender``, which may stage what it sends, and role ``transaction``, which ends transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from actors import OfferBatch, QueueError, SendToQueueSubscriber, StorageError
from transport.broker.administration_commands import LONG_COMMANDS
from transport.broker.enlisted import EnlistedStages
from transport.broker.port import Port
from transport.errors import FrameTooLargeError, RemoteProtocolError
from transport.wire import messages as wire
from transport.wire.cumulative import GrantedDemand
from transport.wire.frames import MAX_BODY_BYTES
from transport.wire.timing import Timing
from transport.wire.transaction_options import read_stage, read_transaction

if TYPE_CHECKING:
    from transport.broker.broker import Broker
    from transport.broker.broker_connection import BrokerConnection


class SendingPort(Port):
    """Role ``sender``."""

    def __init__(self, connection: BrokerConnection, broker: Broker, hello: wire.Hello) -> None:
        self._connection = connection
        self._demand = GrantedDemand()
        connection.hold_to(self._demand)
        self._stage = read_stage(hello.options)
        queue = broker.queues.get_or_create(hello.queue or "")
        temporary = hello.options.get("temporary", False)
        if type(temporary) is not bool:
            raise RemoteProtocolError(f"HELLO: temporary is {wire.brief(temporary)}, not true or false")
        self.actor = SendToQueueSubscriber.start(queue, hello.client_id, self, self._stage, temporary)

    def received(self, frame: wire.Frame) -> None:
        """SEND."""
        assert isinstance(frame, wire.Send), "the protocol allows no other"
        assert self.actor is not None
        size = frame.batch.nbytes
        if size > MAX_BODY_BYTES:
            raise FrameTooLargeError(size, MAX_BODY_BYTES, what="SEND body")
        timing = Timing.from_properties(frame.properties)
        self.actor.tell(OfferBatch(frame.sequence, frame.batch, timing.delay, timing.ttl, self.actor))

    def attached(self, last_sequence: int | None, committed: bool = False) -> None:
        """The queue knows the sender; ``committed`` is its transaction, if it stages."""
        options: wire.Options = {"last_sequence": last_sequence}
        if self._stage is not None:
            options["committed"] = committed
        self._connection.welcome(options)

    def demand(self, messages: int, size: int) -> None:
        """Cumulative on the wire."""
        self._connection.send(wire.Demand(*self._demand.grow(messages, size)))

    def sent(self, up_to: int, first: int | None, rejected: str | None) -> None:
        """A confirmation, or the rejection of the batch that ends at ``up_to``."""
        if rejected is not None:
            rejected = rejected[: wire.MAX_ERROR_TEXT]
        self._connection.send(wire.Sent(up_to, first, rejected))


class TransactionPort(Port):
    """Role ``transaction``: there is no actor, for a commit concerns all queues; the broker's directory of transactions does it."""

    def __init__(self, connection: BrokerConnection, broker: Broker, hello: wire.Hello) -> None:
        self._connection = connection
        self._broker = broker
        self._writer, self._version = read_transaction(hello.options)
        self._enlisted = EnlistedStages(broker.enlisted, connection.refused)
        self._ending = False
        connection.welcome({"last_version": broker.queues.transactions.last_version(self._writer)})

    def received(self, frame: wire.Frame) -> None:
        """ENLIST, COMMIT_TRANSACTION, ABORT_TRANSACTION."""
        if self._ending:
            raise RemoteProtocolError("a transaction is being ended on this connection: wait for TRANSACTION_ENDED")
        transactions = self._broker.queues.transactions
        match frame:
            case wire.Enlist():
                self._enlisted.add(frame.queue, frame.stage, frame.messages)
            case wire.CommitTransaction():
                stages = self._enlisted.commit()
                self._end(frame.request, partial(transactions.commit, self._writer, self._version, stages))
            case wire.AbortTransaction():
                self._enlisted.clear()
                self._end(frame.request, partial(transactions.abort, self._writer, self._version))

    def ended(self) -> None:
        """What was enlisted is of no use without the connection, unless it is being committed."""
        if not self._ending:
            self._enlisted.clear()

    def _end(self, request: int, work: Callable[[], Awaitable[int]]) -> None:
        self._ending = True
        self._broker.end_transaction(self._answer(request, work))

    async def _answer(self, request: int, work: Callable[[], Awaitable[int]]) -> None:
        """Do it, and tell the client, if it is still there. What was begun is done whether it is or not."""
        try:
            messages = await work()
        except QueueError as error:
            self._connection.send(wire.Error(error.code, str(error), close=False))
        except StorageError as error:
            self._connection.refused("journal-failed", f"the broker can store nothing any more and stops: {error}")
        except Exception as error:  # noqa: BLE001 - a defect of ours ends this connection only
            self._connection.failed(error)
        else:
            self._connection.send(wire.TransactionEnded(request, messages))
        finally:
            self._enlisted.clear()
            self._ending = False


class AdministrationPort(Port):
    """Role ``admin``: commands are the broker's own business, there is no actor."""

    def __init__(self, connection: BrokerConnection, broker: Broker, hello: wire.Hello) -> None:  # noqa: ARG002 - as its siblings
        self._connection = connection
        self._broker = broker
        self._answering: asyncio.Task[None] | None = None
        connection.welcome({})

    def received(self, frame: wire.Frame) -> None:
        """COMMAND: the next is not looked at before this one is answered."""
        assert isinstance(frame, wire.Command), "the protocol allows no other"
        self._connection.hold()
        task = self._broker.command(self._connection, frame)
        self._answering = task if frame.name in LONG_COMMANDS else None

    def ended(self) -> None:
        """Nobody waits for a long answer any more; whatever else was asked for is done."""
        if self._answering is not None:
            self._answering.cancel()
