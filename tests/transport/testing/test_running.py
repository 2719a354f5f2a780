"""A consumer that runs beside a test: it handles, ends with the block however soon that is over, and what it fails with is told."""

from __future__ import annotations

import threading

import pytest

from transport import Consumer
from transport.testing import HostedBroker, running


class OwnError(Exception):
    pass


def nothing(payload: bytes) -> None:
    pass


def test_it_handles_while_the_block_lasts_and_what_is_under_way_is_finished() -> None:
    begun, go_on = threading.Event(), threading.Event()
    with HostedBroker() as broker:
        consumer = Consumer(broker.receive_address, queue="orders")

        @consumer.handler
        def handle(payload: bytes) -> None:
            begun.set()
            go_on.wait(10)

        with running(consumer) as same:
            assert same is consumer
            broker.send("orders", [b"a"])
            assert begun.wait(10)
            go_on.set()
        assert broker.figures("orders")["total_acknowledged"] == 1
        assert not consumer.healthy()


def test_a_block_that_is_over_at_once_ends_it_too() -> None:
    with HostedBroker() as broker:
        consumer = Consumer(broker.receive_address, queue="orders")
        consumer.handler(nothing)
        for _ in range(3):
            with running(consumer):
                pass
            assert not [each for each in threading.enumerate() if each.name.startswith("penstock-consumer")]


def test_what_it_has_failed_with_is_raised_at_the_end_of_the_block() -> None:
    with HostedBroker() as broker:
        consumer = Consumer(broker.receive_address, queue="orders", on_failure="stop")

        @consumer.handler
        def handle(payload: bytes) -> None:
            raise OwnError

        broker.send("orders", [b"a"])
        with pytest.raises(OwnError), running(consumer):
            broker.wait_until("orders", total_out=1, in_flight=0)


def test_a_consumer_that_cannot_start_is_told_as_well() -> None:
    with pytest.raises(Exception, match="has no handler"), running(Consumer(queue="orders")):
        pass
