"""The inside of a benchmark's process: runs one role and speaks with the parent in lines of JSON.

``python -m benchmarks._worker module:function '{"argument": ...}'``. The end of standard input means that the parent is gone.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import Any, TypeVar

T = TypeVar("T")


class Parent:
    """A role's connection to the process that started it."""

    def __init__(self) -> None:
        # Whatever else this process writes to its standard output, a JVM's banner say, is not for the parent.
        self._channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)

    def say(self, **facts: Any) -> None:
        """One message to the parent."""
        self._channel.write(json.dumps(facts) + "\n")
        self._channel.flush()

    def wait(self) -> dict[str, Any] | None:
        """Block until the parent says go on, and with what; None when it is gone."""
        line = sys.stdin.readline()
        return json.loads(line) if line else None

    async def told(self) -> None:
        """`wait`, while the loop goes on."""
        await asyncio.get_running_loop().run_in_executor(None, self.wait)


def loop_factory(uvloop: bool) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The loops of uvloop, or asyncio's own for None."""
    if not uvloop:
        return None
    import uvloop as implementation  # noqa: PLC0415 - a role that blocks has no use for it

    factory: Callable[[], asyncio.AbstractEventLoop] = implementation.new_event_loop
    return factory


def run_loop(main: Coroutine[Any, Any, T], uvloop: bool) -> T:
    """Run ``main`` on a loop of its own."""
    with asyncio.Runner(loop_factory=loop_factory(uvloop)) as runner:
        return runner.run(main)


def main() -> None:
    """Run the role that the command line names."""
    target, arguments = sys.argv[1:]
    module, name = target.split(":")
    role = getattr(import_module(module), name)
    role(Parent(), **json.loads(arguments))


if __name__ == "__main__":
    main()
