"""The application of the benchmark `celery`, its worker and its sender: each task writes a byte into a pipe, by which they are counted."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from threading import Thread
from typing import Any, Final

from celery import Celery, Task
from celery.signals import worker_ready

from benchmarks._worker import Parent

AGAIN: Final = 20
"""One task of so many is tried a second time."""
LATER: Final = 20
"""One of so many is due after `LATER_SECONDS`."""
LATER_SECONDS: Final = 0.05
AT_ONCE: Final = 200
"""Results that a sender waits for together."""
SECONDS: Final = 300.0


def made(port: int, *, confirms: bool = False, late: bool = False, pipe: str = "") -> Celery:
    """An application: its tasks are acknowledged when they are done, or when they begin.

    Args:
        port: of the broker, on the loopback address.
        confirms: whether each task is confirmed before the next is sent.
        late: whether tasks are acknowledged late.
        pipe: which tasks write into.
    """
    app = Celery("benchmark", broker=f"amqp://guest:guest@127.0.0.1:{port}//", backend="rpc://", set_as_current=False)
    app.conf.update(
        broker_transport_options={"confirm_publish": confirms},
        worker_hijack_root_logger=False,
        task_acks_late=late,
    )
    descriptor = os.open(pipe, os.O_WRONLY) if pipe else -1

    def work(self: Any, number: int) -> int:
        if number % AGAIN == 0 and not self.request.retries:
            raise self.retry(countdown=0)
        os.write(descriptor, b".")
        return number

    app.task(work, name="early", bind=True, acks_late=False)
    app.task(work, name="late", bind=True, acks_late=True)
    return app


def serve(parent: Parent, port: int, pipe: str, processes: int) -> None:
    """A worker, until the parent is gone."""
    app = made(port, pipe=pipe)

    def until_told() -> None:
        parent.wait()
        os.kill(os.getpid(), signal.SIGTERM)

    @worker_ready.connect(weak=False)  # type: ignore[untyped-decorator]  # Celery has no types
    def ready(**_: Any) -> None:
        # Its processes are there: one that is forked while a thread reads would wait for that thread's lock.
        Thread(target=until_told, daemon=True).start()
        parent.say(ready=True)

    quiet = ("--without-mingle", "--without-gossip", "--without-heartbeat", "-l", "ERROR")
    app.worker_main(["worker", "-P", "prefork", "-c", str(processes), *quiet])


def send(parent: Parent, port: int, task: str, tasks: int, confirms: bool, results: bool) -> None:
    """Send tasks, and wait for their results where they are wanted."""
    app = made(port, confirms=confirms)
    found: Task = app.tasks[task]
    with app.producer_pool.acquire(block=True) as producer:
        sends = partial(found.apply_async, producer=producer, ignore_result=not results)
        sends((1,))  # it connects and declares now
        parent.say(ready=True)
        parent.wait()
        started, cpu, waiting = time.monotonic(), time.process_time(), []
        for number in range(tasks):
            later = {} if number % LATER else {"countdown": LATER_SECONDS}
            sent = sends((number,), **later)
            if results:
                waiting.append(sent)
                if len(waiting) == AT_ONCE:
                    _wait(waiting)
        _wait(waiting)
        parent.say(started=started, cpu_s=time.process_time() - cpu)


def _wait(results: list[Any]) -> None:
    for each in results:
        each.get(timeout=SECONDS)
    results.clear()
