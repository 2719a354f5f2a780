"""What a dead letter says of itself, as values: all that it has died of, with where, why, how often, and when.

A broker says it in headers, which docs/protocol.md lists. So whoever has a message's headers can read it: a receiver, who looks at a queue
without taking anything, or a query of Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from actors.batch import HeaderValue
from actors.queue.vocabulary.deaths import EXCHANGE, QUEUE, REASON, deaths_of


class Death(NamedTuple):
    """One way in which a message has died: all that happened in one queue, for one reason.

    Attributes:
        queue: where.
        reason: why: ``max-receives``, ``expired``, ``rejected``, ``maxlen``, or another that a later broker knows.
        times: how often.
        first_us: when it did first, microseconds since 1970 (UTC).
        last_us: when it did last; where an older broker has counted and did not say, as ``first_us``.
        exchange: to which it had been published then; empty for the default one, and for what was sent to the queue itself.
        routing_key: with which key.
    """

    queue: str
    reason: str
    times: int
    first_us: int
    last_us: int
    exchange: str
    routing_key: str


def deaths_in(headers: Mapping[str, str | bytes] | None, stored_us: int = 0, key: bytes = b"") -> tuple[Death, ...]:
    """All deaths that a dead letter's headers tell of, the latest first; empty where they tell of none.

    Args:
        headers: the message's. As in Spark, all values may be bytes.
        stored_us: when the queue that it is in has stored it, ``enqueued_us``: that is when it died last. 0 where that is not known.
        key: the message's own, which is its routing key where it came through an exchange.
    """
    found: dict[str, HeaderValue] = {name: _as_said(name, value) for name, value in (headers or {}).items()}
    history = deaths_of(found, key)
    if history is None:
        return ()
    deaths = []
    for place, each in enumerate(history.deaths):
        first_us = each.us or stored_us
        last_us = first_us if each.times == 1 else each.last_us or (first_us if place else stored_us)
        routing_key = each.key.decode("utf-8", "replace")
        deaths.append(Death(each.queue, each.reason, each.times, first_us, last_us, each.exchange, routing_key))
    return tuple(deaths)


def _as_said(name: str, value: str | bytes) -> HeaderValue:
    """Headers of a broker are texts, but for some that are bytes; where all are bytes, that is what the texts are in."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) and name in _TEXTS else value


_TEXTS = frozenset({REASON, QUEUE, EXCHANGE})
