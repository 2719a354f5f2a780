"""What goes wrong with links is logged once, and what happens whenever a cluster begins is a warning only when it lasts."""

from __future__ import annotations

import logging

import pytest

from transport.cluster import hello
from transport.cluster.causes import BEGINNING, BEGINNING_SECONDS, Causes, cause_of
from transport.cluster.hello import LinkRefusedError

OTHER = LinkRefusedError(hello.CLUSTER, "one of the two nodes is of the cluster c, and the other of the cluster d")
NONE_YET = LinkRefusedError(hello.CLUSTER, "one of the two nodes is of the cluster c, and the other of none yet")


class Clock:
    """Stands still."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def levels(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "penstock.cluster")
    return caplog


def logged(caplog: pytest.LogCaptureFixture) -> list[int]:
    return [record.levelno for record in caplog.records]


def test_a_cause_is_a_warning_once(levels: pytest.LogCaptureFixture) -> None:
    causes = Causes(Clock())
    assert causes.tell("b", "secret", "no link")
    assert not causes.tell("b", "secret", "no link")
    assert causes.tell("c", "secret", "no link")
    assert logged(levels) == [logging.WARNING] * 2


def test_it_is_said_anew_when_it_was_well_in_between(levels: pytest.LogCaptureFixture) -> None:
    causes = Causes(Clock())
    causes.tell("b", "secret", "no link")
    causes.well("b")
    assert causes.tell("b", "secret", "no link")
    assert logged(levels) == [logging.WARNING] * 2


def test_that_another_node_is_of_no_cluster_yet_is_a_warning_only_when_it_lasts(
    levels: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    causes = Causes(clock)
    for _ in range(3):
        causes.tell("b", BEGINNING, "no link")
        clock.now += BEGINNING_SECONDS / 3 - 0.01
    assert logged(levels) == [logging.INFO]
    clock.now += 0.03
    for _ in range(3):
        causes.tell("b", BEGINNING, "no link")
    assert logged(levels) == [logging.INFO, logging.WARNING]


def test_it_is_none_where_it_was_well_soon(levels: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    causes = Causes(clock)
    causes.tell("b", BEGINNING, "no link")
    causes.well("b")
    clock.now += 2 * BEGINNING_SECONDS
    causes.tell("b", BEGINNING, "no link")
    assert logged(levels) == [logging.INFO] * 2


def test_a_node_of_another_cluster_is_told_apart_from_one_of_none_yet() -> None:
    assert (cause_of(OTHER), cause_of(NONE_YET)) == (hello.CLUSTER, BEGINNING)
    assert cause_of(LinkRefusedError("a reason of later", "of none yet")) == "LinkRefusedError"
