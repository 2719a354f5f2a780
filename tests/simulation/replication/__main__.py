"""``python -m tests.simulation.replication --seeds A:B [--members 3|5] [--damaged] [--defect NAME] [--verbose]``."""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation.__main__ import seeds
from tests.simulation.replication.defects import DEFECTS, OF_DAMAGE, RARE
from tests.simulation.replication.program import Defects
from tests.simulation.replication.runner import run

ALL = DEFECTS | OF_DAMAGE | RARE
MOST_FINDINGS = 5
"""Findings printed for a seed."""


def main(arguments: list[str]) -> int:
    """The exit code: 1 if a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.replication", description=__doc__)
    parser.add_argument("--seeds", type=seeds, default=seeds("0:100"), metavar="A:B", help="A <= seed < B, or one seed")
    parser.add_argument("--members", type=int, choices=(3, 5), help="as many members; else the seed says how many")
    parser.add_argument("--damaged", action="store_true", help="the last write on a disk may be damaged, or torn")
    parser.add_argument("--defect", choices=sorted(ALL), help="with this defect, until a seed finds it")
    parser.add_argument("--verbose", action="store_true", help="print every event")
    options = parser.parse_args(arguments)
    defects = Defects if options.defect is None else ALL[options.defect]
    failed = confirmed = lost = epochs = transfers = cuts = 0
    began = time.process_time()
    done = 0
    for seed in options.seeds:
        outcome = run(seed, options.members, defects, verbose=options.verbose, damaged=options.damaged)
        done += 1
        for event in outcome.events:
            print(event)
        confirmed += outcome.confirmed
        lost += outcome.lost
        epochs += outcome.epochs
        transfers += outcome.transfers
        cuts += outcome.cuts
        if not outcome.findings:
            continue
        failed += 1
        how = f" --members {options.members}" * (options.members is not None)
        how += " --damaged" * options.damaged
        how += f" --defect '{options.defect}'" * (options.defect is not None)
        print(f"seed {seed} fails ({outcome.plan.mode}, {len(outcome.plan.members)} members): ", end="")
        print(f"python -m tests.simulation.replication --seeds {seed}{how} --verbose")
        for finding in outcome.findings[:MOST_FINDINGS]:
            print(f"  {finding}", flush=True)
        if options.defect is not None:
            break
    seconds = time.process_time() - began
    print(
        f"{done} seeds, {failed} failed; {confirmed} confirmations, {lost} lost where they may be, {epochs} epochs, "
        f"{transfers} transfers, {cuts} records cut; {done / max(seconds, 1e-9):.1f} seeds a second"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
