"""A leader falls silent in the mode ``all``: senders go on as soon as the next leader waits for the silent one no more, and not later."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from actors.replication.document import ALL, MAJORITY
from actors.replication.limits import MISS_SECONDS, SILENT_SECONDS
from streams import Sink, Source
from streams.testkit import elapse
from tests.simulation.clients import PATIENCE
from tests.simulation.clustered.plan import ClusterPlan, draw_by_chance
from tests.simulation.clustered.runner import SECRET, ClusteredRun
from tests.simulation.register import RegisterFaults
from tests.simulation.runner import carried_out
from transport import Sender

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.clustered.host import NodeHost
    from transport.clients.sender_session import Confirmation

CABLE: Final = "its cable is pulled"
STILL: Final = "it stands still"
TAKE_OVER_SECONDS: Final = MISS_SECONDS + 2.5
"""Until another one leads and its clients have found it: they have looked elsewhere by then, and may come a second late."""
PAUSE_SECONDS: Final = 0.1
"""Between two messages."""
ON_ITS_WAY_SECONDS: Final = 0.5
"""In which what the leader had said before it fell silent has arrived."""
GIVE_UP_SECONDS: Final = 60.0


class SilentLeader(ClusteredRun):
    """One sender, and a leader that falls silent.

    Attributes:
        how: it does so.
        seconds: for which nothing was confirmed.
        leaders: how many there were.
    """

    how: str
    seconds = 0.0
    leaders = 0

    async def main(self) -> None:
        """Have it fall silent while all are in step, and wait for the next confirmation."""
        loop, cluster = self._loop, self.cluster
        self._confirmed_at = 0.0
        self._ends = False
        await cluster.start()
        await self._until(self._all_in_step)
        client = loop.process("client")
        sending = client.spawn(self._send())
        await self._until(lambda: self._confirmed_at > 0.0)
        leader = cluster.leading
        assert leader is not None
        self._silence(leader)
        begun = loop.time()
        await self._until(lambda: self._confirmed_at > begun + ON_ITS_WAY_SECONDS)
        self.seconds = self._confirmed_at - begun
        self.leaders = len(cluster.watch.leaders)
        self._mend(leader)
        self._ends = True
        await sending
        await cluster.stop()

    async def _send(self) -> None:
        sender = Sender(self.cluster.contact_points, queue="orders", client_id="till", reconnect=PATIENCE)
        paced = Source.from_iterable(self._payloads()).throttle(1, PAUSE_SECONDS)
        await paced.via(sender).to(Sink.foreach(self._note)).run()

    def _payloads(self) -> Iterator[bytes]:
        while not self._ends:
            yield b"paid"

    def _note(self, _: Confirmation) -> None:
        self._confirmed_at = self._loop.time()

    def _all_in_step(self) -> bool:
        if self._plan.mode != ALL:
            return True
        return all(member.in_step for member in self.cluster.register.history[-1].document.members.values())

    def _silence(self, leader: NodeHost) -> None:
        if self.how == STILL:
            assert leader.process is not None
            self._loop.freeze(leader.process)
        else:
            self._network.isolate(leader.name)
            self.cluster.register.silence(leader.name)

    def _mend(self, leader: NodeHost) -> None:
        if self.how == STILL:
            assert leader.process is not None
            self._loop.thaw(leader.process)
        else:
            self._network.heal(leader.name)
            self.cluster.register.heal(leader.name)

    async def _until(self, done: object) -> None:
        assert callable(done)
        async with asyncio.timeout(GIVE_UP_SECONDS):
            while not done():
                await elapse(0.05)


def silent_leader(plan: ClusterPlan, how: str, folder: Path) -> SilentLeader:
    """A run of it."""
    secret = folder / "secret"
    secret.touch(0o600)
    secret.write_text(SECRET)
    made = partial(_made, plan, how, str(secret))
    run = carried_out(plan.base, made, lambda: 0.0)
    assert not run.findings, "\n".join(map(str, run.findings))
    assert run.leaders == 2
    return run


def _made(plan: ClusterPlan, how: str, secret: str, *world: object) -> SilentLeader:
    run = SilentLeader(plan, secret, *world)  # type: ignore[arg-type]  # the loop and the clock of the world that it is carried out in
    run.how = how
    return run


def quick_plan(seed: int, mode: str) -> ClusterPlan:
    """Three nodes that are quick, and nothing that goes wrong by itself."""
    plan = draw_by_chance(seed, mode=mode)
    return replace(
        plan,
        base=replace(plan.base, commit_delay=0.001, heartbeat=5.0, rush=0.0, pause=0.0),
        names=plan.names[:3],
        register=RegisterFaults(),
    )


@pytest.mark.parametrize("how", [CABLE, STILL])
@pytest.mark.parametrize("seed", range(4))
def test_senders_go_on_as_soon_as_the_next_leader_waits_for_the_silent_one_no_more(
    seed: int, how: str, tmp_path: Path
) -> None:
    run = silent_leader(quick_plan(seed, ALL), how, tmp_path)
    assert SILENT_SECONDS < run.seconds < SILENT_SECONDS + TAKE_OVER_SECONDS


@pytest.mark.parametrize("how", [CABLE, STILL])
def test_in_another_mode_they_go_on_as_soon_as_it_leads(how: str, tmp_path: Path) -> None:
    run = silent_leader(quick_plan(0, MAJORITY), how, tmp_path)
    assert run.seconds < 2 * TAKE_OVER_SECONDS
