"""``python -m tests.streams.generated.slow_last_stage``: every operator and source over 10 million elements with a slow last stage.

Each case runs in a process of its own, so that the memory is its own. Prints a line a case; fails if upstream ran ahead or memory grew.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tests.streams.catalogue import every
from tests.streams.generated.pacing import Outcome, pace_flow, pace_source

ELEMENTS: Final = 10_000_000
STEP: Final = 1_000
"""Elements the last stage asks for at a time: 10,000 looks at how far upstream has gone."""
ALLOWED_GROWTH: Final = 2 * 1024 * 1024
"""Bytes of memory gained after the first tenth: a quarter of one for each of the 9 million elements that follow; 20 for those of which
only 100,000 are run, less than the smallest object."""
CASE_SECONDS: Final = 3600.0


def names() -> list[str]:
    """The cases that can go on without end."""
    return [f"flow {case.name}" for case in every.flows() if not case.ends] + [
        f"source {case.name}" for case in every.sources() if case.endless is not None
    ]


def run_case(name: str, elements: int, step: int) -> Outcome:
    """Runs the case of that name in this process."""
    kind, _, wanted = name.partition(" ")
    if kind == "flow":
        return next(pace_flow(case, elements // case.costly, step) for case in every.flows() if case.name == wanted)
    return next(pace_source(case, elements, step) for case in every.sources() if case.name == wanted)


def _line(name: str, elements: int, step: int) -> tuple[bool, str]:
    command = [sys.executable, "-m", __spec__.name, "--one", name, "--elements", str(elements), "--step", str(step)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=CASE_SECONDS)
    except subprocess.TimeoutExpired:
        return False, f"FAIL {name}: not done in {CASE_SECONDS:g} s"
    text = done.stdout.strip() or done.stderr.strip().rpartition("\n")[2]
    return done.returncode == 0, f"{'ok  ' if done.returncode == 0 else 'FAIL'} {name}: {text}"


def _one(name: str, elements: int, step: int) -> int:
    outcome = run_case(name, elements, step)
    allowed = "not held back" if outcome.allowed_ahead is None else f"{outcome.allowed_ahead} allowed"
    sys.stdout.write(
        f"{outcome.given:,} in, {outcome.got:,} out, at most {outcome.most_ahead:,.0f} ahead ({allowed}), "
        f"memory {outcome.growth / 1024:+,.0f} KiB\n"
    )
    return 0 if outcome.held_back and outcome.growth <= ALLOWED_GROWTH else 1


def main() -> int:
    """Runs what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, default=ELEMENTS)
    parser.add_argument("--step", type=int, default=STEP)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        return _one(options.one, options.elements, options.step)
    cases = [name for name in names() if options.only in name]
    failures = 0
    with ThreadPoolExecutor(options.processes) as pool:
        for fine, line in pool.map(lambda name: _line(name, options.elements, options.step), cases):
            failures += not fine
            print(line, flush=True)
    print(f"{len(cases) - failures} of {len(cases)} ok")
    return 1 if failures or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
