"""What is said of messages that are delivered: to which exchange they were published, and with which routing keys."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.queue.vocabulary.replies import ReceivedMessages
    from transport.gateways.amqp.names import Names


def exchange_of(messages: ReceivedMessages, names: Names) -> str:
    """To which exchange messages were published; the default one has those that were sent to the queue itself."""
    return "" if messages.published is None else names.shown_name(messages.published.exchange)


def keys_of(messages: ReceivedMessages, queue: str, names: Names) -> list[tuple[str, int]]:
    """Their routing keys, each with how many in a row have it; ``queue`` is that of those that were sent to it, as ``names`` have it."""
    published, keys, count = messages.published, messages.batch.keys, messages.batch.count
    if published is None:
        return [(queue, count)]
    if keys is None:
        found = [(published.routing_key, count)]
    elif (only := keys.same()) is not None:
        found = [(published.key_of(only), count)]
    else:
        found = [(published.key_of(key), len(list(same))) for key, same in groupby(keys.tolist())]
    if names.beginning and not published.exchange:
        # What the broker itself has sent on to this queue says its whole name: a dead letter.
        whole = names.queue(queue)
        return [(queue if key == whole else key, times) for key, times in found]
    return found


def split(messages: ReceivedMessages, count: int) -> tuple[ReceivedMessages, ReceivedMessages | None]:
    """The first ``count`` messages, and the others if there are any."""
    batch = messages.batch
    if count >= len(batch):
        return messages, None
    later = messages._replace(first=messages.first + count, batch=batch.slice(count, len(batch)))
    return messages._replace(batch=batch.slice(0, count)), later
