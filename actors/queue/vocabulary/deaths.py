"""All deaths of a dead letter: one for each queue and reason, the latest first, each with how often.

A first death is said by a dead letter's headers alone (``actors/queue/operations/dead_letters.py``). From the second on one header more,
`HISTORY`, has all of them: a msgpack array ``[own keys?, [[queue, reason, times, us, exchange, key, flags], ...]]``. Anybody may write
anything there, so what cannot be is as if it were not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgpack

from actors.exchanges.limits import MAX_ROUTING_KEY_BYTES
from actors.limits import MAX_NAME_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.batch import HeaderValue

HISTORY: Final = "penstock-dead-history"
"""All deaths, from the second on."""
MOST_DEATHS: Final = 16
"""Of one message, by queue and reason: of more the oldest are forgotten, but for the first."""
MAX_REASON_BYTES: Final = 32
MAX_TIMES: Final = 2**32 - 1
_MAX_US: Final = 2**63 - 1
_FIRST, _OWN_KEYS = 1, 2
DEATH_BYTES: Final = 3 * (3 + MAX_NAME_BYTES) + 2 + MAX_REASON_BYTES + 5 + 9 + 2
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
    """

    queue: str
    reason: str
    exchange: str
    key: bytes
    us: int = 0
    times: int = 1
    first: bool = False
    own_keys: bool = True


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
        known = next((each for each in rest if (each.queue, each.reason) == (death.queue, death.reason)), None)
        if known is None:
            latest = death._replace(first=not rest, own_keys=self.own_keys)
        else:
            rest.remove(known)
            latest = known._replace(times=min(known.times + 1, MAX_TIMES))
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


def _death(queue: Any, reason: Any, times: Any, us: Any, exchange: Any, key: Any, flags: Any) -> Death:
    """One of them; raises ValueError or TypeError for one that cannot be."""
    texts = ((queue, MAX_NAME_BYTES), (reason, MAX_REASON_BYTES), (exchange, MAX_NAME_BYTES))
    if any(not isinstance(text, str) or len(text.encode()) > most for text, most in texts):
        raise ValueError("a name that is none, or too long")
    if not isinstance(key, bytes) or len(key) > MAX_ROUTING_KEY_BYTES:
        raise ValueError("a key that is none, or too long")
    if not (_is_number(times, 1, MAX_TIMES) and _is_number(us, 0, _MAX_US) and _is_number(flags, 0, 3)):
        raise ValueError("a number that is none, or too large")
    return Death(queue, reason, exchange, key, us, times, bool(flags & _FIRST), bool(flags & _OWN_KEYS))


def _is_number(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
