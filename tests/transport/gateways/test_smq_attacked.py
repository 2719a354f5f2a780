"""Both ports of the simple message queue under bytes that mean nothing, and under many who begin large messages."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from tests.transport.conftest import until
from tests.transport.gateways.conftest import Serve
from tests.transport.gateways.smq_client import Port, Sink, Source
from transport import Broker
from transport.gateways.smq.protocol import MAX_PAYLOAD_BYTES
from transport.shell.partial_frames import IN_TURN, PartialFrames
from transport.wire.receiving import SHARED_BUFFER_BYTES

pytestmark = pytest.mark.event_loop
CONNECTIONS = 60
BITS = (
    b"M",
    b"I",
    b"E",
    b"Y",
    b"R",
    b"\0\0\0\0",
    b"\0\0\0\7",
    b"\xff\xff\xff\xff",
    b"\0\x80\0\0",
    b"\0\x7f\xff\xff",
    bytes(16),
)


def noise(random: Random) -> bytes:
    """Bytes of which some are nearly right."""
    pieces = random.randint(1, 40)
    return b"".join(random.choice(BITS) if random.random() < 0.8 else random.randbytes(9) for _ in range(pieces))


@pytest.mark.parametrize("seed", range(4))
def test_the_broker_lives_on_whatever_its_ports_are_told(run: Any, smq: Serve, seed: int) -> None:
    async def main() -> None:
        random = Random(seed)
        async with smq() as broker:
            ports = [broker.addresses("smq-source")[0], broker.addresses("smq-sink")[0]]
            await asyncio.gather(*(annoyed(random.choice(ports), Random(random.random())) for _ in range(CONNECTIONS)))
            await until(lambda: not broker.connections)
            assert broker.partial.bytes == 0
            await usable(broker)

    run(main)


async def annoyed(address: Any, random: Random) -> None:
    peer = await Port.connect(address)
    for _ in range(random.randint(1, 5)):
        peer.write(noise(random))
        try:
            await peer.writer.drain()
        except ConnectionError:
            break
    if random.random() < 0.5:
        peer.vanish()
    else:
        await peer.close()


async def usable(broker: Broker) -> None:
    """A message goes through, behind whatever the noise had stored."""
    source = await Source.connect(broker.addresses("smq-source")[0])
    await source.send(b"the last one")
    sink = await Sink.connect(broker.addresses("smq-sink")[0])
    while (await sink.receive()).payload != b"the last one":
        pass
    await source.close()
    await sink.close()


def test_nothing_is_kept_of_a_large_message_before_it_comes(run: Any, smq: Serve) -> None:
    async def main() -> None:
        async with smq() as broker:
            sources = [await Source.connect(broker.addresses("smq-source")[0]) for _ in range(50)]
            for source in sources:
                source.write(b"M" + MAX_PAYLOAD_BYTES.to_bytes(4, "big"))
            await until(
                lambda: (
                    len(broker.connections) == 50
                    and all(each.connection.bytes_in for each in broker.connections.values())
                )
            )
            kept = [each._protocol for each in broker.connections.values()]  # type: ignore[attr-defined]  # sources
            assert sum(protocol.kept for protocol in kept) == 5 * 50
            for source in sources:
                source.vanish()

    run(main)


def test_many_large_messages_at_once_wait_for_room_and_all_are_taken(
    run: Any, smq: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes of those that have not begun to wait is one receive each, beyond the limit and the places of the line."""
    size, count, limit = 3 << 20, 12, 2 << 20
    most = [0]
    note = PartialFrames._note

    def noting(self: PartialFrames) -> None:
        most[0] = max(most[0], self.bytes)
        note(self)

    monkeypatch.setattr(PartialFrames, "_note", noting)

    async def main() -> None:
        async with smq() as broker:
            broker.partial.limit = limit
            sources = [await Source.connect(broker.addresses("smq-source")[0]) for _ in range(count)]
            await asyncio.gather(*(source.send(bytes(size)) for source in sources))
            assert most[0] <= limit + (IN_TURN + 1) * (size + SHARED_BUFFER_BYTES) + count * SHARED_BUFFER_BYTES
            assert broker.partial.bytes == 0
            for source in sources:
                await source.close()

    run(main)


def test_who_does_not_go_on_with_a_large_message_makes_room_for_those_who_wait(run: Any, smq: Serve) -> None:
    async def main() -> None:
        async with smq() as broker:
            broker.partial.limit = 1 << 20
            size = 3 << 20
            stopped = [await Source.connect(broker.addresses("smq-source")[0]) for _ in range(IN_TURN + 2)]
            for source in stopped:
                source.write(b"M" + size.to_bytes(4, "big") + bytes(size // 2))
            await until(lambda: broker.partial.waiting > 0)
            honest = await Source.connect(broker.addresses("smq-source")[0])
            await honest.send(bytes(size))
            assert broker.partial.bytes <= broker.partial.limit + IN_TURN * size
            await honest.close()
            for source in stopped:
                source.vanish()

    run(main)
