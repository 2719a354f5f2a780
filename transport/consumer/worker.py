"""What a process of a handler does: it calls the handler with what the consumer gives it, until there is no more or the consumer is gone.

It is a fresh interpreter, in which the program's module is imported. Signals are left to the consumer: Ctrl-C reaches every process of
a terminal, and a service manager may tell them all to end; the one that decides what is still finished is the consumer.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

from transport.consumer.batch import Batch
from transport.consumer.by_name import Call
from transport.consumer.calling import called
from transport.consumer.carried import CarriedMessage, send_errors
from transport.consumer.parameters import Parameters, parameters_of

HELD_OFF = (signal.SIGINT, signal.SIGTERM)
"""What they leave to the consumer."""


def work(connection: Connection[Any, Any], call: Call) -> None:
    """The whole life of such a process."""
    for number in HELD_OFF:
        # A function and not SIG_IGN: that would be inherited by what the handler starts, which could then not be told to end.
        signal.signal(number, _leave_it)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_OFF)
    # What the handler forks may live longer, and is not to hold the pipe: who writes to this process would wait for that.
    os.register_at_fork(after_in_child=connection.close)
    threading.Thread(target=_end_with_the_consumer, daemon=True, name="penstock: waits for the consumer's end").start()
    parameters = parameters_of(call.function, call.codec, batch=call.batch)
    try:
        connection.send(None)  # it is ready
        while True:
            messages: list[CarriedMessage] = connection.recv()
            connection.send(None)  # it has them: from here on they fail with it
            send_errors(connection, (_batch if call.batch else _one)(call.function, parameters, messages))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # nothing more comes


def _one(function: Callable[..., Any], parameters: Parameters, messages: list[CarriedMessage]) -> dict[int, Exception]:
    (message,) = messages
    try:
        called(function, *parameters.of(message.delivery()))
    except Exception as error:  # noqa: BLE001 - the handler's own: the consumer is told
        return {0: error}
    return {}


def _batch(
    function: Callable[..., Any], parameters: Parameters, messages: list[CarriedMessage]
) -> dict[int, Exception]:
    batch = Batch(parameters, [message.delivery() for message in messages])
    if batch.values:
        try:
            called(function, batch.values)
        except Exception as error:  # noqa: BLE001 - as above
            batch.failed(error)
    return batch.errors


def _leave_it(*_: object) -> None:
    """The consumer has had the same signal."""


def _end_with_the_consumer() -> None:
    """Where the consumer is killed, nobody is left to answer for what is done here: it comes again, to others."""
    consumer = multiprocessing.parent_process()
    if consumer is None or consumer.pid is None:
        return
    try:
        ended = os.pidfd_open(consumer.pid)
    except (AttributeError, OSError):
        consumer.join()  # by a pipe, which what the consumer has forked may hold
    else:
        if os.getppid() == consumer.pid:  # else it was gone before, and the number is another's
            wait([ended])
    os.kill(os.getpid(), signal.SIGKILL)
