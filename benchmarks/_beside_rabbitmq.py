"""Our broker and RabbitMQ beside each other, where that is installed, for a benchmark that has the same program on both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from benchmarks._broker import BrokerProcess
from benchmarks._disk import data_folder
from benchmarks._rabbitmq_server import RabbitServer, missing

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Speaking:
    """A broker.

    Attributes:
        port: where it speaks AMQP.
        pid: whose processor time is the broker's.
    """

    port: int
    pid: int


@dataclass(frozen=True, slots=True)
class Beside:
    """Both.

    Attributes:
        folder: where the journal and RabbitMQ's files are.
        ours: our broker, with a journal.
        theirs: RabbitMQ; None where it is not installed, which is said.
        version: its version; ``none`` likewise.
        stack: what is entered there ends before the brokers do.
    """

    folder: Path
    ours: Speaking
    theirs: Speaking | None
    version: str
    stack: ExitStack


@contextmanager
def beside_rabbitmq(uvloop: bool, data: Path | None) -> Iterator[Beside]:
    """Both brokers, as long as they are needed.

    Args:
        uvloop: whether the loop of ours is uvloop's.
        data: where their folder is made; None for beside the repository.
    """
    lacking = missing()
    if lacking is not None:
        print(f"{lacking}; going on with ours alone")
    with data_folder(data) as folder, ExitStack() as stack:
        options = {"directory": str(folder / "ours"), "amqp": "127.0.0.1:0"}
        ours = stack.enter_context(BrokerProcess(uvloop=uvloop, options=options))
        assert ours.amqp is not None, "it was told to speak it"
        theirs, version = None, "none"
        if lacking is None:
            rabbit = stack.enter_context(RabbitServer(folder / "rabbitmq"))
            theirs, version = Speaking(rabbit.port, rabbit.pid), ".".join(map(str, rabbit.version))
        yield Beside(folder, Speaking(int(ours.amqp.rpartition(":")[2]), ours.pid), theirs, version, stack)


def in_turn(sides: list[S], number: int) -> list[S]:
    """All sides; each round begins with another."""
    turn = number % len(sides)
    return sides[turn:] + sides[:turn]
