"""The actors of the tests of Dramatiq: what sends them messages imports it, and each worker in processes of its own."""

from __future__ import annotations

import json
import os
import socket
import time
from typing import Any, Final

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.middleware import CurrentMessage, Retries, TimeLimit, TimeLimitExceeded

BROKER, QUEUE = "DRAMATIQ_TEST_BROKER", "DRAMATIQ_TEST_QUEUE"
"""Variables of the environment of a worker: the broker's address, and the queue of its actors."""
SECONDS: Final = 30.0
MOST_RETRIES: Final = 2
BACK_OFF_MS, LOOKED_AT_MS = 50, 50


def made(url: str, queue: str) -> RabbitmqBroker:
    """A broker of Dramatiq's with the actors below; whoever uses it closes it.

    Args:
        url: the address.
        queue: where their messages wait.
    """
    broker = RabbitmqBroker(url=url, confirm_delivery=True)
    kept = [each for each in broker.middleware if not isinstance(each, (Retries, TimeLimit))]
    broker.middleware = kept
    for each in (
        Retries(max_retries=MOST_RETRIES, min_backoff=BACK_OFF_MS),
        TimeLimit(interval=LOOKED_AT_MS),
        CurrentMessage(),
    ):
        broker.add_middleware(each)
    for actor, options in ACTORS.items():
        dramatiq.actor(actor, broker=broker, queue_name=queue, **options)
    return broker


def at_desk(port: int, **facts: Any) -> bytes:
    """Say where it runs, and wait until it is told how to go on: the worker may be killed meanwhile."""
    message = CurrentMessage.get_current_message()
    assert message is not None
    facts |= {"pid": os.getpid(), "retries": message.options.get("retries", 0), "at": time.monotonic()}
    with socket.create_connection(("127.0.0.1", port), SECONDS) as desk:
        desk.sendall(json.dumps(facts).encode())
        return desk.recv(1)


def works(port: int, number: int = 0) -> None:
    """Run, and end well."""
    at_desk(port, number=number)


def fails(port: int) -> None:
    """Run, and fail."""
    at_desk(port)
    raise ValueError("as it is to")


def slow(port: int) -> None:
    """Go on until it is told that its time is over, and say so."""
    at_desk(port)
    try:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            pass  # where its thread runs no Python it cannot be told
    except TimeLimitExceeded:
        at_desk(port, exceeded=True)
        raise


ACTORS: Final[dict[Any, dict[str, Any]]] = {works: {}, fails: {}, slow: {"time_limit": 200, "max_retries": 0}}

if BROKER in os.environ:
    dramatiq.set_broker(made(os.environ[BROKER], os.environ[QUEUE]))
