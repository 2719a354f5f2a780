"""The probe of a consumer's health, as an orchestrator asks it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from transport import Consumer
from transport.consumer.probe import MAX_CONNECTIONS, MAX_REQUEST_BYTES, HealthProbe

REQUEST = b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n"


async def answered(probe: HealthProbe, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(*probe.address)
    try:
        writer.write(request)
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def test_the_probe_answers_as_the_program_is(run: Any) -> None:
    async def main() -> None:
        state = [True]
        async with HealthProbe("127.0.0.1:0", lambda: state[0]) as probe:
            assert (await answered(probe, REQUEST)).startswith(b"HTTP/1.1 200 OK\r\n")
            state[0] = False
            assert (await answered(probe, REQUEST)).startswith(b"HTTP/1.1 503 Service Unavailable\r\n")

    run(main)


@pytest.mark.parametrize("request_", [b"x" * (MAX_REQUEST_BYTES * 3)])
def test_what_is_no_request_gets_no_answer_and_the_next_one_does(run: Any, request_: bytes) -> None:
    async def main() -> None:
        async with HealthProbe("127.0.0.1:0", lambda: True) as probe:
            assert await answered(probe, request_) == b""
            assert b"200" in await answered(probe, REQUEST)

    run(main)


def test_connections_that_say_nothing_are_bounded_and_gone_with_the_probe(run: Any) -> None:
    async def main() -> None:
        async with HealthProbe("127.0.0.1:0", lambda: True) as probe:
            idle = [await asyncio.open_connection(*probe.address) for _ in range(MAX_CONNECTIONS)]
            assert await answered(probe, REQUEST) == b""
        for reader, writer in idle:
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()

    run(main)


def test_a_consumer_is_healthy_while_it_is_connected_and_not_told_to_end(run: Any, serve: Any, until: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            consumer = Consumer(broker.receive_address, queue="orders", health="127.0.0.1:0")
            consumer.handler(_nothing)
            probe = consumer._probe
            assert probe is not None
            assert not consumer.healthy()
            task = asyncio.create_task(consumer.serve())
            await until(consumer.healthy)
            assert b"200 OK" in await answered(probe, REQUEST)
            consumer.stop()
            await task
            assert not consumer.healthy()
            with pytest.raises(OSError, match="Connect"):
                await answered(probe, REQUEST)

    run(main)


async def _nothing(payload: bytes) -> None: ...
