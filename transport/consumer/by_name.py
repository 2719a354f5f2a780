"""What a handler in processes must be: they import the program, and find the handler there by its name."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from transport.consumer.decoding import Codec, Decode
from transport.errors import LocalProtocolError

WORKER_NAME = "penstock handler"
"""How the names of the processes begin."""


@dataclass(frozen=True, slots=True)
class Call:
    """What a process is to call. The decoder is made anew there.

    Attributes:
        function: the handler.
        codec: how payloads are written.
        batch: whether it takes a list.
    """

    function: Callable[..., Any]
    codec: Codec | Decode
    batch: bool


def check_found(name: str, function: Callable[..., Any], codec: Codec | Decode) -> None:
    """Refuses a handler that no other process could find.

    Raises:
        LocalProtocolError: the handler, or the function that decodes; the text says what to do.
    """
    whose = f"handler {name} is to be called in processes"
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004 - an object may be one
        raise LocalProtocolError(
            f"{whose}, which are for functions that keep the processor busy: make it no coroutine function, or leave out processes"
        )
    _check_name(whose, "it", function)
    if callable(codec):
        _check_name(whose, "its codec", codec)


def _check_name(whose: str, what: str, function: Callable[..., Any]) -> None:
    function = _undressed(function)
    name = getattr(function, "__qualname__", None)
    if name is None or (inspect.ismethod(function) and not inspect.isclass(function.__self__)):
        raise LocalProtocolError(
            f"{whose}: {what} has to be a function of a module, not {function!r:.80}; what it needs is made in the module, too"
        )
    if "<" in name:
        raise LocalProtocolError(
            f"{whose}: {what} has to be found by its name there, and {name} is a lambda or within a function; define it with def at the "
            "top of a module"
        )
    if getattr(function, "__module__", None) == "__main__" and not _main_can_be_imported():
        raise LocalProtocolError(
            f"{whose}: {what} has to be found in a file there, and {name} is in none (python -c, a console, a notebook, __main__.py); "
            "define it in a module that is imported"
        )


def _undressed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Of a ``functools.partial`` the function."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _main_can_be_imported() -> bool:
    """Whether another process imports this program as `multiprocessing` would: a file, or a module run with ``-m``."""
    main = sys.modules["__main__"]
    if main.__spec__ is not None:
        return main.__spec__.name.rpartition(".")[2] != "__main__"
    return getattr(main, "__file__", None) is not None


def check_not_a_worker() -> None:
    """Refuses to run a consumer in a process of a handler.

    Raises:
        LocalProtocolError: it is one. Most likely it imports the program, which starts itself.
    """
    multiprocessing = sys.modules.get("multiprocessing.process")  # where nobody has imported it, this is none
    if multiprocessing is not None and multiprocessing.current_process().name.startswith(WORKER_NAME):
        raise LocalProtocolError(
            "the consumer is started where its program is imported by a process of a handler: put what starts it under "
            'if __name__ == "__main__":'
        )
