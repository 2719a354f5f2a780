"""Senders of a leader are granted nothing for a part of each second, while a node lags: what `actors.replication.holding` comes to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from actors.replication.holding import MOST_SHARE, PERIOD_SECONDS, Holding, lagging

if TYPE_CHECKING:
    from actors.replication.document import ClusterDocument
    from actors.replication.leader import Leader
    from actors.replication.standing import Marks

logger = logging.getLogger("penstock.cluster")


class SendersHolding:
    """Of one node, on the running loop.

    Args:
        hold: told to grant senders nothing, and to do so again.
    """

    def __init__(self, hold: Callable[[bool], None]) -> None:
        self._hold = hold
        self._loop = asyncio.get_running_loop()
        self._epoch = 0  # of the lead; 0 for none
        self._holding = Holding()
        self._timer: asyncio.TimerHandle | None = None
        self._holds = False
        self._told: str | None = None

    def facts(self, document: ClusterDocument | None, *, leads: bool) -> dict[str, Any]:
        """As people and programs are shown it: the share of the time, for whom, and for whom it is done no more.

        Nothing is known where this node does not lead.
        """
        holding = self._holding
        name = _by_directory if document is None else document.name_of
        return {
            "held_back": round(holding.share, 2) if leads else None,
            "held_back_for": None if holding.directory is None else name(holding.directory),
            "given_up": [name(each) for each in holding.given_up],
        }

    def look(
        self,
        leader: Leader,
        marks: Marks,
        appended: int,
        without_room: Collection[str],
        name: Callable[[str], str],
    ) -> None:
        """Look at who lags; some times in two seconds.

        Args:
            leader: this node's lead.
            marks: of its log.
            appended: bytes that were appended to that, as the marks have them.
            without_room: the directories whose disks have none.
            name: of a directory's member, as people know it.
        """
        if not leader.opened or leader.over:
            self.stop()
            return
        if leader.epoch != self._epoch:
            self.stop()
            self._epoch = leader.epoch
        now, end = self._loop.time(), leader.log.end
        lacks = lagging(leader, now, lambda stored: marks.lacking(stored, end, appended), without_room)
        for directory in self._holding.look(now, lacks):
            logger.warning(
                "the node %s does not come in step though senders were held back for it: they have their full rate again, and it goes on "
                "as fast as it can. Look at its disk, its processor and its network, or slow senders for a while (see docs/cluster.md)",
                name(directory),
            )
        self._say(name)
        if self._holding.share and self._timer is None:
            self._begin()

    def stop(self) -> None:
        """Hold nobody back any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._set(False)
        self._epoch = 0
        self._holding, self._told = Holding(), None

    # Inside

    def _say(self, name: Callable[[str], str]) -> None:
        directory = self._holding.directory
        if directory == self._told:
            return
        self._told = directory
        if directory is None:
            logger.info("senders are held back no more")
        else:
            logger.info(
                "senders are held back, for %d %% of the time at most, so that the node %s comes in step",
                round(MOST_SHARE * 100),
                name(directory),
            )

    def _begin(self) -> None:
        """A period begins."""
        self._timer = None
        share = self._holding.share
        if share:
            self._set(True)
            self._timer = self._loop.call_later(share * PERIOD_SECONDS, self._release, (1 - share) * PERIOD_SECONDS)

    def _release(self, rest: float) -> None:
        self._set(False)
        self._timer = self._loop.call_later(rest, self._begin)

    def _set(self, holds: bool) -> None:
        if holds is not self._holds:
            self._holds = holds
            self._hold(holds)


def _by_directory(directory: str) -> str:
    return directory
