"""A sender at work: the subscriber that takes from upstream what the broker's demand allows, and the link it sends on."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from streams import (
    Subscriber,
    Subscription,
    null_element,
)
from transport.clients.link import UNHEARD, BrokerLink, somebody_listens
from transport.clients.sender_batches import Sendable
from transport.clients.sender_session import Confirmation, SenderSession
from transport.errors import BrokerError, QueueFullError, RemoteProtocolError, UnroutableError
from transport.wire.cumulative import CumulativeDemand
from transport.wire.messages import (
    REMEMBERS,
    VERSION,
    Because,
    Demand,
    Error,
    Frame,
    Hello,
    Returned,
    Sent,
    Welcome,
    brief,
)
from transport.wire.timing import highest_priority

if TYPE_CHECKING:
    from transport.clients.authentication import Credentials
    from transport.clients.backoff import Backoff
    from transport.clients.sender_session import ReturnedMessage
    from transport.clients.tracing import Tracing
    from transport.clients.waiting import OnWait
    from transport.wire.exchange_named import PublishesTo
    from transport.wire.timing import Timing

    OnReturned = Callable[[ReturnedMessage], object]

MAX_UNSENT_BYTES = 4 * 1024 * 1024
"""Bytes taken from upstream and not yet sent above which no more is requested."""
MAX_REQUEST = 1024
"""Elements requested from upstream and not yet received, at most: bounds what a burst of large ones can take."""
FIRST_REQUEST = 16
"""Elements requested before it is known how large they are."""
SEND_AT_ONCE_BYTES = 128 * 1024
"""Bytes in closed batches that leave before the turn of the loop is over, so that the broker works while this side still takes."""
SIZE_MEMORY = 0.9
"""How much of the largest element's size is remembered from turn to turn."""
FINISH_TIMEOUT = 6.0
"""Seconds that a run waits for its connection to be closed: a second more than the connection gives itself."""

logger = logging.getLogger("penstock.sender")


class Description(Protocol):
    """What a run has to know of its `Sender`, whose attributes these are."""

    addresses: str | Sequence[str]
    name: str
    target: str
    queue: str | None
    publishes_to: PublishesTo | None
    on_returned: OnReturned | None
    temporary: bool
    client_id: str
    max_batch_messages: int
    max_batch_bytes: int
    max_in_flight: int
    reconnect: Backoff
    timing: Timing
    credentials: Credentials
    creates_queue: bool
    on_wait: OnWait | None
    tracing: Tracing | None
    fails_when_rejected: bool


class SenderStage(Subscriber[Sendable]):
    """One run of a `Sender`.

    Args:
        sender: what to do.
        on_confirmed: called with each confirmation; returns whether more may be taken from upstream.
        on_done: called once, with the failure or None, when everything is confirmed or nothing more will be.
    """

    def __init__(
        self,
        sender: Description,
        on_confirmed: Callable[[Confirmation], None],
        on_done: Callable[[Exception | None], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._sender = sender
        self.session = SenderSession(
            sender.max_batch_messages,
            sender.max_batch_bytes,
            sender.timing,
            sender.client_id,
            numbered=sender.publishes_to is None,
            target=sender.target,
        )
        self._on_confirmed = on_confirmed
        self._on_done = on_done
        self._upstream: Subscription | None = None
        self._requested = 0
        self._taken = 0
        self._element_messages = 1.0
        self._element_bytes = 0.0
        self._completed = False
        self._failure: Exception | None = None
        self._done = False
        self._turn_scheduled = False
        self._demand = CumulativeDemand()
        self._epoch: int | None = None
        self.held_back = False
        self.link = BrokerLink(
            sender.addresses,
            self._hello,
            self,
            sender.reconnect,
            credentials=sender.credentials,
            warns=sender.on_wait is None,
        )
        self._waiting = UNHEARD
        if somebody_listens(sender.on_wait, logger):
            from transport.clients.waiting import SenderWaiting  # noqa: PLC0415 - where somebody listens

            self._waiting = SenderWaiting(
                self.link, self.session, sender.target, sender.name, sender.on_wait, self._finish, logger
            )

    def start(self) -> None:
        """Begin to connect, unless cancelled already; elements are requested when the broker grants demand."""
        if not self._done:
            self.link.start()
            self._waiting.may_wait()

    # Subscriber

    def on_subscribe(self, subscription: Subscription) -> None:
        """A second subscription is cancelled (2.5), and any when nothing can be sent any more."""
        if subscription is None:
            raise null_element("Sender")
        if self._upstream is not None or self._done:
            subscription.cancel()
            return
        self._upstream = subscription

    def on_next(self, element: Sendable) -> None:
        """Take one element; the batch leaves at the end of the loop's turn, or when it is full."""
        if self._done or element is None:
            if element is None:
                raise null_element("Sender")
            return
        self._requested -= 1
        self._taken += 1
        session = self.session
        try:
            if element.__class__ is bytes:
                session.offer_payload(element)
            else:
                session.offer(element)
        except Exception as error:  # noqa: BLE001 - whatever the element was, it fails the stream, not the upstream's call
            self._finish(error)
            return
        if session.unsent_bytes >= SEND_AT_ONCE_BYTES and session.credit_messages > 0:
            self._send()
        if not self._turn_scheduled:
            self._turn_scheduled = True
            self._loop.call_soon(self._turn)

    def on_error(self, error: BaseException) -> None:
        """Upstream failed: what it gave is still sent and confirmed, then the failure goes on."""
        if error is None:
            raise null_element("Sender")
        if isinstance(error, Exception):
            self._failure = error
        else:
            self._failure = RuntimeError(repr(error))
            self._failure.__cause__ = error
        self._completed = True
        self._turn()

    def on_complete(self) -> None:
        """Upstream is through; done when the last message is confirmed."""
        self._completed = True
        self._turn()

    def cancel(self) -> None:
        """Stop taking, and end the link."""
        if self._done:
            return
        self._done = True
        self._waiting.stop()
        if self._upstream is not None and not self._completed:
            self._upstream.cancel()
        self._completed = True
        self.link.close()

    async def finish(self) -> None:
        """End the link, and wait until its connection is gone: the run is over only then."""
        self.cancel()
        await asyncio.wait((self.link.over,), timeout=FINISH_TIMEOUT)

    def hold_back(self, held: bool) -> None:
        """Take nothing more from upstream while ``held``: downstream has not taken the confirmations."""
        if self.held_back and not held:
            self.held_back = False
            self._request()
        self.held_back = held

    # LinkUser

    def link_opened(self, welcome: Welcome) -> None:
        """Send again what is unconfirmed, as demand comes."""
        last = welcome.options.get("last_sequence")
        if last is not None and type(last) is not int:
            raise RemoteProtocolError(f"WELCOME: last_sequence is {brief(last)}")
        self._demand = CumulativeDemand()
        if last is None and self.session.numbered and self.session.confirmed_up_to:
            restarted = welcome.epoch != self._epoch
            if restarted and welcome.options.get(REMEMBERS) is True:
                last = 0  # it would know: nothing of it is there any more
            else:
                self._note_forgotten(restarted)
        self._epoch = welcome.epoch
        following = welcome.options.get("next_sequence")
        if following is not None and type(following) is not int:
            raise RemoteProtocolError(f"WELCOME: next_sequence is {brief(following)}")
        self.session.takes_priorities(highest_priority(welcome.options))
        self._confirm(self.session.connected(last, following))
        self._waiting.moved()
        self._turn()

    def link_frame(self, frame: Frame) -> None:
        """DEMAND lets more out, SENT confirms, BECAUSE says why neither comes."""
        if isinstance(frame, Demand):
            self.session.granted(*self._demand.growth(frame.messages, frame.bytes))
            self._waiting.moved()
        elif isinstance(frame, Sent):
            self._waiting.moved()
            self._confirm(self.session.sent(frame))
        elif isinstance(frame, Returned):
            self._returned(frame)
        elif isinstance(frame, Because):
            self._waiting.answered(frame)
        elif isinstance(frame, Error):
            raise BrokerError(frame.code, frame.text)
        if not self._turn_scheduled:
            self._turn_scheduled = True
            self._loop.call_soon(self._turn)

    def link_writable(self) -> None:
        """What was held back may leave."""
        self._turn()

    def link_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - the link finds another
        """No demand until there is a connection again."""
        self.session.credit_messages = self.session.credit_bytes = 0
        if not self._done:
            self._waiting.another()

    def link_failed(self, error: Exception) -> None:
        """Nothing more can be sent."""
        if self._sender.publishes_to is not None:
            from transport.wire.exchange_named import refusal as no_exchanges  # noqa: PLC0415 - few want that

            error = no_exchanges(error, self.link.address)
        elif not self._sender.creates_queue:
            from transport.wire.queue_named import refusal  # noqa: PLC0415 - as above

            error = refusal(error, self.link.address, create=False)
        self._finish(error)

    # Inside

    def _hello(self) -> Hello:
        options = {"temporary": True} if self._sender.temporary else {}
        sender = self._sender
        if sender.publishes_to is not None:
            from transport.wire.exchange_named import publishing_options  # noqa: PLC0415 - few want that

            return Hello(VERSION, "sender", None, sender.client_id, options | publishing_options(sender.publishes_to))
        assert sender.queue is not None, "it sends to one of the two"
        if sender.creates_queue:
            return Hello(VERSION, "sender", sender.queue, sender.client_id, options)
        from transport.wire.queue_named import hello_of  # noqa: PLC0415 - few want that

        return hello_of("sender", sender.queue, sender.client_id, options, create=False)

    def _turn(self) -> None:
        """Send what may be sent, request what may be requested, notice the end."""
        self._turn_scheduled = False
        if self._done:
            return
        self._send()
        if self._completed:
            if self.session.idle:
                self._finish(self._failure)
        else:
            self._request()
        self._waiting.may_wait()

    def _send(self) -> None:
        if self.link.is_open and self.link.writable:
            send = self.link.send
            for frame in self.session.sends(self._completed):
                send(frame)

    def _measure(self) -> None:
        """Learn how large elements are: demand upstream is in elements, room is in messages and bytes."""
        if self._taken:
            messages, size = self.session.take_measure()
            self._element_messages = max(messages / self._taken, self._element_messages * SIZE_MEMORY, 1.0)
            self._element_bytes = max(size / self._taken, self._element_bytes * SIZE_MEMORY, 1.0)
            self._taken = 0

    def _request(self) -> None:
        """Request upstream no more than the broker has granted beyond what is already taken."""
        session = self.session
        if self._upstream is None or self._completed or self.held_back or self._done:
            return
        if session.unsent_bytes > MAX_UNSENT_BYTES:
            return
        if session.unconfirmed_messages >= self._sender.max_in_flight or session.credit_bytes <= 0:
            return
        self._measure()
        messages = min(session.credit_messages, self._sender.max_in_flight - session.unconfirmed_messages)
        room = (messages - session.unsent_messages) / self._element_messages
        if self._element_bytes:
            byte_room = MAX_UNSENT_BYTES - session.unsent_bytes
            room = min(room, MAX_REQUEST, max(1.0, byte_room / self._element_bytes))
        else:
            room = min(room, FIRST_REQUEST)
        more = math.ceil(room) - self._requested
        # In steps of half: a request for every element would cost as much as the element.
        if more > 0 and self._requested <= room / 2:
            self._requested += more
            self._upstream.request(more)

    def _confirm(self, confirmations: list[Confirmation]) -> None:
        if confirmations:
            self.link.progressed()
        for confirmation in confirmations:
            if confirmation.rejected is not None and self._sender.fails_when_rejected:
                self._finish(
                    QueueFullError(
                        self._sender.name,
                        confirmation.sequence,
                        confirmation.count,
                        confirmation.rejected,
                        exchange=self._sender.publishes_to is not None,
                    )
                )
                return
            self._on_confirmed(confirmation)

    def _returned(self, frame: Returned) -> None:
        """No queue took some messages: tell who wants to know, or end."""
        returned = self.session.returned(frame)
        tell = self._sender.on_returned
        if tell is None:
            self._finish(UnroutableError(self._sender.name, returned[0].sequence, len(returned), frame.reason))
            return
        try:
            for each in returned:
                tell(each)
        except Exception as error:  # noqa: BLE001 - the program's own, which fails its stream
            self._finish(error)

    def _note_forgotten(self, restarted: bool) -> None:
        """A broker without a journal may forget; that is no error, but nobody should learn of it by accident.

        One that would know, and was started again or has a predecessor, has lost it: that is `ConfirmedLostError`.
        """
        logger.warning(
            "%s: the broker knows nothing more of %s, of which it had confirmed every message below number %d: %s. "
            "Going on from there",
            self._sender.name,
            self._sender.client_id,
            self.session.confirmed_up_to,
            "it was started anew without a journal, or is another one"
            if restarted
            else "the queue was deleted, or too many other producers have sent since",
        )

    def _finish(self, error: Exception | None) -> None:
        if self._done:
            return
        self._done = True
        self._waiting.stop()
        if error is not None and self._upstream is not None and not self._completed:
            self._upstream.cancel()
        self.link.close()
        self._on_done(error)
