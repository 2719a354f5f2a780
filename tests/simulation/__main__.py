"""``python -m tests.simulation --seeds A:B [--verbose]``: run seeds, print each that fails with the command that runs it again."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext

from tests.simulation.clustered.defects import DEFECTS
from tests.simulation.clustered.runner import run_cluster
from tests.simulation.plan import FEATURES, draw_exchanges_alone
from tests.simulation.runner import run, run_plan

MOST_FINDINGS = 10
"""Findings printed for a seed; the first is mostly the cause of the others."""


def seeds(text: str) -> range:
    """``7`` or ``0:100``."""
    first, colon, stop = text.partition(":")
    return range(int(first), int(stop) if colon else int(first) + 1)


def main(arguments: list[str]) -> int:
    """The exit code: 1 if a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=seeds, default=seeds("0:100"), metavar="A:B", help="A <= seed < B, or one seed")
    parser.add_argument("--memory", action="store_true", help="a broker without a disk, which is never restarted")
    parser.add_argument(
        "--plain", action="store_true", help="queues with limits and timeouts only, none of the features"
    )
    parser.add_argument("--exchanges", action="store_true", help="exchanges, and nothing else")
    parser.add_argument(
        "--cluster", action="store_true", help="three or five nodes of a cluster in the place of a broker alone"
    )
    parser.add_argument(
        "--defect", choices=sorted(DEFECTS), help="of a cluster, with this defect, until a seed finds it"
    )
    parser.add_argument("--verbose", action="store_true", help="print every event")
    options = parser.parse_args(arguments)
    if options.defect is not None and not options.cluster:
        parser.error("--defect is of a cluster: give --cluster too")
    failed = done = 0
    for seed in options.seeds:
        done += 1
        features = frozenset() if options.plain else FEATURES
        if options.cluster:
            with nullcontext() if options.defect is None else DEFECTS[options.defect]():
                outcome = run_cluster(seed)
        elif options.exchanges:
            outcome = run_plan(draw_exchanges_alone(seed, durable=not options.memory))
        else:
            outcome = run(seed, durable=not options.memory, features=features)
        if options.verbose:
            print(outcome.plan)
            for event in outcome.events:
                print(event)
        if not outcome.findings:
            continue
        failed += 1
        how = "".join(f" --{name}" for name in ("memory", "plain", "exchanges", "cluster") if getattr(options, name))
        how += f" --defect {options.defect!r}" * (options.defect is not None)
        print(f"seed {seed} fails: python -m tests.simulation --seeds {seed}{how} --verbose")
        for finding in outcome.findings[:MOST_FINDINGS]:
            print(f"  {finding}")
        if len(outcome.findings) > MOST_FINDINGS:
            print(f"  and {len(outcome.findings) - MOST_FINDINGS} more")
        if options.defect is not None:
            break
    print(f"{done} seeds, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
