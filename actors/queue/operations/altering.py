"""Other settings for a queue that lives: whatever depends on one follows at once, and nothing that the queue holds is lost.

What was given out before stays given: permits of senders, deadlines of leases, delays and times to live of what is stored. From then on:

- limits: what senders may be granted, and what is refused where the queue rejects. Above a lowered limit nothing is granted until
  enough is acknowledged. A queue that drops is above it no more when it has dropped enough, step by step (``dropping``).
- the visibility timeout: leases. A receiver that is connected keeps the one that it was told, where that is longer: it extends what
  waits in it by that.
- delay and time to live: what is sent.
- how long what fails waits: what fails.
- ``max_receives``, ``drop_failed`` and the dead-letter queue: what waits to leave, and what has come back, is judged anew, as at a start.
  Nothing is delivered before all of it is judged (``judging``). What was handed to the old dead-letter queue is still its. The same
  holds for the dead-letter exchange and its key, but what still waits for room there is judged anew too (``letters_out``).
- deduplication: what is sent. What ids are remembered already stay so for their time, unless none count any more.
- how long a subscription that nobody uses is kept: for those there are, from when they were last used, but for a grace.

``exclusive`` and ``single_active_consumer`` cannot change: receivers were told whether they wait in line, and subscriptions are owned or
not by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.queue.operations.dispatch import dispatch
from actors.queue.operations.dropping import drop_over
from actors.queue.operations.judging import judge_anew, judge_on
from actors.queue.state.deduplication import deduplicate
from actors.queue.vocabulary.settings import UNALTERABLE

if TYPE_CHECKING:
    from actors.queue.state.core import QueueCore
    from actors.queue.vocabulary.commands import AlterQueue
    from actors.queue.vocabulary.settings import QueueSettings


def alter(core: QueueCore, command: AlterQueue, now: float) -> QueueSettings:
    """Go on with other settings."""
    settings, before = command.settings, core.settings
    for name in UNALTERABLE:
        assert getattr(settings, name) == getattr(before, name), "whoever records the settings refuses this"
    core.depend_on(command.after)
    core.take_settings(settings)
    core.heaps = deduplicate(core.heaps, core.log, settings, core.clocks, core.capacity, now)
    permits = [sender.permits for sender in core.senders.values() if sender.capacity is core.capacity]
    core.capacity.alter(*core.senders_limits(), core.rejects, permits)
    core.ready = core.counted(core.ready)
    core.staged.alter(settings)
    for receiver in core.receivers.values():
        receiver.visibility = max(receiver.visibility, settings.visibility_timeout)
    if _dead_letters(settings) != _dead_letters(before):
        judge_anew(core)
        judge_on(core, now)
    if settings.subscription_expiry != before.subscription_expiry:
        core.await_use(now)
    dispatch(core, now)
    if core.drops:
        drop_over(core, now)
    core.grant()
    return settings


def _dead_letters(settings: QueueSettings) -> tuple[object, ...]:
    return (
        settings.max_receives,
        settings.drop_failed,
        settings.dead_letter_queue,
        settings.dead_letter_exchange,
        settings.dead_letter_routing_key,
    )
