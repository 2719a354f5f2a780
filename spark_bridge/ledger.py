"""One broker's ledger, as the driver of a query uses it: one request at a time, made on a thread of its own.

The clients block, and a broker that does not answer must not hold up what is ready at another. So a request is begun, and its answer
collected when it is there; until then the ledger is *busy*.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

from spark_bridge import clients
from spark_bridge.errors import (
    NO_SUBSCRIPTION,
    OVERSIZED,
    SHARED,
    BrokerUnreachableError,
    DataLossError,
    OtherQueueError,
    OversizedMessageError,
    QueueMissingError,
    SubscriptionInUseError,
    SubscriptionTakenError,
    not_receiving,
    why_unreachable,
)
from spark_bridge.offsets import Origin, described
from spark_bridge.options import SourceOptions
from spark_bridge.worker_log import spark_logger
from transport import BrokerError, ConnectionLostError, TransportError
from transport.clients.subscription_client import BEAT_SECONDS, DEFAULT_RETRY, SubscriptionClient, SubscriptionState

RETRY = DEFAULT_RETRY
"""How long a broker is sought, by the driver and by each task: longer than its restart takes."""
MIN_BEAT_SECONDS = 0.02
"""Between two beats, whatever heartbeat a broker asks for."""
STOP_SECONDS = 1.0
"""How long stopping waits for a request that is under way: longer than one that only waits for messages, and nobody minds."""

_OWNER = re.compile(r"is connected \((.*)\): ")
"""In the text of ``subscription-owned``."""

logger = spark_logger()


@dataclass(frozen=True, slots=True)
class Order:
    """A reservation asked for, as `SubscriptionClient.reserve` has it."""

    start: int
    rows: int
    size: int
    wait_ms: int = 0
    below: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request has brought.

    Attributes:
        state: the subscription as of the connection.
        acknowledged: every position below is acknowledged.
        forgone: what was to be acknowledged and is gone, where that is allowed.
        order: the reservation asked for, if one was.
        end: positions from the order's start up to here are reserved; where ``begun_anew``, where the ledger begins.
        facts: the queue's state.
        begun_anew: whether the ledger no longer has the order's start, and losing that is allowed.
    """

    state: SubscriptionState
    acknowledged: int
    forgone: int | None = None
    order: Order | None = None
    end: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    begun_anew: bool = False


def connect(
    options: SourceOptions, broker: str, epoch: int | None = None, client_id: str | None = None
) -> SubscriptionClient:
    """A client of ``broker`` for the owner of the subscription, or for a reader on behalf of the owner with ``epoch``."""
    return clients.connect(
        options, broker, "own" if epoch is None else "read", epoch=epoch, retry=RETRY, client_id=client_id
    )


@contextmanager
def explained(options: SourceOptions, broker: str, position: int | None = None) -> Iterator[None]:
    """The client's errors in the words of this package."""
    try:
        yield
    except BrokerError as error:
        _explain(error, options, broker, position)
    except (ConnectionLostError, OSError) as error:
        raise BrokerUnreachableError(broker, options.queue, why_unreachable(error, broker)) from error
    except TransportError as error:
        error.add_note(f"broker {broker} of queue {options.queue!r}")
        raise


def _explain(error: BrokerError, options: SourceOptions, broker: str, position: int | None) -> NoReturn:
    if error.code in ("stale-epoch", "taken-over"):
        raise SubscriptionTakenError(options.subscription, options.queue) from error
    if error.code == "subscription-owned":
        owner = _OWNER.search(error.text)
        raise SubscriptionInUseError(
            options.subscription, options.queue, broker, owner[1] if owner else "", options.owner_wait_ms / 1000
        ) from error
    queue_missing = error.code == "not-found" and position is None and NO_SUBSCRIPTION not in error.text
    if queue_missing and options.missing_queue == "fail":
        raise QueueMissingError(
            f"broker {broker}: {error.text}. As missingQueue=fail has it the query does not make it: correct option queue, or make it "
            f"with penstock queue create {options.queue}"
        ) from error
    if error.code in ("data-loss", "not-found"):
        from spark_bridge.data_loss import lost  # noqa: PLC0415 - only for an error's words

        raise lost(options, broker, error.text, position) from error
    if error.code == "unknown-role":
        raise not_receiving(broker) from error
    if error.code == OVERSIZED:
        raise OversizedMessageError(error.text, broker) from error
    error.add_note(f"broker {broker} of queue {options.queue!r}")
    raise error


def check_origin(options: SourceOptions, broker: str, origin: Origin, made: bytes) -> None:
    """Raise OtherQueueError if positions of ``origin`` are none of the queue with id ``made``."""
    if origin.is_other(options.queue, made):
        raise OtherQueueError(
            options.subscription,
            options.queue,
            broker,
            str(origin),
            described(options.queue, made),
            made_anew=origin.queue in (None, options.queue),
            allowed=not options.fail_on_data_loss,
        )


class Ledger:
    """The ledger of one subscription at one broker, owned from the first request on.

    Not thread-safe: one thread uses it, and a thread that it starts itself for each request serves that.

    Between requests the owner beats: while a batch is worked on nobody asks anything, for however long, and a broker gives a client up
    that it has not heard for three heartbeats.

    Args:
        options: the query's.
        broker: the address.
        client_id: what the owner calls itself.

    Attributes:
        created: whether the queue did not exist, and was made for this query.
        state: the subscription as of the last answer; None before the first.
        facts: the queue's state as of the last reservation.
        due: when the request under way should be answered, in monotonic seconds; the last one's afterwards.
    """

    def __init__(self, options: SourceOptions, broker: str, client_id: str | None = None) -> None:
        self.broker = broker
        self.created = False
        self.state: SubscriptionState | None = None
        self.facts: Mapping[str, Any] = {}
        self.due = 0.0
        self._options = options
        self._acknowledged = 0
        self._owed = 0
        self._origin = Origin()
        self._future: Future[Answer] | None = None
        self._client_id = client_id
        self._client = connect(options, broker, client_id=client_id)
        # Whoever uses the client: the request under way, or the next beat.
        self._turn = threading.Lock()
        self._parent = os.getppid()
        self._beats: threading.Thread | None = None
        self._closed = threading.Event()

    @property
    def future(self) -> Future[Answer] | None:
        """The request under way, or answered and not collected."""
        return self._future

    @property
    def busy(self) -> bool:
        """Whether a request is under way, or its answer not collected yet."""
        return self._future is not None

    @property
    def answered(self) -> bool:
        """Whether there is an answer to collect."""
        return self._future is not None and self._future.done()

    @property
    def owes(self) -> bool:
        """Whether something is to be acknowledged and is not yet."""
        return self._owed > self._acknowledged

    def acknowledge(self, position: int) -> None:
        """Have every position below ``position`` acknowledged by the next request, whatever else that is for."""
        self._owed = max(self._owed, position)

    def expect(self, origin: Origin) -> None:
        """Have the next request refused, or answered as one that begins anew, where the queue is not that of ``origin``."""
        self._origin = origin

    def request(self, order: Order | None = None) -> None:
        """Begin: connect if need be, acknowledge what is owed, and reserve, if there is an ``order``.

        Raises:
            RuntimeError: the ledger is busy.
        """
        if self._future is not None:
            raise RuntimeError(f"the ledger at {self.broker} is busy; collect its answer first")
        self.due = time.monotonic() + (order.wait_ms / 1000 if order else 0.0)
        future = self._future = Future[Answer]()
        owed = self._owed if self.owes else None
        # A daemon: a query that ends must not wait for a broker that is being sought.
        threading.Thread(
            target=self._serve,
            args=(future, self._origin, owed, order),
            name=f"penstock-ledger-{self.broker}",
            daemon=True,
        ).start()

    def collect(self) -> Answer:
        """The answer, once; what was owed is acknowledged.

        Raises:
            BrokerUnreachableError: the client has given up; the ledger may be asked again.
            DataLossError: the ledger has lost what was asked for, and that is not allowed.
            SubscriptionTakenError: another owns it now.
            TransportError: the broker refused for another reason, or broke the protocol.
        """
        future, self._future = self._future, None
        if future is None:
            raise RuntimeError(f"nothing was asked of the ledger at {self.broker}")
        answer = future.result(0)
        self.state = answer.state
        if self._beats is None and not self._closed.is_set():
            self._beats = threading.Thread(target=self._beat, name=f"penstock-beats-{self.broker}", daemon=True)
            self._beats.start()
        if answer.state.created and not self.created:
            self.created = True
            logger.warning(
                "queue %r did not exist at broker %s, and was made: if that is a misspelt name, option missingQueue=fail tells",
                self._options.queue,
                self.broker,
            )
        self._warn_of_sharing(answer.facts)
        self._acknowledged = answer.acknowledged
        if answer.begun_anew or answer.forgone == self._owed:
            self._owed = self._acknowledged
        if answer.begun_anew:
            self._origin = Origin()
        if answer.order is not None:
            self.facts = answer.facts
        return answer

    def close(self) -> None:
        """Close the connection, and end a request under way. Reservations stay."""
        self._closed.set()
        self._client.close()

    def _warn_of_sharing(self, facts: Mapping[str, Any]) -> None:
        """Say it when another subscription of the queue comes to live, each time."""
        before, live = self.facts.get("live_subscriptions", 1), facts.get("live_subscriptions", 1)
        if live > max(1, before):
            logger.warning(
                "subscription %r is not alone: queue %r at broker %s is read by %d subscriptions that live (penstock subscription list "
                "names them). %s",
                self._options.subscription,
                self._options.queue,
                self.broker,
                live,
                SHARED,
            )

    # On threads of its own

    def _beat(self) -> None:
        """Keep the connection while this program's parent lives: Spark ends a worker's JVM, and the worker may linger, busy with a call.

        What it would still say is of no use to anybody, and a query that is started again would wait for it.
        """
        pause = 0.0
        while not self._closed.wait(pause):
            if os.getppid() != self._parent:
                logger.warning("the program that started this query's worker has ended: its subscription is let go")
                self.close()
                return
            pause = BEAT_SECONDS
            if not self._turn.acquire(blocking=False):
                continue  # a request is heard as well
            try:
                pause = max(MIN_BEAT_SECONDS, self._client.beat())
            except (TransportError, OSError) as error:
                logger.debug("the subscription at %s did not beat: %s", self.broker, error)
            finally:
                self._turn.release()

    def _serve(self, future: Future[Answer], origin: Origin, owed: int | None, order: Order | None) -> None:
        try:
            with self._turn:
                answer = self._answer(origin, owed, order)
            future.set_result(answer)
        except BaseException as error:  # noqa: BLE001 - raised to whoever collects the answer
            future.set_exception(error)

    def _answer(self, origin: Origin, owed: int | None, order: Order | None) -> Answer:
        try:
            state = self._open()
            # Before anything is acknowledged: these would be the messages of another queue.
            check_origin(self._options, self.broker, origin, state.id_prefix)
            forgone = None if owed is None or self._commit(owed) else owed
            acknowledged = self._acknowledged if owed is None or forgone is not None else owed
            if order is None:
                return Answer(state, acknowledged, forgone)
            with explained(self._options, self.broker, order.start):
                reservation = self._client.reserve(
                    order.start, order.rows, order.size, wait_ms=order.wait_ms, below=order.below
                )
            return Answer(state, acknowledged, forgone, order, reservation.end, reservation.facts)
        except DataLossError as error:
            self._report(error)
            state = self._begin_anew()
            return Answer(state, state.base, None, order, state.base, begun_anew=True)

    def _open(self) -> SubscriptionState:
        with explained(self._options, self.broker):
            return self._client.open()

    def _commit(self, position: int) -> bool:
        """Acknowledge; False if that is gone, and may be."""
        try:
            with explained(self._options, self.broker, position):
                self._client.commit(position)
        except DataLossError as error:
            self._report(error)
            return False
        return True

    def _report(self, error: DataLossError) -> None:
        if self._options.fail_on_data_loss:
            raise error
        logger.warning("%s", error)

    def _begin_anew(self) -> SubscriptionState:
        """Own the ledger that is there now: with the epoch of one that was lost nothing can be opened."""
        self._client.close()
        self._client = connect(self._options, self.broker, client_id=self._client_id)
        if self._closed.is_set():  # meanwhile, and what has just been made was not there to be closed
            self._client.close()
        state = self._open()
        logger.warning(
            "going on at ledger position %d of subscription %s at %s",
            state.base,
            self._options.subscription,
            self.broker,
        )
        return state
