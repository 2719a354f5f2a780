"""Callers that take messages by request, as those of HTTP do: on any connection, and with receipts that anybody may give, at any time.

They live in the broker's process. What they keep is outside of it: receipts, which they and others give in this life of the broker, and in
later ones. One more program makes a queue, sends to it, and deletes it under those who take from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from actors import MessageBatch, QueueError, StorageError
from actors.queue.vocabulary.takes import Settlement
from streams.testkit import elapse
from tests.simulation.history import Confirmed, Deleted, History, Made, Noted, Offered, ReceiptTold, Seen, name_of
from tests.simulation.judged import QueueRules
from tests.simulation.plan import VISIBILITIES
from tests.simulation.taker_tap import TakerTap
from tests.simulation.task_rules import LEAST_ROOM
from transport import TransportError
from transport.broker.asked_to_publish import Piece
from transport.gateways.http import messages
from transport.gateways.http.problems import ProblemError
from transport.gateways.http.receipts import Receipts

if TYPE_CHECKING:
    from tests.simulation.loop import Process
    from tests.simulation.plan import Plan, TakerPlan
    from transport.broker.operations import Operations
    from transport.broker.takers import Taker

GATEWAY: Final = "simulated"
KEY: Final = b"the same in all lives"
BRIEF: Final = "brief"
"""The queue that is deleted, and made anew."""
TEMPORARY: Final = QueueRules(visibility=2.0, drops=True)
LONGEST_LATE: Final = 6.0
"""Seconds until a receipt is given: longer than some are good for."""
LONGEST_WRITING: Final = 0.5
LONGEST_DELAY: Final = 2.0
MOST_KEPT: Final = 500
"""Receipts that are given some time, or never."""
MOST_REQUESTS: Final = 2_000
"""Of a caller in one life of the broker, and of whoever alters settings or deletes queues: while faults last, there is always another."""
ENDS: Final = frozenset({"shutting-down", "queue-deleted", "not-found", "journal-failed"})
"""Codes of what is over, for good or until somebody makes it anew."""


class Receipt(NamedTuple):
    """What a program has of a message that was taken: ``text`` is what it gives, the rest is what the checker is to know."""

    text: str
    queue: str
    made_in: str
    number: int
    delivery: int
    life: int


@dataclass(slots=True)
class _Life:
    """What callers need in one life of the broker."""

    operations: Callable[[], Operations]
    receipts: Receipts
    number: int
    tap: TakerTap


class Taking:
    """All callers of a run, and what they keep."""

    def __init__(self, plan: Plan, history: History) -> None:
        self._plan = plan
        self._history = history
        self._tasks: list[asyncio.Task[None]] = []
        self._kept: list[Receipt] = []
        self._names: dict[bytes, str] = {}
        self._sent = 0
        self._over = False

    def start(self, process: Process, operations: Callable[[], Operations], epoch: int, life: int) -> None:
        """Begin to take, in a broker that stands."""
        self._tasks = []
        if self._over or not self._plan.takers:
            return
        tap = TakerTap(self._history, process, self._name)
        of = _Life(operations, Receipts(KEY, epoch), life, tap)
        seed = f"takers {self._plan.seed} {life}"
        programs: list[Callable[[], Coroutine[Any, Any, None]]] = []
        for plan in self._plan.takers:
            who = f"{seed} {plan.queue}"
            habits = (Random(f"{who} {each}") for each in range(plan.callers))
            programs += [partial(self._take, of, plan, plan.queue, random) for random in habits]
            programs.append(partial(self._settle_others, of, plan, Random(f"{who} others")))
            if plan.alters is not None:
                programs.append(partial(self._alter, of, plan, plan.alters, Random(f"{who} alters")))
        if self._plan.deletes is not None:
            plan = self._plan.takers[0]
            programs.append(partial(self._make_and_delete, of, self._plan.deletes, Random(f"{seed} deletes")))
            habits = (Random(f"{seed} brief {each}") for each in range(3))
            programs += [partial(self._take, of, plan, BRIEF, random) for random in habits]
        self._tasks = [process.spawn(self._until_end(program)) for program in programs]

    def end(self) -> None:
        """Stop, and begin no more."""
        self._over = True
        for task in self._tasks:
            task.cancel()
        for name in self._names.values():
            # Nobody empties the last of them.
            self._history.add(Deleted(_now(), name))

    async def _until_end(self, program: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """A program that the broker turns away for good has ended."""
        try:
            await program()
        except (TransportError, QueueError, StorageError) as error:
            if getattr(error, "code", "") not in ENDS:
                raise
            self._note(f"a caller is turned away: {error!r}")

    # Taking

    async def _take(self, of: _Life, plan: TakerPlan, queue: str, random: Random) -> None:
        for _ in range(MOST_REQUESTS):
            await elapse(random.expovariate(1 / plan.pause))
            try:
                taken = await self._request(of, plan, queue, random)
            except (TransportError, QueueError) as error:
                if queue != BRIEF or getattr(error, "code", "") not in ENDS:
                    raise
                continue
            for receipt in taken:
                await self._use(of, plan, receipt, random)

    async def _request(self, of: _Life, plan: TakerPlan, queue: str, random: Random) -> list[Receipt]:
        """Ask once; what there is for it."""
        taker = of.tap.on(of.operations().taker(GATEWAY, queue))
        name = of.tap.name_of(taker)
        wait = random.choice((0.0, random.uniform(0, plan.wait), plan.wait))
        patience = random.choice((0.0, random.uniform(0, wait), wait)) if random.random() < plan.leaves else None
        visibility = random.choice((None, None, 0.3, 2.0, 8.0))
        try:
            async with asyncio.timeout(patience):
                taken = await taker.take(
                    random.randint(1, plan.largest_take), random.choice((1, 2_000, 100_000)), wait, visibility
                )
        except TimeoutError:
            return []
        try:
            rows = list(messages._rows(of.receipts, taker, taken))
            # The answer is on its way, which takes a while.
            await elapse(random.choice((0.0, 0.0, random.uniform(0, LONGEST_WRITING))))
            if random.random() < plan.unseen:
                raise ConnectionResetError
        except ConnectionResetError:
            taker.unseen(taken)
            return []
        except asyncio.CancelledError:
            # Who is killed with the broker says nothing more.
            taker.unseen(taken)
            raise
        again = sum(len(each.batch) for each in taken if each.delivery_count > 1)
        if rows:
            self._history.add(Seen(_now(), of.tap.number_of(taker), name, len(rows), again))
        taker.seen(taken)
        return [Receipt(row["receipt"], queue, name, row["number"], row["deliveries"], of.number) for row in rows]

    # Settling

    async def _use(self, of: _Life, plan: TakerPlan, receipt: Receipt, random: Random) -> None:
        """What whoever took a message does with it."""
        chance = random.random()
        if random.random() < plan.twice:
            self._keep(receipt, random)
        if chance < plan.late:
            self._keep(receipt, random)
        elif (chance := chance - plan.late) < plan.forgotten:
            return
        elif (chance := chance - plan.forgotten) < plan.returned:
            await self._settle(of, receipt.queue, [receipt], Settlement.RETURN, random)
        elif chance - plan.returned < plan.extended:
            await self._settle(of, receipt.queue, [receipt], Settlement.EXTEND, random)
            self._keep(receipt, random)
        else:
            await self._settle(of, receipt.queue, [receipt], Settlement.ACKNOWLEDGE, random)

    def _keep(self, receipt: Receipt, random: Random) -> None:
        self._kept.append(receipt)
        if len(self._kept) > MOST_KEPT:
            self._kept.pop(random.randrange(len(self._kept)))

    async def _settle_others(self, of: _Life, plan: TakerPlan, random: Random) -> None:
        """Somebody else, who gives what others keep: some of it once more, several at a time, in any queue, after any time."""
        for _ in range(MOST_REQUESTS):
            await elapse(random.uniform(0, LONGEST_LATE) if random.random() < 0.1 else random.expovariate(10))
            if not self._kept:
                continue
            given = random.sample(self._kept, min(len(self._kept), random.choice((1, 1, 5, 50))))
            queue = plan.queue if random.random() < 0.1 else random.choice(given).queue
            given = [each for each in given if each.queue == queue or random.random() < 0.1]
            how = random.choice((Settlement.ACKNOWLEDGE, Settlement.ACKNOWLEDGE, Settlement.RETURN, Settlement.EXTEND))
            for each in given:
                if random.random() >= plan.twice and each in self._kept:
                    self._kept.remove(each)
            try:
                if given:
                    await self._settle(of, queue, given, how, random)
            except (TransportError, QueueError) as error:
                if queue != BRIEF or getattr(error, "code", "") not in ENDS:
                    raise

    async def _settle(self, of: _Life, queue: str, given: list[Receipt], how: Settlement, random: Random) -> None:
        taker = of.tap.on(of.operations().taker(GATEWAY, queue))
        name = of.tap.name_of(taker)
        # As a request is seen by what settles for HTTP.
        call: Any = SimpleNamespace(
            operations=SimpleNamespace(taker=lambda *_: taker), names={"name": queue}, receipts=of.receipts
        )
        asked = {"receipts": [each.text for each in given]} if len(given) > 1 else {"receipt": given[0].text}
        seconds = random.choice((0.0, random.uniform(0, LONGEST_DELAY))) if how is not Settlement.ACKNOWLEDGE else 0.0
        try:
            answer = await messages._settle(call, asked, how, seconds=seconds, failed=random.random() < 0.5)
        except ProblemError as problem:
            if len(given) > 1 or not _is_of_receipts(problem.code):
                raise
            codes = {given[0].text: problem.code}
        else:
            codes = {each["receipt"]: each["code"] for each in answer.body["problems"]}
        for each in dict.fromkeys(given):
            told = each.number, each.delivery, each.life, each.made_in, how.value, codes.get(each.text)
            self._history.add(ReceiptTold(_now(), name, *told))

    # Others

    async def _alter(self, of: _Life, plan: TakerPlan, pause: float, random: Random) -> None:
        settings = next(each.settings for each in self._plan.queues if each.name == plan.queue)
        for _ in range(MOST_REQUESTS):
            await elapse(random.expovariate(1 / pause))
            change: dict[str, Any] = random.choice(
                (
                    {"visibility_timeout_ms": int(random.choice(VISIBILITIES) * 1000)},
                    {"max_messages": random.choice((LEAST_ROOM, 60, 500, 1_000_000))},
                )
            )
            if settings.max_receives is not None and random.random() < 0.5:
                change = {"max_receives": random.randint(1, 4)}
            self._note(f"{plan.queue} is altered: {change}")
            await of.operations().command("queue.alter", {"name": plan.queue, **change})

    async def _make_and_delete(self, of: _Life, lives: float, random: Random) -> None:
        """A queue that comes and goes; nobody but this program sends to it."""
        for _ in range(MOST_REQUESTS):
            operations = of.operations()
            made = {"name": BRIEF, "visibility_timeout_ms": int(TEMPORARY.visibility * 1000)}
            try:
                await operations.command("queue.create", made)
                name = of.tap.name_of(of.tap.on(operations.taker(GATEWAY, BRIEF)))
                await self._send(of, name, random)
                await elapse(random.expovariate(1 / lives))
            except QueueError as error:
                self._note(f"{BRIEF} is not made: {error!r}")
            try:
                name = of.tap.name_of(of.tap.on(operations.taker(GATEWAY, BRIEF)))
                self._note(f"{name} is deleted")
                deleting = operations.command("queue.delete", {"name": BRIEF})
                self._history.add(Deleted(_now(), name))
                await deleting
            except QueueError as error:
                self._note(f"{BRIEF} is not deleted: {error!r}")

    async def _send(self, of: _Life, name: str, random: Random) -> None:
        for _ in range(random.randint(1, 5)):
            count, first = random.randint(1, 20), self._sent
            self._sent += count
            payloads = [f"brief/{number}|".encode() for number in range(first, first + count)]
            names = tuple(map(name_of, payloads))
            self._history.add(Offered(_now(), name, BRIEF, first, names))
            publisher: Any = of.operations().publisher(GATEWAY, BRIEF)
            of.tap.quiet_when_dead(publisher, "_settle")
            await publisher.publish(Piece(MessageBatch.from_payloads(payloads)))
            self._history.add(Confirmed(_now(), name, names))

    def _name(self, taker: Taker) -> str:
        """The queue of a taker, as the checker knows it: one that is made anew has another name."""
        if taker.name != BRIEF:
            return taker.name
        name = self._names.get(taker.id_prefix)
        if name is None:
            name = self._names[taker.id_prefix] = f"{BRIEF}-{len(self._names)}"
            self._history.add(Made(_now(), name))
        return name

    def _note(self, text: str) -> None:
        self._history.add(Noted(_now(), text))


def _is_of_receipts(code: str) -> bool:
    return "receipt" in code


def _now() -> float:
    return asyncio.get_running_loop().time()
