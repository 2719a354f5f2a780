"""Messages that wait in a queue of their own while faults happen, and are received and judged at the end: none of them is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.fault.machines.cluster import Cluster
from tests.fault.machines.load import Load
from tests.fault.machines.machines import Machine
from tests.fault.machines.options import Options
from tests.fault.machines.processes import ProcessError

QUEUE: Final = "backlog"
BATCH: Final = 1_000
WINDOW: Final = 20_000
"""Sent and not confirmed, or delivered and not acknowledged."""
SIZE: Final = 100
LEAST_A_SECOND: Final = 5_000
"""Messages: three brokers and their disks on one busy machine do ten times as many."""
START_SECONDS: Final = 60.0


class Backlog:
    """They wait when this is made.

    Args:
        machine: the clients'.
        folder: for the logs; it is made.
        cluster: where they wait.
        count: messages, at least.

    Attributes:
        count: that were confirmed in all.
    """

    def __init__(self, machine: Machine, folder: Path, cluster: Cluster, count: int) -> None:
        options = Options(queue=QUEUE, senders=1, batch=BATCH, size=SIZE, window=WINDOW, longest_wait=0.2)
        self._seconds = START_SECONDS + count / LEAST_A_SECOND
        self._load = Load(machine, folder, cluster.send, cluster.receive, options)
        self._load.start_senders()
        self._load.wait_confirmed(count, self._seconds)
        self._load.stop_senders()
        self.count = self._load.confirmed

    def end(self, left: Callable[[str], int]) -> str:
        """Receive all of it; what there is to say of it.

        Args:
            left: how many messages a queue still has.

        Raises:
            ProcessError: some of it was lost, or came otherwise than it must; or not all came in time.
        """
        if (waiting := left(QUEUE)) != self.count:
            raise ProcessError(f"{self.count} messages were to wait, and {waiting} do")
        self._load.start_receivers()
        self._load.drain(lambda: left(QUEUE), self._seconds)
        found = self._load.judge()
        if not found.clean or found.facts["acknowledged"] != self.count:
            raise ProcessError(f"the backlog of {self.count} messages is not whole:\n{found.summary()}")
        return f"backlog: {self.count:,} messages waited, and all have come"
