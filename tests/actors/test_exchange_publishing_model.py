"""Whatever dies whenever: each queue has, once and in order, what was routed to it, and a message is in all of its queues or in none."""

from __future__ import annotations

import tempfile
from itertools import count
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.batch import Message, MessageBatch
from actors.queue.vocabulary import commands, replies
from actors.queue.vocabulary.settings import QueueSettings
from streams.testkit import run_in_virtual_time
from tests.actors.publishing_bench import Client, came, client, defined, receiver
from tests.actors.stored_queues import StoredQueues, turns
from tests.examples_tried import tried

PATTERNS = {"all": "#", "left": "l.*", "right": "r.*", "ones": "*.1", "few": "l.1"}
KEYS = ("l.1", "l.2", "r.1", "r.2", "none")
PRODUCERS = ("p", "q", "s")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 2), st.lists(st.sampled_from(KEYS), min_size=1, max_size=5)),
        st.tuples(st.just("send"), st.integers(0, 2), st.lists(st.sampled_from(KEYS), min_size=1, max_size=2)),
        st.tuples(st.just("acknowledge"), st.sampled_from(sorted(PATTERNS)), st.integers(1, 4)),
        st.tuples(st.just("reconnect"), st.integers(0, 2), st.none()),
        st.tuples(st.just("some"), st.integers(1, 3), st.none()),
        st.sampled_from([("turn", 0, None), ("commit", 0, None), ("kill", 0, None), ("checkpoint", 0, None)]),
    ),
    max_size=30,
)


def without_all() -> dict[str, str]:
    """No queue has everything, so what goes to different queues may be stored in another order than it came in."""
    return {name: pattern for name, pattern in PATTERNS.items() if name != "all"}


def wanted(name: str, key: str) -> bool:
    left, _, right = key.partition(".")
    pattern = PATTERNS[name]
    return pattern == "#" or (bool(right) and pattern in (f"{left}.*", f"*.{right}", key))


class Programs:
    """Three producers that send again what was not confirmed, and what they have sent, over any number of brokers' lives.

    Where the machine is ``slow`` a turn of the loop ends behind each route and each record.
    """

    def __init__(self, folder: Path, patterns: dict[str, str], *, slow: bool = False) -> None:
        self.folder = folder
        self.slow = slow
        self.patterns = patterns
        # Of each producer its messages by number, as (key, payload), and how many are confirmed.
        self.sent: list[list[tuple[str, bytes]]] = [[] for _ in PRODUCERS]
        self.confirmed = [0 for _ in PRODUCERS]
        self.clients: list[Client | None] = [None for _ in PRODUCERS]
        self.got: dict[str, list[tuple[bytes, str | None, str | None]]] = {name: [] for name in patterns}
        self.bench: Any = None

    def made(self) -> StoredQueues:
        return StoredQueues(self.folder, QueueSettings())

    async def begin(self) -> None:
        first = self.bench is None
        self.bench = self.made()
        if self.slow:
            self.bench.queues.exchanges.publishing.clock = count().__next__
        if first:
            decide = self.bench.queues.exchanges.exchanges.decide
            await defined(self.bench, decide.declare("x", "topic"))
            for name, pattern in self.patterns.items():
                self.bench.queues.get_or_create(name)
                await defined(self.bench, decide.bind("x", name, pattern))
        for number in range(len(PRODUCERS)):
            await self.reconnect(number)

    async def reconnect(self, number: int) -> None:
        self.note()
        made = self.clients[number] = await client(self.bench, "x", None, PRODUCERS[number])
        made.sequence = self.confirmed[number]
        self.send(number, self.sent[number][self.confirmed[number] :])

    def send(self, number: int, messages: list[tuple[str, bytes]]) -> None:
        made = self.clients[number]
        if messages and made is not None:
            made.send(MessageBatch.from_messages([Message(payload, key.encode()) for key, payload in messages]))

    def note(self) -> None:
        """What the clients have been told so far."""
        for number, made in enumerate(self.clients):
            if made is not None and made.confirmed:
                self.confirmed[number] = max(self.confirmed[number], made.confirmed[-1])

    async def acknowledge(self, name: str, count: int) -> None:
        """Somebody takes a few messages, and acknowledges them for good."""
        if name not in self.patterns:
            return
        ref, told = await receiver(self.bench, name, count)
        await self.bench.settled()
        for delivery in [reply for reply in told if isinstance(reply, replies.ReceivedMessages)]:
            ranges = ((delivery.first, len(delivery.batch)),)
            self.bench.queues.get(name).tell(commands.Acknowledged(ranges, connection=ref))
        await turns()
        self.bench.storage._gathered.write()
        await self.bench.commit()
        self.got[name] += came(told)
        await ref.stop(block=False)
        await turns()

    async def kill(self) -> None:
        self.note()
        await self.bench.die()
        self.clients = [None for _ in PRODUCERS]
        await self.begin()

    async def settled(self) -> None:
        """All that is under way has come to its end."""
        await turns()
        publishing = self.bench.queues.exchanges.publishing
        while publishing._line or publishing._round is not None:
            await turns()
        await self.bench.settled()

    async def check(self) -> None:
        await self.settled()
        self.note()
        assert self.confirmed == [len(messages) for messages in self.sent]
        for name in self.patterns:
            _, told = await receiver(self.bench, name)
            await self.bench.settled()
            found = self.got[name] + came(told)
            for number, producer in enumerate(PRODUCERS):
                mine = [each for each in found if each[0].startswith(producer.encode())]
                assert mine == [(payload, "x", key) for key, payload in self.sent[number] if wanted(name, key)]


async def lived(
    folder: Path, patterns: dict[str, str], steps: list[tuple[str, Any, Any]], *, slow: bool = False
) -> None:
    programs = Programs(folder, patterns, slow=slow)
    await programs.begin()
    for kind, which, what in steps:
        if kind == "send":
            mine = programs.sent[which]
            messages = [(key, b"%s%d" % (PRODUCERS[which].encode(), len(mine) + at)) for at, key in enumerate(what)]
            mine += messages
            programs.send(which, messages)
        elif kind == "acknowledge":
            await programs.acknowledge(which, what)
        elif kind == "reconnect":
            await programs.reconnect(which)
        elif kind == "turn":
            await turns()
        elif kind == "some":
            # A few records are on the disk, and those behind them are not.
            await turns()
            programs.bench.commit_groups(which)
            await turns()
        elif kind == "commit":
            await programs.bench.commit()
        elif kind == "checkpoint":
            await programs.bench.settled()
            programs.bench.storage._checkpoints.make()
            programs.bench.storage._checkpoints._advance(whole=True)
            await programs.bench.settled()
        else:
            await programs.kill()
    await programs.check()
    await programs.bench.close()


@settings(max_examples=tried(150))
@given(st.sampled_from([PATTERNS, without_all()]), STEPS, st.booleans())
def test_each_queue_has_once_and_in_order_what_was_routed_to_it_whatever_dies(
    patterns: dict[str, str], steps: list[tuple[str, Any, Any]], slow: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run_in_virtual_time(lived(Path(folder) / "data", patterns, steps, slow=slow))
