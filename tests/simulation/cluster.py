"""The broker under test and its host: start, stop in good order, kill, power off. The adapter between the simulation and the product."""

from __future__ import annotations

import asyncio
import logging
from random import Random
from typing import TYPE_CHECKING, Any

from actors import ask
from actors.queue.vocabulary.commands import GetStatistics
from actors.storage import Storage
from journal import JournalOptions
from tests.simulation.clients import RECEIVE_ADDRESS, SEND_ADDRESS
from tests.simulation.defined import note_defined
from tests.simulation.delayed_plan import LATER
from tests.simulation.gateway import note_remembered, use_map
from tests.simulation.history import Counted, Crashed, DroppedInAll, History, Started
from tests.simulation.storage import DIRECTORY, Disk
from tests.simulation.taking import Taking
from tests.simulation.way_in import WayIn
from transport import Broker, BrokerConfig
from transport.broker.broker_connection import native_listeners

if TYPE_CHECKING:
    from tests.simulation.loop import Process, SimulatedLoop
    from tests.simulation.network import Network
    from tests.simulation.plan import Plan

BROKER = "broker"
SMALL_JOURNAL = {"segment_bytes": 64 * 1024, "checkpoint_bytes": 200 * 1024, "checkpoint_records": 300}
"""A run's few hundred kilobytes are to fill segments, make checkpoints and have segments combined."""
START_TIMEOUT = 30.0
"""Virtual seconds that a start, or a stop in good order, may take."""


class BrokerHost:
    """A host that runs one broker at a time.

    Attributes:
        process: the broker's life, None between two.
        broker: the broker in it.
        lives: how many there were.
    """

    def __init__(self, plan: Plan, loop: SimulatedLoop, network: Network, history: History) -> None:
        self.process: Process | None = None
        self.broker: Broker | None = None
        self.lives = 0
        self._gateway: asyncio.Task[None] | None = None
        self._way_in = WayIn()
        self._taking = Taking(plan, history)
        self._plan = plan
        self._loop = loop
        self._network = network
        self._history = history
        self._disk = Disk(loop, Random(f"disk {plan.seed}"), plan.commit_delay) if plan.durable else None

    @property
    def running(self) -> bool:
        """Whether a broker takes connections."""
        return self.broker is not None

    async def start(self) -> None:
        """Start the broker and declare its queues, which is no error where it remembers them."""
        self.process = self._loop.process(BROKER)
        self.lives += 1
        if self._disk is not None:
            self._disk.begin_life()
        async with asyncio.timeout(START_TIMEOUT):
            self.broker = await self.process.spawn(self._open())
        self._history.add(Started(self._loop.time(), self.lives))
        # No time passes in a turn of this loop: by this clock some turns end early, as on a machine that is slow.
        slow = Random(f"slow {self._plan.seed} {self.lives}")
        self.broker.queues.exchanges.publishing.clock = lambda: self._loop.time() + slow.choice((0.0, 0.0, 0.0, 1.0))
        if self._plan.exchanges is not None:
            await self.process.spawn(note_defined(self.broker.queues, self._plan.exchanges, self._history, self.lives))
        memory, pause = self.broker.memory, self._plan.remembers
        if pause is not None:
            note_remembered(memory, self._history, self._loop.time())
            random = Random(f"gateway {self._plan.seed} {self.lives}")
            self._gateway = self.process.spawn(use_map(memory, random, pause, self._history))
        self._taking.start(self.process, self._way_in.operations, self.broker.epoch, self.lives)

    def end_takers(self) -> None:
        """Nobody takes anything any more; what was taken is not settled."""
        self._taking.end()

    async def stop(self) -> None:
        """Stop in good order."""
        assert self.process is not None
        assert self.broker is not None
        broker, self.broker = self.broker, None
        if self._gateway is not None:
            self._gateway.cancel()
            note_remembered(broker.memory, self._history, self._loop.time())
        async with asyncio.timeout(START_TIMEOUT):
            await self.process.spawn(broker.__aexit__(None, None, None))
        self._history.add(Crashed(self._loop.time(), "stopped"))
        self._end(silent=False)
        if self._disk is not None:
            self._disk.stop()

    def kill(self) -> None:
        """As kill -9: what was written stays written."""
        self._history.add(Crashed(self._loop.time(), "killed"))
        self._crash(power=False)

    def power_off(self) -> None:
        """As a pulled plug: the connections fall silent."""
        self._history.add(Crashed(self._loop.time(), "power"))
        self._crash(power=True)

    async def stored(self, queue: str) -> int:
        """Messages that a queue still has, or that wait at the exchange at which they do."""
        if self.broker is not None and queue == LATER:
            return self.broker.queues.exchanges.waiting.at(LATER)
        if self.broker is not None and queue not in self.broker.queues:
            # It comes and goes, and nobody has asked for it yet.
            return 1
        return int((await self._statistics(queue)).stored_messages)

    async def counted(self, queue: str) -> Counted:
        """What a queue says of itself."""
        of = await self._statistics(queue)
        gone = (
            of.total_acknowledged
            + of.total_purged
            + of.total_expired
            + of.total_dead_lettered
            + of.total_moved
            + of.total_dropped
        )
        parts = of.ready + of.delayed + of.in_flight + of.reserved + of.leaving
        return Counted(
            self._loop.time(), queue, of.total_in, of.total_out, of.total_redelivered, gone, of.stored_messages, parts
        )

    async def dropped(self, queue: str) -> DroppedInAll:
        """How many messages a queue has dropped."""
        return DroppedInAll(self._loop.time(), queue, (await self._statistics(queue)).total_dropped)

    async def _statistics(self, queue: str) -> Any:
        assert self.broker is not None
        assert self.process is not None
        return await self.process.spawn(_ask(self.broker.queues.get(queue), GetStatistics()))

    # Inside

    async def _open(self) -> Broker:
        config = BrokerConfig(
            send_address=SEND_ADDRESS,
            receive_address=RECEIVE_ADDRESS,
            # Its network is simulated too, and reaches nobody.
            insecure=True,
            heartbeat=self._plan.heartbeat,
            transaction_timeout=self._plan.transaction_timeout,
            # What the machine that simulates has in use, and has left, is no part of the simulation.
            memory_watermark=1.0,
            disk_floor=0,
        )
        storage = None
        if self._disk is not None:
            options = JournalOptions(**SMALL_JOURNAL)
            storage = Storage.open(DIRECTORY, options, files=self._disk.files, committer=self._disk.committer)
        # A listener is of one broker.
        self._way_in = WayIn()
        listeners = [*native_listeners(SEND_ADDRESS, RECEIVE_ADDRESS), self._way_in]
        broker = Broker(config, storage=storage, listen=_listen, listeners=listeners)
        await broker.__aenter__()
        for queue in self._plan.queues:
            if queue.name not in broker.queues:
                # One that is there may have been altered.
                broker.queues.declare(queue.name, queue.settings)
        return broker

    def _crash(self, power: bool) -> None:
        process = self.process
        assert process is not None
        self._end(silent=power)
        if self._disk is not None:
            process.call(self._disk.die, power)

    def _end(self, silent: bool) -> None:
        assert self.process is not None
        self.broker = None
        self._network.kill(self.process, silent)
        self._loop.kill(self.process)
        self.process = None


async def _listen(intake: Any, host: str, port: int) -> Any:
    """On the simulated network."""
    return await asyncio.get_running_loop().create_server(intake.factory, host, port)


async def _ask(ref: Any, message: Any) -> Any:
    return await ask(ref, message)


class Complaints(logging.Handler):
    """What the product logs as an error: each is a defect, for a bad network is none."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))
