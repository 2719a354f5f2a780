"""What there is to say of each seed of a range, run in this process or in several of their own."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context

from tests.simulation.clustered.defects import DEFECTS
from tests.simulation.clustered.runner import run_cluster
from tests.simulation.plan import FEATURES, draw_exchanges_alone
from tests.simulation.runner import run, run_plan

MOST_FINDINGS = 10
"""Findings printed for a seed; the first is mostly the cause of the others."""


@dataclass(frozen=True, slots=True)
class Told:
    """What there is to say of a seed.

    Attributes:
        failed: whether it has found something.
        text: what is printed: its events, where all are asked for, and what was found.
    """

    failed: bool
    text: str


def tell(options: argparse.Namespace, seed: int) -> Told:
    """Run a seed. What comes of it does not go by the process, nor by what that has run before."""
    if options.cluster:
        with nullcontext() if options.defect is None else DEFECTS[options.defect]():
            outcome = run_cluster(seed)
    elif options.exchanges:
        outcome = run_plan(draw_exchanges_alone(seed, durable=not options.memory))
    else:
        outcome = run(seed, durable=not options.memory, features=frozenset() if options.plain else FEATURES)
    lines = [str(outcome.plan), *map(str, outcome.events)] if options.verbose else []
    if outcome.findings:
        how = "".join(f" --{name}" for name in ("memory", "plain", "exchanges", "cluster") if getattr(options, name))
        how += f" --defect {options.defect!r}" * (options.defect is not None)
        lines.append(f"seed {seed} fails: python -m tests.simulation --seeds {seed}{how} --verbose")
        lines += [f"  {finding}" for finding in outcome.findings[:MOST_FINDINGS]]
        if len(outcome.findings) > MOST_FINDINGS:
            lines.append(f"  and {len(outcome.findings) - MOST_FINDINGS} more")
    return Told(bool(outcome.findings), "\n".join(lines))


@contextmanager
def told(options: argparse.Namespace) -> Iterator[Iterable[Told]]:
    """What there is to say of each seed, in order, as it comes: of one after another, or of several at a time in processes of their own."""
    of_one = partial(tell, options)
    if options.processes == 1:
        yield map(of_one, options.seeds)
        return
    # A pool of `multiprocessing` waits for ever for one that was killed, as where memory is short.
    pool = ProcessPoolExecutor(options.processes, get_context("spawn"))
    try:
        yield pool.map(of_one, options.seeds)
    finally:
        pool.shutdown(cancel_futures=True)
