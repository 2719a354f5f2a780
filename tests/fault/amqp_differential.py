"""``python -m tests.fault.amqp_differential``: the same random operations against RabbitMQ and a broker of ours give the same.

Operations come in episodes, each with names of its own. Both brokers are told an operation, and both are asked what there is then: answers,
reply codes and texts, deliveries with their tags and order, returns, confirms, and counts must be the same. A difference says the seed and
the episode by which it comes again, and what was done before it. What is known to differ is listed in docs/amqp.md.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Annotated, Any, Final

import typer

from benchmarks._rabbitmq_server import missing
from tests.fault.amqp_argument_operations import ArgumentOperations
from tests.fault.amqp_combined_operations import CombinedOperations
from tests.fault.amqp_coverage import Coverage
from tests.fault.amqp_death_operations import DeathOperations
from tests.fault.amqp_guest import beside_rabbitmq
from tests.fault.amqp_limit_operations import LimitOperations
from tests.fault.amqp_operations import Operations, all_names, beginnings
from tests.fault.amqp_sides import Outcome, Side
from tests.fault.amqp_view import Operation, View
from transport.gateways.amqp import basic_methods as basic

OPERATIONS: Final = 20_000
OF_AN_EPISODE: Final = 200
KINDS: Final[tuple[type[Operations | LimitOperations], ...]] = (
    Operations,
    CombinedOperations,
    ArgumentOperations,
    LimitOperations,
    Operations,
    DeathOperations,
    CombinedOperations,
    ArgumentOperations,
)
"""What episodes are of, one after another."""
AGREE_SECONDS: Final = 3.0
"""In which both must have come to the same: what takes a broker's processes a moment is no difference."""
SHOWN_OPERATIONS: Final = 25
"""Before a difference."""


class DifferenceError(Exception):
    """The two do not agree."""


class Episode:
    """Both brokers, told the same.

    Args:
        theirs: RabbitMQ, or whatever is right.
        ours: what is held against it.
        seed: decides on the operations.
        prefix: the beginning of its names.
        kind: what it is of.

    Attributes:
        view: what is known.
        done: how often each method was said, and each code came.
        coverage: the arguments that were said.
    """

    def __init__(
        self,
        theirs: Side,
        ours: Side,
        seed: str,
        prefix: str,
        kind: type[Operations | LimitOperations] = Operations,
    ) -> None:
        # One that has got a message of a quorum queue, and has not settled it, is a consumer with RabbitMQ.
        self.view = View(prefix, counts_consumers=kind is not LimitOperations)
        self.done: Counter[str] = Counter()
        self.coverage = Coverage()
        self._sides = theirs, ours
        self._operations = kind(Random(seed), self.view)
        self._last: deque[str] = deque(maxlen=SHOWN_OPERATIONS)

    def run(self, operations: int) -> None:
        """So many random ones, behind those that begin each episode.

        Raises:
            DifferenceError: what came of one was not the same.
        """
        self.do_all(beginnings(self.view))
        for _ in range(operations):
            self.do(self._operations.next())

    def do_all(self, operations: Iterable[Operation]) -> None:
        """These, one behind the other; errors as of `run`."""
        for operation in operations:
            self.do(operation)

    def do(self, operation: Operation) -> None:
        """One operation; errors as of `run`."""
        self._last.append(str(operation))
        self.coverage.saw(operation, self.view)
        self.view.expect(operation)
        for side in self._sides:
            side.begin(operation)
        for side in self._sides:
            side.finish(operation)
        if isinstance(operation.method, basic.ConfirmSelect):
            for side in self._sides:
                side.confirms((operation.session, operation.channel))
        theirs, ours = self._agreed()
        if theirs != ours:
            raise DifferenceError(self._report(theirs, ours))
        side = self._sides[0]
        heard = {session: side.events(session) for session in (0, 1)}
        names = {name.removeprefix("probe "): facts for name, facts in theirs.items() if name.startswith("probe ")}
        self.view.follow(operation, heard, names)
        self._count(operation, heard[operation.session])
        for side in self._sides:
            side.forget_outcome()

    def _agreed(self) -> tuple[Outcome, Outcome]:
        """What came of it, as soon as both have come to the same, or else in the end."""
        deadline = time.monotonic() + AGREE_SECONDS
        while True:
            for side in self._sides:
                side.probe(self.view)
            theirs, ours = (side.outcome() for side in self._sides)
            if theirs == ours or time.monotonic() > deadline:
                return theirs, ours

    def _count(self, operation: Operation, heard: list[Any]) -> None:
        closed = [each for each in heard if each.name in ("channel.close", "connection.close")]
        self.done[operation.method.NAME] += 1
        for each in closed:
            self.done[f"closed with {each.facts['reply_code']}"] += 1

    def _report(self, theirs: Outcome, ours: Outcome) -> str:
        lines = ["the two differ behind the last of these operations:", *self._last]
        for what in sorted(theirs.keys() | ours.keys()):
            if theirs.get(what) != ours.get(what):
                lines += [f"  {what}"]
                said = _without_beginning(theirs.get(what, "nothing"), ours.get(what, "nothing"))
                lines += [f"    {side.name}: {each}" for side, each in zip(self._sides, said, strict=True)]
        return "\n".join(lines)

    def end(self) -> None:
        """Leave nothing."""
        for side in self._sides:
            side.clear(*all_names(self.view))


def _without_beginning(theirs: Any, ours: Any) -> tuple[Any, Any]:
    """Of two lists what is behind their common beginning."""
    if isinstance(theirs, list) and isinstance(ours, list):
        at = next((at for at, (one, other) in enumerate(zip(theirs, ours, strict=False)) if one != other), None)
        at = min(len(theirs), len(ours)) if at is None else at
        return theirs[at:], ours[at:]
    return theirs, ours


def differences(theirs: int, ours: int, seed: int, episodes: Iterator[int], operations: int) -> Iterator[Episode | str]:
    """Runs episodes against the brokers at two ports; gives each that has ended, or how it differed."""
    for number in episodes:
        sides = Side("theirs", theirs), Side("ours", ours, on_disk=True)
        episode = Episode(*sides, f"{seed}-{number}", f"d{number}-", KINDS[number % len(KINDS)])
        try:
            episode.run(operations)
        except DifferenceError as difference:
            yield f"--seed {seed} --episode {number} ({KINDS[number % len(KINDS)].__name__}): {difference}"
        else:
            yield episode
        finally:
            episode.end()


def main(
    operations: Annotated[int, typer.Option(min=1, metavar="N", help="Operations in all.")] = OPERATIONS,
    seed: Annotated[int, typer.Option(metavar="N", help="Decides on all of them.")] = 1,
    episode: Annotated[int | None, typer.Option(min=0, metavar="N", help="This episode alone.")] = None,
    most: Annotated[int, typer.Option(min=1, metavar="N", help="Stop after so many that differ.")] = 5,
) -> None:
    """Tell RabbitMQ and a broker of ours the same."""
    if (lacking := missing()) is not None:
        print(f"skipped: {lacking}")
        return
    each = min(operations, OF_AN_EPISODE)
    numbers = iter([episode]) if episode is not None else iter(range(-(-operations // each)))
    done: Counter[str] = Counter()
    coverage = Coverage()
    agreed = failed = 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-differential-")))
        rabbit, broker = stack.enter_context(beside_rabbitmq(folder))
        print(f"RabbitMQ {'.'.join(map(str, rabbit.version))}, seed {seed}", flush=True)
        for found in differences(rabbit.port, broker.port, seed, numbers, each):
            if isinstance(found, str):
                failed += 1
                print(found, flush=True)
            else:
                agreed += 1
                done += found.done
                coverage.update(found.coverage)
            if failed >= most:
                break
    print(*coverage.lines(), sep="\n")
    same = sum(done[name] for name in done if not name.startswith("closed"))
    print(f"{same} operations of {agreed} episodes gave the same, {failed} episodes differ")
    print(", ".join(f"{count} {name}" for name, count in done.most_common()))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    typer.run(main)
