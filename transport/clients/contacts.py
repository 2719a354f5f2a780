"""Where a client seeks its broker, pure: one pass over all that it knows, then a pause, then the next pass.

A pass begins with the address that worked last. A broker that does not lead says who does, and that one is next. No address is tried twice
in a pass, so that two followers that point at each other are no loop, and what is told is bounded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from transport.clients.backoff import CONNECT_TIMEOUT
from transport.wire.address import Address
from transport.wire.contact_points import parse_contact_points, written

MAX_HOPS = 8
"""Times in a pass that a client goes where a broker tells it to; behind them it goes on with what it knows, and pauses."""
MAX_LEARNED = 32
"""Addresses kept that brokers have told, beside those that were given; the oldest goes first."""
FIRST_PATIENCE = 1.0
"""Seconds for a connection, and for the first word on it, where there are several addresses; twice as long each time that they were too few
at that address. A machine that is off, or a process that stands still, refuses nothing, and somebody else may answer meanwhile."""
LEAST_STANDING = 1.0
"""Seconds for which a connection must have stood to count as one: before another is sought without a pause; and, or for a heartbeat where
that is longer, with nothing to do on it."""
MAX_ELECTION_PAUSE = 0.4
"""Seconds between two passes in which somebody answered that does not lead: a new leader is there within a second or two."""


class Contacts:
    """The addresses of one client.

    Args:
        addresses: as given: ``host:port,host:port``, or a sequence.
        what: whose they are, for errors.

    Attributes:
        current: the address tried last; the first one before any is.
        elects: whether somebody answered in the last pass that does not lead: there is a cluster, which will soon have a leader.
        leaderless: what one of them said, where none knew a leader: it says more than that another machine refuses.
    """

    def __init__(self, addresses: str | Sequence[str], what: str = "a client") -> None:
        self._given = parse_contact_points(addresses, what)
        self._learned: list[Address] = []
        self.current = self._given[0]
        self._preferred = self._given[0]
        # Those that let time pass and said nothing, and how often: tried last, and for longer, until they say something.
        self._silent: dict[Address, int] = {}
        self._left: deque[Address] = deque()
        self._tried: set[Address] = set()
        self._hops = 0
        self._follower = self._inside = self.elects = False
        self._said: Exception | None = None
        self._named = False
        self.leaderless: Exception | None = None
        self.begin()

    @property
    def several(self) -> bool:
        """Whether there is another address than one."""
        return len(self._given) + len(self._learned) > 1

    @property
    def patience(self) -> float:
        """Seconds for the attempt at `current`, to connect and again to hear something."""
        if not self.several:
            return CONNECT_TIMEOUT
        return min(CONNECT_TIMEOUT, FIRST_PATIENCE * 2.0 ** min(self._silent.get(self.current, 0), 8))

    def __str__(self) -> str:
        """For people."""
        return written(dict.fromkeys((*self._given, *self._learned)))

    def begin(self) -> None:
        """A pass begins."""
        known = list(dict.fromkeys((*self._given, *self._learned)))
        at = known.index(self._preferred) if self._preferred in known else 0
        order = known[at:] + known[:at]
        self._left = deque(sorted(order, key=lambda each: each in self._silent))
        self._tried.clear()
        self._hops = 0
        self._follower = self._named = False
        self._said = None

    def next(self) -> Address | None:
        """Where to try now; None when the pass is over, and the next one has begun: pause before that."""
        self._inside = False
        while self._left:
            address = self._left.popleft()
            if address not in self._tried:
                self._tried.add(address)
                self.current = address
                return address
        follower, said = self._follower, None if self._named else self._said
        self.begin()
        self.elects, self.leaderless = follower, said
        return None

    def let_in(self) -> None:
        """The one tried last has let the client in: the next pass begins with it. Hops are counted on until `rested`."""
        self._silent.pop(self.current, None)
        self._preferred = self.current
        hops = self._hops
        self.begin()
        self._hops, self._inside, self.elects = hops, True, False

    def rested(self) -> None:
        """The client has paused, or the connection has stood for a while: hops begin anew."""
        self._hops = 0

    def silent(self) -> None:
        """The one tried last has let the time pass: others come first until it says something."""
        self._silent[self.current] = self._silent.get(self.current, 0) + 1
        if self.current in self._left:
            self._left.remove(self.current)
            self._left.append(self.current)

    def follows(self, leader: Iterable[Address], said: Exception | None = None) -> bool:
        """The one tried last does not lead, and told where the leader is, if it knows. Whether to go on at once; else pause."""
        self._silent.pop(self.current, None)
        self._follower = True
        told = [each for each in dict.fromkeys(leader) if each != self.current]
        self._said, self._named = said, self._named or bool(told)
        for address in told:
            self._learn(address)
        # One that is known to be silent stays the last: who follows may not have noticed yet.
        fresh = [each for each in told if each not in self._tried and each not in self._silent]
        if self._hops < MAX_HOPS and fresh:
            self._hops += 1
            self._left.extendleft(reversed(fresh))
            return True
        # Where this was no more than an attempt, the pass goes on.
        return not self._inside

    def _learn(self, address: Address) -> None:
        if address in self._given:
            return
        if address in self._learned:
            self._learned.remove(address)
        self._learned.append(address)
        if len(self._learned) > MAX_LEARNED:
            self._silent.pop(self._learned.pop(0), None)
