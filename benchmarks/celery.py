"""``celery``: one application of Celery on RabbitMQ and on Penstock, in turn: tasks a second, and the broker's processor time a task."""

from __future__ import annotations

import os
import select
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks._beside_rabbitmq import beside_rabbitmq, in_turn
from benchmarks._processes import READ_BYTES, BenchmarkError, Worker, cpu_seconds
from benchmarks._report import Figure, Report, medians

if TYPE_CHECKING:
    from collections.abc import Iterator

OURS, THEIRS = "Penstock", "RabbitMQ"
PROCESSES: Final = 2
TIMEOUT: Final = 300.0
RATE_TARGET, CPU_TARGET = 1.0, 0.5

Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """A way in which tasks are sent and done.

    Attributes:
        name: in the table.
        task: by its name.
        confirms: whether each is confirmed before the next is sent.
        results: whether the sender waits for results.
    """

    name: str
    task: str
    confirms: bool = False
    results: bool = False


PARTS: Final = (
    Part("Celery's defaults", "early"),
    Part("confirmed and late", "late", confirms=True),
    Part("with results", "early", results=True),
)


@dataclass(frozen=True, slots=True)
class Side:
    """One of those that are compared.

    Attributes:
        name: in the table.
        port: where it speaks AMQP.
        pid: whose processor time is the broker's.
        done: the end of the pipe at which its worker's tasks are counted.
    """

    name: str
    port: int
    pid: int
    done: int


def run(tasks: int, rounds: int, uvloop: bool, data: Path | None) -> Report:
    """Rounds of every part on every side in turn; each round begins with the other side."""
    results: list[Result] = []
    with beside_rabbitmq(uvloop, data) as both:
        sides = [
            both.stack.enter_context(_with_worker(name, broker.port, broker.pid, both.folder / f"{name}-done"))
            for name, broker in ((OURS, both.ours), (THEIRS, both.theirs))
            if broker is not None
        ]
        for number in range(rounds):
            for part in PARTS:
                results += [_measured(part, side, tasks) for side in in_turn(sides, number)]
    return Report(
        "celery",
        "one application of Celery, a worker with two processes (prefork) and one sender. One task of twenty is tried again, and one is "
        "due 50 ms later. Celery's defaults: nothing is confirmed, a task is acknowledged when it begins. Confirmed and late: the sender "
        "waits for each confirm, a task is acknowledged when it is done. With results: rpc://, 200 waited for together. "
        "A rate counts from the first task sent to the last that ran. Processor time is the broker's process's, all its threads.",
        "RabbitMQ with its own defaults and Celery's classic queue, its files beside the journal. Rounds alternate; medians.",
        {"tasks": tasks, "rounds": rounds, "uvloop": uvloop, "processes": PROCESSES, "rabbitmq": both.version},
        _figures(results),
        results,
    )


@contextmanager
def _with_worker(name: str, port: int, pid: int, pipe: Path) -> Iterator[Side]:
    """A side whose worker is there as long as it is."""
    os.mkfifo(pipe)
    # For both, so that it opens at once and nobody sees an end between two processes of the worker.
    done = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        with Worker("_celery_tasks:serve", port=port, pipe=str(pipe), processes=PROCESSES) as worker:
            worker.hear()
            yield Side(name, port, pid, done)
    finally:
        os.close(done)


def _measured(part: Part, side: Side, tasks: int) -> Result:
    options = {"port": side.port, "task": part.task, "tasks": tasks}
    with Worker("_celery_tasks:send", confirms=part.confirms, results=part.results, **options) as sender:
        sender.hear()
        _count(side, 1)
        cpu = cpu_seconds(side.pid)
        sender.go()
        _count(side, tasks)
        ended = time.monotonic()
        sent = sender.hear(TIMEOUT)
        cpu = cpu_seconds(side.pid) - cpu
    return {
        "part": part.name,
        "side": side.name,
        "tasks_per_s": tasks / (ended - sent["started"]),
        "broker_cpu_us": cpu / tasks * 1e6,
        "sender_cpu_us": sent["cpu_s"] / tasks * 1e6,
    }


def _count(side: Side, tasks: int) -> None:
    """Wait until so many have run."""
    deadline = time.monotonic() + TIMEOUT
    while tasks > 0:
        if not select.select([side.done], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise BenchmarkError(f"{side.name}: {tasks} tasks have not run within {TIMEOUT:g} s")
        tasks -= len(os.read(side.done, READ_BYTES))
    if tasks < 0:
        raise BenchmarkError(f"{side.name}: {-tasks} tasks more have run than were sent")


def _figures(results: list[Result]) -> list[Figure]:
    figures: list[Figure] = []
    for part in PARTS:
        for key, name, unit in (
            ("tasks_per_s", "tasks a second", "1/s"),
            ("broker_cpu_us", "broker's CPU a task", "us"),
        ):
            of = {
                side: medians(found, key)
                for side in (OURS, THEIRS)
                if (found := [one for one in results if (one["part"], one["side"]) == (part.name, side)])
            }
            figures += [Figure(f"{part.name}: {name}, {side}", value, unit) for side, value in of.items()]
            if THEIRS in of:
                less = key == "broker_cpu_us"
                target = CPU_TARGET if less else RATE_TARGET
                ratio = of[OURS] / of[THEIRS]
                said = f"{part.name}: {name}, times RabbitMQ's"
                figures.append(Figure(said, ratio, "", target, "less" if less else "more"))
    return figures
