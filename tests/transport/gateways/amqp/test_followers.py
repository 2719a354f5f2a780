"""A broker that does not lead its cluster, and RabbitMQ's clients: what it tells them, and where they go on."""

from __future__ import annotations

import asyncio
from typing import Any

import kombu
import pika
import pika.exceptions
import pytest

from tests.transport.followers import follower, member
from transport.broker.leadership import Leadership


def test_over_amqp_a_follower_refuses_a_connection_by_what_clients_take_for_a_broker_that_comes_back(run: Any) -> None:
    async def main() -> None:
        leadership = follower()
        async with member(leadership) as broker:
            port = broker.addresses("amqp")[0].port
            parameters = pika.ConnectionParameters("127.0.0.1", port)

            def connect() -> pika.BlockingConnection:
                return pika.BlockingConnection(parameters)

            # pika has one error for whatever ends a connection at this stage. Where it is given several hosts it tries the next.
            with pytest.raises(pika.exceptions.AMQPConnectionError) as refused:
                await asyncio.to_thread(connect)
            assert str(refused.value) == (
                "ConnectionClosedByBroker: (320) 'CONNECTION_FORCED - this broker does not lead its cluster; its leader is at "
                "10.0.0.7:5672'"
            )
            leadership.lead()
            inside = await asyncio.to_thread(connect)
            leadership.follow()
            with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as failure:
                await asyncio.to_thread(inside.process_data_events, 30)
            assert failure.value.reply_code == 320
            assert failure.value.reply_text.endswith("its leader is not known yet: try again soon")

    run(main)


def test_clients_of_amqp_that_have_several_hosts_go_on_from_a_follower_to_the_next(run: Any) -> None:
    async def main() -> None:
        leader = Leadership()
        leader.lead()
        async with member(follower()) as here, member(leader) as there:
            ports = [broker.addresses("amqp")[0].port for broker in (here, there)]

            def by_kombu() -> bool:
                with kombu.Connection([f"amqp://127.0.0.1:{port}//" for port in ports]) as connection:
                    connection.ensure_connection(max_retries=2, interval_start=0.01)
                    return bool(connection.connected)

            def by_pika() -> bool:
                with pika.BlockingConnection(
                    [pika.ConnectionParameters("127.0.0.1", port) for port in ports]
                ) as connection:
                    return bool(connection.is_open)

            assert await asyncio.to_thread(by_kombu)
            assert await asyncio.to_thread(by_pika)

    run(main)
