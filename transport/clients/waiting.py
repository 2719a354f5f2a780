"""Who waits says why: what keeps a sender or receiver from going on, told once it has for two seconds, and that it goes on again.

A stage says when it may have to wait, and when something has moved. One timer looks again, at most once in ``PATIENCE``, and nothing is
done where nobody listens. Of the queue itself the broker is asked (docs/protocol.md, section "Waiting"); a client knows the rest.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from transport.clients.link import UNTOLD, Waits, somebody_listens
from transport.wire.messages import Because, Why

if TYPE_CHECKING:
    from transport.clients.link import BrokerLink
    from transport.clients.receiver_session import ReceiverSession
    from transport.clients.sender_session import SenderSession

PATIENCE: Final = UNTOLD
"""Seconds without anything moving after which it is said why."""
MOST_PATIENCE: Final = 60.0
"""Between two looks at what still waits: each is twice as far from the last, so that idle receivers ask their broker little."""
SAME_AGAIN: Final = 60.0
"""Seconds for which a reason that was told is not told again: a queue that is always nearly full stops its sender again and again."""
NO_BROKER, UNREAD, UNCONFIRMED, NO_DEMAND, NO_MESSAGES = (
    "no-broker",
    "unread",
    "unconfirmed",
    "no-demand",
    "no-messages",
)
"""What a client knows by itself; the other words are the broker's."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a client waits.

    Attributes:
        reason: a word for programs: ``no-broker``, ``unread``, ``unconfirmed``, ``no-demand``, ``no-messages``, or the broker's:
            ``full``, ``paused``, ``granted``, ``staged``, ``line``, ``empty``, ``unready``. There may be more in time.
        text: the same for people, on one line.
    """

    reason: str
    text: str


OnWait = Callable[[Wait | None], None]
"""What a program gives to be told: a reason, then None when the client goes on."""


class Waiting(Waits, ABC):
    """The waits of one client or command.

    Args:
        on_wait: told of each wait, if anybody is.
        failed: told of what ``on_wait`` raises.
        logger: says the same at INFO, but for what the link warns of: that there is no broker, where ``on_wait`` is None.
        who: whose waits, for the log.
    """

    def __init__(
        self, on_wait: OnWait | None, failed: Callable[[Exception], None], logger: logging.Logger, who: str
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_wait = on_wait
        self._failed = failed
        self._logger = logger
        self._who = who
        self._listens = somebody_listens(on_wait, logger)
        self._timer: asyncio.TimerHandle | None = None
        self._since = 0.0
        self._interval = PATIENCE
        self._told: Wait | None = None
        self._last: tuple[str, float] | None = None

    @abstractmethod
    def look(self) -> Wait | None:
        """Why it waits now, as far as this side knows; None where it does not, or the broker was asked."""

    @abstractmethod
    def waits(self) -> bool:
        """Whether it waits at all."""

    def may_wait(self) -> None:
        """It may have to wait from now on; nothing happens where that was known."""
        if self._timer is None and self._listens:
            self._since = self._loop.time()
            self._look_in(PATIENCE)

    def moved(self) -> None:
        """Something has come, or was sent."""
        if self._timer is not None:
            self._since = self._loop.time()
            if self._told is not None:
                self._end()

    def another(self) -> None:
        """It waits for something else from now on."""
        if self._listens:
            self._stop_timer()
            self._since = self._loop.time()
            self._look_in(PATIENCE)

    def stop(self) -> None:
        """It will not wait any more."""
        self._listens = False
        self._stop_timer()

    def explained(self, wait: Wait | None) -> None:
        """The broker has answered."""
        if not self._listens or self._timer is None:
            return
        if wait is not None:
            self._tell(wait)
        elif self._told is not None:
            self._end()

    # Inside

    def _look_in(self, seconds: float) -> None:
        self._timer = self._loop.call_later(seconds, self._due)

    def _due(self) -> None:
        self._timer = None
        if not self.waits():
            self._interval = PATIENCE
            if self._told is not None:
                self._end()
            return
        left = self._since + PATIENCE - self._loop.time()
        if left > 0:
            # Something has moved meanwhile: timers are not moved with it, for that would be for every frame.
            self._interval = PATIENCE
            self._look_in(left)
            return
        self._look_in(self._interval)
        self._interval = min(MOST_PATIENCE, self._interval * 2)
        if (wait := self.look()) is not None:
            self._tell(wait)

    def _tell(self, wait: Wait) -> None:
        if self._told is not None and self._told.reason == wait.reason:
            return
        now = self._loop.time()
        if self._told is None and self._last is not None:
            reason, at = self._last
            if reason == wait.reason and now - at < SAME_AGAIN:
                return
        self._told, self._last = wait, (wait.reason, now)
        if wait.reason != NO_BROKER or self._on_wait is not None:
            self._logger.info("%s: %s", self._who, wait.text)  # of the others the link warns by itself
        self._call(wait)

    def _end(self) -> None:
        self._told = None
        self._logger.info("%s: going on", self._who)
        self._call(None)

    def _call(self, wait: Wait | None) -> None:
        if self._on_wait is not None:
            try:
                self._on_wait(wait)
            except Exception as error:  # noqa: BLE001 - the program's own failure fails its stream, not the connection
                self._failed(error)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class ClientWaiting(Waiting):
    """The waits of a client of one queue.

    Args:
        link: its connection.
        queue: the queue's name.
        on_wait: as `Waiting`, as all that follows.
    """

    def __init__(
        self,
        link: BrokerLink,
        queue: str,
        on_wait: OnWait | None,
        failed: Callable[[Exception], None],
        logger: logging.Logger,
    ) -> None:
        super().__init__(on_wait, failed, logger, queue)
        self._link = link
        self._queue = queue
        self._asked = 0

    def look(self) -> Wait | None:
        """What this side knows comes first."""
        link = self._link
        if not link.is_open:
            return Wait(NO_BROKER, link.trouble())
        if not link.writable:
            return Wait(UNREAD, f"the broker at {link.address} does not read what is written")
        if not link.explains:
            return self.unexplained()
        self._asked += 1
        link.send(Why(self._asked))
        return None

    def answered(self, frame: Because) -> None:
        """BECAUSE has come; one that is late tells nothing new."""
        if frame.request != self._asked:
            return
        if not self.waits() or not self._link.is_open:
            wait = None
        else:
            wait = self.unexplained(sure=True) if frame.reason is None else Wait(frame.reason, frame.text)
        self.explained(wait)

    @abstractmethod
    def unexplained(self, sure: bool = False) -> Wait | None:
        """Why it waits where the broker cannot say, or, ``sure``, has said that it is nothing of the queue's."""


class SenderWaiting(ClientWaiting):
    """A sender waits for demand, or for confirmations."""

    def __init__(self, link: BrokerLink, session: SenderSession, target: str, *others: Any) -> None:
        super().__init__(link, *others)
        self.session = session
        self._target = target

    def waits(self) -> bool:
        """It may send nothing, or has sent and heard nothing."""
        session = self.session
        return not self._link.is_open or bool(session.unconfirmed_messages) or self._has_no_demand()

    def unexplained(self, sure: bool = False) -> Wait | None:
        """By what is open."""
        messages = self.session.unconfirmed_messages
        if messages:
            return Wait(
                UNCONFIRMED,
                f"the broker has not yet confirmed {messages:,} messages that were sent to {self._target}",
            )
        if sure or not self._has_no_demand():
            return None
        return Wait(NO_DEMAND, f"the broker lets nothing more be sent to {self._target}")

    def _has_no_demand(self) -> bool:
        return self.session.credit_messages <= 0 or self.session.credit_bytes <= 0


class ReceiverWaiting(ClientWaiting):
    """A receiver waits for messages while it has none."""

    def __init__(self, link: BrokerLink, session: ReceiverSession, *others: Any) -> None:
        super().__init__(link, *others)
        self.session = session

    def waits(self) -> bool:
        """It has asked, and holds nothing."""
        return not self._link.is_open or (self.session.outstanding > 0 and not self.session.in_flight)

    def unexplained(self, sure: bool = False) -> Wait | None:
        """An older broker does not say whether there are any."""
        return None if sure else Wait(NO_MESSAGES, f"no message comes from queue {self._queue}")
