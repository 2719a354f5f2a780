"""A broker that speaks AMQP, as a process of its own: its clients block, as most of their users' programs do."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from tests.transport.programs import DEADLINE, BrokerProcess

if TYPE_CHECKING:
    from tests.transport.certificates import Certificates
    from tests.transport.gateways.amqp.peers import Guarded, Secured


class AmqpBroker(BrokerProcess):
    """One on free ports.

    Attributes:
        port: where AMQP is spoken.
    """

    def __init__(self, *options: str) -> None:
        super().__init__("--amqp", "127.0.0.1:0", *options)
        words = self.said.replace(",", "").split()
        self.port = int(words[words.index("AMQP") + 1].rpartition(":")[2])

    @contextmanager
    def drained(self) -> Iterator[None]:
        """Have somebody read what it logs: a broker whose standard error nobody reads stands still once the pipe is full."""
        reader = Thread(target=self._drain, daemon=True)
        reader.start()
        yield
        self.process.kill()
        reader.join(DEADLINE)

    def _drain(self) -> None:
        while os.read(self.stderr.fileno(), 1 << 16):
            pass


@pytest.fixture(scope="session")
def broker() -> Iterator[AmqpBroker]:
    """One for all tests that only use it: each has names of its own."""
    with AmqpBroker() as running, running.drained():
        yield running


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Secured]:
    """One with users, in plain and under TLS."""
    from tests.transport.gateways.amqp.peers import Secured

    with Secured(tmp_path_factory.mktemp("users"), certificates) as running, running.drained():
        yield running


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """One with users and virtual hosts."""
    from tests.transport.gateways.amqp.peers import Guarded

    with Guarded(tmp_path_factory.mktemp("guarded")) as running, running.drained():
        yield running


_numbers = count(1)


@pytest.fixture
def named() -> Callable[[str], str]:
    """Makes a name that no other test has."""
    number = next(_numbers)
    return lambda name: f"{name}-{number}"
