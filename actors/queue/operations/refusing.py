"""What a queue refuses for want of room, and has be a dead letter besides (overflow ``reject-dead-letter``).

It is in no queue, so nothing of it is kept here: its sender has been told. The queue's actor publishes it (``refused_letters``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.queue.operations.dead_letters import fitting, leading, more_bytes, packed_facts, with_facts
from actors.queue.vocabulary.replies import MAXLEN, DeadLetter
from actors.queue.vocabulary.settings import REJECT_DEAD_LETTER

if TYPE_CHECKING:
    from actors.batch import MessageBatch
    from actors.queue.state.core import QueueCore
    from actors.queue.vocabulary.published import Published


class NoRoom(str):
    """Why a batch is refused: there is no room for it, and nothing else is in its way."""

    __slots__ = ()


def lets_die(core: QueueCore, why: str | None) -> bool:
    """Whether what is refused for this is to be a dead letter."""
    settings = core.settings
    return isinstance(why, NoRoom) and settings.overflow == REJECT_DEAD_LETTER and settings.dead_letters_named


def refuse(core: QueueCore, batch: MessageBatch, published: Published | None, wall_us: int, level: int) -> None:
    """Have a batch of a level be dead letters that the queue has refused, in parts that fit a frame with what they say of that."""
    settings, to = core.settings, core.settings.dead_letter_queue
    facts = packed_facts(MAXLEN, core.name, wall_us, 0, None, published)
    more = more_bytes(settings, batch, facts)
    while len(batch):
        count, again = fitting(batch, more), False
        if to is not None:
            count, again = leading(batch.slice(0, count), to)
        letter = DeadLetter(
            None if again else to,
            with_facts(batch.slice(0, count), facts),
            (),
            0,
            published,
            settings.dead_letter_exchange,
            settings.dead_letter_routing_key,
            expired=True,
            again=again,
            over_limit=True,
            priority=level,
        )
        core.effects.append(letter)
        batch = batch.slice(count, len(batch))
