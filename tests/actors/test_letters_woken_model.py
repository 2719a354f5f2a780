"""Dead letters that wait for room, or for another way, are woken by whatever ends their wait: none is lost, all leave in the end.

Several queues wait for the same ones. Queues and the exchange are deleted and made anew meanwhile, purged and altered. Messages expire, and
what is dead comes round to where it was. The broker is killed with some of that not on the disk.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from actors.queue.vocabulary import commands
from actors.queue.vocabulary.settings import QueueSettings
from actors.runtime.loop_future import ask
from streams.testkit import elapse, run_in_virtual_time
from tests.actors.letters_bench import TO_X, Letters
from tests.actors.stored_queues import turns
from tests.examples_tried import tried

SOURCES = {"q": TO_X, "p": TO_X, "e": QueueSettings(ttl=5.0, dead_letter_exchange="x")}
SMALL = QueueSettings(max_messages=2, max_receives=1, dead_letter_exchange="y")
BEHIND = ("small", "large")
steps = st.one_of(
    st.tuples(st.just("die"), st.sampled_from("qp"), st.integers(1, 4)),
    st.tuples(st.just("die"), st.just("e"), st.integers(1, 4)),
    st.tuples(st.sampled_from(["acknowledge", "refuse"]), st.just("small"), st.integers(1, 3)),
    st.tuples(st.sampled_from(["bind", "unbind"]), st.sampled_from(BEHIND), st.just(0)),
    st.tuples(st.sampled_from(["delete", "declare"]), st.sampled_from(["small", "x"]), st.just(0)),
    st.tuples(st.just("purge"), st.sampled_from(["small", *SOURCES]), st.just(0)),
    st.tuples(st.just("alter"), st.just("small"), st.sampled_from([1, 2, 5])),
    st.tuples(st.just("elapse"), st.just(""), st.sampled_from([1, 6, 31])),
    st.tuples(st.sampled_from(["settle", "kill"]), st.just(""), st.just(0)),
)


class Run:
    """Lives of a broker one after another, what was sent in all of them, and what may be gone for good."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bench = Letters(folder)
        self.sent = 0
        self.gone: set[bytes] = set()

    @property
    def all(self) -> list[str]:
        names = [*SOURCES, *BEHIND]
        return [*names, *[f"{name}.dead" for name in names]]

    async def begin(self) -> None:
        for name, how in (*SOURCES.items(), ("small", SMALL)):
            self.bench.queues.declare(name, how)
        await self.bench.bound("fanout", small="", large="")
        await self.bench.bound("fanout", "y", q="")
        await self.bench.settled()

    async def do(self, what: str, name: str, how: int) -> None:
        bench = self.bench
        queues, decide = bench.queues, bench.queues.exchanges.exchanges.decide
        there = name in queues if name != "x" else queues.exchanges.exchanges.get("x") is not None
        if what == "die":
            payloads = [b"%03d" % number for number in range(self.sent, self.sent + how)]
            self.sent += how
            bench.store(*payloads, name=name)
            await bench.settled()
            if name != "e":
                await bench.refuse(name)
        elif what in ("acknowledge", "refuse") and there:
            if what == "refuse":
                await bench.refuse(name, how)
            else:
                self.gone |= set(bench.holds(name)[0])
                await bench.acknowledge(name, min(how, len(bench.holds(name)[0])))
        elif what in ("bind", "unbind") and there and queues.exchanges.exchanges.get("x") is not None:
            # As a command does it: whoever waits hears of it.
            queues.exchanges._carry_out(getattr(decide, what)("x", name))
        elif what == "delete" and there:
            if name == "x":
                queues.exchanges._carry_out(decide.delete("x"))
            else:
                self.gone |= set(bench.holds(name)[0])
                queues.delete(name)
        elif what == "declare" and name == "x":
            queues.exchanges._carry_out(decide.declare("x", "fanout"))
        elif what == "declare" and not there:
            queues.declare(name, SMALL)
        elif what == "purge" and there:
            self.gone |= set(bench.holds(name)[0])
            asked = ask(queues.get(name), commands.PurgeQueue())
            await bench.settled()
            await asked
        elif what == "alter" and there:
            asked = ask(queues.get(name), queues.alter(name, {"max_messages": how}))
            await bench.settled()
            await asked
        elif what == "elapse":
            await elapse(how)
        elif what == "kill":
            await bench.die()
            self.bench = Letters(self.folder)
            await asyncio.sleep(0)
        else:
            await bench.settled()
        await turns()

    def check(self) -> None:
        found = dict(zip(self.all, self.bench.holds(*self.all), strict=True))
        for name, payloads in found.items():
            # What comes round from `small` is copied to `large` each time.
            assert name in ("large", "large.dead") or len(payloads) == len(set(payloads)), (name, payloads)
        there = {payload for payloads in found.values() for payload in payloads}
        assert not {b"%03d" % number for number in range(self.sent)} - there - self.gone, "none is lost"

    async def check_awake(self) -> None:
        """Where nothing leads to a queue that may be full, nothing waits."""
        for _ in range(4):
            await self.bench.settled()
        queues = self.bench.queues
        exchanges = queues.exchanges.exchanges
        if exchanges.get("x") is None or "small" not in exchanges.reached("x").queues:
            for name in SOURCES:
                assert self.bench.figures(name).leaving == 0, (name, "waits for nothing")

    async def end(self) -> None:
        bench = self.bench
        await self.do("declare", "small", 0)
        await self.do("declare", "x", 0)
        bench.queues.exchanges._carry_out(bench.queues.exchanges.exchanges.decide.bind("x", "large"))
        await bench.settled()
        # Time enough for what has still to expire, and for none that would be handed over again.
        await elapse(6)
        for _ in range(self.sent + 1):
            await self.do("acknowledge", "small", 2)
            # What has come round to `q`, and what was not refused before a kill.
            await bench.refuse("q")
            await bench.refuse("p")
            await bench.settled()
        assert self.bench.holds(*SOURCES) == [[]] * len(SOURCES), (
            "all have left in the end, and waited for nothing else"
        )
        self.check()


@given(st.lists(steps, max_size=20))
@example([("die", "q", 4), ("die", "p", 2), ("unbind", "small", 0)])
@example([("die", "p", 4), ("die", "e", 2), ("elapse", "", 6), ("delete", "x", 0)])
@settings(max_examples=tried(40), deadline=None)
def test_whatever_wakes_them_none_is_lost_or_doubled_and_all_leave_in_the_end(history: list[tuple[Any, ...]]) -> None:
    async def main(folder: Path) -> None:
        run = Run(folder)
        await run.begin()
        for step in history:
            await run.do(*step)
            run.check()
            if step[0] not in ("die", "kill"):
                await run.check_awake()
        await run.end()
        await run.bench.close()

    with tempfile.TemporaryDirectory() as folder:
        run_in_virtual_time(main(Path(folder) / "data"))
