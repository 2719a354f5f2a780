"""Everything that a queue can be told, over a cluster of three: ``python -m tests.fault.cluster_features --seeds 0:500``.

Each seed is several leaders of `cluster_program`, one after another, with queues of three kinds. The first promise that is broken is
printed with the command that shows it again.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections import Counter

from tests.fault.cluster_program import verify_cluster
from tests.fault.power_loss import seeds


def main(arguments: list[str] | None = None) -> int:
    """Run the seeds; 0 when every one of them holds."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault.cluster_features", description=__doc__)
    parser.add_argument("--seeds", type=seeds, default=seeds("0:100"), help="A:B, from A to B - 1 (default 0:100)")
    parser.add_argument(
        "--share", type=float, default=0.02, help="of the disks' calls at which a node may die (default 0.02)"
    )
    chosen = parser.parse_args(arguments)
    broken = 0
    seen: Counter[str] = Counter()
    for seed in chosen.seeds:
        try:
            seen += verify_cluster(seed, share=chosen.share)
        except Exception:  # noqa: BLE001 - whatever a seed brings to light is what we are looking for
            broken += 1
            again = f"--seeds {seed}:{seed + 1} --share {chosen.share:g}"
            print(
                f"seed {seed}:\n{traceback.format_exc()}\nagain: python -m tests.fault.cluster_features {again}",
                file=sys.stderr,
            )
    print(f"{len(chosen.seeds)} seeds, {broken} broken; seen: {dict(seen)}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
