"""What a run has of its process and its machine, as each run of a seed is to have it: whatever ran before, and wherever it runs."""

from __future__ import annotations

import gc
import logging
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from random import Random
from typing import Final
from unittest import mock

from tests.simulation.cluster import Complaints
from transport.broker.watermarks import Watermarks

MEMORY_BYTES: Final = 8 * 1024**3
"""What the machine has. A broker bounds by it what it holds of frames, and of what clients do not read."""
OPEN_FILES: Final = 1_000_000
"""What the process may have open. A broker that may have fewer than it wants connections says so, in a turn of its loop."""
THRESHOLDS: Final = (700, 10, 10)
"""Python's own, of its collector. In a process that has those of a broker, a broker has it look while it works."""
LOGGER: Final = "penstock"


@contextmanager
def pinned(seed: str, wall_clock: Callable[[], float]) -> Iterator[Complaints]:
    """Nothing but the seed has a say meanwhile; what the product complains of is told."""
    entropy = Random(f"entropy {seed}")
    with ExitStack() as stack:
        stack.enter_context(_uncollected())
        complaints = stack.enter_context(_complaints())
        for what, by in (
            ("time.time", wall_clock),
            ("os.urandom", entropy.randbytes),
            ("transport.broker.broker.memory_limit", lambda: MEMORY_BYTES),
            ("transport.broker.descriptors.soft_limit", lambda: OPEN_FILES),
            ("transport.broker.broker.resident_bytes", lambda: 0),
            ("tests.fault.disk._numbers", count(1)),
        ):
            stack.enter_context(mock.patch(what, by))
        stack.enter_context(_unlooked())
        stack.enter_context(_chance(f"chance {seed}"))
        yield complaints


@contextmanager
def _unlooked() -> Iterator[None]:
    """Nobody looks at what the process has of the machine's memory, which has no end: each look would take a part of a millisecond too."""
    usual = Watermarks.__init__.__kwdefaults__
    seen = {
        "used": lambda: 0,
        "limit": lambda: MEMORY_BYTES,
        "kept": lambda: None,
        "small": lambda: 0,
        "release": _nothing,
    }
    with mock.patch.dict(usual, seen):
        yield


def _nothing() -> None:
    """What is given back where nothing is kept."""


@contextmanager
def _uncollected() -> Iterator[None]:
    """The collector does not come meanwhile: when it does is not the seed's, and what it drops may do something."""
    enabled, thresholds = gc.isenabled(), gc.get_threshold()
    gc.disable()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        if enabled:
            gc.enable()


@contextmanager
def _chance(seed: str) -> Iterator[None]:
    """What the product draws by itself, the jitter of its waits for one, is the seed's too."""
    before = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)


@contextmanager
def _complaints() -> Iterator[Complaints]:
    """What the product logs as an error meanwhile.

    Clients ask why they wait where that is logged: whatever level is set elsewhere, the same seed is to be the same history.
    """
    handler = Complaints()
    logger = logging.getLogger(LOGGER)
    with ExitStack() as undo:
        undo.callback(logging.disable, logging.root.manager.disable)
        logging.disable(logging.NOTSET)
        for each in [logger, *_below(logger)]:
            undo.callback(each.setLevel, each.level)
            each.setLevel(logging.NOTSET)
        logger.setLevel(logging.WARNING)
        undo.callback(setattr, logger, "propagate", logger.propagate)
        logger.propagate = False
        logger.addHandler(handler)
        undo.callback(logger.removeHandler, handler)
        yield handler


def _below(logger: logging.Logger) -> list[logging.Logger]:
    found = logger.manager.loggerDict.items()
    return [each for name, each in found if name.startswith(f"{logger.name}.") and isinstance(each, logging.Logger)]
