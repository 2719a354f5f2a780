"""What clients meet at a node: a broker while it leads, and a door that says who leads while it does not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from actors.errors import StorageError
from actors.storage.failures import LeadershipLostError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from actors.storage.leader_storage import LeaderStorage
    from transport.broker.broker import Broker

STEP_DOWN_SECONDS: Final = 1.0
"""For the clients of a lead that is over to take their leave: until then this node cannot say what it has to who leads next."""

logger = logging.getLogger("penstock.cluster")


class Door(Protocol):
    """What takes connections in the broker's place, at the same addresses."""

    async def open(self) -> None:
        """Take connections, and tell each who leads."""

    async def close(self) -> None:
        """Take none any more."""


class Service:
    """The broker of a node, or its door. At most one of the two is there.

    Attributes:
        broker: the one that stands; None while this node does not lead, or is about to.

    Args:
        make_broker: a broker over a storage, not entered yet.
        door: what is there in its place.
    """

    def __init__(self, make_broker: Callable[[LeaderStorage], Broker], door: Door) -> None:
        self.broker: Broker | None = None
        self._make_broker = make_broker
        self._door = door
        self._door_open = False
        self._changing = asyncio.Lock()
        self._draining = False

    def lead_no_more(self) -> None:
        """Tell the clients of a broker that stands, from now on, that they have to go elsewhere; `follow` ends it."""
        if self.broker is not None:
            self.broker.lead_no_more()

    async def follow(self) -> None:
        """Have the door stand, and no broker: its clients have been told to go elsewhere, or are told now."""
        async with self._changing:
            if self.broker is not None:
                self.broker.leave_within(STEP_DOWN_SECONDS)
            await self._end_broker()
            if not self._door_open and not self._draining:
                await self._door.open()
                self._door_open = True

    async def lead(self, opened: Callable[[], Awaitable[LeaderStorage]]) -> bool:
        """Have a broker stand over the storage that ``opened`` gives; whether it does. Not where this node leads no more meanwhile.

        Raises:
            StorageError: the storage cannot be read.
            OSError: an address is taken.
        """
        async with self._changing:
            try:
                storage = await opened()
                if self._draining:
                    return False
                await self._close_door()
                broker = self._make_broker(storage)
                await broker.__aenter__()
            except LeadershipLostError as error:
                logger.info("no broker stands here: %s", error)
                return False
            self.broker = broker
            return True

    async def standing(self) -> None:
        """Wait until whatever changes now has changed: then a broker stands, or the door does."""
        async with self._changing:
            pass

    async def drain(self, seconds: float) -> None:
        """The process ends: bring the broker to an end in good order, within ``seconds``; neither it nor a door stands from then on."""
        self._draining = True
        broker = self.broker
        if broker is not None and seconds > 0:
            await broker.drain(seconds)
        elif broker is not None:
            broker.leave_within(STEP_DOWN_SECONDS)
        async with self._changing:
            await self._end_broker()
            await self._close_door()

    async def _end_broker(self) -> None:
        broker, self.broker = self.broker, None
        if broker is not None:
            try:
                await broker.__aexit__(None, None, None)
            except LeadershipLostError as error:
                logger.info("the broker here has ended: %s", error)
            except StorageError as error:
                # Whoever ends the node has been told.
                logger.error("the broker here has ended: %s", error)

    async def _close_door(self) -> None:
        if self._door_open:
            self._door_open = False
            await self._door.close()
