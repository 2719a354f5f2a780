"""Connections never take the file descriptors that the journal needs: a broker as a process, with few of them."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from streams import Source
from tests.decoding import FrameDecoder
from tests.transport.programs import DEADLINE, BrokerProcess, Program
from transport import Backoff, ConnectionLostError, Sender, StageClient
from transport.broker.acceptor import Acceptor
from transport.broker.descriptors import (
    FEWEST_CONNECTIONS,
    POLITE_REFUSALS,
    RESERVED_DESCRIPTORS,
    connections_allowed,
    raise_soft_limit,
    soft_limit,
)
from transport.errors import LimitExceededError
from transport.wire.address import parse_address
from transport.wire.codec import decode, encode
from transport.wire.frames import MAX_FRAME_BYTES
from transport.wire.messages import Error, Hello, Welcome

QUICK = Backoff(minimum=0.01, maximum=0.01, jitter=0.0)
NO_PATIENCE = Backoff(minimum=0.0, maximum=0.0, jitter=0.0, give_up_after=0.01)
"""Some attempts, all at once."""

SMALL = ("sh", "-c", 'ulimit -n 160; exec "$@"', "sh")
"""The limit for good: soft and hard."""
LOW = ("sh", "-c", 'ulimit -S -n 64; exec "$@"', "sh")
"""The soft limit only, which a broker may raise."""
ROLES = [("sender", "sending"), ("admin", "sending"), ("receiver", "receiving"), ("subscription", "receiving")]


class Client:
    """A raw connection that says HELLO and hears what is answered."""

    def __init__(self, broker: BrokerProcess, number: int) -> None:
        self.role, address = ROLES[number % len(ROLES)]
        host, port = parse_address(getattr(broker, address))
        self.socket = socket.create_connection((host, port), DEADLINE)
        options = {"subscription": f"s{number}"} if self.role == "subscription" else {}
        queue = None if self.role == "admin" else "many"
        try:
            self.socket.sendall(b"".join(encode(Hello(1, self.role, queue, f"c{number}", options))))
        except OSError:
            return  # it was refused meanwhile

    def answer(self) -> Welcome | Error | None:
        """What HELLO was answered with; None for a plain end."""
        decoder = FrameDecoder(MAX_FRAME_BYTES)
        while True:
            try:
                data = self.socket.recv(65536)
            except OSError:
                return None
            if not data:
                return None
            for raw in decoder.receive_data(data):
                frame = decode(raw)
                if isinstance(frame, Welcome | Error):
                    return frame


@contextmanager
def crowd(broker: BrokerProcess, count: int) -> Iterator[list[Client]]:
    """So many clients at once: all connect and say HELLO before any answer is looked at."""
    with ExitStack() as stack:
        clients = []
        for number in range(count):
            client = Client(broker, number)
            stack.enter_context(client.socket)
            clients.append(client)
        yield clients


def test_above_the_limit_connections_are_refused_and_the_broker_and_its_journal_live(tmp_path: Path) -> None:
    with BrokerProcess("--data", str(tmp_path), "--segment-bytes", "64KiB", before=SMALL) as broker:
        warning = broker.line(broker.stderr).decode()
        assert "ulimit -n" in warning
        allowed = int(warning.split(" allows ")[1].split()[0])
        assert FEWEST_CONNECTIONS < allowed < 160 - RESERVED_DESCRIPTORS - POLITE_REFUSALS
        with crowd(broker, 300) as clients:
            answers = [client.answer() for client in clients]
            assert sum(isinstance(answer, Welcome) for answer in answers) == allowed
            refusals = [answer for answer in answers if isinstance(answer, Error)]
            assert len(refusals) > 100
            assert all((refusal.code, refusal.close) == ("limit-exceeded", True) for refusal in refusals)
            assert f"{allowed} connections are open" in refusals[0].text
            assert "ulimit -n" in refusals[0].text
            # All that may be connected is connected; the room of three goes to the command and the queue's figures.
            for client, answer in zip(clients, answers, strict=True):
                if isinstance(answer, Welcome) and client.role != "sender":
                    client.socket.close()
            for _ in range(12):
                # More than a file of the journal has room for.
                broker.fill("rolls", [b"x" * 1000] * 100)
            assert broker.statistics("rolls")["ready"] == 1200
            assert len(list(tmp_path.glob("*.seg*")) + list(tmp_path.glob("segment*"))) > 10
        assert broker.process.poll() is None


def test_a_broker_raises_its_own_soft_limit_and_takes_that_many_in_one_turn() -> None:
    with BrokerProcess("--max-connections", "400", before=LOW) as broker, crowd(broker, 400) as clients:
        assert [client.role for client in clients if not isinstance(client.answer(), Welcome)] == []
        late = Client(broker, 400)
        with late.socket:
            answer = late.answer()
            assert isinstance(answer, Error)
            assert "400 connections are open" in answer.text
            assert "max_connections" in answer.text


def test_a_broker_that_may_have_too_few_files_says_so_in_one_line() -> None:
    few = ("sh", "-c", 'ulimit -n 90; exec "$@"', "sh")
    with Program("broker", "--memory", "--send-address", "127.0.0.1:0", before=few) as broker:
        code, out, said = broker.finish()
    assert (code, out, said.count("\n")) == (1, b"", 1)
    assert said.startswith("penstock broker: this process may have 90 files open (ulimit -n)")


@contextmanager
def limited(room: int) -> Iterator[None]:
    """This process with so many descriptors more than it has open, which a broker counts, whatever their numbers are; or with none free."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = len(os.listdir("/proc/self/fd")) + room
    if not room:
        with open("/dev/null", "rb") as lowest_free:
            highest = lowest_free.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_broker_inside_a_program_leaves_the_programs_limits_alone(run: Any, serve: Any) -> None:
    async def main() -> None:
        with limited(120):
            before = resource.getrlimit(resource.RLIMIT_NOFILE)
            async with serve() as broker:
                assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
                assert 0 < broker.max_connections <= 120 - RESERVED_DESCRIPTORS - POLITE_REFUSALS

    run(main)


def test_limits_are_reckoned_with_what_is_open_and_what_is_kept_back() -> None:
    with limited(RESERVED_DESCRIPTORS + POLITE_REFUSALS + 50):
        allowed = connections_allowed(10_000)
        assert 40 <= allowed <= 50
        assert connections_allowed(7) == 7
        before = soft_limit()
        raise_soft_limit(7)
        assert soft_limit() == before
        raise_soft_limit(100)
        assert soft_limit() > before
        assert connections_allowed(100) == 100
    with limited(RESERVED_DESCRIPTORS + POLITE_REFUSALS), pytest.raises(LimitExceededError, match="ulimit -n"):
        connections_allowed(10_000)


def test_a_process_without_a_free_descriptor_neither_spins_nor_ends_and_accepts_again_when_there_is_one(
    run: Any, serve: Any, peers: Any, until: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("transport.broker.acceptor.ACCEPT_AGAIN", 0.02)
    accepts = []
    accept = Acceptor._accept

    def counted(self: Acceptor, listening: socket.socket) -> None:
        accepts.append(listening)
        accept(self, listening)

    monkeypatch.setattr(Acceptor, "_accept", counted)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with serve() as broker, peers() as opened:
            sockets = [socket.socket() for _ in range(2)]
            with limited(0), caplog.at_level(logging.WARNING, "penstock.broker"):
                began = loop.time()
                for each in sockets:
                    each.setblocking(False)
                    await loop.sock_connect(each, parse_address(broker.send_address))
                await until(lambda: len(accepts) >= 3)
                # Once in so long, however often the loop turns: each of the two addresses at most.
                assert len(accepts) <= 2 * (2 + (loop.time() - began) / 0.02)
                assert "no file left" in caplog.text
            for each in sockets:
                each.close()
            await opened.open(broker.send_address, "sender")

    run(main)


def test_clients_without_a_free_descriptor_say_so_and_try_again(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            with limited(0):
                patient = Sender(broker.send_address, queue="q", reconnect=QUICK)
                sending = Source.from_iterable([b"x"]).to(patient).run()
                hasty = Sender(broker.send_address, queue="q", reconnect=NO_PATIENCE)
                with pytest.raises(ConnectionLostError, match="Too many open files"):
                    await Source.from_iterable([b"x"]).to(hasty).run()
                stage: dict[str, Any] = {"writer": "w", "version": 1, "stage": "s", "retry": NO_PATIENCE}
                with (
                    StageClient(broker.send_address, queue="q", **stage) as client,
                    pytest.raises(ConnectionLostError, match="Too many open files"),
                ):
                    client.open()
            await sending

    run(main)
