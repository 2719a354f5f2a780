"""A machine: a disk, a clock, and a program that runs a replica's machines over them. It is the shell of the simulation."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from actors.replication import vocabulary as say
from actors.replication.limits import Limits
from actors.replication.replica import CLOSING, Replica
from tests.simulation.replication.disk import CLOSED, OPENING, Disk, Record

if TYPE_CHECKING:
    from tests.simulation.replication.runner import Cluster
    from tests.simulation.replication.world import Link


@dataclass
class Trigger:
    """A crash at a step of the disk: ``left`` steps of this kind from now."""

    kind: str
    left: int
    power: bool


class Crashed(BaseException):
    """The program ends here."""


class Defects:
    """What the shell and the disk do wrong on purpose; see defects.py. None in the product."""

    replica: type[Replica] = Replica
    checkpoint_all = False
    closed_takes_lsn = False
    no_pin = False
    keeps_id = False
    promise_in_memory = False


class Host:
    """One machine.

    Attributes:
        name: its name, which stays.
        disk: its directory, which may be lost.
        up: whether its program runs.
        paused: whether it stands still.
        opened: whether its ports for senders are open.
    """

    def __init__(self, cluster: Cluster, name: str, disk: Disk, limits: Limits) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.name = name
        self.disk = disk
        self.limits = limits
        self.up = False
        self.paused = False
        self.opened = False
        self.rate = 1.0
        self.offset = 0.0
        self.life = 0
        self.sync_seconds = 0.002
        self.triggers: list[Trigger] = []
        self.replica: Replica | None = None
        self.diverged = False
        self.closing = False
        self.draining = False
        self.numbers: dict[str, int] = {}  # of each producer, the last in the log
        self.places: dict[tuple[str, int], int] = {}  # where what is not confirmed yet stands
        self.told = 0  # confirmed up to here
        self.keep = 1
        self._held: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._links: dict[str, Link] = {}
        self._calls: deque[Callable[[], list[Any]]] = deque()
        self._running = False
        self._syncing = False
        self._timer = 0.0
        self._timer_count = 0
        self._transfers: dict[str, int] = {}  # to whom one is given, and which
        self._pinned: dict[str, int] = {}  # and what lies behind it in the log
        self._taking = 0
        self._promise_in_memory = 0

    @property
    def directory(self) -> str:
        return self.disk.directory

    @property
    def clock(self) -> float:
        return self.world.now * self.rate + self.offset

    # Life

    def start(self) -> None:
        if self.up:
            return
        self.up = True
        self.life += 1
        self.world.note(f"{self.name} starts: {self._shown()}")
        self._links = {}
        self._calls.clear()
        self._held = []
        self.paused = self.opened = self.closing = self.draining = self._syncing = False
        self._transfers = {}
        self._pinned = {}
        self._promise_in_memory = 0
        self._timer = 0.0
        self.replica = self.cluster.defects.replica(
            self.clock, self.directory, Log(self), f"{self.name}{self.life}", self.limits
        )
        self.cluster.network.dial(self)
        self._do(self.replica.tick, self.clock)

    def _shown(self) -> str:
        disk = self.disk
        known = f"durable {disk.durable} committed {disk.committed} promised {disk.promised}"
        return f"{disk.directory[:3]} start {disk.start} end {disk.end} {known}"

    def crash(self, *, power: bool) -> None:
        """The program ends at once; of what was not synced the disk has what it likes."""
        if not self.up:
            return
        self.world.note(f"{self.name} {'loses power' if power else 'is killed'}")
        self._end()
        self.disk.crash(self.world.random, power=power)

    def _end(self) -> None:
        self.up = self.opened = False
        self.life += 1
        self.paused = False
        self._held = []
        self.replica = None
        self.triggers = []
        self._calls.clear()
        self.cluster.network.host_down(self)
        self.cluster.closed(self)

    def stop(self) -> None:
        """A clean stop, as on SIGTERM: hand over, then end."""
        if not self.up or self.paused or self.replica is None:
            return
        self.world.note(f"{self.name} is told to stop")
        if self.replica.leader is not None:
            self.draining = True
            self.opened = False
            self.cluster.closed(self)
            self._do(self.replica.hand_over, self.clock)
            if self.up:
                self._later(5.5, self._stopped)
        else:
            self._stopped()

    def _stopped(self) -> None:
        if not self.up:
            return
        self.world.note(f"{self.name} has stopped")
        self.disk.durable = self.disk.end
        self._closed()
        self._end()
        self.disk.crash(self.world.random, power=False)
        self.world.after(self.world.random.random() * 2, self.start)

    def _closed(self) -> None:
        if self.cluster.defects.closed_takes_lsn and self.disk.records:
            epoch = self.disk.records[-1].epoch
            self.disk.append([Record(self.disk.end, epoch, (CLOSED, self.name))])
            self.disk.durable = self.disk.end

    # Events

    def _later(self, seconds: float, function: Callable[..., None], *arguments: Any) -> None:
        self.world.after(seconds, self._event, self.life, function, arguments)

    def event(self, life: int, function: Callable[..., None], *arguments: Any) -> None:
        """Something that comes from outside; not in another life."""
        if life == self.life:
            self._event(life, function, arguments)

    def _event(self, life: int, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        if life != self.life:
            return
        if self.paused:
            self._held.append((function, arguments))
            return
        function(*arguments)

    def pause(self) -> None:
        if self.up:
            self.world.note(f"{self.name} stands still")
            self.paused = True

    def resume(self) -> None:
        """It goes on; what came meanwhile is there at once, timers first or last."""
        if not self.paused:
            return
        self.world.note(f"{self.name} goes on")
        self.paused = False
        held, self._held = self._held, []
        timers = [each for each in held if each[0] == self._ticked]
        others = [each for each in held if each[0] != self._ticked]
        first, last = (timers, others) if self.world.random.random() < 0.5 else (others, timers)
        life = self.life
        for function, arguments in first + last:
            if life == self.life and not self.paused:
                function(*arguments)

    def _do(self, call: Callable[..., list[Any]], *arguments: Any) -> None:
        """Tell the replica something, and carry out what it wants, and what follows."""
        calls = self._calls
        calls.append(lambda: call(*arguments))
        if self._running:
            return
        self._running = True
        life = self.life
        try:
            while calls:
                for effect in calls.popleft()():
                    HANDLERS[type(effect)](self, effect)
        except Crashed:
            pass
        finally:
            self._running = False
        if life == self.life:
            self._arm()

    def _arm(self) -> None:
        assert self.replica is not None
        due = max((self.replica.next_tick(self.clock) - self.offset) / self.rate, self.world.now)
        if self._timer <= self.world.now or due < self._timer - 1e-9:
            self._timer = due
            self._timer_count += 1
            # A bit late, as timers are: so that time has come by the host's clock.
            self._later(due - self.world.now + 0.0001, self._ticked, self._timer_count)

    def _ticked(self, number: int) -> None:
        if number == self._timer_count and self.replica is not None:
            self._timer = 0.0
            self._do(self.replica.tick, self.clock)

    def step(self, kind: str) -> None:
        """A step of the disk: it may be the last one."""
        for trigger in self.triggers:
            if trigger.kind == kind:
                trigger.left -= 1
                if trigger.left < 0:
                    self.world.note(f"{self.name} at {kind}")
                    self.crash(power=trigger.power)
                    self.cluster.start_later(self)
                    raise Crashed

    def _step_or_end(self, kind: str) -> bool:
        """The same outside of `_do`."""
        try:
            self.step(kind)
        except Crashed:
            return False
        return True

    # Links

    def link_made(self, link: Link, peer: str) -> None:
        self._later(0.0, self._link_made, link, peer)

    def _link_made(self, link: Link, peer: str) -> None:
        assert self.replica is not None
        self._links[peer] = link
        self._do(self.replica.connected, self.clock, peer)

    def link_ended(self, link: Link, peer: str) -> None:
        if self.up:
            self._later(0.0, self._link_ended, link, peer)

    def _link_ended(self, link: Link, peer: str) -> None:
        assert self.replica is not None
        if self._links.get(peer) is link:
            del self._links[peer]
            self._do(self.replica.lost, self.clock, peer)
        self.cluster.network.dial(self)

    def refused(self, peer: str) -> None:
        self._later(0.0, self._refused, peer)

    def _refused(self, peer: str) -> None:
        assert self.replica is not None
        if peer not in self._links:
            self._do(self.replica.lost, self.clock, peer)

    def receive(self, link: Link, sender: str, message: Any) -> None:
        if self.up:
            self._event(self.life, self._received, (sender, message))

    def _received(self, sender: str, message: Any) -> None:
        if self.replica is None:
            return
        if type(message) is Piece:
            self._piece(sender, message)
            return
        if self.world.verbose and not (
            type(message) in (say.Replicate, say.Stored) and not getattr(message, "records", 1)
        ):
            self.world.note(f"{self.name} <- {sender[:3]} {shown(message)}")
        self._do(self.replica.received, self.clock, sender, message)

    # Senders

    def send_if_open(self, producer: str, first: int, count: int) -> None:
        if self.opened:
            self.send(producer, first, count)

    def send(self, producer: str, first: int, count: int) -> None:
        """Messages of a producer; those that are known are not stored again."""
        assert self.replica is not None
        assert self.opened
        known = self.numbers.get(producer, 0)
        new = [number for number in range(first, first + count) if number > known]
        stored = [n for n in range(first, min(known + 1, first + count)) if (producer, n) not in self.places]
        if stored:
            self.cluster.confirmed(self, producer, stored[-1])
        if not new:
            return
        assert self.replica.leader is not None
        epoch = self.replica.leader.epoch
        end = self.disk.end
        self.numbers[producer] = new[-1]
        for index, number in enumerate(new):
            self.places[producer, number] = end + index
        self.disk.append([Record(end + index, epoch, (producer, number)) for index, number in enumerate(new)])
        self._sync_soon()
        self._do(self.replica.appended, self.clock)

    # Effects

    def _send(self, effect: say.Send) -> None:
        link = self._links.get(effect.to)
        if link is not None:
            link.send(self, effect.message)

    def _ship(self, effect: say.Ship) -> None:
        if effect.lsn < self.disk.end - 20 and self.world.random.random() < 0.5:
            self._later(self.sync_seconds, self._read_and_ship, effect)  # from the disk
        else:
            self._ship_now(effect)

    def _read_and_ship(self, effect: say.Ship) -> None:
        if self.replica is not None:
            self._ship_now(effect)

    def _ship_now(self, effect: say.Ship) -> None:
        assert self.replica is not None
        disk, replica = self.disk, self.replica
        records = (
            () if effect.lsn < disk.start else tuple(disk.records[effect.lsn - 1 : effect.lsn - 1 + effect.records])
        )
        if records and effect.nbytes < len(records):  # each record is one byte long here
            records = records[: max(1, effect.nbytes)]
        if type(effect.message) is say.Fetched:
            self._send(say.Send(effect.to, effect.message._replace(records=records)))
            return
        if records:
            self._send(say.Send(effect.to, effect.message._replace(records=records)))
        self._do(replica.shipped, self.clock, effect.to, effect.lsn, effect.lsn + len(records), len(records))

    def _append(self, effect: say.Append) -> None:
        self.disk.append(effect.records)  # type: ignore[arg-type]
        self._sync_soon()

    def _sync_soon(self) -> None:
        if not self._syncing:
            self._syncing = True
            self._later(0.0002, self._sync)

    def _sync(self) -> None:
        if self._step_or_end("write"):
            random = self.world.random
            seconds = self.sync_seconds * (0.5 + random.random())
            self._later(seconds, self._synced, self.disk.changed, self.disk.end)

    def _synced(self, changed: int, end: int) -> None:
        disk = self.disk
        if not self._step_or_end("sync"):
            return
        assert self.replica is not None
        self._syncing = False
        if changed != disk.changed:
            self._sync_soon()  # of a log that is no more
            return
        disk.durable = max(disk.durable, min(end, disk.end))
        if not self._step_or_end("synced"):
            return
        if disk.durable < disk.end:
            self._sync_soon()
        self._do(self.replica.synced, self.clock)
        return

    def _truncate(self, effect: say.Truncate) -> None:
        self._later(self.sync_seconds * 3, self._truncated, effect.lsn)

    def _truncated(self, lsn: int) -> None:
        if not self._step_or_end("truncate"):
            return
        assert self.replica is not None
        assert lsn >= self.disk.checkpoint, "truncated below the checkpoint"
        self.world.note(f"{self.name} cuts from {lsn}")
        self.disk.cut(lsn)
        self.disk.durable = self.disk.end
        if self._step_or_end("truncated"):
            self._do(self.replica.truncated, self.clock)

    def _promise(self, effect: say.Promise) -> None:
        self._later(self.sync_seconds * 2, self._promised, effect.epoch)

    def _promised(self, epoch: int) -> None:
        if not self._step_or_end("promise"):
            return
        assert self.replica is not None
        self.disk.durable = self.disk.end
        if not self._step_or_end("promising"):
            return
        if self.cluster.defects.promise_in_memory:
            self._promise_in_memory = max(self._promise_in_memory, epoch)
        else:
            self.disk.promised = max(self.disk.promised, epoch)
        self._do(self.replica.synced, self.clock)
        if self.replica is not None:
            self._do(self.replica.promised, self.clock, epoch)
            self._step_or_end("promised")

    @property
    def promised(self) -> int:
        return max(self.disk.promised, self._promise_in_memory)

    def _commit(self, effect: say.Commit) -> None:
        disk = self.disk
        assert effect.lsn <= disk.durable, "committed what is not on its disk"
        self.cluster.checker.committed(self, disk.committed, effect.lsn)
        disk.committed = max(disk.committed, effect.lsn)
        if disk.committed - disk.checkpoint >= self.cluster.plan.checkpoint_every:
            self.step("checkpoint")
            below = disk.end if self.cluster.defects.checkpoint_all else disk.committed
            keep = max(self.keep, disk.end - self.cluster.plan.log_budget)
            keep = min((keep, *self._pinned.values()))
            disk.take_checkpoint(min(below, disk.durable), keep)
            self.step("checkpointed")

    def _confirm(self, effect: say.Confirm) -> None:
        self.cluster.checker.confirmed(self, self.told, effect.lsn)
        self.told = effect.lsn
        if not self.opened:
            return
        last: dict[str, int] = {}
        for place in [place for place, lsn in self.places.items() if lsn < effect.lsn]:
            del self.places[place]
            last[place[0]] = max(place[1], last.get(place[0], 0))
        for producer, number in last.items():
            self.cluster.confirmed(self, producer, number)

    def _keep(self, effect: say.Keep) -> None:
        self.keep = effect.lsn

    def _lead(self, effect: say.Lead) -> None:
        assert self.replica is not None
        self.world.note(f"{self.name} leads {effect.epoch}: {self._shown()}")
        self.keep = 1
        self.told = 1
        self.disk.append([Record(self.disk.end, effect.epoch, (OPENING, effect.epoch))])
        self._sync_soon()
        self._do(self.replica.appended, self.clock)

    def _open(self, effect: say.Open) -> None:
        self.cluster.checker.opened(self, effect.epoch, effect.whole)
        self.numbers = {}
        self.places = {}
        for lsn, _, payload in self.disk.records:
            if payload[0] in (OPENING, CLOSED):
                continue
            producer, number = payload
            self.numbers[producer] = max(number, self.numbers.get(producer, 0))
            self.places[producer, number] = lsn
        self.opened = not self.draining

    def _step_down(self, effect: say.StepDown) -> None:
        self.world.note(f"{self.name} steps down: {effect.reason}")
        self.opened = False
        self.closing = True
        self._transfers = {}
        self._pinned = {}
        self.cluster.closed(self)
        if self.draining:
            self._later(0.05, self._stopped)
        else:
            self._later(0.02 + self.world.random.random() * 0.2, self._reopened)

    def _reopened(self) -> None:
        assert self.replica is not None
        assert self.replica.role == CLOSING
        self.closing = False
        self.disk.durable = self.disk.end
        self._closed()
        self._do(self.replica.reopened, self.clock)

    def _leader_known(self, effect: say.LeaderKnown) -> None:
        pass

    def _diverged(self, effect: say.Diverged) -> None:
        self.diverged = True
        self.cluster.checker.diverged(self, effect.lsn)

    def _read_register(self, effect: say.ReadRegister) -> None:
        self.cluster.register.read(self.name, self._register_answer(effect.number))

    def _swap_register(self, effect: say.SwapRegister) -> None:
        self.cluster.register.swap(self.name, effect.version, effect.document, self._register_answer(effect.number))

    def _register_answer(self, number: int) -> Callable[..., None]:
        life = self.life

        def answer(kind: str, *values: Any) -> None:
            self._event(life, self._registered, (kind, number, *values))

        return answer

    def _registered(self, kind: str, number: int, *values: Any) -> None:
        assert self.replica is not None
        self._do(getattr(self.replica, f"register_{kind}"), self.clock, number, *values)

    # Transfers: the checkpoint in pieces, from what is pinned

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
            self._later(0.03, self._give_piece, to, number, cursor + size, stop, combined, pinned)

    def _unpin(self, effect: say.Unpin) -> None:
        self._transfers.pop(effect.to, None)
        self._pinned.pop(effect.to, None)

    def _take(self, effect: say.Take) -> None:
        self._pieces: list[Record] = []
        self._piece_number = 0
        self._taking_from: str | None = effect.source

    def _drop_transfer(self, effect: say.DropTransfer) -> None:
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
        self._later(self.sync_seconds * 3, self._installed)

    def _installed(self) -> None:
        if not self._step_or_end("install"):
            return
        assert self.replica is not None
        self.cluster.checker.installed(self, self._pieces, self._stop)
        self.disk.install(self._pieces, self._stop)
        self.world.note(f"{self.name} has a transfer: {self._shown()}")
        self._taking_from = None
        if self._step_or_end("installed"):
            self._do(self.replica.installed, self.clock)


class Piece:
    """A part of a transfer."""

    __slots__ = ("cursor", "last", "number", "records", "stop")

    def __init__(self, number: int, cursor: int, records: list[Record], stop: int, last: bool) -> None:
        self.number, self.cursor, self.records, self.stop, self.last = number, cursor, records, stop, last


class Log:
    """What the replica sees of its host's disk."""

    __slots__ = ("_host",)

    def __init__(self, host: Host) -> None:
        self._host = host

    @property
    def start(self) -> int:
        return self._host.disk.start

    @property
    def end(self) -> int:
        return len(self._host.disk.records) + 1

    @property
    def durable(self) -> int:
        return self._host.disk.durable

    @property
    def committed(self) -> int:
        return self._host.disk.committed

    @property
    def promised(self) -> int:
        return self._host.promised

    def epoch_of(self, lsn: int) -> int:
        return self._host.disk.epoch_of(lsn)

    def epoch_starts(self) -> Any:
        return self._host.disk.epoch_starts()


def shown(message: Any) -> str:
    if type(message) is say.Replicate or type(message) is say.Fetched:
        records = message.records
        span = f"{records[0].lsn}-{records[-1].lsn}" if records else ""
        return f"{message._replace(records=())} {span}"
    return str(message)


HANDLERS: dict[type, Callable[[Host, Any], None]] = {
    say.Send: Host._send,
    say.Ship: Host._ship,
    say.Append: Host._append,
    say.Truncate: Host._truncate,
    say.Promise: Host._promise,
    say.Commit: Host._commit,
    say.Confirm: Host._confirm,
    say.Keep: Host._keep,
    say.Lead: Host._lead,
    say.Open: Host._open,
    say.StepDown: Host._step_down,
    say.Give: Host._give,
    say.Unpin: Host._unpin,
    say.Take: Host._take,
    say.Install: Host._install,
    say.DropTransfer: Host._drop_transfer,
    say.Diverged: Host._diverged,
    say.ReadRegister: Host._read_register,
    say.SwapRegister: Host._swap_register,
    say.LeaderKnown: Host._leader_known,
}
