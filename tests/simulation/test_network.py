"""The simulated network carries bytes as TCP does: whole and in order while it stands, and never a byte from behind a cut."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from streams.testkit import elapse
from tests.simulation.loop import PROCESS, SimulatedLoop
from tests.simulation.network import Network

PORT = 5000
DATA = bytes(range(256)) * 2_000
"""Larger than the smallest and the middle kernel buffer: writers have to wait."""


class Recorder(asyncio.BufferedProtocol):
    """Notes all that its transport tells it."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.data = bytearray()
        self.told: list[str] = []
        self.error: Exception | None = None
        self.sizes: set[int] = set()
        self.half_open = False
        self._buffer = bytearray(10_000)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.sizes.add(nbytes)
        self.data += self._buffer[:nbytes]

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")

    def eof_received(self) -> bool:
        self.told.append("eof")
        return self.half_open

    def connection_lost(self, exc: Exception | None) -> None:
        self.told.append("lost")
        self.error = exc


async def pair(loop: SimulatedLoop) -> tuple[Recorder, Recorder]:
    """A client and the server that it is connected to."""
    accepted: list[Recorder] = []

    def accept() -> Recorder:
        accepted.append(Recorder())
        return accepted[-1]

    server = await loop.create_server(accept, "host", PORT)
    _, client = await loop.create_connection(Recorder, "host", PORT)
    server.close()
    return client, accepted[0]


@pytest.fixture(params=range(12))
def run(request: pytest.FixtureRequest) -> Callable[[Callable[[SimulatedLoop], Coroutine[Any, Any, None]]], None]:
    """Runs a test on a network of twelve seeds."""

    def run_on(main: Callable[[SimulatedLoop], Coroutine[Any, Any, None]]) -> None:
        loop = SimulatedLoop()
        Network(loop, Random(request.param))
        try:
            loop.run_until_complete(main(loop))
        finally:
            loop.close()

    return run_on


def test_everything_arrives_once_in_order_in_pieces_and_then_the_end(run: Any) -> None:
    async def main(loop: SimulatedLoop) -> None:
        client, server = await pair(loop)
        client.transport.writelines([DATA, b"last"])
        client.transport.close()
        await elapse(60)
        assert server.data == DATA + b"last"
        assert len(server.sizes) > 1
        assert server.told[-2:] == ["eof", "lost"]
        assert client.told[-1] == "lost"
        assert (client.error, server.error) == (None, None)
        assert loop.network.links == {}

    run(main)


def test_a_reader_that_pauses_has_the_writer_pause_and_loses_nothing(run: Any) -> None:
    async def main(loop: SimulatedLoop) -> None:
        client, server = await pair(loop)
        server.transport.pause_reading()
        for _ in range(3):
            client.transport.write(DATA)
        await elapse(60)
        assert server.data == b""
        assert client.told == ["pause"]
        assert client.transport.get_write_buffer_size() > 0
        server.transport.resume_reading()
        await elapse(60)
        assert server.data == DATA * 3
        assert client.told == ["pause", "resume"]
        client.transport.abort()
        await elapse(1)

    run(main)


def test_half_closing_leaves_the_other_direction_open(run: Any) -> None:
    async def main(loop: SimulatedLoop) -> None:
        client, server = await pair(loop)
        server.half_open = True
        client.transport.write(b"question")
        client.transport.write_eof()
        await elapse(1)
        assert server.told == ["eof"]
        server.transport.write(b"answer")
        server.transport.close()
        await elapse(1)
        assert (server.data, client.data) == (b"question", b"answer")
        with pytest.raises(RuntimeError):
            client.transport.write(b"more")

    run(main)


def test_a_cut_leaves_a_prefix_and_resets_both_ends(run: Any) -> None:
    async def main(loop: SimulatedLoop) -> None:
        client, server = await pair(loop)
        client.transport.write(DATA)
        await elapse(loop.network.random.uniform(0, 0.1))
        loop.network.links[0].cut()
        client.transport.write(b"behind the cut")
        await elapse(1)
        assert DATA.startswith(bytes(server.data))
        assert client.told[-1] == server.told[-1] == "lost"
        assert isinstance(client.error, ConnectionResetError)
        assert isinstance(server.error, ConnectionResetError)
        assert loop.network.links == {}

    run(main)


def test_what_a_silent_link_holds_back_arrives_when_it_is_mended(run: Any) -> None:
    async def main(loop: SimulatedLoop) -> None:
        client, server = await pair(loop)
        loop.network.links[0].silence()
        client.transport.write(DATA)
        client.transport.close()
        await elapse(60)
        assert (server.data, server.told) == (b"", [])
        loop.network.links[0].heal()
        await elapse(60)
        assert server.data == DATA
        assert server.told[-1] == "lost"

    run(main)


def test_bytes_for_a_closed_end_are_answered_with_a_reset(run: Any) -> None:
    async def main(loop: SimulatedLoop) -> None:
        client, server = await pair(loop)
        server.transport.abort()
        client.half_open = True
        await elapse(1)
        assert client.told == ["eof"]
        client.transport.write(b"anybody there?")
        await elapse(1)
        assert client.told == ["eof", "lost"]
        assert isinstance(client.error, ConnectionResetError)

    run(main)


def test_a_killed_process_does_nothing_more_and_its_peers_are_reset(run: Any) -> None:
    async def main(loop: SimulatedLoop) -> None:
        process = loop.process("client")
        accepted: list[Recorder] = []
        server = await loop.create_server(lambda: accepted.append(Recorder()) or accepted[-1], "host", PORT)
        done: list[str] = []

        async def live() -> None:
            assert PROCESS.get() is process
            await loop.create_connection(Recorder, "host", PORT)
            loop.call_later(5, done.append, "timer")
            try:
                await elapse(5)
            finally:
                done.append("task")

        process.spawn(live())
        await elapse(1)
        loop.network.kill(process, silent=False)
        loop.kill(process)
        await elapse(60)
        assert done == []
        assert isinstance(accepted[0].error, ConnectionResetError)
        assert loop.timers() == 0
        server.close()

    run(main)


def test_a_host_without_power_says_nothing_until_it_is_up_and_resets_what_it_does_not_know(run: Any) -> None:
    async def main(loop: SimulatedLoop) -> None:
        process = loop.process("host")
        client = Recorder()

        async def listen() -> None:
            await loop.create_server(Recorder, "host", PORT)

        await process.spawn(listen())
        await loop.create_connection(lambda: client, "host", PORT)
        loop.network.kill(process, silent=True)
        loop.kill(process)
        client.transport.write(b"hello")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(60):
                await loop.create_connection(Recorder, "host", PORT)
                pytest.fail("nobody can have answered")
        assert client.told == []
        process = loop.process("host")
        await process.spawn(listen())
        client.transport.write(b"hello again")
        await elapse(1)
        assert client.told == ["lost"]
        assert isinstance(client.error, ConnectionResetError)

    run(main)


def test_nobody_listening_refuses_and_a_taken_port_is_an_error(run: Any) -> None:
    async def main(loop: SimulatedLoop) -> None:
        with pytest.raises(ConnectionRefusedError):
            await loop.create_connection(Recorder, "host", PORT)
        await loop.create_server(Recorder, "host", PORT)
        with pytest.raises(OSError, match="in use"):
            await loop.create_server(Recorder, "host", PORT)

    run(main)


def test_who_stood_still_takes_connections_in_the_order_in_which_they_came(run: Any) -> None:
    async def main(loop: SimulatedLoop) -> None:
        process = loop.process("server")
        accepted: list[Recorder] = []
        server = await process.spawn(
            loop.create_server(lambda: accepted.append(Recorder()) or accepted[-1], "host", PORT)
        )
        loop.freeze(process)
        ends = []
        for number in range(4):
            end, _ = await loop.create_connection(Recorder, "host", PORT)
            end.write(bytes([number]))
            ends.append(end)
        assert accepted == []
        loop.thaw(process)
        end, _ = await loop.create_connection(Recorder, "host", PORT)
        end.write(bytes([4]))
        await elapse(1)
        assert [bytes(each.data) for each in accepted] == [bytes([number]) for number in range(5)]
        server.close()

    run(main)
