"""A failure re-runs from its seed: whatever its process has done before, however it is set, and wherever its objects lie in memory."""

from __future__ import annotations

import gc
import logging
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest

from tests.simulation.clustered.runner import run_cluster
from transport.broker.memory import THRESHOLDS

SEEDS = (1, 7)
"""In the second a node tells the others of what it has cut off; the order in which it did so went by hashes."""
BEFORE = 3
FEW_FILES = 1024
"""Fewer than a broker wants connections."""


class Slotted:
    """As large as many objects of the product."""

    __slots__ = ("a", "b", "c", "d", "e", "f")


class Plain:
    """Has a dict."""


def scattered(seed: int) -> list[object]:
    """Objects of many sizes, every other of which is gone: those that are made next lie in the gaps, in no order."""
    random = Random(seed)
    made: list[object] = [bytes(max(0, random.randrange(480))) for _ in range(60_000)]
    made += [random.choice((Slotted, Plain, dict, list))() for _ in range(60_000)]
    random.shuffle(made)
    return made[::2]


@contextmanager
def set_as_nobody_would() -> Iterator[None]:
    """A process in which a broker and other tests have left what they have set."""
    thresholds, files = gc.get_threshold(), resource.getrlimit(resource.RLIMIT_NOFILE)
    logger = logging.getLogger("penstock.transport")
    level = logger.level
    gc.set_threshold(*THRESHOLDS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(FEW_FILES, files[1]), files[1]))
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.setLevel(level)
        resource.setrlimit(resource.RLIMIT_NOFILE, files)
        gc.set_threshold(*thresholds)


def digests(setting: str) -> list[str]:
    """What a process of its own prints that calls a function of this module, with another order of hashes."""
    program = f"from tests.simulation.clustered.test_determinism import {setting}\nprint(*{setting}())"
    environment = os.environ | {"PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"}
    if setting != "plain":
        environment.pop("PYTHONHASHSEED")
    command = (sys.executable, "-c", program)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.split()


def plain() -> list[str]:
    return [run_cluster(seed).digest for seed in SEEDS]


def behind_another() -> list[str]:
    run_cluster(BEFORE)
    kept = scattered(1)
    found = plain()
    return found if kept else []


def otherwise() -> list[str]:
    with set_as_nobody_would():
        return plain()


def uncollected() -> list[str]:
    with set_as_nobody_would():
        gc.disable()
        return plain()


@pytest.fixture(scope="module")
def told() -> list[str]:
    return digests("plain")


@pytest.mark.parametrize("setting", ["behind_another", "otherwise", "uncollected"])
def test_a_seed_is_the_same_history_behind_another_wherever_its_objects_lie_and_however_its_process_is_set(
    told: list[str], setting: str
) -> None:
    assert len(told) == len(SEEDS)
    assert digests(setting) == told
