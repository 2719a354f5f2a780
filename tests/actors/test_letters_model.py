"""Whatever happens between, each dead letter is in its queue or in all of the queues that were behind the exchange when it left, once."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.batch import Message
from actors.queue.vocabulary.settings import DEAD_LETTER_TIMEOUT, QueueSettings
from actors.runtime.loop_future import ask
from streams.testkit import elapse, run_in_virtual_time
from tests.actors.letters_bench import TO_X, Letters
from tests.actors.publishing_bench import defined
from tests.examples_tried import tried

BEHIND = {"a": "0.*", "b": "#", "small": "*.1"}
ALL = (*BEHIND, "q.dead")
steps = st.one_of(
    st.tuples(st.just("die"), st.integers(1, 5)),
    st.tuples(st.just("acknowledge"), st.integers(1, 3)),
    st.tuples(st.sampled_from(["bind", "unbind"]), st.sampled_from(sorted(BEHIND))),
    st.tuples(st.just("alter"), st.sampled_from([None, "0.1", "9"])),
    st.tuples(st.sampled_from(["wait", "commit", "kill"]), st.just(0)),
)


class Run:
    """A life of the queue after another, and what was sent and acknowledged in all of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bench = Letters(folder)
        self.sent = 0
        self.done: list[bytes] = []

    async def begin(self) -> None:
        self.bench.queues.declare("small", QueueSettings(max_messages=2))
        await self.bench.bound("topic", **BEHIND)
        await self.bench.settled()

    async def do(self, what: str, how: Any) -> None:
        bench = self.bench
        decide = bench.queues.exchanges.exchanges.decide
        if what == "die":
            numbers = range(self.sent, self.sent + how)
            self.sent += how
            bench.store(*(Message(b"%03d" % n, b"%d.%d" % (n % 2, n % 3)) for n in numbers))
            await bench.settled()
            await bench.refuse()
        elif what == "acknowledge":
            self.done += bench.holds("small")[0][:how]
            await bench.acknowledge("small", how)
            # Acknowledgements are gathered: what a kill takes of them comes again, which is no matter of this.
            bench.storage._gathered.write()
            await bench.settled()
        elif what in ("bind", "unbind"):
            await defined(bench, getattr(decide, what)("x", how, BEHIND[how]))
        elif what == "alter":
            answer = ask(bench.queues.get("q"), bench.queues.alter("q", {"dead_letter_routing_key": how}))
            await bench.settled()
            await answer
        elif what == "wait":
            await elapse(DEAD_LETTER_TIMEOUT + 1)
        elif what == "commit":
            await bench.settled()
        else:
            await bench.settled()
            await bench.die()
            self.bench = Letters(self.folder)
            await asyncio.sleep(0)

    def check(self) -> None:
        here, *others = self.bench.holds("q", *ALL)
        for found in others:
            assert len(found) == len(set(found)), "once"
        elsewhere = {payload for found in others for payload in found} | set(self.done)
        assert not elsewhere & set(here), "in the one or in the others"
        assert len(elsewhere) + len(here) == self.sent, "none is lost"
        both = [payload for payload in self.done if payload in others[2]]
        assert not both

    async def end(self) -> None:
        for _ in range(self.sent + 1):
            await self.do("acknowledge", 2)
        await self.do("wait", 0)
        await self.do("acknowledge", 2)
        await self.do("wait", 0)
        await self.bench.settled()
        assert self.bench.holds("q") == [[]], "all have left in the end"
        self.check()


@given(st.lists(steps, max_size=14))
@settings(max_examples=tried(40), deadline=None)
def test_each_is_in_one_place_and_all_leave_in_the_end(history: list[tuple[str, Any]]) -> None:
    async def main(folder: Path) -> None:
        run = Run(folder)
        await run.begin()
        for what, how in history:
            await run.do(what, how)
            run.check()
        await run.end()
        assert run.bench.queues.settings_of("q").dead_letter_exchange == TO_X.dead_letter_exchange
        await run.bench.close()

    with tempfile.TemporaryDirectory() as folder:
        run_in_virtual_time(main(Path(folder) / "data"))
