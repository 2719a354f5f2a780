"""Transactions over the sudden death of a broker process: staged is staged, committed is committed, each message once."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.transport.programs import DEADLINE, BrokerProcess
from transport import EnlistedStage, MessageBatch, StageClient, TransactionClient
from transport.clients.administration import Facts
from transport.clients.backoff import Backoff
from transport.wire.codec import encode
from transport.wire.messages import VERSION, CommitTransaction, Enlist, Hello

QUICK = Backoff(minimum=0.01, maximum=0.1, give_up_after=DEADLINE)
WRITER = "w"


class KilledBroker:
    """A broker with a journal that is killed and started again on the same ports and folder."""

    def __init__(self, folder: Path) -> None:
        self._options = ["--data", str(folder)]
        self._process = BrokerProcess(*self._options)
        self.sending, self.receiving = self._process.sending, self._process.receiving
        self._options += ["--send-address", self.sending, "--receive-address", self.receiving]

    def kill(self) -> None:
        self._process.process.kill()
        self.close()

    def start(self) -> None:
        self._process = BrokerProcess(*self._options)

    def close(self) -> None:
        self._process.__exit__()

    def lines(self, queue: str, count: int) -> list[bytes]:
        """``count`` messages, acknowledged, and the proof that there are no more."""
        code, out, err = self._process.run("receive", "--queue", queue, "--count", str(count))
        assert code == 0, err
        figures: Facts = self._process.statistics(queue)
        assert (figures["ready"], figures["in_flight"]) == (0, 0)
        return out.splitlines()

    def staged(self, queue: str) -> int:
        found: int = self._process.statistics(queue)["staged_messages"]
        return found


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[KilledBroker]:
    made = KilledBroker(tmp_path / "data")
    yield made
    made.close()


def numbered(start: int, stop: int) -> MessageBatch:
    return MessageBatch.from_payloads([b"%06d" % number for number in range(start, stop)])


def stage_client(broker: KilledBroker, name: str, version: int = 1, queue: str = "orders") -> StageClient:
    return StageClient(broker.sending, queue=queue, writer=WRITER, version=version, stage=name, retry=QUICK)


def stage(broker: KilledBroker, batch: MessageBatch, version: int = 1, queue: str = "orders") -> EnlistedStage:
    with stage_client(broker, "0-0", version, queue) as client:
        client.send(batch)
        return client.finish()


def commit(broker: KilledBroker, *stages: EnlistedStage, version: int = 1) -> int:
    with TransactionClient(broker.sending, writer=WRITER, version=version, retry=QUICK) as client:
        return client.commit(stages)


@contextmanager
def asked_to_commit(broker: KilledBroker, version: int, *stages: EnlistedStage) -> Iterator[socket.socket]:
    """A connection that has sent a commit and not read the answer."""
    host, port = broker.sending.split(":")
    options = {"writer": WRITER, "version": version}
    frames = [*(Enlist(*one) for one in stages), CommitTransaction(1)]
    with socket.create_connection((host, int(port)), DEADLINE) as connection:
        connection.sendall(b"".join(encode(Hello(VERSION, "transaction", None, None, options))))
        connection.recv(4096)  # WELCOME
        connection.sendall(b"".join(bytes(part) for frame in frames for part in encode(frame)))
        yield connection


def test_what_was_staged_before_the_broker_died_can_be_committed_after(broker: KilledBroker) -> None:
    one = stage(broker, numbered(0, 500))
    other = stage(broker, numbered(500, 700), queue="returns")
    stage(broker, numbered(900, 950), version=2)
    broker.kill()
    broker.start()
    assert (broker.staged("orders"), broker.staged("returns")) == (550, 200)
    assert commit(broker, one, other) == 700
    broker.kill()
    broker.start()
    assert commit(broker, one, other) == 0
    assert broker.lines("orders", 500) == numbered(0, 500).payloads.tolist()
    assert broker.lines("returns", 200) == numbered(500, 700).payloads.tolist()
    assert broker.staged("orders") == 50


def test_a_stage_goes_on_where_a_dead_broker_left_it(broker: KilledBroker) -> None:
    with stage_client(broker, "0-0") as client:
        for start in range(0, 4000, 100):
            # The last of them are on their way, unconfirmed, when the broker dies.
            client.send(numbered(start, start + 100))
            if start in (900, 1900, 2900):
                broker.kill()
                broker.start()
        one = client.finish()
    assert one.messages == 4000
    assert commit(broker, one) == 4000
    assert broker.lines("orders", 4000) == numbered(0, 4000).payloads.tolist()


def test_a_commit_under_which_the_broker_dies_happens_whole_or_not_at_all(broker: KilledBroker) -> None:
    answered = [False, False, True]
    for version, answer_awaited in enumerate(answered):
        first, last = version * 30, version * 30 + 30
        one = stage(broker, numbered(first, last), version)
        other = stage(broker, numbered(first, last), version, queue="returns")
        with asked_to_commit(broker, version, one, other) as connection:
            if answer_awaited:
                assert connection.recv(4096)
            broker.kill()
        broker.start()
        staged = broker.staged("orders"), broker.staged("returns")
        assert staged in ([(0, 0)] if answer_awaited else [(0, 0), (30, 30)])
        assert commit(broker, one, other, version=version) == sum(staged)
    for queue in ("orders", "returns"):
        assert broker.lines(queue, 90) == numbered(0, 90).payloads.tolist()
