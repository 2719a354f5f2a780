"""Everything that a queue can be told, through deaths and losses of power: ``python -m tests.fault.features --seeds 0:500``.

Each seed is several lives of `features_program`: queues of three kinds, or of one with ``--kind``. With ``--share 1`` a start is asked at
each call that changes the disk. With ``--failing`` a call fails instead, one of each kind of call of each seed, and the broker ends. The
first promise that is broken is printed with the command that shows it again.
"""

from __future__ import annotations

import argparse
import sys
import traceback

from tests.fault.faulty_files import WRITING, Fault, Kind
from tests.fault.features_lives import verify_fails_for_good, verify_features_survive
from tests.fault.features_program import QUEUES
from tests.fault.power_loss import seeds

FAILING = [operation for operation in WRITING if operation not in ("make_directory", "remove_directory")]
SPREAD = 60
"""Calls of a kind that a short life makes, about."""


def faults(seed: int) -> list[Fault]:
    """One for each kind of call, at another place in each seed."""
    kind = Kind.EIO if seed % 2 else Kind.ENOSPC
    return [Fault((seed * 7 + number) % SPREAD, kind, operation) for number, operation in enumerate(FAILING)]


def main(arguments: list[str] | None = None) -> int:
    """Run the seeds; 0 when every one of them holds."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault.features", description=__doc__)
    parser.add_argument("--seeds", type=seeds, default=seeds("0:100"), help="A:B, from A to B - 1 (default 0:100)")
    parser.add_argument("--share", type=float, default=0.06, help="of the calls that are looked at (default 0.06)")
    parser.add_argument("--kind", choices=sorted(QUEUES), help="the queue that is there beside a plain one")
    parser.add_argument("--failing", action="store_true", help="have calls fail, in place of deaths")
    chosen = parser.parse_args(arguments)
    names = [chosen.kind, "plain"] if chosen.kind not in (None, "plain") else ["plain"] * (chosen.kind is not None)
    broken = failed = 0
    for seed in chosen.seeds:
        try:
            if chosen.failing:
                failed += sum(verify_fails_for_good(seed, fault) for fault in faults(seed))
            else:
                verify_features_survive(seed, names, share=chosen.share)
        except Exception:  # noqa: BLE001 - whatever a seed brings to light is what we are looking for
            broken += 1
            again = f"--seeds {seed} --share {chosen.share:g}" + (f' --kind "{chosen.kind}"' if names else "")
            again = f"--failing --seeds {seed}" if chosen.failing else again
            print(
                f"seed {seed}:\n{traceback.format_exc()}\nagain: python -m tests.fault.features {again}",
                file=sys.stderr,
            )
    what = f", in which {failed} calls failed" if chosen.failing else ""
    print(f"{len(chosen.seeds)} seeds{what}, {broken} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
