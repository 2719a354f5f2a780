"""Damage in every record that the features of a queue have: ``python -m tests.fault.features_damages --stores 10``.

Each store is what one life of `features_program` leaves, all of it durable. In a copy one thing is damaged: a bit of a record of a segment,
a file that ends within one, a segment that is gone, or the checkpoint. Then it is verified, repaired and started. Asked is that

- the start succeeds, and ``repair`` has something to say where ``verify`` calls something fatal;
- every message that was confirmed is there, but for those of the damaged records, and where some are not, somebody says that;
- no message is there twice but those of damaged records, which may have said that they had moved on; and none that nobody has sent;
- the ids of all others are known;
- another start finds the same, and calls nothing lost.
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple

from actors.queue.state.accepted_ids import digest_of
from actors.storage import Storage, codec, repair_storage, verify_storage
from journal import ManualCommitter
from journal.names import parse_checkpoint, parse_segment
from journal.scan import SegmentScan
from streams.testkit import elapse, run_in_virtual_time
from tests.fault.damaged_files import flip, targets
from tests.fault.damages import Held, fail
from tests.fault.disk import SimulatedDisk
from tests.fault.features_lives import Left, left_by
from tests.fault.features_model import COPY, Known, instances, known, places_of, require
from tests.fault.features_program import LETTERS, SMALL
from tests.fault.store_program import DATA

PAYLOAD: Final = re.compile(rb"m\d+:")
DECLARING: Final = {codec.QUEUE_DECLARED, codec.STORE_CREATED}
"""Records without which a queue is unknown, and with it all that it holds."""


class Where(NamedTuple):
    """A record of a segment: its file, from where to where, its kind, and the payloads in it."""

    name: str
    start: int
    stop: int
    kind: int
    payloads: frozenset[bytes]


@dataclass(frozen=True, slots=True)
class Damage:
    """What is damaged: files by name with their content, None for one that is gone, and what may be missing for it.

    Attributes:
        may_lose: the payloads; None for any, as where nobody knows any more which queues there were.
    """

    what: str
    files: dict[str, bytes | None]
    may_lose: frozenset[bytes] | None


@dataclass(frozen=True, slots=True)
class Found:
    """What a start finds: where each message is, and the ids that queues know, by their name and number."""

    places: dict[bytes, Counter[str]]
    ids: dict[tuple[str, int], frozenset[bytes]]


def records_of(disk: SimulatedDisk) -> list[Where]:
    """All records of all segments."""
    found = []
    for name in disk.names(DATA):
        if parse_segment(name) is not None:
            with SegmentScan(disk, DATA / name) as scan:
                for record in scan.records():
                    payloads = frozenset(PAYLOAD.findall(bytes(record.payload)))
                    found.append(Where(name, record.offset, record.end, record.kind, payloads))
    return found


def behind(records: list[Where], where: Where, active: set[str]) -> frozenset[bytes]:
    """What is lost with a record: it alone, or all behind it too where it is in the segment that was being written."""
    if where.name not in active:
        return where.payloads
    lost = [each.payloads for each in records if each.name == where.name and each.start >= where.start]
    return frozenset().union(*lost)


def damages(left: Left, random: Random, share: float) -> Iterator[Damage]:
    """Damages of a store, a share of all that there are."""
    disk = left.disk
    records = records_of(disk)
    active = set(targets(disk, "active"))
    for where in records:
        content = disk.content(DATA / where.name)
        may_lose = None if where.kind in DECLARING else behind(records, where, active)
        if random.random() < share:
            bad = flip(content, where.start, where.stop, random)
            yield Damage(f"a bit of record {where[:4]}", {where.name: bad}, may_lose)
        if random.random() < share:
            at = random.randrange(where.start, where.stop)
            cut_off = [each for each in records if each.name == where.name and each.stop > at]
            lost = frozenset().union(*(each.payloads for each in cut_off))
            anything = any(each.kind in DECLARING for each in cut_off)
            yield Damage(f"ends at {at} in record {where[:4]}", {where.name: content[:at]}, None if anything else lost)
    for name in sorted({where.name for where in records}):
        if random.random() < 4 * share:
            there = [each for each in records if each.name == name]
            anything = any(each.kind in DECLARING for each in there)
            lost = frozenset().union(*(each.payloads for each in there))
            yield Damage(f"{name} is gone", {name: None}, None if anything else lost)
    for name in disk.names(DATA):
        if parse_checkpoint(name) is not None and random.random() < 8 * share:
            content = disk.content(DATA / name)
            yield Damage(f"{name} is gone", {name: None}, None)
            yield Damage(f"a bit of {name}", {name: flip(content, 0, len(content), random)}, None)


def verify_damage(left: Left, damage: Damage) -> str:
    """See the module's docstring; HistoryError or AssertionError where it does not hold."""
    disk = left.disk.restart()
    for name, content in damage.files.items():
        if content is None:
            disk.unlink(DATA / name)
            disk.sync_directory(DATA)
        else:
            disk.replace(DATA / name, content)
    before = verify_storage(DATA, disk.restart())
    fatal = [str(finding) for finding in before if finding.fatal]
    said = repair_storage(DATA, disk)
    require(said or not fatal, f"repair says nothing, and verify: {fatal}")
    again = [str(finding) for finding in verify_storage(DATA, disk.restart()) if finding.fatal]
    require(not again, f"behind a repair: {again}")
    model = known(left.facts)
    first, logged = run_in_virtual_time(_started(disk))
    lost = missing(model, first.places, left.over_us, damage.may_lose)
    if damage.may_lose is not None:
        more = [payload for payload in lost if PAYLOAD.match(payload)[0] not in damage.may_lose]  # type: ignore[index]
        require(not more, f"lost, and were not in what is damaged: {more}; {said} {logged}")
    lines = [*said, *logged, *(finding.text for finding in before)]
    told = any(word in line for line in lines for word in ("lost", "gone", "cannot be told", "not finished"))
    require(not lost or told, f"{lost} are lost, and nobody says so: {said} {logged}")
    second, logged = run_in_virtual_time(_started(disk.restart()))
    require(first == second, "another start finds others")
    if damage.may_lose is not None:
        require_ids(model, first, damage.may_lose, left.wall_us)
    require(not any("lost" in line for line in logged), f"another start says {logged}")
    return f"{'fatal' if fatal else 'told' if before else 'no finding'}, {'some' if lost else 'nothing'} lost"


def missing(
    model: Known, places: dict[bytes, Counter[str]], over_us: int, damaged: frozenset[bytes] | None
) -> list[bytes]:
    """Which messages are not there that must be; HistoryError for one that is there twice, or was never sent."""
    unknown = [payload for payload in places if payload not in model.sent and not payload.startswith(b"tick")]
    require(not unknown, f"{unknown} are there, and nobody has sent them")
    lost = []
    for payload, sent in model.sent.items():
        there = places.get(payload, Counter())
        moved = damaged is None or PAYLOAD.findall(payload)[0] in damaged
        total = sum(there.values()) - there[COPY] if moved else instances(payload, there, LETTERS)
        require(total <= 1 or moved, f"twice: {payload!r} of {sent} in {dict(there)}")
        over = sent.ends_us is not None and sent.ends_us <= over_us
        gone = sent.duplicate or sent.gone or sent.going or sent.refused or over
        if (sent.must and not total and not gone) or (sent.later and sent.must and not total and not there[COPY]):
            lost.append(payload)
    return lost


def require_ids(model: Known, found: Found, may_lose: frozenset[bytes], wall_us: int) -> None:
    """Checks that no id is forgotten but those of damaged records."""
    for ((name, number), own_id), (until, payload) in model.ids.items():
        if until > wall_us and model.sent[payload].must and PAYLOAD.findall(payload)[0] not in may_lose:
            # Of a queue that was deleted there are none.
            known_ids = found.ids.get((name, number))
            require(
                known_ids is None or digest_of(own_id.encode()) in known_ids,
                f"queue {name} has forgotten the id of {payload!r}",
            )


async def _started(disk: SimulatedDisk) -> tuple[Found, list[str]]:
    """What a start finds, and what it says; a checkpoint is made, and it dies."""
    held = Held()
    logger = logging.getLogger("penstock")
    logger.addHandler(held)
    propagates, logger.propagate = logger.propagate, False
    committer = ManualCommitter()
    try:
        storage = Storage.open(DATA, SMALL, files=disk, committer=committer)
        storage.start(fail)
        await elapse(0.05)
        committer.run()
        found = Found(places_of(storage.queues), _ids_of(storage))
        storage._checkpoints.make()
        storage._checkpoints._advance(whole=True)
        committer.run()
        require(found == Found(places_of(storage.queues), _ids_of(storage)), "a checkpoint changes what there is")
        storage._journal.abandon()
        await elapse(0.05)
    finally:
        logger.removeHandler(held)
        logger.propagate = propagates
    return found, held.lines


def _ids_of(storage: Storage) -> dict[tuple[str, int], frozenset[bytes]]:
    return {(queue.name, queue.number): frozenset(dict(queue.log.accepted or {})) for queue in storage.queues}


def verify_store(seed: int, share: float, names: tuple[str, ...] = ()) -> tuple[Counter[str], list[str]]:
    """Damages of the store of a seed; returns what came of them, and what does not hold."""
    left = left_by(seed, names, closed=seed % 2 == 0)
    random = Random(seed)
    outcomes: Counter[str] = Counter()
    broken = []
    for number, damage in enumerate(damages(left, random, share)):
        try:
            outcomes[verify_damage(left, damage)] += 1
        except Exception:  # noqa: BLE001 - whatever a damage brings to light is what we are looking for
            broken.append(f"store {seed}, damage {number}, {damage.what}:\n{traceback.format_exc()}")
    return outcomes, broken


def main(arguments: list[str] | None = None) -> int:
    """Run the damages; 0 when every one of them holds."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault.features_damages", description=__doc__)
    parser.add_argument("--stores", type=int, default=10, help="how many stores are damaged (default 10)")
    parser.add_argument("--seed", type=int, default=0, help="of the first; each has the next (default 0)")
    parser.add_argument("--share", type=float, default=1.0, help="of the damages of each (default all)")
    chosen = parser.parse_args(arguments)
    outcomes: Counter[str] = Counter()
    failed = 0
    for seed in range(chosen.seed, chosen.seed + chosen.stores):
        came, broken = verify_store(seed, chosen.share)
        outcomes += came
        failed += len(broken)
        for text in broken[:3]:
            print(text, file=sys.stderr)
    for outcome, count in sorted(outcomes.items()):
        print(f"{count:6}  {outcome}")
    print(f"{outcomes.total() + failed} damages, {failed} broken")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
