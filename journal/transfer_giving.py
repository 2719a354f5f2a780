"""The transfers that a replica gives, as its journal makes checkpoints: each gets one that is made for it, or else the one that is stored.

A leader's checkpoint is stored only once all that it contains is committed. That may need the very replica that is to be filled: of three
one is away for long, and then another one goes, when the first is there again. So whoever waits for such a checkpoint can be given the one
before it. The files that it lists are there until the next one is stored, and so is its log while somebody is being filled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from journal.log_reading import LogReading
from journal.transfer_source import TransferSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from journal.files import Files
    from journal.housekeeping import Housekeeping
    from journal.pins import Pins
    from journal.reclaim import Live
    from journal.writer import Task


class TransferGiving(LogReading):
    """The part of a `ReplicatedJournal` that gives transfers."""

    pins: Pins
    _directory: Path
    _files: Files
    _housekeeping: Housekeeping
    _held: tuple[int, Sequence[Task]] | None
    _begun: list[TransferSource]
    _wanted: list[TransferSource]
    _chosen: list[TransferSource]
    _storing: list[TransferSource]

    def begin_transfer(self, ready: Callable[[TransferSource], None]) -> TransferSource:
        """Have the next checkpoint that is prepared be one that a replica is filled with; whoever asks has one made, and releases it.

        ``ready`` is called, on a thread of the journal or, by `give_stored`, in that call, when it is stored and can be read.
        """
        source = TransferSource(self._files, self._directory, self._catalog, self.pins, ready)
        # While a checkpoint waits for commits somebody may come and go again and again.
        self._begun = [*_unreleased(self._begun), source]
        self._wanted = [*_unreleased(self._wanted), source]
        return source

    def _spared_lsn(self) -> int:
        """From which record on the log stays for those who are being filled: what is behind the checkpoint that is stored."""
        stored = self._housekeeping.stored
        if stored is None or not _unreleased(self._begun):
            return self.next_lsn
        return stored.lsn

    @property
    def transfer_wanted(self) -> bool:
        """Whether somebody waits for a checkpoint that is to be prepared; on any thread."""
        return bool(_unreleased(self._wanted))

    @property
    def held_lsn(self) -> int:
        """Up to which record all has to be committed before the checkpoint that is made is stored; 0 where none waits for that."""
        return 0 if self._held is None else self._held[0]

    def give_stored(self) -> None:
        """Where a checkpoint waits for commits: those that wait for it, or for one behind it, get the one that is stored.

        Not where its log is gone, as where a checkpoint was cut before anybody was to be filled: then it would be of no use.
        """
        stored = self._housekeeping.stored
        if self._held is None or stored is None or stored.lsn < self.log_start:
            return
        waiting = _unreleased((*self._storing, *self._wanted))
        self._storing.clear()
        self._wanted.clear()
        for transfer in waiting:
            transfer.stand_in(stored)

    def _choose(self, live: Live) -> Iterator[None]:
        """While a checkpoint is prepared: which records those are to get that wait for one."""
        while self._wanted:
            transfer = self._wanted.pop()
            if not transfer.released:  # else whoever wanted it has gone, and may have come and gone many times
                yield from transfer.choose(live)
                self._chosen.append(transfer)


def _unreleased(transfers: Iterable[TransferSource]) -> list[TransferSource]:
    return [each for each in tuple(transfers) if not each.released]
