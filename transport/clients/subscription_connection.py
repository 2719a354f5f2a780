"""One blocking connection in the role ``subscription``: requests and their answers, and messages under this side's own demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from transport.clients.blocking_connection import BlockingConnection
from transport.errors import BrokerError, RemoteProtocolError
from transport.wire.address import Address
from transport.wire.cumulative import GrantedDemand
from transport.wire.frames import MAX_FRAME_BYTES
from transport.wire.messages import Error, Fetch, Fetched, FetchEnd, Hello, Options, Request

ROLE = "subscription"
FETCH_TIMEOUT = 60.0
"""Seconds for the next piece of a fetch: a largest frame over a slow line."""
FETCH_WINDOW_MESSAGES = 262_144
"""Messages on their way to one reader; with tiny messages this, else the bytes, is the bound."""
FETCH_WINDOW_BYTES = 2 * MAX_FRAME_BYTES
"""Bytes on their way to one reader: a largest frame can be under way while another is being read."""


@dataclass(frozen=True, slots=True)
class SubscriptionState:
    """What WELCOME said of the subscription.

    Attributes:
        epoch: the owner's; 0 to one who browses.
        base: positions below are acknowledged.
        high: positions below are reserved; to one who browses, the queue's next sequence number.
        high_water: the queue's next sequence number.
        id_prefix: the first 8 bytes of the ids generated for this queue's messages.
        created: whether the queue did not exist, and was made for this connection.
    """

    epoch: int
    base: int
    high: int
    high_water: int
    id_prefix: bytes
    created: bool = False


class SubscriptionConnection(BlockingConnection):
    """One open connection in this role.

    Attributes:
        state: what WELCOME said.
    """

    state: SubscriptionState

    def __init__(self, address: Address, hello: Hello, clock: Callable[[], float]) -> None:
        self._demand = GrantedDemand()
        super().__init__(address, hello, clock)

    def fetch(self, request: int, start: int, stop: int, *, gaps: bool = False) -> Iterator[Fetched]:
        """Every message of start <= p < stop; anything less is an error, unless there may be ``gaps``."""
        self.send(Fetch(request, start, stop))
        position = start
        messages = 0
        while True:
            self._grant()
            frame = self._next(self._clock() + FETCH_TIMEOUT)
            if isinstance(frame, FetchEnd) and frame.request == request:
                break
            if isinstance(frame, Error):
                raise BrokerError(frame.code, frame.text)
            if not isinstance(frame, Fetched) or frame.request != request:
                raise RemoteProtocolError(f"FETCH {request} was answered by {type(frame).__name__.upper()}")
            count = len(frame.batch)
            skipped = frame.position - position
            if skipped < 0 or (skipped and not gaps) or frame.position + count > stop:
                raise RemoteProtocolError(
                    f"positions {position}-{stop} were asked for, {frame.position}-{frame.position + count} came"
                )
            position = frame.position + count
            messages += count
            self._demand.used_messages += count
            self._demand.used_bytes += frame.batch.nbytes
            yield frame
        if frame.messages != messages or (position != stop and not gaps):
            raise RemoteProtocolError(f"FETCH of positions {start}-{stop} ended at {position}")

    def _grant(self) -> None:
        """Demand for more once half of the window is used; cumulative, as the protocol wants it."""
        demand = self._demand
        messages = demand.used_messages + FETCH_WINDOW_MESSAGES - demand.messages
        size = demand.used_bytes + FETCH_WINDOW_BYTES - demand.bytes
        if messages >= FETCH_WINDOW_MESSAGES // 2 or size >= FETCH_WINDOW_BYTES // 2:
            self.send(Request(*demand.grow(messages, size)))

    def _opened(self, options: Options) -> None:
        numbers: list[Any] = [options.get(name) for name in ("epoch", "base", "high", "high_water")]
        prefix = options.get("id_prefix")
        if not all(type(number) is int for number in numbers) or not isinstance(prefix, bytes):
            raise RemoteProtocolError(f"WELCOME to a subscription carries {sorted(options)}")
        epoch, base, high, high_water = numbers
        self.state = SubscriptionState(epoch, base, high, high_water, prefix, options.get("created") is True)
