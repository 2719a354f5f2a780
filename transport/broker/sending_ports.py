"""The ports of the sending address.

Role ``sender`` may stage what it sends, role ``transaction`` ends transactions, and role ``admin`` has commands run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from actors import LoopActorRef, OfferBatch, QueueError, StorageError
from actors.limits import MAX_PRIORITY
from actors.queue.vocabulary.commands import ExplainWait
from actors.queue.vocabulary.distributed import StageTallied, TallyStage, Unroutable
from actors.queue.vocabulary.replies import CapacityGranted, Reply, SenderAttached, SentMessages, WaitExplained
from transport.broker.cluster_commands import STATUS
from transport.broker.commands import refusal
from transport.broker.operations import OPERATIONS, Operations
from transport.broker.port import Client, Port
from transport.errors import FrameTooLargeError, RemoteProtocolError
from transport.wire import messages as wire
from transport.wire.cumulative import GrantedDemand
from transport.wire.exchange_named import NEXT_SEQUENCE, read_target
from transport.wire.frames import MAX_BODY_BYTES
from transport.wire.queue_named import EXISTING_QUEUE
from transport.wire.shown import shown
from transport.wire.timing import MAX_PRIORITY_OPTION, NO_TIMING, Timing
from transport.wire.transaction_options import read_stage, read_transaction

OF_A_FOLLOWER: Final = f"this broker does not lead its cluster: it says how that stands ({STATUS}), and does no more"

logger = logging.getLogger("penstock.broker")


class SendingPort(Port):
    """Role ``sender``."""

    def __init__(self, operations: Operations, client: Client, hello: wire.Hello) -> None:
        super().__init__(client)
        self._demand = GrantedDemand()
        self._grants = True
        self._publishes = self._tallies = False
        client.hold_to(self._demand)
        self._stage = read_stage(hello.options)
        temporary = hello.options.get("temporary", False)
        if type(temporary) is not bool:
            raise RemoteProtocolError(f"HELLO: temporary is {wire.brief(temporary)}, not true or false")
        self._until = operations.delay_until
        self._durable = operations.durable
        self.actor = self._attached(operations, hello, temporary)

    def _attached(self, operations: Operations, hello: wire.Hello, temporary: bool) -> LoopActorRef[Any]:
        """The actor that sends to a queue, or publishes to an exchange."""
        to = read_target(hello)
        if to is not None:
            self._publishes = True
            return operations.exchange_sender(to, self, hello.client_id, self._stage, temporary=temporary)
        make = hello.options.get(EXISTING_QUEUE) is None
        return operations.sender(hello.queue or "", self, hello.client_id, self._stage, temporary=temporary, make=make)

    def received(self, frame: wire.Frame) -> None:
        """SEND, WHY and TALLY."""
        assert self.actor is not None
        if not isinstance(frame, wire.Send):
            self._asked(self.actor, frame)
            return
        batch, actor = frame.batch, self.actor
        if batch.nbytes > MAX_BODY_BYTES:
            raise FrameTooLargeError(batch.nbytes, MAX_BODY_BYTES, what="SEND body")
        properties = frame.properties
        timing = Timing.from_properties(properties, self._until) if properties else NO_TIMING
        actor.deliver(OfferBatch(frame.sequence, batch, timing.delay, timing.ttl, actor, timing.priority or 0))

    def _asked(self, actor: LoopActorRef[Any], frame: wire.Frame) -> None:
        """WHY, and TALLY."""
        if isinstance(frame, wire.Why):
            actor.deliver(ExplainWait(frame.request, actor))
            return
        assert isinstance(frame, wire.Tally), "the protocol allows no other"
        if self._stage is None or not self._publishes:
            raise RemoteProtocolError("TALLY belongs to a stage that is written through an exchange")
        if self._tallies:
            raise RemoteProtocolError("TALLY is under way on this connection: wait for TALLIED without a queue")
        self._tallies = True
        actor.deliver(TallyStage(frame.request))

    def tell(self, reply: Reply) -> None:
        """SENT, DEMAND, which is cumulative, BECAUSE, and WELCOME once the queue knows the sender."""
        match reply:
            case SentMessages():
                rejected = reply.rejected
                if rejected is not None:
                    rejected = rejected[: wire.MAX_ERROR_TEXT]
                self._client.send(wire.Sent(reply.up_to, reply.first, rejected))
            case CapacityGranted():
                if self._grants:
                    self._client.send(wire.Demand(*self._demand.grow(*reply)))
            case Unroutable():
                for ranges in wire.split_ranges(list(reply.ranges)):
                    self._client.send(wire.Returned(ranges, reply.reason))
            case StageTallied():
                self._tallies = False
                for queue, messages in reply.held:
                    self._client.send(wire.Tallied(reply.request, queue, messages))
                self._client.send(wire.Tallied(reply.request, None, 0))
            case WaitExplained():
                self._client.send(wire.Because(reply.request, reply.reason, reply.text[: wire.MAX_ERROR_TEXT]))
            case SenderAttached():
                self._welcome(reply)

    def _welcome(self, reply: SenderAttached) -> None:
        options: wire.Options = {"last_sequence": reply.last_sequence, wire.EXPLAINS: True}
        if self._stage is not None:
            options["committed"] = reply.committed
        if reply.remembers and self._durable:
            options[wire.REMEMBERS] = True
        if reply.next_sequence is not None:
            options[NEXT_SEQUENCE] = reply.next_sequence
        if levels := MAX_PRIORITY if self._publishes else reply.max_priority:
            options[MAX_PRIORITY_OPTION] = levels
        self._client.welcome(options)

    def drain(self) -> None:
        """Grant nothing more."""
        self._grants = False


class TransactionPort(Port):
    """Role ``transaction``: there is no actor, for a commit concerns all queues; the broker's directory of transactions does it."""

    def __init__(self, operations: Operations, client: Client, hello: wire.Hello) -> None:
        super().__init__(client)
        # What is begun goes on, whatever becomes of the connection that asked.
        self._tasks = operations.tasks
        self._transaction = operations.transaction(*read_transaction(hello.options))
        self._enlisted = self._transaction.enlisting(client.refused)
        client.welcome({"last_version": self._transaction.last_version})

    def received(self, frame: wire.Frame) -> None:
        """ENLIST, COMMIT_TRANSACTION, ABORT_TRANSACTION."""
        if self.owes:
            raise RemoteProtocolError("a transaction is being ended on this connection: wait for TRANSACTION_ENDED")
        match frame:
            case wire.Enlist():
                self._transaction.check(frame.queue)
                self._enlisted.add(frame.queue, frame.stage, frame.messages)
            case wire.CommitTransaction():
                stages = self._enlisted.commit()
                self._end(frame.request, partial(self._transaction.commit, stages))
            case wire.AbortTransaction():
                self._enlisted.clear()
                self._end(frame.request, self._transaction.abort)

    def ended(self) -> None:
        """What was enlisted is of no use without the connection, unless it is being committed."""
        if not self.owes:
            self._enlisted.clear()

    def _end(self, request: int, work: Callable[[], Awaitable[int]]) -> None:
        self.owes = True
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
            self.owes = False
            self._client.settled()


class AdministrationPort(Port):
    """Role ``admin``: commands are the broker's own business, there is no actor."""

    def __init__(self, operations: Operations, client: Client, _hello: wire.Hello) -> None:
        super().__init__(client)
        self._operations = operations
        self._answering: asyncio.Task[None] | None = None
        client.welcome({})

    def received(self, frame: wire.Frame) -> None:
        """COMMAND: the next is not looked at before this one is answered."""
        assert isinstance(frame, wire.Command), "the protocol allows no other"
        self._client.hold()
        task = self._operations.tasks.start(self._answer(frame), f"command {frame.name:.40}")
        operation = OPERATIONS.get(frame.name)
        self._answering = task if operation is not None and operation.long else None

    def ended(self) -> None:
        """Nobody waits for a long answer any more; whatever else was asked for is done."""
        if self._answering is not None:
            self._answering.cancel()
        self._operations.ended()

    async def _answer(self, frame: wire.Command) -> None:
        """Do what ``frame`` says, tell the client, and go on with what it says next."""
        try:
            unready = self._operations.unready()
            if unready is not None and unready[0] == wire.NOT_LEADER and frame.name != STATUS:
                self._client.send(wire.Error(wire.NOT_LEADER, OF_A_FOLLOWER, close=False))
                return
            self._client.send(wire.Result(frame.request, await self._operations.command(frame.name, frame.arguments)))
        except Exception as error:
            known = refusal(error)
            if known is None:
                logger.error("command %s failed on a defect of ours", shown(frame.name), exc_info=error)
                known = ("internal-error", "the command failed; the broker's log has the reason")
            self._client.send(wire.Error(*known, close=False))
        finally:
            self._client.go_on()
