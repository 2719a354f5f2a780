"""What tests of actors on a loop have in common: a run with a deadline, an actor that keeps what happens to it, a message that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from actors.runtime.loop_actor import LoopActor
from actors.runtime.loop_registry import LoopActorRegistry


def run(scenario: Coroutine[Any, Any, None]) -> None:
    async def with_deadline() -> None:
        async with asyncio.timeout(30):
            await scenario
        await LoopActorRegistry.shutdown()

    asyncio.run(with_deadline())


class Recorder(LoopActor):
    """Keeps what happens to it; answers an ask with what it has; runs a message that is callable."""

    def __init__(self, log: list[Any] | None = None) -> None:
        super().__init__()
        self.log: list[Any] = [] if log is None else log

    def on_start(self) -> None:
        self.log.append("start")

    def on_stop(self) -> None:
        self.log.append("stop")

    def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
        self.log.append(("failure", exception_type))

    def on_receive(self, message: Any) -> Any:
        if callable(message):
            return message(self)
        self.log.append(message)
        return list(self.log)


def fail(error: BaseException) -> Any:
    def raiser(_actor: LoopActor) -> None:
        raise error

    return raiser
