"""Dramatiq, unchanged: its workers in processes of their own, on a broker that they take for RabbitMQ (docs/dramatiq.md)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import NamedTuple

import dramatiq
import pytest
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.results import Results
from dramatiq.results.backends import StubBackend

from tests.transport.gateways.amqp.conftest import AmqpBroker
from tests.transport.gateways.amqp.dramatiq_application import BACK_OFF_MS, BROKER, MOST_RETRIES, QUEUE, made
from tests.transport.gateways.amqp.task_workers import SECONDS, Desk, Worker, desk

MODULE = "tests.transport.gateways.amqp.dramatiq_application"
THREADS = 2
MS = 1e-3

Named = Callable[[str], str]


class Running(NamedTuple):
    """What sends messages, and a worker.

    Attributes:
        broker: Dramatiq's.
        worker: its processes.
        queue: where the messages wait.
    """

    broker: RabbitmqBroker
    worker: Worker
    queue: str

    def send(self, actor: str, *arguments: object, **options: object) -> None:
        """A message to an actor."""
        self.broker.get_actor(actor).send_with_options(args=arguments, **options)


@contextmanager
def worker(broker: AmqpBroker, queue: str) -> Iterator[Worker]:
    """Processes that take messages from a queue."""
    words = ("dramatiq", MODULE, "--processes", "1", "--threads", str(THREADS))
    environment = {BROKER: url_of(broker), QUEUE: queue}
    with Worker(*words, ready="Worker process is ready for action", environment=environment) as process:
        yield process


def url_of(broker: AmqpBroker) -> str:
    return f"amqp://guest:guest@127.0.0.1:{broker.port}"


@pytest.fixture(scope="module")
def running(broker: AmqpBroker) -> Iterator[Running]:
    sends = made(url_of(broker), "dramatiq")
    with worker(broker, "dramatiq") as process:
        yield Running(sends, process, "dramatiq")
    sends.close()


@pytest.fixture
def waiting() -> Iterator[Desk]:
    with desk() as found:
        yield found


def test_messages_are_handled_by_as_many_threads_as_there_are(running: Running, waiting: Desk) -> None:
    for number in range(THREADS + 1):
        running.send("works", waiting.port, number)
    held = [waiting.next() for _ in range(THREADS)]
    assert {each.facts["number"] for each in held} == {0, 1}
    for each in held:
        each.end()
    last = waiting.next()
    assert last.facts["number"] == THREADS
    last.end()


def test_an_actor_that_fails_is_tried_again_later_each_time_and_then_its_message_is_a_dead_letter(
    running: Running, broker: AmqpBroker, waiting: Desk
) -> None:
    running.send("fails", waiting.port)
    tries = []
    for _ in range(MOST_RETRIES + 1):
        held = waiting.next()
        tries.append(held.facts)
        held.end()
    assert [each["retries"] for each in tries] == [0, 1, 2]
    # It waits half of the back-off at least.
    assert min(later["at"] - earlier["at"] for earlier, later in pairwise(tries)) > BACK_OFF_MS * MS / 2
    dead = received(running, f"{running.queue}.XQ")
    assert (dead.actor_name, dead.options["retries"]) == ("fails", MOST_RETRIES)
    assert "as it is to" in dead.options["traceback"]


def received(running: Running, queue: str) -> dramatiq.Message:
    """The next message of a queue that no worker takes from."""
    channel = running.broker.connection.channel()
    method, _, body = next(channel.consume(queue, inactivity_timeout=SECONDS))
    assert method is not None, f"nothing comes to {queue}"
    channel.basic_ack(method.delivery_tag)
    channel.close()
    return dramatiq.Message.decode(body)


def test_a_delayed_message_is_handled_at_its_time_and_others_before_it(running: Running, waiting: Desk) -> None:
    for delay in (300, 1_000, 3_000, 10_000):  # on a busy machine it may be over before the other has come
        begun = time.monotonic()
        running.send("works", waiting.port, 1, delay=delay)
        running.send("works", waiting.port, 2)
        both = [waiting.next(), waiting.next()]
        for each in both:
            each.end()
        at = {each.facts["number"]: each.facts["at"] for each in both}
        assert at[1] - begun > delay * MS - 0.01
        if list(at) == [2, 1]:
            break
    assert list(at) == [2, 1]


def test_an_actor_that_takes_too_long_is_told_so(running: Running, broker: AmqpBroker, waiting: Desk) -> None:
    running.send("slow", waiting.port)
    waiting.next().end()
    over = waiting.next()
    assert over.facts["exceeded"]
    over.end()
    dead = received(running, f"{running.queue}.XQ")
    assert dead.actor_name == "slow"


def test_what_a_killed_worker_had_comes_to_another(broker: AmqpBroker, waiting: Desk) -> None:
    sends = made(url_of(broker), "killed-dramatiq")
    with worker(broker, "killed-dramatiq") as first:
        for number in range(THREADS + 1):
            sends.get_actor("works").send(waiting.port, number)
        pids = {waiting.next().facts["pid"] for _ in range(THREADS)}
        first.kill()
    with worker(broker, "killed-dramatiq"):
        again = [waiting.next() for _ in range(THREADS)]
        assert not pids & {each.facts["pid"] for each in again}
        numbers = [each.facts["number"] for each in again]
        for each in again:
            each.end()
        last = waiting.next()
        assert sorted([*numbers, last.facts["number"]]) == list(range(THREADS + 1))
        last.end()
    sends.close()


def test_results_groups_and_pipelines_are_there_where_results_are_kept(
    broker: AmqpBroker, named: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Dramatiq keeps results in Redis, in memcached, or, for tests, in the process.
    uses = RabbitmqBroker(url=url_of(broker))
    uses.add_middleware(Results(backend=StubBackend()))
    monkeypatch.setattr("dramatiq.broker.global_broker", uses)

    def add(left: int, right: int) -> int:
        return left + right

    adds = dramatiq.actor(add, broker=uses, queue_name=named("results"), store_results=True)
    threads = dramatiq.Worker(uses, worker_threads=THREADS, worker_timeout=50)
    threads.start()
    try:
        limit = {"block": True, "timeout": int(SECONDS * 1000)}
        assert adds.send(1, 2).get_result(**limit) == 3
        found = dramatiq.group([adds.message(number, number) for number in range(5)]).run()
        assert list(found.get_results(**limit)) == [0, 2, 4, 6, 8]
        assert (adds.message(1, 2) | adds.message(3) | adds.message(4)).run().get_result(**limit) == 10
    finally:
        threads.stop()
        uses.close()
