"""Celery, unchanged: workers in processes of their own, prefork and threads, on a broker that they take for RabbitMQ (docs/celery.md)."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from celery import Celery, chain, chord, group
from celery.backends.rpc import RPCBackend
from celery.events.state import State
from celery.exceptions import TaskRevokedError
from kombu import pools

from tests.transport.gateways.amqp.celery_application import ATTEMPTS, MADE, made
from tests.transport.gateways.amqp.conftest import AmqpBroker
from tests.transport.gateways.amqp.task_workers import SECONDS, Desk, Worker, desk

MODULE = "tests.transport.gateways.amqp.celery_application:app"
SHORT = 0.02
"""Between two looks of Celery's own into the database of results."""
PROCESSES = 2
PREFETCHED = 2 * PROCESSES
LATER = 60
"""Seconds until a task is due that none of these tests waits for."""
RATE, LIMITED = 5, 6
LEAST = 0.5
"""Of the time from the first to the last that the rate allows: a process may take its time to begin."""
ALONE = ("--without-mingle", "--without-gossip", "--without-heartbeat")
"""A worker that asks no other, and starts the sooner."""


class Running(NamedTuple):
    """An application and a worker of it.

    Attributes:
        app: what sends tasks.
        worker: its process.
        name: by which the others know it.
    """

    app: Celery
    worker: Worker
    name: str

    def send(self, task: str, *arguments: Any, **options: Any) -> Any:
        """Its result to come."""
        return self.app.tasks[task].apply_async(arguments, **options)

    def run(self, task: str, *arguments: Any, **options: Any) -> Any:
        """What it returns."""
        return got(self.send(task, *arguments, **options))

    def inspect(self) -> Any:
        """What asks this worker, and waits for no other."""
        return self.app.control.inspect([self.name], timeout=SECONDS, limit=1)

    def told(self, command: Callable[..., Any], *arguments: Any, **options: Any) -> None:
        """A command of remote control, which the worker has done when this returns."""
        (answer,) = command(*arguments, destination=[self.name], reply=True, timeout=SECONDS, limit=1, **options)
        assert "ok" in answer[self.name], answer


def got(result: Any) -> Any:
    """What a task returned, or raised."""
    return result.get(timeout=SECONDS, interval=SHORT)


@contextmanager
def worker(broker: AmqpBroker, name: str, backend: str, *options: str, delayed: bool = False) -> Iterator[Running]:
    """An application whose queue has the worker's name, and the worker."""
    url = f"amqp://guest:guest@127.0.0.1:{broker.port}//"
    arguments = {"broker": url, "backend": backend, "queue": name, "delayed": delayed}
    words = ("celery", "-A", MODULE, "worker", "-n", f"{name}@here", "-c", str(PROCESSES), "-l", "INFO")
    with (
        made(url, backend, name, delayed=delayed) as app,
        Worker(*words, *options, ready=" ready.", environment={MADE: json.dumps(arguments)}) as process,
    ):
        try:
            yield Running(app, process, f"{name}@here")
        finally:
            if isinstance(app.backend, RPCBackend) and app.backend.result_consumer._connection is not None:
                app.backend.result_consumer.stop()


@pytest.fixture(scope="module", autouse=True)
def pooled() -> Iterator[None]:
    """Celery leaves what it has opened to the end of its process; applications of one address share it."""
    yield
    pools.reset()


@pytest.fixture(scope="module")
def prefork(broker: AmqpBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Processes, results in a database, events."""
    backend = f"db+sqlite:///{tmp_path_factory.mktemp('celery')}/results.db"
    with worker(broker, "prefork", backend, "-P", "prefork", "-E") as running:
        yield running


@pytest.fixture(scope="module")
def threads(broker: AmqpBroker) -> Iterator[Running]:
    """Threads, results by messages."""
    with worker(broker, "threads", "rpc://", "-P", "threads", *ALONE) as running:
        yield running


@pytest.fixture(params=["prefork", "threads"])
def running(request: pytest.FixtureRequest) -> Running:
    found: Running = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def waiting() -> Iterator[Desk]:
    with desk() as found:
        yield found


def test_tasks_return_and_raise_and_groups_of_them_have_all_results(running: Running) -> None:
    assert running.run("add", 1, 2) == 3
    with pytest.raises(ValueError, match="no such thing"):
        running.run("fails", "no such thing")
    add = running.app.tasks["add"]
    assert got(group(add.s(number, number) for number in range(20)).apply_async()) == list(range(0, 40, 2))
    assert got(chain(add.s(1, 2), add.s(3), add.s(4)).apply_async()) == 10


def test_a_task_is_tried_again_after_a_while(running: Running) -> None:
    assert running.run("tried") == ATTEMPTS


def test_a_chord_ends_when_all_of_it_is_in_the_database(prefork: Running) -> None:
    add, total = prefork.app.tasks["add"], prefork.app.tasks["total"]
    assert got(chord([add.s(number, 1) for number in range(10)])(total.s())) == 55


def test_a_task_runs_at_once_though_more_than_are_prefetched_wait_for_their_time(prefork: Running) -> None:
    later = [prefork.send("add", number, 1, countdown=LATER) for number in range(10 * PREFETCHED)]
    assert prefork.run("add", 1, 1) == 2
    # The worker holds them all: it has asked for one more each time.
    assert prefork.inspect().stats()[prefork.name]["prefetch_count"] == PREFETCHED + len(later)
    scheduled = prefork.inspect().scheduled()[prefork.name]
    assert {each["request"]["id"] for each in scheduled} == {each.id for each in later}
    prefork.told(prefork.app.control.revoke, [each.id for each in later])


def test_a_worker_says_what_it_runs_and_what_it_can(prefork: Running, waiting: Desk) -> None:
    sent = [prefork.send("early", waiting.port) for _ in range(PROCESSES + 1)]
    held = [waiting.next() for _ in range(PROCESSES)]
    asked = prefork.inspect()
    active, until = set[str](), time.monotonic() + SECONDS
    # Its processes have begun before they tell it so.
    while len(active) < PROCESSES and time.monotonic() < until:
        active = {each["id"] for each in asked.active()[prefork.name]}
    reserved = {each["id"] for each in asked.reserved()[prefork.name]}
    assert (len(active), active | reserved) == (PROCESSES, {each.id for each in sent})
    assert {"add", "tried"} <= set(asked.registered()[prefork.name])
    stats = asked.stats()[prefork.name]
    assert {each.facts["pid"] for each in held} == set(stats["pool"]["processes"])
    (queue,) = asked.active_queues()[prefork.name]
    assert queue["name"] == "prefork"
    for each in held:
        each.end()
    waiting.next().end()
    assert [got(each)["redelivered"] for each in sent] == [False] * len(sent)


def test_a_task_that_is_revoked_does_not_run_and_one_that_runs_is_terminated(prefork: Running, waiting: Desk) -> None:
    runs = prefork.send("early", waiting.port)
    held = waiting.next()
    later = prefork.send("early", waiting.port, countdown=1)
    prefork.told(prefork.app.control.revoke, later.id)
    prefork.told(prefork.app.control.revoke, runs.id, terminate=True, signal="SIGKILL")
    assert held.gone()
    for each in (runs, later):
        with pytest.raises(TaskRevokedError):
            got(each)
    # Nobody else has come to the desk before this.
    last = prefork.send("late", waiting.port)
    comes = waiting.next()
    comes.end()
    assert got(last) == comes.facts


def test_a_rate_limit_lets_a_task_run_so_often_and_no_more(prefork: Running) -> None:
    prefork.told(prefork.app.control.rate_limit, "where", f"{RATE}/s")
    sent = [prefork.send("where") for _ in range(LIMITED)]
    # The others do not wait for them.
    assert prefork.run("add", 1, 1) == 2
    began = sorted(got(each)["at"] for each in sent)
    assert began[-1] - began[0] > LEAST * (LIMITED - 1) / RATE


def test_a_task_of_a_process_that_is_killed_is_run_again_and_says_so(prefork: Running, waiting: Desk) -> None:
    sent = prefork.send("late", waiting.port)
    held = waiting.next()
    os.kill(held.facts["pid"], signal.SIGKILL)
    again = waiting.next()
    assert (held.facts["redelivered"], again.facts["redelivered"]) == (False, True)
    again.end()
    assert got(sent) == again.facts


def test_a_monitor_sees_by_events_what_becomes_of_each_task(prefork: Running) -> None:
    # As Flower looks at it.
    seen: list[str] = []
    state, sent, app = State(), "", prefork.app
    with app.connection_for_read() as connection:

        def told(event: dict[str, Any]) -> None:
            state.event(event)
            if event.get("uuid") == sent:
                seen.append(event["type"])
                receiver.should_stop = event["type"] == "task-succeeded"

        receiver = app.events.Receiver(connection, handlers={"*": told})
        with receiver.consumer_context() as (own, _, _):
            # Its queue is bound: no event of the task is missed.
            result = prefork.send("add", 20, 22)
            sent = result.id
            while not receiver.should_stop:
                own.drain_events(timeout=SECONDS)
    assert got(result) == 42
    # The sender's event and the worker's come by two connections.
    assert sorted(seen) == ["task-received", "task-sent", "task-started", "task-succeeded"]
    task = state.tasks[sent]
    assert (task.name, task.state, task.result, task.worker.hostname) == ("add", "SUCCESS", "42", prefork.name)
    assert state.workers[prefork.name].alive


def test_a_worker_takes_another_queue_while_it_runs_and_leaves_it(broker: AmqpBroker, threads: Running) -> None:
    control = threads.app.control
    threads.told(control.add_consumer, "further")
    assert threads.run("add", 1, 1, queue="further") == 2
    threads.told(control.cancel_consumer, "further")
    # It has answered before it does it.
    broker.until("further", lambda queue: queue["receivers"] == 0)
    left = threads.send("add", 2, 2, queue="further")
    assert threads.run("add", 1, 1) == 2
    assert broker.statistics("further")["ready"] == 1
    threads.told(control.add_consumer, "further")
    assert got(left) == 4


def test_what_a_killed_worker_had_comes_to_another_if_it_is_acknowledged_late(
    broker: AmqpBroker, waiting: Desk
) -> None:
    with worker(broker, "killed", "rpc://", *ALONE) as first:
        early, late = (first.send(task, waiting.port) for task in ("early", "late"))
        pids = {waiting.next().facts["pid"] for _ in range(2)}
        first.worker.kill()
        with worker(broker, "killed", "rpc://", *ALONE) as second:
            again = waiting.next()
            assert again.facts["pid"] not in pids
            assert again.facts["redelivered"]
            again.end()
            assert got(late) == again.facts
            # The other was acknowledged when it began, and is in no queue: it would have come before this.
            assert second.run("add", 1, 1) == 2
            assert not early.ready()


def test_tasks_wait_in_the_broker_where_celery_takes_its_queues_for_quorum_queues(broker: AmqpBroker) -> None:
    with worker(broker, "delayed", "rpc://", *ALONE, delayed=True) as running:
        # It has declared 28 exchanges and queues in a chain: three seconds are two of them.
        begun = time.monotonic()
        later = running.send("where", countdown=3)
        assert running.run("add", 1, 1) == 2
        assert running.inspect().scheduled() == {running.name: []}
        assert sum(broker.statistics(f"celery_delayed_{level}")["ready"] for level in (0, 1)) == 1
        facts = got(later)
        assert not facts["redelivered"]
        assert facts["at"] - begun > 2.9
        own = f"{running.name}.celery.pidbox"
        settings = broker.statistics(own)
        assert (settings["ttl"], settings["expires"], settings["durable"]) == (300, 10, False)
        assert running.worker.stop() == 0
        # The queue of its commands has gone with it.
        assert own not in queues(broker)


def queues(broker: AmqpBroker) -> set[str]:
    """The names of all."""
    code, out, said = broker.run("queue list", "--json")
    assert code == 0, said
    return {each["name"] for each in json.loads(out)}
