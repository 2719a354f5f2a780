"""What exchanges cost a broker where there is as much of them as may be: ``python -m tests.fault.exchange_limits``.

``bindings --count 1000000`` binds so often, whatever is answered, and ``fanout --queues 10000 --messages 1000`` publishes one message, and
then so many, to an exchange that leads to so many queues. The broker is a process of its own. Of each step it prints the seconds, the
longest turn of the broker's loop, the longest collection of garbage, and its memory. It fails when the limit is not the one that is named,
when anything is there that was refused, or when a message is missing from a queue.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from actors.batch import MessageBatch
from actors.exchanges.limits import MAX_BINDINGS, MAX_EXCHANGE_BINDINGS
from streams import Source
from streams.testkit import settle
from tests.fault.attacks import Raw, encoded
from tests.fault.kill_process import Broker
from tests.fault.timed_broker import FILE_VARIABLE
from transport import Administration, Sender
from transport.wire import messages as wire

MIB = 1 << 20
AT_ONCE = 50
"""Commands that are sent without waiting;"""
ADMINS = 16
"""and connections that send them: where each is durable before the next is looked at, one alone waits for the disk most of the time."""
ANSWER_SECONDS = 600.0
"""In which a step must be over."""
WAIT = 0.01


class Watched:
    """A broker process, and what each step costs it."""

    def __init__(self, broker: Broker, turns: Path) -> None:
        self.broker = broker
        self._turns = turns

    def memory(self, what: str = "VmRSS") -> int:
        """Its resident memory, bytes; ``VmHWM`` is the most that it had."""
        status = Path(f"/proc/{self.broker.pid}/status").read_text(encoding="ascii")
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(what + ":")) * 1024

    def worked(self) -> float:
        """Seconds of a processor that it has taken: where the machine has much else to do these say more than the clock."""
        user, system = (
            Path(f"/proc/{self.broker.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[11:13]
        )
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    async def turns(self) -> dict[str, Any]:
        """Its turns since the last call."""
        self._turns.unlink(missing_ok=True)
        os.kill(self.broker.pid, signal.SIGUSR1)
        async with asyncio.timeout(ANSWER_SECONDS):
            while not self._turns.exists():
                await settle(WAIT)
        told: dict[str, Any] = json.loads(self._turns.read_text(encoding="ascii"))
        return told

    @asynccontextmanager
    async def step(self, what: str) -> AsyncIterator[None]:
        """Print what something costs."""
        await self.turns()
        before, worked = time.monotonic(), self.worked()
        yield
        seconds, worked = time.monotonic() - before, self.worked() - worked
        told = await self.turns()
        longest, collection = told["longest"] * 1000, told["collection"] * 1000
        print(
            f"{what}: {seconds:.2f} s, {worked:.2f} of work, the longest turn {longest:.1f} ms, {told['long']} of {told['turns']} above "
            f"20 ms, the longest collection {collection:.1f} ms, {self.memory() / MIB:.0f} MiB, at most {self.memory('VmHWM') / MIB:.0f}",
            flush=True,
        )


@asynccontextmanager
async def watched(durable: bool, *options: str) -> AsyncIterator[Watched]:
    """A broker process whose turns are measured, with more ``options`` where they are given."""
    with tempfile.TemporaryDirectory() as directory:
        turns = Path(directory) / "turns"
        os.environ[FILE_VARIABLE] = str(turns)
        kept = ("--data", str(Path(directory) / "data")) if durable else ("--memory",)
        async with Broker((*kept, *options, "--no-http", "--log-level", "error"), "tests.fault.timed_broker") as broker:
            await broker.start()
            yield Watched(broker, turns)
            # Ten thousand queues take their time to end, which is not what is measured.
            await broker.kill()
            assert not broker.defects, broker.defects[0]


async def commanded(admins: list[Raw], commands: Iterable[tuple[str, dict[str, Any]]]) -> Counter[str]:
    """Have commands carried out; how often each was answered with what: ``done``, or an error's code and text without its numbers."""
    answers: Counter[str] = Counter()
    commands = iter(commands)

    async def share(admin: Raw) -> None:
        while some := list(islice(commands, AT_ONCE)):
            await admin.send(encoded(*[wire.Command(0, *command) for command in some]))
            for _ in some:
                answers[await answer(admin)] += 1

    await asyncio.gather(*map(share, admins))
    return answers


async def answer(admin: Raw) -> str:
    """What a command is answered with."""
    while True:
        while admin._frames:
            frame = admin._frames.popleft()
            if isinstance(frame, wire.Result):
                return "done"
            if isinstance(frame, wire.Error):
                assert not frame.close, frame
                return f"{frame.code}: {frame.text}"
        admin._came.clear()
        await admin._came.wait()


def bindings_without_end() -> Iterator[tuple[str, dict[str, Any]]]:
    """Commands that bind ``q`` to one exchange, until no more can be, and then to the next."""
    number = 0
    while True:
        kind = ("amq.topic", "amq.headers", "amq.direct")[min(2, number // (MAX_EXCHANGE_BINDINGS * 11 // 10))]
        said: dict[str, Any] = {"source": kind, "destination": "q", "key": f"some.word.{number}"}
        if kind == "amq.headers":
            said |= {"key": "", "arguments": json.dumps({"x-match": "any", "n": number, "of": "x"})}
        yield "binding.create", said
        number += 1


async def bindings(count: int, durable: bool) -> None:
    """Bind until the limit, and on."""
    async with watched(durable) as broker:
        admins = [await Raw.open(broker.broker.send_address, "admin", None, "binder") for _ in range(ADMINS)]
        await commanded(admins, [("queue.create", {"name": "q"})])
        commands, done, answers = bindings_without_end(), 0, Counter[str]()
        step = max(1, count // 10)
        while done < count:
            some = min(step, count - done)
            async with broker.step(f"{done + some} asked for"):
                answers += await commanded(admins, islice(commands, some))
            done += some
            await publish_one(broker, done)
        for text, times in answers.most_common():
            print(f"{times} x {text}")
        made = answers["done"]
        (row,) = [row async for row in rows_of(broker)]
        assert row["bindings"] == made <= MAX_BINDINGS, (row, made)
        assert count <= made or {text.split(":")[0] for text in answers} <= {"done", "limit-exceeded"}
        async with broker.step("a checkpoint, and the end of all of them"):
            await commanded(admins, [("queue.delete", {"name": "q"})])
        for admin in admins:
            admin.close()


async def rows_of(broker: Watched) -> AsyncIterator[dict[str, int]]:
    """How many bindings the exchanges count."""
    async with Administration(broker.broker.send_address) as administration:
        yield {"bindings": sum(row["bindings"] for row in await administration.exchanges())}


async def publish_one(broker: Watched, number: int) -> None:
    """Everybody else goes on: one message by a key that is bound."""
    sender = Sender(broker.broker.send_address, exchange="amq.topic", routing_key="some.word.1")
    before = time.monotonic()
    await Source.single(b"x").to(sender).run()
    print(f"  a message behind {number}: {(time.monotonic() - before) * 1000:.1f} ms with its connection")


async def fanout(queues: int, messages: int, singles: int, durable: bool) -> None:
    """One message, and many, to very many queues."""
    async with watched(durable) as broker:
        address = broker.broker.send_address
        admins = [await Raw.open(address, "admin", None, "binder") for _ in range(ADMINS)]
        names = [f"q{number:05}" for number in range(queues)]
        async with broker.step(f"{queues} queues made"):
            made = await commanded(admins, [("queue.create", {"name": name}) for name in names])
        async with broker.step("bound"):
            made += await commanded(
                admins, [("binding.create", {"source": "amq.fanout", "destination": name}) for name in names]
            )
        assert made == {"done": 2 * queues}, made
        async with broker.step("a sender let in"):
            raw = await Raw.open(address, "sender", None, "one", exchange="amq.fanout")
            granted = await raw.next(wire.Demand)
        print(f"  granted {granted.messages} messages")
        sent = 0
        for count in (1, 1, 10):
            async with broker.step(f"{count} at once"):
                await raw.send(encoded(wire.Send(sent, None, MessageBatch.from_payloads([b"x" * 100] * count))))
                await raw.next(wire.Sent)
            sent += count
        for each, batches in ((1, singles), (100, messages // 100)):
            async with broker.step(f"{each * batches} in batches of {each}"):
                for _ in range(batches):
                    while raw.granted.messages < sent + each:
                        await raw.next(wire.Demand)
                    await raw.send(encoded(wire.Send(sent, None, MessageBatch.from_payloads([b"x" * 100] * each))))
                    sent += each
                up_to = 0
                while up_to < sent:
                    up_to = (await raw.next(wire.Sent)).up_to
        raw.close()
        async with broker.step("looked at"), Administration(address) as administration:
            stored = {row["stored_messages"] for row in await administration.queues()}
        assert stored == {sent}, (stored, sent)
        for admin in admins:
            admin.close()


def main(arguments: list[str] | None = None) -> int:
    """Run one scenario."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault.exchange_limits", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    binding = verbs.add_parser("bindings", help="bind without an end")
    binding.add_argument("--count", type=int, default=1_000_000, help="how often (default 1000000)")
    fanning = verbs.add_parser("fanout", help="publish to very many queues")
    fanning.add_argument("--queues", type=int, default=10_000, help="how many (default 10000)")
    fanning.add_argument("--messages", type=int, default=1_000, help="how many in batches of 100 (default 1000)")
    fanning.add_argument("--singles", type=int, default=1_000, help="how many one by one (default 1000)")
    for verb in (binding, fanning):
        verb.add_argument("--in-memory", action="store_true", help="without a journal")
    chosen = parser.parse_args(arguments)
    if chosen.verb == "bindings":
        asyncio.run(bindings(chosen.count, not chosen.in_memory))
    else:
        asyncio.run(fanout(chosen.queues, chosen.messages, chosen.singles, not chosen.in_memory))
    return 0


if __name__ == "__main__":
    sys.exit(main())
