"""A broker that is killed while messages come one by one, each of which its event loop commits itself: what was confirmed is there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

from tests.decoding import FrameDecoder
from tests.fault.kill_process import Broker
from transport import MessageBatch, Receiver, parse_address
from transport.wire import messages as wire
from transport.wire.codec import decode, encode
from transport.wire.frames import MAX_FRAME_BYTES

LIVES = 6
MOST_A_LIFE = 200
SEED = 4711
DEADLINE = 60.0


class LoneSender:
    """Sends one message and waits for its confirmation, and so on.

    Attributes:
        confirmed: messages confirmed, over all connections.
    """

    def __init__(self) -> None:
        self.confirmed = 0

    async def live(self, broker: Broker, messages: int) -> None:
        """Connect, have ``messages`` confirmed, and leave one more under way."""
        address = parse_address(broker.send_address)
        reader, writer = await asyncio.open_connection(address.host, address.port)
        decoder = FrameDecoder(MAX_FRAME_BYTES)
        said: list[wire.Frame] = []

        async def hear(kind: type[wire.Frame]) -> wire.Frame:
            while True:
                while said:
                    if type(frame := said.pop(0)) is kind:
                        return frame
                data = await reader.read(65536)
                assert data, "the broker has ended by itself"
                said.extend(decode(raw) for raw in decoder.receive_data(data))

        def say(frame: wire.Frame) -> None:
            writer.writelines([bytes(part) for part in encode(frame)])

        say(wire.Hello(wire.VERSION, "sender", "q", "lone", {}))
        welcome = await hear(wire.Welcome)
        assert isinstance(welcome, wire.Welcome)
        number = welcome.options["last_sequence"] or 0
        assert self.confirmed <= number <= self.confirmed + 1, "nothing that was confirmed is lost"
        await hear(wire.Demand)
        for _ in range(messages):
            say(wire.Send(number, None, MessageBatch.from_payloads([b"%d" % number])))
            sent = await hear(wire.Sent)
            assert isinstance(sent, wire.Sent)
            number = self.confirmed = sent.up_to
        say(wire.Send(number, None, MessageBatch.from_payloads([b"%d" % number])))
        await writer.drain()
        writer.transport.abort()


def switches_of_other_threads(pid: int) -> int:
    """How often the process's threads but the first have gone to sleep."""
    return sum(
        int(line.split()[1])
        for task in Path(f"/proc/{pid}/task").iterdir()
        if task.name != str(pid)
        for line in (task / "status").read_text().splitlines()
        if line.startswith("voluntary_ctxt_switches")
    )


def test_what_is_confirmed_to_a_lone_sender_survives_kill_9_though_no_other_thread_wrote_it(tmp_path: Path) -> None:
    async def main() -> None:
        random, sender = Random(SEED), LoneSender()
        switches = 0
        async with Broker(["--data", str(tmp_path / "data")], "tests.fault.patient_broker") as broker:
            for _ in range(LIVES):
                await broker.start()
                before = switches_of_other_threads(broker.pid)
                async with asyncio.timeout(DEADLINE):
                    await sender.live(broker, random.randint(MOST_A_LIFE // 2, MOST_A_LIFE))
                switches += switches_of_other_threads(broker.pid) - before
                await broker.kill()
            assert switches < 0.8 * sender.confirmed, "the writer's thread wakes once at least for each that it commits"
            await broker.start()
            received: list[bytes] = []
            async for delivery in Receiver(broker.receive_address, queue="q", limit=sender.confirmed):
                received.append(delivery.payload)
                delivery.acknowledge()
            assert received == [b"%d" % number for number in range(sender.confirmed)]

    asyncio.run(main())
