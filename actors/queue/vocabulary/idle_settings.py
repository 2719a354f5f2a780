"""Settings that do nothing as a queue has the others: whoever says one of them wanted something else.

Only what is said natively of a new queue is judged so, and what is altered. Queues that there are keep what they have, and other protocols
say what theirs allows: RabbitMQ takes a ``reject-publish-dlx`` without a place for dead letters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.queue.vocabulary.settings import REJECT_DEAD_LETTER, QueueSettings

if TYPE_CHECKING:
    from collections.abc import Collection

_USUAL = QueueSettings()


def of_no_effect(settings: QueueSettings, said: Collection[str]) -> str | None:
    """Why a setting that is ``said`` does nothing among all of them, and what would help; None where each does something."""
    if "drop_failed" in said and settings.drop_failed and settings.max_receives is None:
        return "drop_failed is set, and no max_receives: say after how many failures a message is dropped"
    if (
        "overflow" in said
        and settings.overflow == REJECT_DEAD_LETTER
        and not settings.dead_letters_named
        and (settings.max_messages is not None or settings.max_bytes is not None)
    ):
        return (
            f"overflow is {REJECT_DEAD_LETTER}, and no place for dead letters is named: name a dead_letter_queue or a "
            "dead_letter_exchange, or say reject"
        )
    if "retry_max_delay" in said and settings.retry_max_delay != _USUAL.retry_max_delay and not settings.retry_delay:
        return "retry_max_delay is set, and no retry_delay that would grow to it"
    ids = "max_deduplication_ids"
    if ids in said and getattr(settings, ids) != getattr(_USUAL, ids) and settings.deduplication_window is None:
        return f"{ids} is set, and no deduplication_window in which ids would be remembered"
    if not {"exclusive", "single_active_consumer"}.isdisjoint(said):
        return _for_one_receiver(settings)
    return None


def _for_one_receiver(settings: QueueSettings) -> str | None:
    if settings.exclusive and settings.single_active_consumer:
        return "exclusive and single_active_consumer are set: of an exclusive queue one receiver has all, so leave the other out"
    return None
