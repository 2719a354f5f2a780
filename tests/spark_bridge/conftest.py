"""A real broker in a thread of its own, for code that blocks; and Spark, once."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from streams import Source
from transport import Broker, BrokerConfig, Message, MessageBatch, Sender
from transport.clients.subscription_client import SubscriptionClient
from transport.gateways.listeners import configured_listeners

ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 30.0


class BrokerThread:
    """A broker on free ports, its loop in a thread."""

    def __init__(self, **config: Any) -> None:
        addresses = {"send_address": "127.0.0.1:0", "receive_address": "127.0.0.1:0"}
        self._config = BrokerConfig(**(addresses | config))
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._ready.wait(DEADLINE)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        async with Broker(self._config, listeners=configured_listeners(self._config)) as self.broker:
            self.sending = self.broker.send_address
            self.receiving = self.broker.receive_address
            self._ready.set()
            await self._stop.wait()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(DEADLINE)
        assert not self._thread.is_alive()

    def on_loop(self, do: Callable[[], Any]) -> Any:
        """`do` on the broker's loop; its result."""

        async def call() -> Any:
            return do()

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(DEADLINE)

    def close_connections(self) -> int:
        """Closes every connection as a broken network would; how many there were."""

        def close() -> int:
            connections = [handler.connection for handler in self.broker.connections.values()]
            for connection in connections:
                if connection is not None:
                    connection.abort(ConnectionResetError("a test broke it"))
            return len(connections)

        return int(self.on_loop(close))

    def send(self, queue: str, elements: Sequence[bytes | Message | MessageBatch]) -> None:
        async def run() -> None:
            await Source.from_iterable(elements).to(Sender(self.sending, queue=queue)).run()

        asyncio.run(run())

    def client(
        self, queue: str = "q", subscription: str = "s", mode: Any = "own", **options: Any
    ) -> SubscriptionClient:
        return SubscriptionClient(self.receiving, queue=queue, subscription=subscription, mode=mode, **options)


@pytest.fixture
def make_broker(tmp_path: Path) -> Iterator[Callable[..., BrokerThread]]:
    """Makes brokers, which have ended when ``tmp_path`` is removed: their journals are there."""
    made: list[BrokerThread] = []

    def make(**config: Any) -> BrokerThread:
        made.append(BrokerThread(**config))
        return made[-1]

    yield make
    for broker in made:
        broker.stop()


@pytest.fixture
def broker(make_broker: Callable[..., BrokerThread]) -> BrokerThread:
    return make_broker()


@pytest.fixture
def durable_broker(make_broker: Callable[..., BrokerThread], tmp_path_factory: pytest.TempPathFactory) -> BrokerThread:
    return make_broker(directory=str(tmp_path_factory.mktemp("journal")))


@pytest.fixture(scope="session")
def spark(spark_python: str) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    from spark_bridge import PenstockDataSource

    # Spark's Python workers are processes of their own: they find the packages by this.
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    os.environ["PYSPARK_PYTHON"] = spark_python
    session = (
        SparkSession.builder.master("local[2,3]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    # What tests start as programs of their own has fresh processes.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session.sparkContext.setLogLevel("ERROR")
    session.dataSource.register(PenstockDataSource)
    yield session
    session.stop()
