"""A machine with a disk: what the effects of a replica come to. It is the shell of the simulation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.replication import vocabulary as say
from actors.replication.replica import CLOSING
from tests.simulation.replication.disk import CLOSED, OPENING, Record
from tests.simulation.replication.transfers import Transfers


class Host(Transfers):
    """One machine."""

    def carry_out(self, effect: Any) -> None:
        HANDLERS[type(effect)](self, effect)

    def _send(self, effect: say.Send) -> None:
        link = self._links.get(effect.to)
        if link is not None:
            link.send(self, effect.message)

    def _ship(self, effect: say.Ship) -> None:
        if effect.lsn < self.disk.end - 20 and self.world.random.random() < 0.5:
            self._later(self.sync_seconds, self._read_and_ship, effect, self.disk.changed)  # from the disk
        else:
            self._ship_now(effect)

    def _read_and_ship(self, effect: say.Ship, changed: int) -> None:
        leads = self.replica is not None and self.replica.leader is not None
        fetched = type(effect.message) is say.Fetched
        if changed == self.disk.changed and not self.fixed and (leads or fetched):
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
        assert not self.fixed, "appended to a log that is being cut or replaced"
        self.write(effect.records)  # type: ignore[arg-type]
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
        disk.synced(min(end, disk.end))
        if not self._step_or_end("synced"):
            return
        if disk.durable < disk.end:
            self._sync_soon()
        self._do(self.replica.synced, self.clock)
        return

    def _truncate(self, effect: say.Truncate) -> None:
        self.fix()
        self._later(self.sync_seconds * 3 + self.cluster.plan.cut_seconds, self._truncated, effect.lsn)

    def _truncated(self, lsn: int) -> None:
        if not self._step_or_end("truncate"):
            return
        assert self.replica is not None
        assert lsn >= self.disk.checkpoint, "truncated below the checkpoint"
        self.world.note(f"{self.name} cuts from {lsn}")
        self.disk.cut(lsn)
        self.disk.durable = self.disk.end
        self.fixed = False
        if self._step_or_end("truncated"):
            self._do(self.replica.truncated, self.clock)

    def _promise(self, effect: say.Promise) -> None:
        assert not self.fixed, "a promise for a log that is being cut or replaced"
        self._later(self.sync_seconds * 2, self._promised, effect.epoch)

    def _promised(self, epoch: int) -> None:
        if not self._step_or_end("promise"):
            return
        assert self.replica is not None
        self.disk.durable = self.disk.end
        if not self._step_or_end("promising"):
            return
        if epoch > self.disk.promised:
            self.disk.noted_durable()
        if self.cluster.defects.promise_in_memory:
            self._promise_in_memory = max(self._promise_in_memory, epoch)
        else:
            self.disk.promised = max(self.disk.promised, epoch)
        self._do(self.replica.synced, self.clock)
        if self.replica is not None:
            self._do(self.replica.promised, self.clock, epoch)
            self._step_or_end("promised")

    def _end_doubt(self, effect: say.EndDoubt) -> None:
        self._later(self.sync_seconds * 2, self._doubt_ended, effect.epoch)

    def _doubt_ended(self, epoch: int) -> None:
        assert self.replica is not None
        if 0 < self.disk.doubt <= epoch:
            self.world.note(f"{self.name} is in doubt no more: {self._shown()}")
            self.cluster.checker.doubt_ended(self)
            self.disk.doubt, self.disk.damaged = 0, False
        self._do(self.replica.doubt_ended, self.clock)

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
        assert not self.fixed, "it leads with a log that is being cut or replaced"
        assert self.promised == effect.epoch, f"it leads {effect.epoch}, and has promised {self.promised}"
        self.world.note(f"{self.name} leads {effect.epoch}: {self._shown()}")
        self.keep = 1
        self.told = 1
        self.write([Record(self.disk.end, effect.epoch, (OPENING, effect.epoch))])
        if self.world.random.random() < 0.5:
            self.disk.durable = self.disk.end  # a disk may be quick
        self.step("lead")
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

    def _hindered(self, effect: say.Hindered) -> None:
        self.world.note(f"{self.name} cannot lead: in doubt are {[each[:3] for each in sorted(effect.doubted)]}")

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


HANDLERS: dict[type, Callable[[Host, Any], None]] = {
    say.Send: Host._send,
    say.Ship: Host._ship,
    say.Append: Host._append,
    say.Truncate: Host._truncate,
    say.Promise: Host._promise,
    say.EndDoubt: Host._end_doubt,
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
    say.Hindered: Host._hindered,
    say.ReadRegister: Host._read_register,
    say.SwapRegister: Host._swap_register,
    say.LeaderKnown: Host._leader_known,
}
