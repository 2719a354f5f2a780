"""The inside of a benchmark's process: runs one role and speaks with the parent in lines of JSON.

``python -m benchmarks._worker module:function '{"argument": ...}'``. The end of standard input means that the parent is gone.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import Any, TypeVar

T = TypeVar("T")


class Parent:
    """A role's connection to the process that started it."""

    def say(self, **facts: Any) -> None:
        """One message to the parent."""
        sys.stdout.write(json.dumps(facts) + "\n")
        sys.stdout.flush()

    def wait(self) -> None:
        """Block until the parent says go on, or is gone."""
        sys.stdin.readline()

    async def told(self) -> None:
        """`wait`, while the loop goes on."""
        await asyncio.get_running_loop().run_in_executor(None, self.wait)


def loop_factory(uvloop: bool) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's loops, or asyncio's own for None."""
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
