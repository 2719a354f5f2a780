"""Fixtures for pytest; it finds them by the entry point ``penstock``. Nothing of a broker is loaded before a test asks for one."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from transport.testing.hosted_broker import HostedBroker


@pytest.fixture
def penstock_settings() -> dict[str, Any]:
    """Settings of the test's brokers, by their names in BrokerConfig; override it in a module or a conftest.py."""
    return {}


@pytest.fixture
def penstock_broker_factory(penstock_settings: dict[str, Any]) -> Iterator[Callable[..., HostedBroker]]:
    """Starts brokers, each with a directory= of its own or in memory and settings by their names; all end with the test."""
    with ExitStack() as brokers:

        def start(*, directory: Path | None = None, **settings: Any) -> HostedBroker:
            from transport.testing.hosted_broker import HostedBroker  # noqa: PLC0415 - who uses no broker loads none

            return brokers.enter_context(HostedBroker(directory=directory, **{**penstock_settings, **settings}))

        yield start


@pytest.fixture
def penstock_broker(penstock_broker_factory: Callable[..., HostedBroker]) -> HostedBroker:
    """A broker in memory, on free ports of this machine, in a thread of its own."""
    return penstock_broker_factory()


@pytest.fixture
def penstock_durable_broker(penstock_broker_factory: Callable[..., HostedBroker], tmp_path: Path) -> HostedBroker:
    """A broker with a journal in tmp_path, which can be killed and started again."""
    return penstock_broker_factory(directory=tmp_path / "penstock-data")


@pytest.fixture
def penstock_virtual_time() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Runs a coroutine to its end on an event loop where time passes at once, for streams."""
    from streams.testkit import run_in_virtual_time  # noqa: PLC0415 - as above

    return run_in_virtual_time
