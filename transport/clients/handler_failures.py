"""What becomes of a message that a handler fails on: the stream stops, or the message goes back, or to the dead letters.

The streams toolkit tells an element that a function has failed on it (`streams.supervision`, ``__failed_on__``); a delivery asks here.
So it holds for every operator that calls a function with the delivery itself: `map` and its kin, ``map_async``, ``map_blocking``, the
sinks ``foreach``. A function further down that is given something else, made of a delivery, fails its stream.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from actors.limits import MAX_VISIBILITY_SECONDS
from transport.clients.backoff import Backoff
from transport.clients.delivery import no_dead_letters
from transport.errors import LocalProtocolError
from transport.wire.field_checks import MAX_REASON_BYTES
from transport.wire.timing import check_answer_time

OnFailure = Literal["stop", "return", "reject"]
"""What a receiver does about a message that a handler has failed on."""
STOP: OnFailure = "stop"
RETURN: OnFailure = "return"
REJECT: OnFailure = "reject"

DEFAULT_RETRY_DELAY = Backoff(minimum=1.0, maximum=60.0)
"""After what time a message is tried again that was returned: at once would be in vain most times, and keep the broker busy."""
MAX_LOGGED = 10
"""Failures that are logged in a `LOG_INTERVAL`; the others are counted."""
LOG_INTERVAL = 10.0
"""Seconds."""

logger = logging.getLogger("penstock.receiver")


class Answerable(Protocol):
    """A delivery, or a delivered batch."""

    @property
    def delivery_count(self) -> int:
        """How often it has been delivered, this time included."""
        ...

    def reject(self, delay: float = 0.0, error: str | None = None) -> None:
        """It goes back, and has failed."""
        ...

    def dead_letter(self, reason: str) -> None:
        """It is a dead letter."""
        ...

    def __untaken__(self) -> None:
        """It goes back, and nobody has tried it."""
        ...


@dataclass(frozen=True, slots=True)
class ReceiverStatistics:
    """What handlers have failed on, over all runs of a `Receiver`.

    Attributes:
        returned: failures after which the message, or the batch, went back to the queue.
        rejected: failures after which it became a dead letter.
        last_failure: what the latest of them raised, as text; None for none.
    """

    returned: int = 0
    rejected: int = 0
    last_failure: str | None = None


class HandlerFailures:
    """Deals with the failures of one receiver's handlers, logs them and counts them.

    Args:
        on_failure: ``stop`` leaves them to the stream, ``return`` and ``reject`` answer for the message.
        retry_delay: seconds until what was returned can be received again, or how they grow with each delivery. `DEFAULT_RETRY_DELAY`
            itself gives way to what the queue has what has failed wait.
        clock: seconds that only go on.
        chance: a number in 0..1.

    Attributes:
        on_failure: as given.
        queue_delays: whether the queue has what has failed wait, as the broker says.

    Raises:
        LocalProtocolError: no such ``on_failure``.
        ImpossibleTimeError: ``retry_delay`` is no number of seconds from 0 to 12 hours. It is a ValueError.
    """

    def __init__(
        self,
        on_failure: OnFailure = STOP,
        retry_delay: float | Backoff = DEFAULT_RETRY_DELAY,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        if on_failure not in get_args(OnFailure):
            raise LocalProtocolError(f"on_failure is {on_failure!r:.40}, not {STOP!r}, {RETURN!r} or {REJECT!r}")
        check_answer_time("retry_delay", retry_delay.maximum if isinstance(retry_delay, Backoff) else retry_delay)
        self.on_failure = on_failure
        self.queue_delays = False
        self._retry_delay = retry_delay
        self._clock = clock
        self._chance = chance
        self._returned = self._rejected = 0
        self._last: BaseException | None = None
        self._logged_from = float("-inf")
        self._logged = self._unlogged = 0

    def refusal(self, queue: str, dead_letters: bool) -> str | None:
        """Why ``queue`` will not do, once it is known whether it keeps dead letters; None where it will."""
        if self.on_failure == REJECT and not dead_letters:
            return no_dead_letters(queue, 'on_failure="reject"')
        return None

    def __call__(self, message: Answerable, error: Exception) -> bool:
        """Answers for ``message``, on which a handler has failed; False where that is to stop the stream."""
        if self.on_failure == STOP:
            return False
        if self.on_failure == REJECT:
            self.reject(message, error, reason_of(error))
        else:
            self._last = error
            self._returned += 1
            delay = self._delay(message.delivery_count)
            when = "after the queue's retry_delay" if self._leaves_it else f"in {delay:.3g} s"
            back = (
                f"given back to the queue after try {message.delivery_count}, to be tried again {when}, unless it has failed "
                "max_receives times"
            )
            self._log(message, error, back)
            message.reject(delay, reason_of(error))
        return True

    def reject(self, message: Answerable, error: Exception, reason: str) -> None:
        """``message`` is a dead letter at once, with ``reason``; it is counted and logged."""
        self._last = error
        self._rejected += 1
        self._log(message, error, "a dead letter")
        message.dead_letter(reason)

    def statistics(self) -> ReceiverStatistics:
        """What has failed so far."""
        return ReceiverStatistics(self._returned, self._rejected, None if self._last is None else reason_of(self._last))

    @property
    def _leaves_it(self) -> bool:
        """Whether the queue says when a message is tried again: nobody has told this receiver."""
        return self.queue_delays and self._retry_delay is DEFAULT_RETRY_DELAY

    def _delay(self, deliveries: int) -> float:
        if self._leaves_it:
            return 0.0
        if isinstance(self._retry_delay, Backoff):
            return min(self._retry_delay.delay(max(0, deliveries - 1), self._chance()), MAX_VISIBILITY_SECONDS)
        return self._retry_delay

    def _log(self, message: Answerable, error: Exception, what: str) -> None:
        """With the traceback; of many in a row only some, so that a log does not grow as fast as a handler fails."""
        now = self._clock()
        if now - self._logged_from >= LOG_INTERVAL:
            self._logged_from, self._logged = now, 0
        if self._logged >= MAX_LOGGED:
            self._unlogged += 1
            return
        self._logged += 1
        unlogged, self._unlogged = self._unlogged, 0
        before = f"; {unlogged} failures before it were not logged" if unlogged else ""
        logger.warning("a handler failed on %r, which is %s%s", _Named(message), what, before, exc_info=error)


class _Named:
    """A message in a log line, without its payload."""

    def __init__(self, message: object) -> None:
        self._message = message

    def __repr__(self) -> str:
        sequence, queue = getattr(self._message, "sequence", None), getattr(self._message, "queue", "")
        return repr(self._message) if sequence is None else f"message {sequence} of queue {queue}"


def text_of(error: BaseException) -> str:
    """The type of an exception, and what it says; one that fails to say it is its type alone."""
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - whatever a __str__ of the program's raises
        return name
    return f"{name}: {text}" if text else name


def reason_of(error: BaseException) -> str:
    """An exception as the reason of a dead letter: its type and text, as much as fits."""
    return text_of(error).encode(errors="replace")[:MAX_REASON_BYTES].decode(errors="ignore")
