"""Transfers of the simulation: the checkpoint in pieces, from what is pinned."""

from __future__ import annotations

from typing import Any

from actors.replication import vocabulary as say
from tests.simulation.replication.disk import Record
from tests.simulation.replication.program import Program


class Piece:
    """A part of a transfer."""

    __slots__ = ("cursor", "last", "number", "records", "stop")

    def __init__(self, number: int, cursor: int, records: list[Record], stop: int, last: bool) -> None:
        self.number, self.cursor, self.records, self.stop, self.last = number, cursor, records, stop, last


class Transfers(Program):
    """What a host does with those that it gives and takes."""

    def _give(self, effect: say.Give) -> None:
        self.cluster.transfers += 1
        number = self._transfers[effect.to] = self.cluster.transfers
        disk = self.disk
        if not self.cluster.defects.no_pin:
            self._pinned[effect.to] = disk.checkpoint
        self.world.note(f"{self.name} gives a transfer to {effect.to[:3]}: below {disk.checkpoint}")
        pinned = None if self.cluster.defects.no_pin else list(disk.records[: disk.checkpoint - 1])
        self._later(0.01, self._give_piece, effect.to, number, 0, disk.checkpoint, disk.combined, pinned)

    def _give_piece(
        self, to: str, number: int, cursor: int, stop: int, combined: int, pinned: list[Record] | None
    ) -> None:
        if self._transfers.get(to) != number:
            return
        size = max(5, stop // 8)
        if pinned is not None:
            piece = pinned[cursor : cursor + size]
        else:
            piece = self.disk.records[cursor : min(cursor + size, stop - 1)]
            if self.disk.combined != combined:
                # The files that it read are gone.
                piece = [record._replace(payload=("lost", 0)) for record in piece]
        last = cursor + size >= stop - 1
        link = self._links.get(to)
        if link is None:
            return
        link.send(self, Piece(number, cursor, piece, stop, last))
        if not last:
            self._later(self.cluster.plan.pace, self._give_piece, to, number, cursor + size, stop, combined, pinned)

    def _unpin(self, effect: say.Unpin) -> None:
        self._transfers.pop(effect.to, None)
        self._pinned.pop(effect.to, None)

    def _take(self, effect: say.Take) -> None:
        self._pieces: list[Record] = []
        self._piece_number = 0
        self._taking_from: str | None = effect.source

    def _drop_transfer(self, effect: say.DropTransfer) -> None:
        assert not self.fixed, "a transfer that is being installed is dropped"
        self._taking_from = None

    def _piece(self, sender: str, piece: Piece) -> None:
        assert self.replica is not None
        if getattr(self, "_taking_from", None) != sender:
            return
        if piece.cursor == 0:
            self._pieces, self._piece_number = [], piece.number
        if piece.number != self._piece_number or piece.cursor != len(self._pieces):
            return
        self._pieces += piece.records
        self.replica.taking(self.clock)
        if piece.last:
            self._stop = piece.stop
            self._do(self.replica.transferred, self.clock)

    def _install(self, effect: say.Install) -> None:
        self.fix()
        self._later(self.sync_seconds * 3 + self.cluster.plan.cut_seconds, self._installed)

    def _installed(self) -> None:
        if not self._step_or_end("install"):
            return
        assert self.replica is not None
        self.cluster.checker.installed(self, self._pieces, self._stop)
        self.disk.install(self._pieces, self._stop)
        self.world.note(f"{self.name} has a transfer: {self._shown()}")
        self._taking_from = None
        self.fixed = False
        if self._step_or_end("installed"):
            self._do(self.replica.installed, self.clock)

    def source_lost(self, peer: str) -> None:
        """The connection to who gives a transfer has ended: it waits for another one, or is over."""
        taking = self.replica is not None and getattr(self, "_taking_from", None) == peer
        if self.cluster.plan.breaking and taking and not self.fixed:
            assert self.replica is not None
            self._taking_from = None
            self._do(self.replica.transfer_failed, self.clock)

    def take_piece(self, sender: str, message: Any) -> bool:
        if type(message) is not Piece:
            return False
        self._piece(sender, message)
        return True
