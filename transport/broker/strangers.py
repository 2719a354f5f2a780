"""What those may take of a broker who have not shown yet who they are: how many there may be, and how fast they may guess.

These limits hold for all listeners of a broker together, whatever they speak, and with users and without.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from transport.config.config import DEFAULT_MAX_UNAUTHENTICATED

MOST_OF_ONE: Final = 16
"""Of these of one address, unless it is this machine's own: one host does not keep out all others."""
IPV6_HOST_BITS: Final = 64
"""One who has an address of IPv6 has as many as these bits can name."""
MOST_FAILURES: Final = 5
"""Failures of one address within ``FAILURES_SECONDS`` after which it waits: whoever has forgotten a password tries several."""
FAILURES_SECONDS: Final = 60.0
WAIT_SECONDS: Final = 1.0
"""What each further attempt of it waits for its answer."""
MOST_ADDRESSES: Final = 10_000
"""Addresses whose failures are known; the one that failed longest ago is forgotten first. Each takes some 500 bytes."""
REMEMBERED_ADDRESSES: Final = 1_000
"""Addresses of which it is remembered whose they are: to find out takes a tenth of the time that a connection takes to be accepted."""


@lru_cache(REMEMBERED_ADDRESSES)
def network_of(host: str) -> str:
    """Whose address it is: that of IPv4, or the network that a host of IPv6 has to itself; ``host`` where it is neither."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return "::1" if address.is_loopback else str(ipaddress.IPv6Network((address, IPV6_HOST_BITS), strict=False))


@lru_cache(REMEMBERED_ADDRESSES)
def _is_loopback(network: str) -> bool:
    try:
        return ipaddress.ip_address(network).is_loopback
    except ValueError:
        return False


class Entrant:
    """One connection that is accepted and not let in yet."""

    __slots__ = ("_network", "_unopened")

    def __init__(self, unopened: Unopened, network: str) -> None:
        self._unopened: Unopened | None = unopened
        self._network = network

    def leave(self) -> None:
        """It was let in, or has ended; said twice it does nothing."""
        unopened, self._unopened = self._unopened, None
        if unopened is not None:
            unopened._left(self._network)


class Unopened:
    """The connections of all listeners that are accepted and not let in yet.

    Args:
        most: how many there may be.
        most_of_one: how many of one address.

    Attributes:
        count: how many there are.
        most: as given.
    """

    def __init__(self, most: int = DEFAULT_MAX_UNAUTHENTICATED, most_of_one: int = MOST_OF_ONE) -> None:
        self.count = 0
        self.most = most
        self._most_of_one = most_of_one
        self._of: dict[str, int] = {}
        self._waiting: list[Callable[[], None]] = []

    @property
    def full(self) -> bool:
        """Whether none more may be accepted."""
        return self.count >= self.most

    def enter(self, host: str) -> Entrant | None:
        """One more of that address; None where it has too many."""
        network = network_of(host)
        of_one = self._of.get(network, 0)
        if of_one >= self._most_of_one and not _is_loopback(network):
            return None
        self._of[network] = of_one + 1
        self.count += 1
        return Entrant(self, network)

    def when_room(self, resume: Callable[[], None]) -> None:
        """Call ``resume`` once, as soon as one more may be accepted."""
        if resume not in self._waiting:
            self._waiting.append(resume)

    @property
    def too_many_of_one(self) -> str:
        """What one of an address that has too many is told."""
        return (
            f"{self._most_of_one} connections of your address have not shown who they are, which is the limit: "
            "wait until they have"
        )

    def _left(self, network: str) -> None:
        self.count -= 1
        left = self._of[network] - 1
        if left:
            self._of[network] = left
        else:
            del self._of[network]
        if self._waiting and not self.full:
            waiting, self._waiting = self._waiting, []
            for resume in waiting:
                resume()


class Failures:
    """Which addresses have failed to show who they are, and when.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    def note(self, host: str) -> int:
        """One of that address has failed; how often it has within the last minute, as far as that is counted."""
        network = network_of(host)
        times = self._times.setdefault(network, deque(maxlen=MOST_FAILURES + 1))
        self._times.move_to_end(network)
        times.append(self._clock())
        if len(self._times) > MOST_ADDRESSES:
            self._times.popitem(last=False)
        return self._recent(times)

    def wait(self, host: str) -> float:
        """Seconds that the answer to an attempt of that address has to wait."""
        times = self._times.get(network_of(host))
        return WAIT_SECONDS if times is not None and self._recent(times) >= MOST_FAILURES else 0.0

    def _recent(self, times: deque[float]) -> int:
        since = self._clock() - FAILURES_SECONDS
        return sum(time > since for time in times)
