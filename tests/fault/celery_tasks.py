"""The application of `kill_celery`: each task tells when it begins and when it ends, by datagrams that outlive its process."""

from __future__ import annotations

import os
import socket
from typing import Any, Final

from celery import Celery, Task

BROKER, BACKEND, LEDGER = "KILL_CELERY_BROKER", "KILL_CELERY_BACKEND", "KILL_CELERY_LEDGER"
"""Variables of the environment: where the broker and the results are, and the socket of who keeps the books."""
ONCE_MORE: Final = 0.1
"""Seconds after which a task is tried again."""
BEGINS, ENDS = "begins", "ends"


def made(broker: str, backend: str) -> Celery:
    """An application whose tasks are acknowledged when they are done."""
    application = Celery("kill_celery", broker=broker, backend=backend)
    application.conf.update(
        task_acks_late=True,
        # A process of the pool that is killed is no end of its task.
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=4,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={"confirm_publish": True},
        worker_hijack_root_logger=False,
        result_chord_retry_interval=0.2,
        # Several processes write into the one file of the database.
        database_engine_options={"connect_args": {"timeout": 60}},
        result_backend_always_retry=True,
    )
    application.task(work, name="work", bind=True, ignore_result=True, max_retries=None)
    application.task(part, name="part")
    application.task(whole, name="whole", bind=True)
    return application


def tell(what: str, task: Task, name: str) -> None:
    """An entry of the books."""
    said = task.request
    entry = f"{what} {name} {said.retries} {int(bool(said.delivery_info['redelivered']))}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as speaker:
        speaker.sendto(entry.encode(), os.environ[LEDGER])


def work(self: Task, name: str, retries: int) -> None:
    """One that is tried again ``retries`` times."""
    tell(BEGINS, self, name)
    if self.request.retries < retries:
        raise self.retry(countdown=ONCE_MORE)
    tell(ENDS, self, name)


def part(number: int) -> int:
    """One of a chord's."""
    return number


def whole(self: Task, numbers: list[Any], name: str, total: int) -> None:
    """The end of a chord."""
    tell(BEGINS, self, name)
    if sum(numbers) != total:
        raise ValueError(f"{name}: {numbers} are not {total}")
    tell(ENDS, self, name)


if BROKER in os.environ:
    app = made(os.environ[BROKER], os.environ[BACKEND])
