"""What a queue holds is judged anew by settings that it has only now: whether it is worn out, and leaves, or is not, and stays.

What came back may be a million spans, so it goes in steps, and the queue carries out other commands between two of them. Until the last
step nothing is delivered: so nothing leaves out of turn, and nothing that is worn out is received once more. Whatever comes back
meanwhile is judged as it does, and other settings begin the judging again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.queue.operations.dead_letters import hand_over
from actors.queue.state.ready import Judging
from actors.queue.vocabulary.budgets import JUDGE_BUDGET

if TYPE_CHECKING:
    from actors.queue.state.core import QueueCore


def judge_anew(core: QueueCore) -> None:
    """Begin to judge what nobody holds, and what waits to leave; what was handed over is the dead-letter queue's."""
    core.outbox.doubt()
    # Where nobody counts failures and nothing is kept that is refused, nothing that is ready is worn out.
    settings = core.settings
    core.judging = Judging(0 if settings.max_receives is not None or settings.keeps_dead_letters else None)


def judge_on(core: QueueCore, now: float) -> None:
    """Make a step, if there is one to make; ``core.unfinished_at`` says that there is another."""
    if core.judging is None:
        return
    if not _step(core, core.judging):
        core.judging = None
    else:
        core.unfinished_at = now
    hand_over(core, now)


def _step(core: QueueCore, judging: Judging) -> bool:
    """Judge some spans; returns whether there may be more."""
    ready, outbox, worn_out = core.ready, core.outbox, core.settings.worn_out
    left = JUDGE_BUDGET
    while left > 0 and judging.position is not None:
        spans = ready.some_from(judging.position, left, delayed=judging.delayed)
        left -= len(spans)
        for span in [span for span in spans if worn_out(span.failures)]:
            ready.take_out(span, delayed=judging.delayed)
            outbox.add(span)
        if spans:
            judging.position = spans[-1].stop
        else:
            judging.next_place()
    while left > 0:
        doubted = outbox.take_doubted()
        if doubted is None:
            return False
        left -= 1
        # If its time to live is over, the dispatch sees that.
        core.put_back(doubted.taken_back(), None)
    return True
