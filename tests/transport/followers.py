"""Brokers of a cluster that do not lead, for tests of what their clients are told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from transport import Broker, BrokerConfig
from transport.broker.leadership import Leadership
from transport.gateways.listeners import configured_listeners

FREE = "127.0.0.1:0"
ELSEWHERE = {
    "send": ["10.0.0.7:9182", "leader.example:9182"],
    "receive": ["10.0.0.7:9183"],
    "http": ["10.0.0.7:9180"],
    "amqp": ["10.0.0.7:5672"],
}
"""A leader, by listener; nobody goes there in these tests."""


@asynccontextmanager
async def member(leadership: Leadership, **options: Any) -> AsyncIterator[Broker]:
    names = ("send_address", "receive_address", "http", "amqp", "smq_source", "smq_sink")
    config = BrokerConfig(**(dict.fromkeys(names, FREE) | options))
    async with Broker(config, listeners=configured_listeners(config), leadership=leadership) as broker:
        yield broker


def follower() -> Leadership:
    leadership = Leadership()
    leadership.follow(ELSEWHERE)
    return leadership
