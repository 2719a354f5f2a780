"""The application of the tests of Celery: what sends its tasks imports it, and each worker in a process of its own."""

from __future__ import annotations

import json
import os
import socket
import time
from typing import Any, Final

from celery import Celery, Task

MADE: Final = "CELERY_TEST_MADE"
"""In the environment of a worker: the arguments of `made`, as JSON."""
ATTEMPTS: Final = 3
BACK_OFF: Final = 0.05
SECONDS: Final = 30.0


def made(broker: str, backend: str, queue: str, *, delayed: bool = False) -> Celery:
    """An application with the tasks below.

    Args:
        broker: its address.
        backend: where its results go.
        queue: where its tasks wait.
        delayed: whether its queue is a quorum queue, as Celery takes its native delayed delivery for.
    """
    application = Celery("penstock", broker=broker, backend=backend, set_as_current=False)
    application.conf.update(
        task_default_queue=queue,
        broker_connection_retry_on_startup=True,
        broker_transport_options={"confirm_publish": True},
        task_send_sent_event=True,
        result_chord_retry_interval=0.05,
        worker_hijack_root_logger=False,
        worker_prefetch_multiplier=2,
        # Several processes write into the one file of the database.
        database_engine_options={"connect_args": {"timeout": 30}},
    )
    if delayed:
        application.conf.update(
            task_default_exchange_type="topic",
            task_default_queue_type="quorum",
            broker_native_delayed_delivery_queue_type="quorum",
        )
    for task in (add, total, fails, tried, late, early, where):
        # A process that is killed takes no task with it that is acknowledged late.
        options = {"acks_late": True, "reject_on_worker_lost": True} if task is late else {}
        application.task(task, name=task.__name__, bind=task in BOUND, **options)
    return application


def add(left: int, right: int) -> int:
    """A plain one."""
    return left + right


def total(numbers: list[int]) -> int:
    """What ends a chord."""
    return sum(numbers)


def fails(text: str) -> None:
    """Raises."""
    raise ValueError(text)


def tried(self: Task) -> int:
    """Fails twice, and is tried again each time after a while that grows; how often it was tried."""
    attempts = self.request.retries + 1
    if attempts < ATTEMPTS:
        raise self.retry(countdown=BACK_OFF * attempts)
    return attempts


def held(self: Task, port: int) -> dict[str, Any]:
    """Say where it runs, and wait until it is told to end: its worker may be killed meanwhile."""
    facts = where(self)
    with socket.create_connection(("127.0.0.1", port), SECONDS) as desk:
        desk.sendall(json.dumps(facts).encode())
        desk.recv(1)
    return facts


def where(self: Task) -> dict[str, Any]:
    """What it knows of how it came."""
    said = self.request.delivery_info
    marked = bool(said["redelivered"])
    return {"pid": os.getpid(), "redelivered": marked, "priority": said["priority"], "at": time.monotonic()}


def late(self: Task, port: int) -> dict[str, Any]:
    """`held`, acknowledged when it is done."""
    return held(self, port)


def early(self: Task, port: int) -> dict[str, Any]:
    """`held`, acknowledged when it begins."""
    return held(self, port)


BOUND: Final = (tried, late, early, where)

if MADE in os.environ:
    app = made(**json.loads(os.environ[MADE]))
