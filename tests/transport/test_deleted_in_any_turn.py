"""A queue that is deleted in whatever turn of the loop while a client attaches, or a command waits for its answer: nothing has failed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from streams.testkit import settle
from transport import Administration, Broker
from transport.errors import BrokerError
from transport.wire.messages import VERSION, Cancel, Error, Hello, Welcome

Run = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]
TURNS = 12
"""More than attaching takes, and than an answer that waits for nothing but the disk."""
SUBSCRIPTION = {"subscription": "s"}


def delete_after(broker: Broker, name: str, turns: int) -> None:
    """Delete the queue so many turns of the loop from now."""
    if turns:
        asyncio.get_running_loop().call_soon(delete_after, broker, name, turns - 1)
    elif name in list(broker.queues):
        broker.queues.delete(name)


@pytest.fixture
def deleted_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[Broker, str, int], None]:
    """Has the queue deleted so many turns after a client, or a command, has asked for it."""

    def arm(broker: Broker, name: str, turns: int) -> None:
        for method in ("get_or_create", "get"):
            found = getattr(broker.queues, method)

            def look(asked: str, found: Callable[[str], Any] = found) -> Any:
                queue = found(asked)
                monkeypatch.undo()
                delete_after(broker, name, turns)
                return queue

            monkeypatch.setattr(broker.queues, method, look)

    return arm


@pytest.mark.parametrize("turns", range(1, TURNS))
@pytest.mark.parametrize(("role", "options"), [("sender", {}), ("receiver", {}), ("subscription", SUBSCRIPTION)])
def test_who_attaches_is_told_that_the_queue_was_deleted(
    run: Run, serve: Any, peers: Any, deleted_after: Any, role: str, options: dict[str, Any], turns: int
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as connect:
            deleted_after(broker, "q", turns)
            address = broker.send_address if role == "sender" else broker.receive_address
            peer = await connect.connect(str(address))
            peer.send(Hello(VERSION, role, "q", "peer", options))
            frames = await peer.rest()
            codes = [frame.code for frame in frames if isinstance(frame, Error)]
            assert codes == ["queue-deleted"]
            assert all(isinstance(frame, Welcome) or role == "sender" for frame in frames[:-1])

    run(main)


@pytest.mark.parametrize("turns", range(1, TURNS))
@pytest.mark.parametrize("command", ["purge", "release", "delete"])
def test_a_command_is_told_that_the_queue_was_deleted(
    run: Run, serve: Any, peers: Any, tmp_path: Path, deleted_after: Any, command: str, turns: int
) -> None:
    async def main() -> None:
        async with (
            serve(directory=str(tmp_path)) as broker,
            peers() as connect,
            Administration(str(broker.send_address)) as administration,
        ):
            owner = await connect.open(str(broker.receive_address), "subscription", "q", **SUBSCRIPTION)
            owner.send(Cancel())
            await owner.rest()
            deleted_after(broker, "q", turns)
            calls = {
                "purge": lambda: administration.purge_queue("q"),
                "release": lambda: administration.release_subscription("q", "s"),
                "delete": lambda: administration.delete_subscription("q", "s"),
            }
            answer = (await asyncio.gather(calls[command](), return_exceptions=True))[0]
            assert answer in (0, None) or (isinstance(answer, BrokerError) and answer.code == "queue-deleted"), answer
            # It may have been answered before.
            await settle()
            assert "q" not in list(broker.queues)

    run(main)
