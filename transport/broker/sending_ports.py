"""The ports of the sending address: role ``sender``, which may stage what it sends, and role ``transaction``, which ends transactions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from actors import OfferBatch, QueueDirectory, QueueError, SendToQueueSubscriber, StorageError, TransactionDirectory
from actors.queue.vocabulary.replies import CapacityGranted, Reply, SenderAttached, SentMessages
from transport.broker.enlisted import EnlistedStages, EnlistedTotal
from transport.broker.port import Client, Port, Tasks
from transport.errors import FrameTooLargeError, RemoteProtocolError
from transport.wire import messages as wire
from transport.wire.cumulative import GrantedDemand
from transport.wire.frames import MAX_BODY_BYTES
from transport.wire.names import check_name
from transport.wire.timing import Timing
from transport.wire.transaction_options import read_stage, read_transaction


class SendingPort(Port):
    """Role ``sender``."""

    def __init__(self, queues: QueueDirectory, client: Client, hello: wire.Hello) -> None:
        super().__init__(client)
        self._demand = GrantedDemand()
        client.hold_to(self._demand)
        self._stage = read_stage(hello.options)
        queue = queues.get_or_create(check_name(hello.queue or ""))
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
        self.actor.deliver(OfferBatch(frame.sequence, frame.batch, timing.delay, timing.ttl, self.actor))

    def tell(self, reply: Reply) -> None:
        """SENT, DEMAND, which is cumulative, and WELCOME once the queue knows the sender."""
        match reply:
            case SentMessages():
                rejected = None if reply.rejected is None else reply.rejected[: wire.MAX_ERROR_TEXT]
                self._client.send(wire.Sent(reply.up_to, reply.first, rejected))
            case CapacityGranted():
                self._client.send(wire.Demand(*self._demand.grow(*reply)))
            case SenderAttached():
                options: wire.Options = {"last_sequence": reply.last_sequence}
                if self._stage is not None:
                    options["committed"] = reply.committed
                self._client.welcome(options)


class TransactionPort(Port):
    """Role ``transaction``: there is no actor, for a commit concerns all queues; the broker's directory of transactions does it."""

    def __init__(
        self,
        transactions: TransactionDirectory,
        enlisted: EnlistedTotal,
        tasks: Tasks,
        client: Client,
        hello: wire.Hello,
    ) -> None:
        super().__init__(client)
        self._transactions = transactions
        # What is begun goes on, whatever becomes of the connection that asked.
        self._tasks = tasks
        self._writer, self._version = read_transaction(hello.options)
        self._enlisted = EnlistedStages(enlisted, client.refused)
        self._ending = False
        client.welcome({"last_version": transactions.last_version(self._writer)})

    def received(self, frame: wire.Frame) -> None:
        """ENLIST, COMMIT_TRANSACTION, ABORT_TRANSACTION."""
        if self._ending:
            raise RemoteProtocolError("a transaction is being ended on this connection: wait for TRANSACTION_ENDED")
        transactions = self._transactions
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
        self._tasks.start(self._answer(request, work), "end a transaction")

    async def _answer(self, request: int, work: Callable[[], Awaitable[int]]) -> None:
        """Do it, and tell the client, if it is still there. What was begun is done whether it is or not."""
        try:
            messages = await work()
        except QueueError as error:
            self._client.send(wire.Error(error.code, str(error), close=False))
        except StorageError as error:
            self._client.refused("journal-failed", f"the broker can store nothing any more and stops: {error}")
        except Exception as error:  # noqa: BLE001 - a defect of ours ends this connection only
            self._client.failed(error)
        else:
            self._client.send(wire.TransactionEnded(request, messages))
        finally:
            self._enlisted.clear()
            self._ending = False
