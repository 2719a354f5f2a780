"""``python -m tests.simulation --seeds A:B [--processes N] [--verbose]``: run seeds.

Each that fails is printed with the command that runs it again.
"""

from __future__ import annotations

import argparse
import sys

from tests.simulation.clustered.defects import DEFECTS
from tests.simulation.told import told


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
    parser.add_argument(
        "--processes", type=int, default=1, metavar="N", help="so many seeds at a time, each in one of N processes"
    )
    options = parser.parse_args(arguments)
    if options.defect is not None and not options.cluster:
        parser.error("--defect is of a cluster: give --cluster too")
    if options.processes < 1:
        parser.error("--processes is 1 or more")
    failed = done = 0
    with told(options) as each_told:
        for each in each_told:
            done += 1
            failed += each.failed
            if each.text:
                print(each.text, flush=True)
            if each.failed and options.defect is not None:
                break
    print(f"{done} seeds, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
