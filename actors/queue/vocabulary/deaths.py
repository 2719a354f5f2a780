"""All deaths of a dead letter: one for each queue and reason, the latest first, each with how often.

A first death is said by a dead letter's headers alone (``actors/queue/operations/dead_letters.py``). From the second on one header more,
`HISTORY`, has all of them: a msgpack array ``[own keys?, [[queue, reason, times, us, exchange, key, flags, last us?], ...]]``. Anybody may
write anything there, so what cannot be is as if it were not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgpack

from actors.exchanges.limits import MAX_ROUTING_KEY_BYTES
from actors.limits import MAX_NAME_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.batch import HeaderValue

REASON = "penstock-dead-reason"
"""``max-receives``, ``expired``, ``rejected``, or ``maxlen`` where its queue was over its limit, or had no room for it."""
QUEUE = "penstock-dead-queue"
"""The queue that it was in."""
SENT = "penstock-dead-sent-us"
"""When that queue had stored it, microseconds since the epoch, in decimal digits."""
DELIVERIES = "penstock-dead-deliveries"
"""How often it had been delivered there, in decimal digits."""
NAMES = (REASON, QUEUE, SENT, DELIVERIES)
ERROR = "penstock-dead-error"
"""What the receiver said that has refused it; only with ``rejected``, and only where no restart came between."""

EXCHANGE = "penstock-dead-exchange"
"""The exchange to which it had been published; only where it came through one, be it the default one, whose name is empty."""
KEY = "penstock-dead-key"
"""The key that it had, in bytes; only where a dead-letter exchange has given it another, or the same in place of what may be several."""
BEFORE = "penstock-dead-before"
"""Only with ``expired`` and ``maxlen``: the queues in which it has died so before, if nobody has tried it since; with blanks between their
names."""
HISTORY: Final = "penstock-dead-history"
"""All deaths, from the second on."""
DEATH_HEADERS = frozenset((*NAMES, ERROR, EXCHANGE, KEY, BEFORE, HISTORY))
"""Headers that say something of a death: the next one's take their place."""
MOST_DEATHS: Final = 16
"""Of one message, by queue and reason: of more the oldest are forgotten, but for the first."""
MAX_REASON_BYTES: Final = 32
MAX_TIMES: Final = 2**32 - 1
_MAX_US: Final = 2**63 - 1
_FIRST, _OWN_KEYS = 1, 2
DEATH_BYTES: Final = 3 * (3 + MAX_NAME_BYTES) + 2 + MAX_REASON_BYTES + 5 + 2 * 9 + 2
"""What one death takes at most."""
HISTORY_BYTES: Final = MOST_DEATHS * DEATH_BYTES + 8
"""What all of them take at most."""
assert MAX_ROUTING_KEY_BYTES <= MAX_NAME_BYTES, "a key takes no more than a name"


class Death(NamedTuple):
    """One way in which a message has died.

    Attributes:
        queue: where.
        reason: why, in the words of ``penstock-dead-reason``.
        exchange: to which it had been published; empty for the default one, and for what was sent to the queue itself.
        key: its routing key then, at most ``MAX_ROUTING_KEY_BYTES``.
        us: when it did first, microseconds since the epoch; 0 for when the queue that it is in has stored it.
        times: how often.
        first: whether no death was before it.
        own_keys: whether the other routing keys that it came with, as by the header CC, counted then.
        last_us: when it did last, of one that did more than once; 0 as of ``us``.
    """

    queue: str
    reason: str
    exchange: str
    key: bytes
    us: int = 0
    times: int = 1
    first: bool = False
    own_keys: bool = True
    last_us: int = 0


class History(NamedTuple):
    """All deaths of a message.

    Attributes:
        deaths: the latest first.
        own_keys: whether it goes on by the routing keys that it came with; not, once a dead-letter exchange has given it another.
    """

    deaths: tuple[Death, ...]
    own_keys: bool = True

    def packed(self) -> bytes:
        """The value of the header."""
        deaths = [
            [
                each.queue,
                each.reason,
                each.times,
                each.us,
                each.exchange,
                each.key,
                _FIRST * each.first | _OWN_KEYS * each.own_keys,
                *([each.last_us] if each.last_us else ()),
            ]
            for each in self.deaths
        ]
        packed: bytes = msgpack.packb([self.own_keys, deaths])
        return packed

    def died(self, death: Death, before_us: int) -> History:
        """The same and one death more, of which nobody knows yet when it is stored.

        A death of the same queue and reason is counted in that one, which keeps all else and is the latest.

        Args:
            death: what is said of it; its ``first`` and ``own_keys`` are looked at here.
            before_us: when the queue that it leaves has stored it, which is when it died before.
        """
        rest = list(self.deaths)
        if rest and not rest[0].us:
            rest[0] = rest[0]._replace(us=before_us)
        if rest and rest[0].times > 1 and not rest[0].last_us:
            rest[0] = rest[0]._replace(last_us=before_us)
        known = next((each for each in rest if (each.queue, each.reason) == (death.queue, death.reason)), None)
        if known is None:
            latest = death._replace(first=not rest, own_keys=self.own_keys)
        else:
            rest.remove(known)
            latest = known._replace(times=min(known.times + 1, MAX_TIMES), last_us=0)
        while len(rest) >= MOST_DEATHS:
            del rest[max(at for at, each in enumerate(rest) if not each.first)]
        return self._replace(deaths=(latest, *rest))


def history_of(headers: Mapping[str, HeaderValue]) -> History | None:
    """What the header says; None where it is not there, or cannot be."""
    packed = headers.get(HISTORY)
    if not isinstance(packed, bytes) or len(packed) > HISTORY_BYTES:
        return None
    try:
        own_keys, rows = msgpack.unpackb(packed, max_array_len=MOST_DEATHS, max_map_len=0, max_ext_len=0)
        deaths = tuple(_death(*row) for row in rows)
    except (ValueError, TypeError, msgpack.UnpackException):
        return None
    if not isinstance(own_keys, bool) or not deaths or sum(each.first for each in deaths) > 1:
        return None
    return History(deaths, own_keys)


def deaths_of(headers: Mapping[str, HeaderValue], key: bytes) -> History | None:
    """All deaths of a dead letter; None for what is none.

    Args:
        headers: its own.
        key: by which it was routed to the queue that it is in.
    """
    found = history_of(headers)
    reason, queue = headers.get(REASON), headers.get(QUEUE)
    if not isinstance(reason, str) or not isinstance(queue, str):
        return None
    before = headers.get(KEY)
    if found is not None:
        return found if before is None else found._replace(own_keys=False)
    exchange = headers.get(EXCHANGE)
    if not isinstance(exchange, str):
        exchange, key = "", queue.encode()
    elif isinstance(before, bytes):
        key = before
    if max(len(queue.encode()), len(exchange.encode())) > MAX_NAME_BYTES or len(reason.encode()) > MAX_REASON_BYTES:
        return None
    death = Death(queue, reason, exchange, key[:MAX_ROUTING_KEY_BYTES], first=True)
    return History((death,), own_keys=before is None)


def _death(
    queue: Any, reason: Any, times: Any, us: Any, exchange: Any, key: Any, flags: Any, last_us: Any = 0
) -> Death:
    """One of them; raises ValueError or TypeError for one that cannot be."""
    texts = ((queue, MAX_NAME_BYTES), (reason, MAX_REASON_BYTES), (exchange, MAX_NAME_BYTES))
    if any(not isinstance(text, str) or len(text.encode()) > most for text, most in texts):
        raise ValueError("a name that is none, or too long")
    if not isinstance(key, bytes) or len(key) > MAX_ROUTING_KEY_BYTES:
        raise ValueError("a key that is none, or too long")
    if not (
        _is_number(times, 1, MAX_TIMES)
        and _is_number(us, 0, _MAX_US)
        and _is_number(flags, 0, 3)
        and _is_number(last_us, 0, _MAX_US)
    ):
        raise ValueError("a number that is none, or too large")
    return Death(queue, reason, exchange, key, us, times, bool(flags & _FIRST), bool(flags & _OWN_KEYS), last_us)


def _is_number(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
