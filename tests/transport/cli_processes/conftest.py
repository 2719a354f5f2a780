"""A broker process for the tests of each module, and a queue for each test."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from tests.transport.programs import BrokerProcess

_names = count()


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess("--visibility-timeout", "600") as running:
        yield running


@pytest.fixture
def queue() -> str:
    return f"queue-{next(_names)}"


def numbered(amount: int) -> list[bytes]:
    return [b"line %d" % number for number in range(amount)]
