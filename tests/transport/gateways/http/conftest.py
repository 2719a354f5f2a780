"""A broker that speaks HTTP, and clients of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from transport import Broker, BrokerConfig
from transport.gateways.http.listener import HttpListener
from transport.gateways.listeners import configured_listeners

FREE = "127.0.0.1:0"


@dataclass
class Api:
    """The API of a broker, as one client has it.

    Attributes:
        broker: the broker.
        listener: where HTTP is spoken.
        session: aiohttp's client.
    """

    broker: Broker
    listener: HttpListener
    session: aiohttp.ClientSession

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        found = self.listener.addresses[0]
        return found.host, found.port

    async def ask(self, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, Any]:
        """The status and the JSON of an answer; None for one without a body."""
        if body is not None:
            options["json"] = body
        async with self.session.request(method, path, **options) as answer:
            found = await answer.read()
            return answer.status, json.loads(found) if found else None

    async def publish(self, *payloads: str, queue: str = "orders") -> list[int]:
        """Publish texts; their numbers."""
        body = {"messages": [{"payload": each} for each in payloads]}
        status, answer = await self.ask("POST", f"/api/v1/queues/{queue}/messages", body)
        assert status == 201, answer
        numbers: list[int] = answer["numbers"]
        return numbers

    async def take(self, queue: str = "orders", **asked: Any) -> list[dict[str, Any]]:
        """What a take gives."""
        status, answer = await self.ask("POST", f"/api/v1/queues/{queue}/take", {"messages": 10, **asked})
        assert status == 200, answer
        messages: list[dict[str, Any]] = answer["messages"]
        return messages

    async def settle(self, how: str, *receipts: str, queue: str = "orders", **more: Any) -> tuple[int, Any]:
        """Acknowledge, return or extend."""
        said = {"receipt": receipts[0]} if len(receipts) == 1 else {"receipts": list(receipts)}
        return await self.ask("POST", f"/api/v1/queues/{queue}/{how}", said | more)

    async def queue(self, name: str = "orders") -> dict[str, Any]:
        """A queue's row."""
        status, answer = await self.ask("GET", f"/api/v1/queues/{name}")
        assert status == 200, answer
        found: dict[str, Any] = answer
        return found


@pytest.fixture
def api() -> Callable[..., Any]:
    @asynccontextmanager
    async def opened(**options: Any) -> AsyncIterator[Api]:
        config = BrokerConfig(FREE, FREE, http=FREE, **options)
        listeners = configured_listeners(config)
        (http,) = [each for each in listeners if isinstance(each, HttpListener)]
        async with Broker(config, listeners=listeners) as broker:
            host, port = http.addresses[0].host, http.addresses[0].port
            async with aiohttp.ClientSession(f"http://{host}:{port}") as session:
                yield Api(broker, http, session)

    return opened


@pytest.fixture
def sockets(api: Callable[..., Any]) -> Callable[..., Any]:
    """As `api`; sockets of `websocket_client` are cut off at the end."""
    from tests.transport.gateways.http.websocket_client import cut_off

    @asynccontextmanager
    async def opened(**options: Any) -> AsyncIterator[Api]:
        async with api(**options) as http:
            try:
                yield http
            finally:
                await cut_off()

    return opened
