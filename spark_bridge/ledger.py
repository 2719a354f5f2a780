"""One broker's ledger, as the driver of a query uses it: one request at a time, made on a thread of its own.

The clients block, and a broker that does not answer must not hold up what is ready at another. So a request is begun, and its answer
collected when it is there; until then the ledger is *busy*.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

from spark_bridge import clients
from spark_bridge.errors import (
    BrokerUnreachableError,
    DataLossError,
    OptionError,
    OtherQueueError,
    SubscriptionTakenError,
)
from spark_bridge.offsets import Origin, described
from spark_bridge.options import SourceOptions
from transport import DEFAULT_RECEIVE_ADDRESS, BrokerError, ConnectionLostError, TransportError
from transport.subscription_client import DEFAULT_RETRY, SubscriptionClient, SubscriptionState

RETRY = DEFAULT_RETRY
"""How long a broker is sought, by the driver and by each task: longer than its restart takes."""
STOP_SECONDS = 1.0
"""How long stopping waits for a request that is under way: longer than one that only waits for messages, and nobody minds."""

logger = logging.getLogger("penstock.spark")


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


def connect(options: SourceOptions, broker: str, epoch: int | None = None) -> SubscriptionClient:
    """A client of ``broker`` for the owner of the subscription, or for a reader on behalf of the owner with ``epoch``."""
    return clients.connect(options, broker, "own" if epoch is None else "read", epoch=epoch, retry=RETRY)


@contextmanager
def explained(options: SourceOptions, broker: str, position: int | None = None) -> Iterator[None]:
    """The client's errors in the words of this package."""
    try:
        yield
    except BrokerError as error:
        _explain(error, options, broker, position)
    except (ConnectionLostError, OSError) as error:
        raise BrokerUnreachableError(broker, options.queue, error) from error
    except TransportError as error:
        error.add_note(f"broker {broker} of queue {options.queue!r}")
        raise


def _explain(error: BrokerError, options: SourceOptions, broker: str, position: int | None) -> NoReturn:
    if error.code == "stale-epoch":
        raise SubscriptionTakenError(options.subscription, options.queue) from error
    if error.code in ("data-loss", "not-found"):
        hint = ""
        if options.ack_on == "poll":
            hint = (
                "ackOn=poll acknowledges before Spark's log is durable when asynchronous progress tracking is on; "
                "use ackOn=commit there. "
            )
        else:
            hint = (
                "With asynchronous progress tracking a queue that is full is acknowledged before Spark's log is durable: give it room "
                "for more than the query reads between two entries of that log. "
            )
        what = error.text if position is None else f"position {position} ({error.text})"
        raise DataLossError(options.subscription, options.queue, f"broker {broker}: {what}", hint) from error
    if error.code == "unknown-role":
        raise OptionError(
            f"{broker} serves no subscriptions: option brokers of a source takes receiving addresses, {DEFAULT_RECEIVE_ADDRESS} "
            "by default; this may be a sending one"
        ) from error
    error.add_note(f"broker {broker} of queue {options.queue!r}")
    raise error


def check_origin(options: SourceOptions, broker: str, origin: Origin, made: bytes) -> None:
    """Raise OtherQueueError if positions of ``origin`` are none of the queue with id ``made``."""
    if origin.is_other(options.queue, made):
        raise OtherQueueError(options.subscription, options.queue, broker, str(origin), described(options.queue, made))


class Ledger:
    """The ledger of one subscription at one broker, owned from the first request on.

    Not thread-safe: one thread uses it, and a thread that it starts itself for each request serves that.

    Args:
        options: the query's.
        broker: the address.

    Attributes:
        state: the subscription as of the last answer; None before the first.
        facts: the queue's state as of the last reservation.
        due: when the request under way should be answered, in monotonic seconds; the last one's afterwards.
    """

    def __init__(self, options: SourceOptions, broker: str) -> None:
        self.broker = broker
        self.state: SubscriptionState | None = None
        self.facts: Mapping[str, Any] = {}
        self.due = 0.0
        self._options = options
        self._acknowledged = 0
        self._owed = 0
        self._origin = Origin()
        self._future: Future[Answer] | None = None
        self._client = connect(options, broker)
        self._closed = False

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
        self._closed = True
        self._client.close()

    # On the request's thread

    def _serve(self, future: Future[Answer], origin: Origin, owed: int | None, order: Order | None) -> None:
        try:
            future.set_result(self._answer(origin, owed, order))
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
        self._client = connect(self._options, self.broker)
        if self._closed:  # meanwhile, and what has just been made was not there to be closed
            self._client.close()
        state = self._open()
        logger.warning(
            "going on at position %d of subscription %s at %s", state.base, self._options.subscription, self.broker
        )
        return state
