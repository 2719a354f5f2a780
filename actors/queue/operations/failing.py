"""What becomes of messages that somebody failed to handle: they are counted, and wait before they are tried again, or leave.

What comes back has failed unless its receiver says that nobody tried to handle it. So it counts if the receiver went away before it said
anything: that may be what the message did to it. A receiver of another protocol may leave it to the queue: it counts where failures do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.queue.operations.dead_letters import hand_over
from actors.queue.operations.dropping import drop_over
from actors.queue.state.retries import retry_delay
from actors.queue.structures.deadlines import microseconds
from actors.queue.vocabulary.events import MessagesReturned
from actors.queue.vocabulary.settings import MAX_DELAYED, MAX_RECEIVES_LIMIT, REJECTED_FAILURES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from actors.queue.state.core import QueueCore
    from actors.queue.state.entries import Span
    from actors.queue.state.receivers import Receiver
    from actors.queue.structures.ranges import Range


def has_failed(core: QueueCore, said: bool | None) -> bool:
    """Whether what comes back has failed, as its receiver has ``said``, or has left to the queue."""
    return core.settings.counts_failures if said is None else said


def give_back(
    core: QueueCore,
    spans: list[Span],
    now: float,
    delay: float = 0.0,
    failed: bool | None = True,
    reason: str | None = None,
    error: str | None = None,
    *,
    drops: bool = True,
) -> None:
    """Make spans receivable again, after ``delay`` seconds; those that failed ``max_receives`` times leave for the dead-letter queue.

    What has failed waits for as long as the queue has it wait, unless a ``delay`` is given. Where refused messages are kept, what comes
    with a ``reason`` leaves at once. Of an ``error`` nothing is kept but with what leaves: a queue that gets everything back remembers no
    text for it. Without ``drops`` it is the caller's to drop what is over a limit by that.
    """
    if not spans:
        return
    settings = core.settings
    delays: Sequence[float] = [delay] * len(spans)
    if has_failed(core, failed):
        refused = reason is not None and settings.keeps_dead_letters
        for span in spans:
            if refused:
                span.failures, span.reason = REJECTED_FAILURES, reason
            else:
                span.failures = _failed_again(span.failures)
                if settings.worn_out(span.failures):
                    span.reason = error
        if delay > 0:
            # What leaves does not wait, should it come back by other settings.
            delays = [0.0 if settings.worn_out(span.failures) else delay for span in spans]
        else:
            delays = _retry_delays(core, [(span.start, span.failures) for span in spans])
        if refused or settings.counts_failures:
            rows = zip(spans, delays, strict=True)
            core.commit(_returned(core, ((*_of(span), span.failures, wait) for span, wait in rows)))
    for span, wait in zip(spans, delays, strict=True):
        put_back(core, span, wait, now)
    if settings.counts_failures or settings.keeps_dead_letters:
        hand_over(core, now)
    if drops and core.drops:
        drop_over(core, now)


def put_back(core: QueueCore, span: Span, wait: float, now: float) -> None:
    """Make a span that somebody had receivable again, after ``wait`` seconds; one that is worn out leaves."""
    span.replayed = True
    core.put_back(span, now + wait if wait > 0 else None)


def returned_beside(core: QueueCore, receiver: Receiver, ranges: Iterable[Range]) -> MessagesReturned | None:
    """The event of what a receiver gives back beside other things: it counts where failures do. None where it leaves no event.

    Nothing has happened yet. ``put_back_beside`` does it, in the same instant.
    """
    if not core.settings.counts_failures:
        return None
    found = [
        (max(start, span.start), min(stop, span.stop), _failed_again(span.failures))
        for start, stop in ranges
        for span in _held_within(receiver, start, stop)
    ]
    if not found:
        return None
    delays = _retry_delays(core, [(start, failures) for start, _, failures in found])
    return _returned(core, ((*row, wait) for row, wait in zip(found, delays, strict=True)))


def put_back_beside(core: QueueCore, spans: Iterable[Span], now: float) -> None:
    """Make receivable again what ``returned_beside`` was asked about, which nobody holds any more."""
    counts = core.settings.counts_failures
    for span in spans:
        wait = 0.0
        if counts:
            span.failures = _failed_again(span.failures)
            (wait,) = _retry_delays(core, [(span.start, span.failures)])
        put_back(core, span, wait, now)


def _held_within(receiver: Receiver, start: int, stop: int) -> Iterable[Span]:
    position = start
    while position < stop:
        found = receiver.held.some_from(position, 1)
        if not found or found[0].start >= stop:
            return
        yield found[0]
        position = found[0].stop


def _failed_again(failures: int) -> int:
    return min(failures + 1, MAX_RECEIVES_LIMIT)


def _of(span: Span) -> Range:
    return span.start, span.stop


def _retry_delays(core: QueueCore, spans: Sequence[tuple[int, int]]) -> list[float]:
    """For how long what has failed waits, by its first number and how often it has. Where too much waits already it comes at once."""
    settings = core.settings
    if settings.retry_delay <= 0:
        return [0.0] * len(spans)
    room = MAX_DELAYED - core.delayed_batches()
    delays: list[float] = []
    for number, failures in spans:
        waits = room > 0 and not settings.worn_out(failures)
        delays.append(retry_delay(settings, failures, number) if waits else 0.0)
        room -= waits
    return delays


def _returned(core: QueueCore, rows: Iterable[tuple[int, int, int, float]]) -> MessagesReturned:
    """Has it survive a restart how often ranges have failed, and for how long they wait."""
    joined: list[tuple[int, int, int]] = []
    delays: list[int] = []
    for start, stop, failures, wait in sorted(rows):
        delay_us = microseconds(wait)
        if joined and joined[-1][1:] == (start, failures) and delays[-1] == delay_us:
            joined[-1] = (joined[-1][0], stop, failures)
        else:
            joined.append((start, stop, failures))
            delays.append(delay_us)
    if not any(delays):
        return MessagesReturned(tuple(joined))
    # By the clock on the wall of now: nothing may have been stored since it was set, and a start goes by it.
    return MessagesReturned(tuple(joined), core.wall_us, tuple(delays))
