"""Whenever the broker dies, a dead letter is in the queue that it leaves or in all of those that it goes to; and it comes there, once."""

from __future__ import annotations

from random import Random
from typing import Any
from unittest import mock

from actors.batch import Message
from actors.queue.vocabulary.settings import DEAD_LETTER_TIMEOUT, QueueSettings
from streams.testkit import elapse, run_in_virtual_time
from tests.actors.letters_bench import TO_X, Letters
from tests.fault.disk import ROOT, SimulatedDisk

DATA = ROOT / "data"
WAYS = {b"0": ("a", "small"), b"1": ("b",), b"2": ("q.dead",)}
"""Where a message goes, by its key."""


class WatchedFiles:
    """A disk that keeps what the next process would find after each call that changes it."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self.left: list[SimulatedDisk] = []
        self.watches = False

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.disk, name)
        if name not in ("write", "sync", "create", "rename", "remove", "truncate", "sync_directory"):
            return call

        def watched(*arguments: Any, **options: Any) -> Any:
            answer = call(*arguments, **options)
            if self.watches:
                self.left.append(self.disk.restart())
                self.left.append(self.disk.crash(Random(len(self.left))))
            return answer

        return watched


def messages() -> list[Message]:
    return [Message(b"%02d" % number, b"%d" % (number % 3)) for number in range(12)]


async def whole_life(files: WatchedFiles) -> None:
    """The letters leave, most of them after they have waited for room, and one does not."""
    bench = Letters(DATA, files=files)
    bench.queues.declare("small", QueueSettings(max_messages=3))
    await bench.bound("direct", a="0", b="1", small="0")
    bench.store(b"full", b"full", name="small")
    bench.store(*messages())
    await bench.settled()
    files.watches = True
    await bench.refuse()
    await bench.settled()
    await bench.acknowledge("small", 2)
    await bench.settled()
    bench.storage._checkpoints.make()
    await bench.settled()
    assert bench.holds("q") == [[b"09"]], "one waits for room to the end"
    await bench.die()


async def judged(disk: SimulatedDisk) -> int:
    """How many letters have left by what is on the disk; all the others leave in the next life."""
    bench = Letters(DATA, files=disk)
    names = ("q", "a", "b", "small", "q.dead")
    found = dict(zip(names, bench.holds(*names), strict=True))
    here = set(found["q"])
    for name in names[1:]:
        letters = [payload for payload in found[name] if payload != b"full"]
        meant = [m.payload for m in messages() if name in WAYS[m.key or b""]]
        assert letters == [payload for payload in meant if payload not in here], (
            "in the one or in all of the others, in order"
        )
    assert bench.queues.settings_of("q") == TO_X
    await bench.refuse()
    await bench.acknowledge("small", len(found["small"]))
    await bench.acknowledge("small", 3)
    for _ in range(3):
        await elapse(DEAD_LETTER_TIMEOUT + 1)
        await bench.settled()
    for name in ("q", "a", "b", "q.dead"):
        assert bench.holds(name) == [[m.payload for m in messages() if name in WAYS[m.key or b""]]], "once"
    await bench.die()
    return len(messages()) - len(here)


def test_it_is_in_the_one_or_in_all_of_the_others_whenever_the_process_dies_or_the_power_goes() -> None:
    async def main() -> None:
        files = WatchedFiles(SimulatedDisk())
        # A group of one record each: the process may die between any two.
        with mock.patch("journal.writer.GROUP_RECORDS", 1):
            await whole_life(files)
        assert len(files.left) > 20
        left = [await judged(disk) for disk in files.left]
        assert min(left) == 0
        assert max(left) == 11
        assert len(set(left)) > 3

    run_in_virtual_time(main())
