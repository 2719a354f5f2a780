"""The examples of Celery and Dramatiq, and their workers, run as a reader would run them: they print what the pages show."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Iterator

import pytest
from celery import Celery

from tests.docs.typed import block
from tests.transport.gateways.amqp.celery_application import made
from tests.transport.gateways.amqp.conftest import AmqpBroker
from tests.transport.gateways.amqp.task_workers import Worker

Run = Callable[..., subprocess.CompletedProcess[str]]
CELERY, DRAMATIQ = "docs/celery.md", "docs/dramatiq.md"


@pytest.fixture
def broker() -> Iterator[AmqpBroker]:
    with AmqpBroker() as running, running.drained():
        yield running


def words(page: str, start: str) -> list[str]:
    """The one command of a block."""
    return shlex.split(block(page, start))


def shown(page: str, program: str) -> str:
    """What the page shows beneath the line that runs a program."""
    return block(page, f"$ python examples/{program}\n").partition("\n")[2]


@pytest.mark.parametrize("page", [CELERY, DRAMATIQ])
def test_the_broker_of_a_page_speaks_amqp_where_clients_look_for_it(page: str) -> None:
    assert words(page, "penstock broker") == ["penstock", "broker", "--amqp", "127.0.0.1:5672"]


def test_a_program_of_celery_prints_what_the_page_shows(
    broker: AmqpBroker, run_program: Run, environment: dict[str, str]
) -> None:
    environment["CELERY_BROKER_URL"] = f"amqp://guest:guest@127.0.0.1:{broker.port}//"
    with Worker(*words(CELERY, "celery "), ready=" ready.", environment=environment):
        assert run_program("examples/amqp_celery.py").stdout == shown(CELERY, "amqp_celery.py")


def test_a_program_of_dramatiq_and_its_worker_print_what_the_page_shows(
    broker: AmqpBroker, run_program: Run, environment: dict[str, str]
) -> None:
    environment["AMQP_URL"] = f"amqp://guest:guest@127.0.0.1:{broker.port}"
    lines = block(DRAMATIQ, "remember order 2").splitlines()
    with Worker(*words(DRAMATIQ, "dramatiq "), ready="ready for action", environment=environment) as worker:
        assert run_program("examples/amqp_dramatiq.py").stdout == shown(DRAMATIQ, "amqp_dramatiq.py")
        # What is due a second later and what is tried again may change places on a busy machine.
        assert worker.says(lines), worker.said


def test_the_settings_of_the_page_are_those_that_tests_have_tasks_wait_in_the_broker_by() -> None:
    names: dict[str, Celery] = {}
    exec(block(CELERY, "from celery import Celery"), names)
    ours = made("memory://", "cache+memory://", "q", delayed=True)
    for setting in (
        "task_default_queue_type",
        "task_default_exchange_type",
        "broker_native_delayed_delivery_queue_type",
    ):
        assert names["app"].conf[setting] == ours.conf[setting]
