"""What a broker does at its start about the queues that its storage has found: which of them there shall be, and with which settings."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from actors.queue.waiting_queues import look_for_waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actors.queue.exchange_directory import ExchangeDirectory
    from actors.queue.vocabulary.settings import QueueSettings
    from actors.storage import Storage, StoredQueue

logger = logging.getLogger("penstock.queue")


def found_queues(
    storage: Storage,
    exchanges: ExchangeDirectory,
    declared: Mapping[str, QueueSettings],
    default: Callable[[str], QueueSettings],
) -> list[StoredQueue]:
    """The queues that there shall be of those found, each with the settings that it shall have; the others are deleted.

    Args:
        storage: what has found them.
        exchanges: what leads to them.
        declared: what the broker declares, whatever settings the found ones had.
        default: the broker's settings for a queue that has none of its own, by its name.
    """
    _keep_one_a_name(storage)
    _forget_transient(storage, exchanges)
    look_for_waiting(storage, exchanges.exchanges, default(""))
    for stored in storage.queues:
        wanted = declared.get(stored.name, stored.settings)
        if wanted is not None and wanted.dead_letter_queue == stored.name:
            # Brokers of before took that from a settings file, and nobody could delete the queue without one that starts.
            wanted = replace(wanted, dead_letter_queue=None)
        if wanted is None and not default(stored.name).durable:
            # It was durable when what it holds was confirmed.
            wanted = replace(default(stored.name), durable=True)
        levels = None if stored.settings is None else stored.settings.max_priority
        if wanted is None and default(stored.name).max_priority is not None:
            wanted = default(stored.name)
        if wanted is not None and wanted.max_priority != levels:
            # What it holds is stored by its levels.
            if stored.name in declared:
                logger.warning(
                    "queue %s keeps max_priority %s, though the broker's settings declare it with %s: delete it, and have it declared anew",
                    stored.name,
                    levels or "none",
                    wanted.max_priority or "none",
                )
            wanted = replace(wanted, max_priority=levels)
        if wanted != stored.settings:
            storage.redeclare(stored.number, wanted)
            if stored.transient:
                logger.warning(
                    "queue %s is transient from now on, as the broker's settings declare it: the next start forgets it, and the %d "
                    "messages that it holds",
                    stored.name,
                    stored.log.stored_messages,
                )
    return storage.queues


def _keep_one_a_name(storage: Storage) -> None:
    """Delete queues whose name a later one has: their deletion was asked for, and is made good."""
    latest = {stored.name: stored.number for stored in storage.queues}
    for stored in storage.queues:
        if latest[stored.name] != stored.number:
            logger.warning(
                "queue %s was declared again as number %d: number %d, which was deleted before that, is gone with its %d messages",
                stored.name,
                latest[stored.name],
                stored.number,
                stored.log.stored_messages,
            )
            storage.delete(stored.number)


def _forget_transient(storage: Storage, exchanges: ExchangeDirectory) -> None:
    """Delete transient queues, with their bindings."""
    forgotten = [stored for stored in storage.queues if stored.transient]
    for stored in forgotten:
        exchanges.queue_deleted(stored.name, stored.number)
    if forgotten:
        logger.info(
            "%d transient queues are forgotten, as by every start, with the %d messages that they held",
            len(forgotten),
            sum(stored.log.stored_messages for stored in forgotten),
        )
