"""A broker in a thread of its own, and clients that were written from docs/protocol.md alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest

SECONDS = 10.0


class BrokerThread:
    """A broker on a loop of its own: the client blocks."""

    def __init__(self, broker: Any) -> None:
        self._broker = broker
        self._started = threading.Event()
        self._stop: asyncio.Event
        self._loop: asyncio.AbstractEventLoop
        self.send_address = ""
        self.receive_address = ""
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name="broker")
        self._thread.start()
        assert self._started.wait(SECONDS)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        async with self._broker as broker:
            self.send_address, self.receive_address = broker.send_address, broker.receive_address
            self._started.set()
            await self._stop.wait()

    def jump(self, jump: Callable[[float], None], seconds: float) -> None:
        """Have the broker's clock go on by so much."""

        async def there() -> None:
            jump(seconds)

        asyncio.run_coroutine_threadsafe(there(), self._loop).result(SECONDS)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()


class Bench:
    """Opens the client's connections to one broker and closes them."""

    def __init__(self, client: Any, broker: BrokerThread) -> None:
        self.client = client
        self.broker = broker
        self._open: list[Any] = []

    def _opened(self, connection: Any) -> Any:
        self._open.append(connection)
        return connection

    def sender(self, queue: str = "orders", client_id: str = "producer", **options: Any) -> Any:
        return self._opened(self.client.Sender(self.broker.send_address, queue, client_id, **options))

    def stage(self, name: str, version: int = 1, queue: str = "orders") -> Any:
        return self.sender(queue, "stager", writer="w", version=version, stage=name)

    def transaction(self, version: int = 1) -> Any:
        return self._opened(self.client.Transaction(self.broker.send_address, "w", version))

    def receiver(self, queue: str = "orders") -> Any:
        return self._opened(self.client.Receiver(self.broker.receive_address, queue))

    def subscription(self, name: str = "query", queue: str = "orders", **options: Any) -> Any:
        return self._opened(self.client.Subscription(self.broker.receive_address, queue, name, **options))

    def admin(self) -> Any:
        return self._opened(self.client.Admin(self.broker.send_address))

    def close(self) -> None:
        for connection in self._open:
            connection.close()


@pytest.fixture
def on_broker(serve: Callable[..., Any], independent_client: ModuleType) -> Callable[..., Any]:
    @contextmanager
    def opened(**options: Any) -> Iterator[Bench]:
        broker = BrokerThread(serve(**options))
        bench = Bench(independent_client, broker)
        try:
            yield bench
        finally:
            bench.close()
            broker.stop()

    return opened


@pytest.fixture
def bench(on_broker: Any) -> Iterator[Bench]:
    with on_broker() as opened:
        yield opened


def payloads(messages: list[Any]) -> list[bytes]:
    return [message.payload for message in messages]
