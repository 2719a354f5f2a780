"""What is written in a turn leaves at its end, for all connections together."""

from __future__ import annotations

import asyncio

from transport.shell.turns import Flushes


class Writing:
    def __init__(self, log: list[str], name: str, error: Exception | None = None) -> None:
        self._log = log
        self._name = name
        self._error = error

    def flush(self) -> None:
        if self._error is not None:
            raise self._error
        self._log.append(self._name)

    def abort(self, error: Exception) -> None:
        self._log.append(f"{self._name}: {error}")


def test_one_turn_flushes_all_that_asked_in_order_and_one_that_fails_ends_alone() -> None:
    async def main() -> None:
        log: list[str] = []
        flushes = Flushes(asyncio.get_running_loop())
        flushes.ask(Writing(log, "a"))
        flushes.ask(Writing(log, "b", OSError("no buffer")))
        flushes.ask(Writing(log, "c"))
        assert log == []
        await asyncio.sleep(0)
        assert log == ["a", "b: no buffer", "c"]
        flushes.ask(Writing(log, "d"))
        await asyncio.sleep(0)
        assert log[-1] == "d"

    asyncio.run(main())


def test_what_is_asked_for_while_others_are_flushed_leaves_in_the_next_turn() -> None:
    async def main() -> None:
        log: list[str] = []
        flushes = Flushes(asyncio.get_running_loop())

        class Asking(Writing):
            def flush(self) -> None:
                super().flush()
                flushes.ask(Writing(log, "later"))

        flushes.ask(Asking(log, "first"))
        await asyncio.sleep(0)
        assert log == ["first"]
        await asyncio.sleep(0)
        assert log == ["first", "later"]

    asyncio.run(main())
