"""What a call of a handler may come to, beside returning nothing: it is one exception that its message has failed with."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from transport.clients.handler_failures import text_of
from transport.errors import LocalProtocolError, TransportError


async def awaited(
    runner: asyncio.Task[Any] | None, function: Callable[..., Awaitable[object]], *arguments: Any
) -> None:
    """Awaits ``function`` of ``arguments``.

    A handler that is cancelled by something of its own, a task that it awaits say, has failed: where that went on as a cancellation,
    the stream would end without a word. Where the stream has ended, nobody asks for what comes of it.

    Args:
        runner: the task that the consumer runs in.
        function: the handler.
        arguments: what it is given.
    """
    try:
        await function(*arguments)
    except asyncio.CancelledError as error:
        if runner is not None and runner.cancelling():
            raise  # the loop ends, which cancels all tasks, in any order
        task = asyncio.current_task()
        while task is not None and task.cancelling():
            task.uncancel()  # the same task calls the handler for the next message
        raise TransportError("the handler was cancelled, by itself or by what it awaited") from error
    except (Exception, SystemExit, KeyboardInterrupt, GeneratorExit):
        raise  # its own; or it ends the program, or the loop has ended
    except BaseException as error:
        raise TransportError(f"the handler has raised {text_of(error)}") from error


def called(function: Callable[..., object], *arguments: Any) -> None:
    """Calls ``function`` with ``arguments``.

    ``sys.exit()`` and its like fail the message: in a thread or a process of the consumer's they would not end the program.

    Raises:
        LocalProtocolError: it has returned a coroutine or a generator, and so has done nothing yet.
    """
    try:
        result = function(*arguments)
    except Exception:
        raise
    except BaseException as error:
        raise TransportError(f"the handler has raised {text_of(error)}") from error
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        kind = "coroutine" if inspect.isawaitable(result) else "generator"
        if inspect.iscoroutine(result) or inspect.isgenerator(result):
            result.close()
        raise LocalProtocolError(
            f"the handler has returned a {kind}, which nobody goes through, and so has done nothing: a decorator may hide an async def"
        )
