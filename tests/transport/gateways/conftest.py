"""A broker with both ports of the simple message queue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from transport import Broker, BrokerConfig
from transport.gateways.listeners import configured_listeners

FREE = "127.0.0.1:0"
Serve = Callable[..., AbstractAsyncContextManager[Broker]]


@pytest.fixture
def smq() -> Serve:
    """`async with smq(**options) as broker`: with sources and sinks, unless the options say otherwise."""

    @asynccontextmanager
    async def serve(**options: Any) -> AsyncIterator[Broker]:
        addresses = dict.fromkeys(("send_address", "receive_address", "smq_source", "smq_sink"), FREE)
        config = BrokerConfig(**(addresses | options))
        async with Broker(config, listeners=configured_listeners(config)) as broker:
            yield broker

    return serve


@pytest.fixture
def source_address() -> Callable[[Broker], Any]:
    return lambda broker: broker.addresses("smq-source")[0]


@pytest.fixture
def sink_address() -> Callable[[Broker], Any]:
    return lambda broker: broker.addresses("smq-sink")[0]
