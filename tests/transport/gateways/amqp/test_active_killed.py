"""Processes of active consumers that are killed or frozen: the next one goes on, in order, and what came before is marked."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.transport.gateways.amqp.active_client import HOLDS
from tests.transport.gateways.amqp.conftest import AmqpBroker
from tests.transport.gateways.amqp.peers import MOST_SILENT_SECONDS
from tests.transport.gateways.amqp.raw_amqp import SECONDS, RawClient, published
from tests.transport.programs import ROOT
from transport.gateways.amqp.tables import Table

Named = Callable[[str], str]
MESSAGES = 40
ACKNOWLEDGED = 3


class Active:
    """A process that consumes from a queue."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._rest = b""

    def lines(self, number: int) -> list[str]:
        """So many that it says."""
        assert self.process.stdout is not None
        while self._rest.count(b"\n") < number:
            ready, _, _ = select.select([self.process.stdout], [], [], SECONDS)
            assert ready, f"it has said {self._rest!r}"
            said = os.read(self.process.stdout.fileno(), 1 << 16)
            assert said, "it has ended"
            self._rest += said
        *lines, self._rest = self._rest.split(b"\n", number)
        return [line.decode() for line in lines]


@contextmanager
def consuming(port: int, queue: str, heartbeat: int, acknowledges: int) -> Iterator[Active]:
    module = "tests.transport.gateways.amqp.active_client"
    command = [sys.executable, "-m", module, str(port), queue, str(heartbeat), str(acknowledges)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    try:
        yield Active(process)
    finally:
        process.kill()
        process.wait(SECONDS)
        process.stdout.close()


def await_consumers(client: RawClient, queue: str, number: int) -> None:
    deadline = time.monotonic() + SECONDS
    while client.declare(queue, passive=True).consumer_count < number:
        assert time.monotonic() < deadline, "the next one does not come"


@pytest.mark.parametrize(
    ("how", "heartbeat", "within"), [(signal.SIGKILL, 5, 10), (signal.SIGSTOP, 1, MOST_SILENT_SECONDS)]
)
def test_when_the_active_consumer_is_lost_the_next_goes_on_within_two_heartbeats_in_order(
    broker: AmqpBroker, named: Named, how: signal.Signals, heartbeat: int, within: float
) -> None:
    with RawClient(broker.port) as client:
        queue = client.declare(
            named("active"), durable=True, arguments=Table.of({"x-single-active-consumer": True})
        ).queue
        client.write(b"".join(published(queue, b"%d" % number) for number in range(MESSAGES)))
        held = ACKNOWLEDGED + HOLDS
        with consuming(broker.port, queue, heartbeat, ACKNOWLEDGED) as first:
            assert first.lines(held) == [f"{number} new" for number in range(held)]
            with consuming(broker.port, queue, heartbeat, MESSAGES) as second:
                await_consumers(client, queue, 2)
                since = time.monotonic()
                os.kill(first.process.pid, how)
                again = [f"{number} again" for number in range(ACKNOWLEDGED, held)]
                assert second.lines(HOLDS) == again
                assert time.monotonic() - since < within
                assert second.lines(MESSAGES - held) == [f"{number} new" for number in range(held, MESSAGES)]
