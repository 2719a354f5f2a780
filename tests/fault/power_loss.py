"""Power losses by the thousand: ``python -m tests.fault.power_loss --seeds 0:10000``.

Each seed is four programs, each over one simulated disk and with several power losses: one of the journal alone, one of a journal that is a
replica, one that uses the map beside the queues, and one whose records are of several queues, with exchanges, transactions and transient
queues. The first promise that is broken is printed with the command that shows it again.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from concurrent.futures import ProcessPoolExecutor
from itertools import islice

from tests.fault.map_program import verify_map_survives
from tests.fault.queues_program import verify_queues_survive
from tests.fault.replica import verify_replica_survives
from tests.fault.workload import verify_survives

CHUNK = 50
"""Seeds that a process is given at a time."""
SHOWN_FAILURES = 10
"""Failing seeds that are printed in full; the others are counted."""


def seeds(text: str) -> range:
    """``A:B`` is the seeds from A to B - 1, ``A`` that one."""
    first, _, stop = text.partition(":")
    found = range(int(first), int(stop) if stop else int(first) + 1)
    if not found:
        raise argparse.ArgumentTypeError(f"{text} holds no seed")
    return found


def failures(chunk: range) -> list[tuple[int, str]]:
    """The seeds of a chunk that fail, each with what was broken."""
    found = []
    for seed in chunk:
        try:
            verify_survives(seed)
            verify_replica_survives(seed)
            verify_map_survives(seed)
            verify_queues_survive(seed)
        except Exception:  # noqa: BLE001 - whatever a seed brings to light is what we are looking for
            found.append((seed, traceback.format_exc()))
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run the seeds; 0 when every one of them holds."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault.power_loss", description=__doc__)
    parser.add_argument("--seeds", type=seeds, default=seeds("0:500"), help="A:B, from A to B - 1 (default 0:500)")
    parser.add_argument("--processes", type=int, default=1, help="how many to spread the seeds over (default 1)")
    chosen = parser.parse_args(arguments)
    chunks = [chosen.seeds[i : i + CHUNK] for i in range(0, len(chosen.seeds), CHUNK)]
    if chosen.processes == 1:
        broken = [failure for chunk in chunks for failure in failures(chunk)]
    else:
        with ProcessPoolExecutor(chosen.processes) as pool:
            broken = [failure for found in pool.map(failures, chunks) for failure in found]
    for seed, text in islice(broken, SHOWN_FAILURES):
        print(f"seed {seed}:\n{text}\nagain: python -m tests.fault.power_loss --seeds {seed}", file=sys.stderr)
    print(f"{len(chosen.seeds)} seeds, {len(broken)} failed" + "".join(f" {seed}" for seed, _ in broken[:100]))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
