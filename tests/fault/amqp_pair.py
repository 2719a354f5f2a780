"""A client of AMQP that behaves, and what it sees: latencies from its publishes to its deliveries, and how long others take to come in.

``python -m tests.fault.amqp_pair HOST PORT RATE`` publishes on a schedule, with confirms, and acknowledges what it gets. For each line on
its input it writes one of JSON, as `tests.fault.honest_pair` does.
"""

from __future__ import annotations

import asyncio
import struct
import sys
import time

from streams.testkit import settle
from tests.fault.honest_pair import answer
from tests.transport.gateways.amqp.async_amqp import AsyncClient
from tests.transport.gateways.amqp.raw_amqp import published
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.layout import FRAME_BODY

QUEUE = "honest"
STAMP = struct.Struct("<d")
HANDSHAKE_EVERY = 0.25
"""Seconds between two that come in."""
PREFETCH = 1_000


class Receiving(AsyncClient):
    """One that notes when each of its own messages has come."""

    def __init__(self) -> None:
        super().__init__()
        self.latencies: list[float] = []
        self.confirmed = 0

    def frame_received(self, kind: int, channel: int, payload: bytes) -> None:
        """A body has come, and with it all of a message."""
        if kind == FRAME_BODY:
            self.latencies.append(time.monotonic() - STAMP.unpack(payload)[0])

    def data_received(self, data: bytes) -> None:
        """Acknowledge what has come in one go."""
        super().data_received(data)
        last = 0
        for each in self.came:
            if isinstance(each.method, basic.BasicDeliver):
                last = each.method.delivery_tag
            elif isinstance(each.method, basic.BasicAck):
                self.confirmed = each.method.delivery_tag
        if last:
            self.say(basic.BasicAck(delivery_tag=last, multiple=True))
            self.came.clear()


class Pair:
    """It, and what it has measured since it was last asked for."""

    def __init__(self, host: str, port: int, rate: float) -> None:
        self._host, self._port = host, port
        self._interval = 1 / rate
        self._client: Receiving | None = None
        self._handshakes: list[float] = []

    async def run(self) -> None:
        """Publish and receive until cancelled, or cut."""
        client = await Receiving.open(self._host, self._port, heartbeat=10)
        await client.ask(entity.QueueDeclare(queue=QUEUE), entity.QueueDeclareOk)
        await client.ask(basic.BasicQos(prefetch_count=PREFETCH), basic.BasicQosOk)
        await client.ask(basic.ConfirmSelect(), basic.ConfirmSelectOk)
        await client.ask(basic.BasicConsume(queue=QUEUE), basic.BasicConsumeOk)
        self._client = client
        await asyncio.gather(self._publish(client), self._knock())

    def measured(self) -> dict[str, float]:
        """The figures since the last call."""
        latencies: list[float] = []
        if self._client is not None:
            latencies, self._client.latencies = sorted(self._client.latencies), []
        handshakes, self._handshakes = self._handshakes, []

        def share(part: float) -> float:
            return round(latencies[int(part * (len(latencies) - 1))] * 1000, 3) if latencies else float("nan")

        return {
            "messages": len(latencies),
            "p50_ms": share(0.5),
            "p99_ms": share(0.99),
            "max_ms": share(1.0),
            "handshakes": len(handshakes),
            "handshake_ms": round(max(handshakes, default=0.0) * 1000, 3),
        }

    async def _publish(self, client: Receiving) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while not client.gone:
            now = loop.time()
            while due <= now:
                # When it was to be sent: a late one does not hide that others wait.
                client.transport.write(published(QUEUE, STAMP.pack(time.monotonic() - (now - due))))
                due += self._interval
            await settle(due - now)
        raise RuntimeError("the broker has ended a connection that broke no rule")

    async def _knock(self) -> None:
        while True:
            began = time.monotonic()
            other = await AsyncClient.open(self._host, self._port)
            self._handshakes.append(time.monotonic() - began)
            other.transport.abort()
            await settle(HANDSHAKE_EVERY)


async def main() -> None:
    """The process."""
    host, port, rate = sys.argv[1:]
    pair = Pair(host, int(port), float(rate))
    await answer(pair)


if __name__ == "__main__":
    asyncio.run(main())
