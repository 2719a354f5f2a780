"""Messages that wait at an exchange: each goes once to what is bound when its time has come, whatever becomes of the broker meanwhile."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.batch import Message, MessageBatch
from actors.exchanges.delayed import MAX_DELAY_MS, is_waiting_queue, wait_of, waiting_queue
from actors.exchanges.errors import InvalidDefinitionError, TooManyPatternsError
from actors.queue.operations import passing_on
from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.waiting import NOTHING, SAID, first_said
from actors.storage import exchange_codec, snapshot
from streams.testkit import elapse, run_in_virtual_time
from tests.actors.letters_bench import Letters
from tests.actors.publishing_bench import Client, client, received, receiver
from tests.actors.stored_queues import durable, turns
from tests.examples_tried import tried

KIND = "x-delayed-message"
PLACE = waiting_queue("x")
MOST = 20
"""Of what a small place has room for."""


class Waiting(Letters):
    """A directory with the delayed exchange ``x``, whose time of day goes with the loop's time."""

    def __init__(self, folder: Path | None, usual: QueueSettings | None = None) -> None:
        self.set_back = 0.0
        super().__init__(folder)
        if usual is not None:
            self.queues.settings = usual

    @property
    def time_of_day(self) -> float:
        return 1_700_000_000.0 + asyncio.get_running_loop().time() - self.set_back

    @time_of_day.setter
    def time_of_day(self, _: float) -> None:
        """It goes with the loop's."""

    async def made(self, inner: str = "direct", *, durable: bool = True, **bindings: str) -> None:
        exchanges = self.queues.exchanges
        arguments = {"x-delayed-type": inner}
        await self.answered(exchanges.declare("x", KIND, durable=durable, arguments=arguments))
        for queue, key in bindings.items():
            self.queues.get_or_create(queue)
            await self.answered(exchanges.bind("x", queue, key))

    async def answered(self, change: Any) -> None:
        """Have definitions changed, and on the disk."""
        task = asyncio.ensure_future(change)
        await turns()
        if self._storage is not None:
            await self.commit()
        await task

    async def passed(self, seconds: float) -> None:
        """So much time, and all that comes of it."""
        await elapse(seconds)
        await turns()
        await turns()

    @property
    def waits(self) -> int:
        return self.queues.exchanges.waiting.at("x")


def waiting(payload: bytes, wait: int | None, key: str = "k", **headers: str) -> MessageBatch:
    said = headers if wait is None else {**headers, "x-delay": str(wait)}
    return MessageBatch.from_messages([Message(payload, key.encode(), headers=said or None)])


@durable
async def test_a_message_is_confirmed_when_its_wait_is_on_the_disk_and_goes_by_one_record_when_it_is_over(
    folder: Path,
) -> None:
    bench = Waiting(folder)
    await bench.made("topic", a="k.#", b="#")
    sender = await client(bench, "x")
    sender.send(waiting(b"m", 5_000, "k.1", own="o"))
    await turns()
    assert sender.confirmed == []
    await bench.commit()
    assert (sender.confirmed, bench.waits) == ([1], 1)
    await bench.passed(4.99)
    assert bench.holds("a", "b") == [[], []]
    with mock.patch.object(
        bench.storage._journal, "append_several", wraps=bench.storage._journal.append_several
    ) as wrote:
        await bench.passed(0.02)
    (call,) = wrote.call_args_list
    assert len(call.args[2]) == 1, "for two queues, and once on the disk"
    await bench.commit()
    assert (bench.holds("a", "b"), bench.waits) == ([[b"m"], [b"m"]], 0)
    assert bench.headers("a") == [{"x-delay": "-5000", "own": "o"}]
    await bench.close()


@durable
async def test_a_batch_waits_message_by_message_and_what_does_not_wait_goes_at_once(folder: Path) -> None:
    bench = Waiting(folder)
    await bench.made(a="k", b="l")
    sender = await client(bench, "x")
    waits = [
        ("1", None, "k"),
        ("2", "200", "k"),
        ("3", "200", "l"),
        ("4", "-9", "l"),
        ("5", "100", "k"),
        ("6", "0", "k"),
    ]
    batch = MessageBatch.from_messages(
        [
            Message(name.encode(), key.encode(), headers=None if wait is None else {"x-delay": wait})
            for name, wait, key in waits
        ]
    )
    sender.send(batch)
    await bench.settled()
    assert sender.confirmed == [6]
    assert (bench.holds("a", "b"), bench.waits) == ([[b"1", b"6"], [b"4"]], 3)
    await bench.passed(0.15)
    assert bench.holds("a", "b") == [[b"1", b"6", b"5"], [b"4"]]
    await bench.passed(0.1)
    assert bench.holds("a", "b") == [[b"1", b"6", b"5", b"2"], [b"4", b"3"]]
    await bench.close()


@durable
async def test_a_native_delay_is_the_wait_whatever_the_header_says_and_a_ttl_holds_behind_it(folder: Path) -> None:
    bench = Waiting(folder)
    await bench.made(a="k", p="k")
    sender = await client(bench, "x")
    sender.send(waiting(b"m", 60_000), delay=2.0, ttl=10.0)
    sender.send(waiting(b"n", None), delay=2.0)
    sender.send(waiting(b"now", 60_000), delay=0.0)
    await bench.settled()
    assert (bench.holds("a"), bench.waits) == ([[b"now"]], 2)
    await bench.passed(2.1)
    assert (bench.holds("a"), bench.waits) == ([[b"now", b"m", b"n"]], 0)
    assert bench.headers("a")[1:] == [{"x-delay": "-2000"}, {"x-delay": "-2000"}]
    await bench.passed(9)
    _, told = await receiver(bench, "a", 1)
    await bench.passed(2)
    assert bench.holds("p") == [[b"now", b"m", b"n"]], "its head has time"
    await bench.acknowledge("p", 1)
    await bench.passed(0.1)
    assert bench.holds("p") == [[b"n"]], "10 s from the end of the wait"
    await bench.settled()
    assert received(told) == [b"now"]
    await bench.close()


@durable
async def test_who_publishes_is_held_back_by_what_waits_and_goes_on_when_it_has_gone(folder: Path) -> None:
    bench = Waiting(folder, QueueSettings(max_messages=MOST))
    await bench.made(a="k")
    sender = await client(bench, "x")
    assert sender.granted == MOST
    for number in range(MOST):
        sender.send(waiting(b"%d" % number, 1_000))
    await bench.settled()
    assert (bench.waits, sender.granted, len(sender.confirmed)) == (MOST, MOST, MOST)
    await bench.passed(1.1)
    await bench.settled()
    assert (bench.waits, len(bench.holds("a")[0])) == (0, MOST)
    assert sender.granted > MOST
    await bench.close()


@durable
async def test_what_cannot_be_routed_behind_its_wait_is_a_dead_letter_of_its_exchange(folder: Path) -> None:
    bench = Waiting(folder)
    await bench.made(a="k")
    sender = await client(bench, "x")
    sender.send(waiting(b"m", 1_000))
    await bench.settled()
    with mock.patch.object(
        type(bench.queues.exchanges.exchanges), "route", side_effect=TooManyPatternsError("topic", 1, "")
    ):
        await bench.passed(1.1)
    assert (bench.holds("a", "x.dead"), bench.waits) == ([[], [b"m"]], 0)
    await bench.close()


@durable
async def test_a_start_forgets_what_waits_for_no_exchange_and_has_a_place_for_each_that_there_is(folder: Path) -> None:
    bench = Waiting(folder)
    await bench.made(a="k")
    bench.queues.declare(waiting_queue("gone"), QueueSettings(ttl=0.0, dead_letter_exchange="gone"))
    bench.queues.delete(PLACE)
    await bench.settled()
    await bench.die()
    bench = Waiting(folder)
    assert [name for name in bench.queues if is_waiting_queue(name)] == [PLACE]
    sender = await client(bench, "x")
    sender.send(waiting(b"m", 1_000))
    await bench.settled()
    await bench.passed(1.1)
    assert bench.holds("a") == [[b"m"]]
    await bench.close()


@durable
async def test_an_older_program_refuses_a_directory_with_such_an_exchange_and_reads_it_when_that_is_gone(
    folder: Path,
) -> None:
    bench = Waiting(folder)

    def version() -> int:
        return int(msgpack.unpackb(b"".join(bench.storage._contents.snapshot()))["version"])

    events = bench.queues.exchanges.exchanges.decide.declare("x", KIND, arguments={"x-delayed-type": "topic"})
    ((kind, *_),), _ = msgpack.unpackb(exchange_codec.encode_changes(events))
    assert kind == 5, "one that knows of none knows changes 0 to 4, and refuses others"
    await bench.made()
    assert version() == snapshot.DELAYED_VERSION
    await bench.answered(bench.queues.exchanges.delete("x"))
    assert version() < snapshot.DELAYED_VERSION
    await bench.close()


@durable
async def test_a_transient_exchange_is_forgotten_with_what_waits_there(folder: Path) -> None:
    bench = Waiting(folder)
    await bench.made("fanout", durable=False, a="")
    sender = await client(bench, "x")
    sender.send(waiting(b"m", 1_000))
    await bench.settled()
    assert (sender.confirmed, bench.waits) == ([1], 1)
    await bench.die()
    bench = Waiting(folder)
    assert not any(is_waiting_queue(name) for name in bench.queues)
    await bench.close()


@durable
async def test_long_waits_are_in_the_calendar_of_their_place_and_go_in_their_order_through_restarts(
    folder: Path,
) -> None:
    bench = Waiting(folder)
    await bench.made(a="k")
    sender = await client(bench, "x")
    for payload, seconds in ((b"hours", 7_200), (b"minutes", 600), (b"soon", 30), (b"later", 660)):
        sender.send(waiting(payload, 1_000 * seconds))
    await bench.settled()
    assert (sender.confirmed[-1], bench.waits) == (4, 4)
    await bench.passed(31.0)
    assert bench.holds("a") == [[b"soon"]]
    await bench.settled()
    await bench.die()
    bench = Waiting(folder)
    for due, payload in ((600, b"minutes"), (660, b"later"), (7_200, b"hours")):
        before, loop = bench.holds("a")[0], asyncio.get_running_loop()
        # It comes nearer by records, each on the disk before the next.
        while loop.time() < due - 1.0:
            await bench.passed(min(20.0, due - 1.0 - loop.time()))
            await bench.settled()
        assert bench.holds("a") == [before], "not before its time"
        await bench.passed(1.1)
        await bench.settled()
        assert bench.holds("a") == [[*before, payload]]
    assert bench.waits == 0
    await bench.close()


@durable
async def test_where_the_time_of_day_goes_back_a_message_waits_no_longer_than_it_was_to(folder: Path) -> None:
    bench = Waiting(folder)
    await bench.made(a="k")
    sender = await client(bench, "x")
    sender.send(waiting(b"m", 5_000))
    await bench.settled()
    await bench.die()
    with mock.patch.object(Waiting, "time_of_day", 1_600_000_000.0):
        bench = Waiting(folder)
        await bench.passed(4.9)
        assert bench.holds("a") == [[]]
        await bench.passed(0.2)
        assert bench.holds("a") == [[b"m"]]
        await bench.close()


@durable
async def test_a_large_batch_that_is_due_goes_on_part_by_part(folder: Path) -> None:
    bench = Waiting(folder)
    await bench.made(a="k")
    sender = await client(bench, "x")
    payloads = [b"%d" % number for number in range(11)]
    sender.send(MessageBatch.from_messages([Message(payload, b"k") for payload in payloads]), delay=1.0)
    await bench.settled()
    assert bench.waits == 11
    with mock.patch.object(passing_on, "PART_MESSAGES", 2), mock.patch.object(passing_on, "MOST_UNDER_WAY", 4):
        await bench.passed(1.1)
        queue = bench.queues.state(PLACE)
        assert queue is not None
        assert ([span.stop - span.start for span in queue.outbox.sent], bench.waits) == ([2, 2], 7)
        for left in (3, 0):
            await bench.commit()
            await bench.passed(0.0)
            assert bench.waits == left
        await bench.commit()
    assert bench.holds("a") == [payloads]
    await bench.close()


@durable
async def test_what_a_sender_writes_where_the_broker_notes_what_was_said_holds_nothing_up(folder: Path) -> None:
    bench = Waiting(folder)
    await bench.made(a="k")
    sender = await client(bench, "x")
    written = ["9" * 30 + " 0", "-1 " + "9" * 30, "9" * 5_000 + " 0", "-1 256", "5 0"]
    for number, said in enumerate(written):
        sender.send(waiting(b"%d" % number, 100, **{SAID: said}))
    sender.send(waiting(b"last", 100))
    await bench.settled()
    assert bench.waits == len(written) + 1
    await bench.passed(0.2)
    await bench.passed(0.2)
    assert (bench.waits, bench.holds("a")) == (0, [[b"0", b"1", b"2", b"3", b"4", b"last"]])
    assert bench.headers("a") == [{"x-delay": "-100"}] * 6
    await bench.close()


@pytest.mark.parametrize("said", ["9" * 30 + " 0", "-1 " + "9" * 30, "9" * 5_000 + " 0", "-1 256", "1- 0", "\u0661 0"])
def test_what_nobody_can_have_said_of_a_wait_is_nothing(said: str) -> None:
    assert first_said(waiting(b"m", 1, **{SAID: said})) == (1, NOTHING)


def test_in_memory_messages_wait_too() -> None:
    async def main() -> None:
        bench = Waiting(None)
        await bench.made(a="k")
        sender = await client(bench, "x")
        sender.send(waiting(b"m", 1_000))
        await turns()
        assert (sender.confirmed, bench.waits) == ([1], 1)
        await bench.passed(1.1)
        assert bench.holds("a") == [[b"m"]]
        await bench.answered(bench.queues.exchanges.delete("x"))
        assert PLACE not in bench.queues
        await bench.close()

    run_in_virtual_time(main())


@pytest.mark.parametrize(
    ("value", "wait"),
    [
        (5, 5),
        (-5, -5),
        ("5", 5),
        ("+5", 5),
        ("-5", -5),
        (b"5", 5),
        (5.9, 5),
        (-5.9, -5),
        (Decimal("5.9"), 5),
        (float("nan"), 0),
        (float("inf"), 0),
        (True, 0),
        (None, 0),
        ([5], 0),
        ({"a": 5}, 0),
        (MAX_DELAY_MS, MAX_DELAY_MS),
    ],
)
def test_waits_are_read_as_the_plugin_reads_them(value: object, wait: int) -> None:
    assert wait_of(value) == wait


@pytest.mark.parametrize(
    "value", ["", "5.0", "5 ", "five", "\u0661", b"\xff", "--5", "9" * 5_000, MAX_DELAY_MS + 1, 1e300]
)
def test_a_wait_that_cannot_be_is_refused(value: object) -> None:
    with pytest.raises(InvalidDefinitionError, match="x-delay"):
        wait_of(value)


def test_the_places_of_exchanges_with_long_names_have_names_of_their_own() -> None:
    names = ["n" * 255, "n" * 254 + "m", "é" * 127, "n" * 247, "n"]
    places = [waiting_queue(name) for name in names]
    assert len(set(places)) == len(names)
    assert all(len(place.encode()) <= 255 and is_waiting_queue(place) for place in places)


# Any history.


@dataclass
class Model:
    """What there is: what waits (payload, when it is due, its key), what is bound (key and queue), and what each queue has."""

    waits: list[tuple[bytes, float, str]] = field(default_factory=list)
    bound: set[tuple[str, str]] = field(default_factory=set)
    queues: dict[str, list[bytes]] = field(default_factory=lambda: {"a": [], "b": []})

    def pass_on(self, now: float) -> None:
        due = [one for one in self.waits if one[1] <= now]
        self.waits = [one for one in self.waits if one[1] > now]
        for payload, _, key in due:
            self.route(payload, key)

    def route(self, payload: bytes, key: str) -> None:
        for queue in sorted({queue for bound, queue in self.bound if bound == key}):
            self.queues[queue].append(payload)

    def contents(self) -> list[list[bytes]]:
        return [sorted(self.queues[name]) for name in "ab"]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.sampled_from([None, -5, 0, 1, 300, 300, 700, 5_000]), st.sampled_from("kl")),
        st.tuples(st.just("delay"), st.sampled_from([300, 900]), st.sampled_from("kl")),
        st.tuples(st.just("bind"), st.sampled_from("kl"), st.sampled_from("ab")),
        st.tuples(st.just("unbind"), st.sampled_from("kl"), st.sampled_from("ab")),
        st.tuples(st.just("pass"), st.sampled_from([100, 250, 1_000]), st.just("")),
        st.tuples(st.just("commit"), st.just(0), st.just("")),
        st.tuples(st.just("die"), st.sampled_from([0, 400]), st.just("")),
    ),
    max_size=40,
)


@settings(max_examples=tried(120), deadline=None)
@given(STEPS)
def test_each_message_goes_once_when_it_is_due_to_what_is_bound_then_through_restarts(
    steps: list[tuple[str, Any, str]],
) -> None:
    async def main(folder: Path) -> None:
        bench, model = Waiting(folder), Model()
        await bench.made(a="k")
        bench.queues.get_or_create("b")
        model.bound.add(("k", "a"))
        await bench.settled()
        committed = deepcopy(model)
        sender: Client | None = None
        clock, exchanges = asyncio.get_running_loop().time, bench.queues.exchanges
        for number, (kind, what, more) in enumerate(steps):
            if kind in ("publish", "delay"):
                sender = sender or await client(bench, "x")
                payload = b"%d" % number
                if kind == "delay":
                    sender.send(waiting(payload, None, more), delay=what / 1000)
                else:
                    sender.send(waiting(payload, what, more))
                if (what or 0) > 0:
                    model.waits.append((payload, clock() + what / 1000, more))
                else:
                    model.route(payload, more)
                await turns()
            elif kind in ("bind", "unbind"):
                change = (exchanges.bind if kind == "bind" else exchanges.unbind)("x", more, what)
                await bench.answered(change)
                (model.bound.add if kind == "bind" else model.bound.discard)((what, more))
                committed = deepcopy(model)
            elif kind == "pass":
                await bench.passed(what / 1000)
                # What is due within a rounding of the clock may have gone or not: a little later all of it has.
                await bench.passed(0.01)
                model.pass_on(clock())
            elif kind == "commit":
                await bench.settled()
                committed = deepcopy(model)
            else:
                await bench.die()
                await bench.passed(what / 1000)
                bench, model, sender = Waiting(folder), deepcopy(committed), None
                exchanges = bench.queues.exchanges
                await bench.passed(0.01)
                model.pass_on(clock())
            assert [sorted(each) for each in bench.holds("a", "b")] == model.contents(), (number, kind)
            assert bench.waits == len(model.waits)
        await bench.settled()
        await bench.passed(10)
        model.pass_on(clock())
        assert [sorted(each) for each in bench.holds("a", "b")] == model.contents()
        assert bench.waits == 0
        await bench.close()

    with TemporaryDirectory() as folder:
        run_in_virtual_time(main(Path(folder) / "data"))
