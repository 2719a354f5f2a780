"""Processes of clients that are killed or frozen, and a network that carries nothing any more: what they held comes to others."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

import pytest

from tests.standing_still import stand_still
from tests.transport.gateways.amqp.conftest import AmqpBroker
from tests.transport.gateways.amqp.peers import MOST_SILENT_SECONDS
from tests.transport.gateways.amqp.raw_amqp import SECONDS, RawClient, published
from tests.transport.programs import ROOT
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp import entity_methods as entity

Named = Callable[[str], str]
MODULE = "tests.transport.gateways.amqp.holding_client"


@contextmanager
def holding(port: int, queue: str, heartbeat: int) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A process that holds a message of the queue, and the name of its own queue."""
    command = [sys.executable, "-m", MODULE, str(port), queue, str(heartbeat)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    try:
        ready, _, _ = select.select([process.stdout], [], [], SECONDS)
        assert ready, "the client does not get its message"
        yield process, process.stdout.readline().decode().strip()
    finally:
        process.kill()
        process.wait(SECONDS)
        process.stdout.close()


@contextmanager
def between(port: int) -> Iterator[tuple[int, Event]]:
    """A port that leads to another, until the event is set: from then on nothing is carried, and nobody is told."""
    silent = Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        opened: list[socket.socket] = []

        def carry(source: socket.socket, target: socket.socket) -> None:
            with suppress(OSError):
                while data := source.recv(1 << 16):
                    if silent.is_set():
                        return
                    target.sendall(data)

        def accept() -> None:
            with suppress(OSError):
                client, _ = listening.accept()
                broker = socket.create_connection(("127.0.0.1", port))
                opened.extend((client, broker))
                pumps = [Thread(target=carry, args=ends, daemon=True) for ends in ((client, broker), (broker, client))]
                for pump in pumps:
                    pump.start()

        accepting = Thread(target=accept, daemon=True)
        accepting.start()
        try:
            yield listening.getsockname()[1], silent
        finally:
            for each in opened:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()


@pytest.fixture
def watcher(broker: AmqpBroker) -> Iterator[RawClient]:
    with RawClient(broker.port) as client:
        yield client


def comes_back(watcher: RawClient, own: str) -> None:
    """What was held comes to another, marked, and the queue of who held it is gone."""
    delivered = watcher.content()
    assert (delivered.method.redelivered, delivered.body) == (True, b"held")
    assert watcher.ask(entity.QueueDeclare(queue=own, passive=True), connection.ChannelClose).reply_code == 404


def another_has_it(watcher: RawClient, queue: str, own: str) -> None:
    """The queue has nothing to give, and the other's own queue is closed to this one."""
    watcher.ask(basic.BasicConsume(queue=queue), basic.BasicConsumeOk)
    assert watcher.ready(queue) == 0
    watcher.say(connection.ChannelOpen(), channel=2)
    watcher.expect(connection.ChannelOpenOk, 2)
    refused = watcher.ask(entity.QueueDeclare(queue=own, passive=True), connection.ChannelClose, 2)
    assert refused.reply_code == 405


def test_what_a_client_held_that_was_killed_comes_back_at_once(
    broker: AmqpBroker, watcher: RawClient, named: Named
) -> None:
    queue = watcher.declare(named("killed")).queue
    watcher.write(published(queue, b"held"))
    # Its heartbeat is a minute: nobody waits for that.
    with holding(broker.port, queue, 60) as (process, own):
        another_has_it(watcher, queue, own)
        os.kill(process.pid, signal.SIGKILL)
        comes_back(watcher, own)


def test_what_a_client_held_that_is_frozen_comes_back_and_it_is_told_when_it_goes_on(
    broker: AmqpBroker, watcher: RawClient, named: Named
) -> None:
    queue = watcher.declare(named("frozen")).queue
    watcher.write(published(queue, b"held"))
    with holding(broker.port, queue, 1) as (process, own):
        another_has_it(watcher, queue, own)
        since = time.monotonic()
        stand_still(process.pid)
        comes_back(watcher, own)
        assert time.monotonic() - since < MOST_SILENT_SECONDS
        os.kill(process.pid, signal.SIGCONT)
        assert process.wait(SECONDS) != 0


def test_what_a_client_held_that_no_network_reaches_comes_back(
    broker: AmqpBroker, watcher: RawClient, named: Named
) -> None:
    queue = watcher.declare(named("unreached")).queue
    watcher.write(published(queue, b"held"))
    with between(broker.port) as (port, silent), holding(port, queue, 1) as (_, own):
        another_has_it(watcher, queue, own)
        since = time.monotonic()
        silent.set()
        comes_back(watcher, own)
        assert time.monotonic() - since < MOST_SILENT_SECONDS
