"""A program that runs a replica's machines on a machine: its life, its clock, its connections and its senders."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from actors.replication import vocabulary as say
from actors.replication.limits import Limits
from actors.replication.replica import Replica
from tests.simulation.replication.disk import CLOSED, Disk, Record

if TYPE_CHECKING:
    from tests.simulation.replication.runner import Cluster
    from tests.simulation.replication.world import Link


@dataclass
class Trigger:
    """A crash at a step of the disk: ``left`` steps of this kind from now. ``down``: for how long; None for any time."""

    kind: str
    left: int
    power: bool
    down: float | None = None


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
    forgets_doubt = False


class Program:
    """One machine, and the program that runs on it.

    Attributes:
        name: its name, which stays.
        disk: its directory, which may be lost.
        up: whether its program runs.
        paused: whether it stands still.
        opened: whether its ports for senders are open.
        full: whether its disk has no room for more of the log.
    """

    full = False

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
        self.fixed = False  # its log is being cut or replaced: nothing else may be done to it
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
        self.paused = self.opened = self.closing = self.draining = self.fixed = self._syncing = False
        self._transfers = {}
        self._pinned = {}
        self._promise_in_memory = 0
        self._timer = 0.0
        self.replica = self.cluster.defects.replica(
            self.clock, self.directory, Log(self), f"{self.name}{self.life}", self.limits
        )
        self.cluster.network.dial(self)
        self._do(self.replica.tick, self.clock)
        if self.full:
            self._do(self.replica.room, self.clock, True)

    def has_room(self, room: bool) -> None:
        """Its disk has room for more of the log, or has none."""
        if room == self.full:
            self.full = not room
            self.world.note(f"the disk of {self.name} {'has room' if room else 'is full'}")
            if self.up:
                self._event(self.life, self._tell_of_room, ())

    def _tell_of_room(self) -> None:
        if self.replica is not None:
            self._do(self.replica.room, self.clock, self.full)

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
        torn = self.disk.durable < self.disk.end and power and self.cluster.tears(self)
        self.disk.crash(self.world.random, power=power)
        if self.cluster.defects.forgets_doubt:
            self.disk.doubt = 0
        if torn:
            self.world.note(f"{self.name} finds a write that is not whole")
            self.disk.doubt = self.disk.promised

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
        self.disk.noted_durable()
        self._closed()
        self._end()
        self.disk.crash(self.world.random, power=False)
        self.world.after(self.world.random.random() * 2, self.start)

    def _closed(self) -> None:
        if self.cluster.defects.closed_takes_lsn and self.disk.records:
            epoch = self.disk.records[-1].epoch
            self.write([Record(self.disk.end, epoch, (CLOSED, self.name))])
            self.disk.durable = self.disk.end

    def write(self, records: Sequence[Record]) -> None:
        """Append to its log."""
        self.disk.append(records)
        self.cluster.checker.appended(self, records)  # type: ignore[arg-type]

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
                    self.carry_out(effect)
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
                    self.cluster.start_later(self, trigger.down)
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
            self.source_lost(peer)
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
        if self.take_piece(sender, message):
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
        self.write([Record(end + index, epoch, (producer, number)) for index, number in enumerate(new)])
        self._sync_soon()
        self._do(self.replica.appended, self.clock)

    # What the parts that know effects add

    def carry_out(self, effect: Any) -> None:
        raise NotImplementedError

    def take_piece(self, sender: str, message: Any) -> bool:
        """Whether a message was a piece of a transfer."""
        raise NotImplementedError

    def source_lost(self, peer: str) -> None:
        """A connection has ended on which a transfer may have come."""
        raise NotImplementedError

    def fix(self) -> None:
        """Its log is changed as a whole from now on."""
        assert not self.fixed, "its log is being cut or replaced already"
        self.fixed = True

    @property
    def promised(self) -> int:
        return max(self.disk.promised, self._promise_in_memory)

    def _sync_soon(self) -> None:
        raise NotImplementedError


class Log:
    """What the replica sees of its host's disk."""

    __slots__ = ("_host",)

    def __init__(self, host: Program) -> None:
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

    @property
    def doubt(self) -> int:
        return self._host.disk.doubt

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
