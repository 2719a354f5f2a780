"""Handlers that tests call in processes; at the top of a module, where those find them. A message says what is to happen."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from transport import Consumer, DeadLetterError, Delivery, PartlyFailedError


class TwoPartsError(Exception):
    """One that can be pickled, and not be made anew of that."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one}, {two}")


class HeldError(Exception):
    """One that cannot be pickled."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.held = lambda: None


Job = dict[str, Any]
"""What is to happen: ``do``, which the handler of that name knows, and a ``file`` for it. Decoding it takes no library."""


def do(job: Job) -> None:
    file = Path(job["file"])
    match job["do"]:
        case "note":
            write(file, str(os.getpid()))
        case "hold":  # until somebody opens the pipe that the file is, to write
            write(file.with_suffix(".begun"), str(os.getpid()))
            with file.open("rb") as pipe:
                pipe.read()
            write(file.with_suffix(".done"), "")
        case "be killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "be killed with a child":
            child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], close_fds=False)
            write(file, str(child.pid))
            os.kill(os.getpid(), signal.SIGKILL)
        case "fork":
            if not (forked := os.fork()):
                signal.pause()
            write(file.with_suffix(".forked"), str(forked))
            write(file, str(os.getpid()))
        case "exit":
            sys.exit("enough")
        case "exit at once":
            os._exit(3)
        case "fail":
            raise KeyError("customer")
        case "fail with two parts":
            raise TwoPartsError("one", "two")
        case "fail with what is held":
            raise HeldError("it is held")
        case "be a dead letter":
            raise DeadLetterError("no such customer")
        case "obey signals":
            # What the handler starts can be told to end, though the handler's process cannot.
            with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
                child.terminate()
                write(file, str(child.wait()))
        case _:
            raise AssertionError(job)


def write(file: Path, text: str) -> None:
    """All of it is there, or nothing."""
    part = file.with_suffix(f".part{os.getpid()}")
    part.write_text(text, "utf-8")
    part.rename(file)


def describe(job: Job, delivery: Delivery) -> None:
    told = {
        "queue": delivery.queue,
        "sequence": delivery.sequence,
        "id": delivery.id,
        "key": delivery.key,
        "headers": delivery.headers,
        "enqueued": delivery.enqueued_us > 0,
        "count": delivery.delivery_count,
        "replayed": delivery.possibly_replayed,
        "payload": delivery.payload,
    }
    write(Path(job["file"]), repr(told))


def acknowledge(delivery: Delivery) -> None:
    delivery.acknowledge()


def all_of(jobs: list[Job]) -> None:
    write(Path(jobs[0]["file"]), str(len(jobs)))


def all_but(jobs: list[Job]) -> None:
    failed = {place: KeyError(job["file"]) for place, job in enumerate(jobs) if job["do"] == "fail"}
    if any(job["do"] == "be killed" for job in jobs):
        os.kill(os.getpid(), signal.SIGKILL)
    if failed:
        raise PartlyFailedError(failed)


def split(payload: bytes) -> Any:
    """A codec."""
    what, file = payload.decode().split("|")
    return {"do": what, "file": file}


def of_bytes(payload: bytes) -> None: ...


def renamed(payload: bytes) -> None: ...


found_by_another_name = renamed
renamed = of_bytes


async def awaited(payload: bytes) -> None: ...


class Handlers:
    @staticmethod
    def static(payload: bytes) -> None: ...

    def method(self, payload: bytes) -> None: ...


class Called:
    def __call__(self, payload: bytes) -> None: ...


decorated = Consumer(queue="orders")


@decorated.handler(processes=1)
def in_place(job: Job) -> None:
    do(job)


def fail_once(delivery: Delivery) -> None:
    """Notes a message of a group in a pipe; the one that is to fail does so the first time."""
    pipe, number, fails = delivery.payload.decode().split()
    with Path(pipe).open("ab", buffering=0) as noted:
        noted.write(f"{delivery.headers['group-id']} {number} {delivery.failures}\n".encode())
    if fails == "fails" and not delivery.failures:
        raise ValueError("on purpose")


def fail_some_once(deliveries: list[Delivery]) -> None:
    """As `fail_once`, of a list."""
    failed: dict[int, Exception] = {}
    for place, delivery in enumerate(deliveries):
        try:
            fail_once(delivery)
        except ValueError as error:
            failed[place] = error
    if failed:
        raise PartlyFailedError(failed)
