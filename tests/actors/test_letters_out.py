"""Dead letters that go to an exchange are in every queue that it leads to, and nowhere else; what it has no queue for is not lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from actors.batch import Message
from actors.errors import DiskBehindError
from actors.exchanges.exchanges import Exchanges
from actors.queue import letters_out
from actors.queue.distribution import Distributor
from actors.queue.letters_line import LettersLine
from actors.queue.letters_out import LettersOut
from actors.queue.operations.dead_letters import MOST_BEFORE
from actors.queue.queue_state import QueueState
from actors.queue.vocabulary.settings import DEAD_LETTER_TIMEOUT, QueueSettings
from streams.testkit import elapse, run_in_virtual_time
from tests.actors.letters_bench import Letters
from tests.actors.publishing_bench import defined, received, receiver
from tests.actors.stored_queues import durable, turns


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(record.getMessage())


@contextmanager
def warnings() -> Iterator[list[str]]:
    """What the log of queues is warned of."""
    kept, logger = _Kept(), logging.getLogger("penstock.queue")
    logger.addHandler(kept)
    try:
        yield kept.told
    finally:
        logger.removeHandler(kept)


@durable
async def test_they_are_in_each_queue_and_gone_from_their_own_by_one_record(folder: Path) -> None:
    bench = Letters(folder)
    await bench.bound(a="", b="")
    told = {name: (await receiver(bench, name))[1] for name in "ab"}
    bench.store(b"1", b"2")
    with mock.patch.object(
        bench.storage._journal, "append_several", wraps=bench.storage._journal.append_several
    ) as wrote:
        await bench.refuse()
    (call,) = wrote.call_args_list
    _, held, parts, _ = call.args
    assert (len(held), len(parts)) == (2, 1), "for two queues, and once on the disk"
    assert [received(each) for each in told.values()] == [[], []], "before it is durable nobody has it"
    state, figures = bench.queues.state("q"), bench.figures("q")
    assert state is not None
    assert state.outbox.messages == 2, "nor does anybody know that there is room"
    assert (figures.stored_messages, figures.leaving) == (0, 0), "what has left is not on its way"
    await bench.settled()
    assert [received(each) for each in told.values()] == [[b"1", b"2"]] * 2
    assert bench.holds("q", "a", "b") == [[], [b"1", b"2"], [b"1", b"2"]]
    assert "q.dead" not in bench.queues
    figures = bench.figures("q")
    assert (figures.total_dead_lettered, figures.leaving, figures.stored_messages) == (2, 0, 0)
    said = bench.headers("a")[0]
    assert said.pop("penstock-dead-sent-us") == "1700000000000000"
    assert said == {
        "penstock-dead-reason": "rejected",
        "penstock-dead-queue": "q",
        "penstock-dead-deliveries": "1",
        "penstock-dead-error": "no good",
    }
    await bench.close()


def test_queues_in_memory_have_them_at_once() -> None:
    async def main() -> None:
        bench = Letters(None)
        await bench.bound(a="", b="")
        await bench.die_of(b"1", b"2")
        await bench.die_of(b"3")
        assert bench.holds("q", "a", "b") == [[], [b"1", b"2", b"3"], [b"1", b"2", b"3"]]
        assert bench.figures("q").leaving == 0
        await bench.close()

    run_in_virtual_time(main())


@durable
async def test_each_goes_by_its_own_key_and_where_it_has_none_by_the_name_of_the_queue(folder: Path) -> None:
    bench = Letters(folder)
    await bench.bound("topic", eu="eu.#", new="*.new", none="q")
    await bench.die_of(*(Message(key + b"!", key) for key in (b"eu.new", b"us.new", b"eu.old", b"us.old", b"eu.new")))
    await bench.die_of(b"keyless")
    assert bench.holds("eu", "new", "none", "q.dead", "q") == [
        [b"eu.new!", b"eu.old!", b"eu.new!"],
        [b"eu.new!", b"us.new!", b"eu.new!"],
        [b"keyless"],
        [b"us.old!"],
        [],
    ]
    assert [message.key for message in bench.messages("eu")] == [b"eu.new", b"eu.old", b"eu.new"]
    await bench.close()


@durable
async def test_a_given_key_routes_them_and_is_their_key_and_the_one_before_is_said(folder: Path) -> None:
    bench = Letters(folder, QueueSettings(max_receives=1, dead_letter_exchange="x", dead_letter_routing_key="lost"))
    await bench.bound("direct", a="lost", b="own")
    long = b"l" * 256
    await bench.die_of(Message(b"1", b"own"), Message(b"2"), Message(b"3", b"lost"), Message(b"4", long))
    await bench.die_of(b"5")
    assert bench.holds("a", "b") == [[b"1", b"2", b"3", b"4", b"5"], []]
    assert [message.key for message in bench.messages("a")] == [b"lost", b"lost", b"lost", long, b"lost"]
    assert [said.get("penstock-dead-key") for said in bench.headers("a")] == [b"own", None, None, None, None]
    assert all(said["penstock-dead-queue"] == "q" for said in bench.headers("a"))
    await bench.close()


@durable
async def test_what_was_said_of_a_key_is_forgotten_with_the_next_death(folder: Path) -> None:
    bench = Letters(folder, QueueSettings(max_receives=1, dead_letter_exchange="x", dead_letter_routing_key="lost"))
    bench.queues.declare("a", QueueSettings(max_receives=1))
    await bench.bound("direct", a="lost")
    await bench.die_of(Message(b"1", b"own"))
    await bench.refuse("a")
    await bench.settled()
    (said,) = bench.headers("a.dead")
    assert said["penstock-dead-queue"] == "a"
    assert "penstock-dead-key" not in said
    await bench.close()


@durable
async def test_headers_that_say_why_they_are_dead_are_matched_too(folder: Path) -> None:
    bench = Letters(folder)
    decide = bench.queues.exchanges.exchanges.decide
    await bench.bound("headers")
    for name, arguments in (("a", {"kind": "red"}), ("b", {"penstock-dead-reason": "rejected", "x-match": "all"})):
        bench.queues.get_or_create(name)
        await defined(bench, decide.bind("x", name, "", arguments))
    await bench.die_of(Message(b"1", headers={"kind": "red"}), Message(b"2", headers={"kind": "blue"}))
    assert bench.holds("a", "b") == [[b"1"], [b"1", b"2"]]
    await bench.close()


@durable
async def test_an_internal_exchange_takes_them_and_an_alternate_gets_what_it_has_no_queue_for(folder: Path) -> None:
    bench = Letters(folder)
    decide = bench.queues.exchanges.exchanges.decide
    await defined(bench, decide.declare("x", "direct", internal=True, arguments={"alternate-exchange": "rest"}))
    await bench.bound(exchange="rest", b="")
    bench.queues.get_or_create("a")
    await defined(bench, decide.bind("x", "a", "known"))
    await bench.die_of(Message(b"1", b"known"), Message(b"2", b"other"))
    assert bench.holds("a", "b", "q", "q.dead") == [[b"1"], [b"2"], [], []]
    await bench.close()


@durable
async def test_where_there_is_no_exchange_they_go_to_the_queues_own_and_the_log_is_told_once(folder: Path) -> None:
    with warnings() as told_of:
        bench = Letters(folder)
        await bench.die_of(b"1", b"2")
        await bench.die_of(b"3")
        assert bench.holds("q", "q.dead") == [[], [b"1", b"2", b"3"]]
        (told,) = told_of
        assert told.startswith("dead letters of q go to q.dead: ")
        assert "'x'" in told
        await bench.bound(a="")
        await bench.die_of(b"4")
        assert bench.holds("a", "q.dead") == [[b"4"], [b"1", b"2", b"3"]]
        await defined(bench, bench.queues.exchanges.exchanges.decide.delete("x"))
        await bench.die_of(b"5")
        assert bench.holds("q.dead") == [[b"1", b"2", b"3", b"5"]]
        assert len(told_of) == 2, "it was there again meanwhile"
        await bench.close()


@durable
async def test_what_is_routed_nowhere_goes_to_the_queues_own_and_the_log_is_told_once(folder: Path) -> None:
    with warnings() as told_of:
        bench = Letters(folder)
        await bench.bound("direct", a="a")
        await bench.die_of(*(Message(b"%d" % number, b"a" if number % 3 else b"b") for number in range(9)))
        assert bench.holds("a", "q.dead", "q") == [[b"1", b"2", b"4", b"5", b"7", b"8"], [b"0", b"3", b"6"], []]
        assert told_of == ["dead letters of q go to q.dead: exchange 'x' has no queue for them"]
        await bench.close()


@durable
async def test_a_key_that_cannot_be_routed_by_goes_to_the_queues_own(folder: Path) -> None:
    with warnings() as told_of:
        bench = Letters(folder)
        await bench.bound(a="")
        await bench.die_of(Message(b"1", b"k" * 256), Message(b"2", b"k"), Message(b"3", b"\xff\xfe"))
        assert bench.holds("a", "q.dead") == [[b"2", b"3"], [b"1"]]
        (told,) = told_of
        assert "MAX_ROUTING_KEY_BYTES" in told
        await bench.close()


@durable
async def test_what_fits_no_record_for_all_of_the_queues_goes_to_the_queues_own(folder: Path) -> None:
    with warnings() as told_of:
        bench = Letters(folder)
        await bench.bound(a="", b="")
        with mock.patch("actors.storage.together.MAX_TOGETHER_QUEUES", 2):
            await bench.die_of(b"1")
        assert bench.holds("a", "b", "q", "q.dead") == [[], [], [], [b"1"]]
        assert len(told_of) == 1
        await bench.close()


@durable
async def test_they_do_not_come_back_to_the_queue_that_they_have_just_left(folder: Path) -> None:
    with warnings() as told_of:
        bench = Letters(folder)
        await bench.bound(q="", a="")
        await bench.die_of(b"1")
        assert bench.holds("q", "a", "q.dead") == [[], [b"1"], []]
        await defined(bench, bench.queues.exchanges.exchanges.decide.unbind("x", "a"))
        await bench.die_of(b"2")
        assert bench.holds("q", "a", "q.dead") == [[], [b"1"], [b"2"]]
        assert told_of == ["dead letters of q go to q.dead: exchange 'x' leads them only to where they come from"]
        await bench.close()


@durable
async def test_what_expires_goes_there_though_nobody_counts_failures(folder: Path) -> None:
    bench = Letters(folder, QueueSettings(ttl=5.0, dead_letter_exchange="x"))
    await bench.bound(a="", b="")
    bench.store(b"1", b"2")
    await turns()
    await elapse(6.0)
    assert bench.holds("q", "a", "b") == [[], [b"1", b"2"], [b"1", b"2"]]
    assert bench.headers("a")[0]["penstock-dead-reason"] == "expired"
    assert (bench.figures("q").total_expired, bench.figures("q").total_dead_lettered) == (0, 2)
    await bench.close()


@durable
async def test_the_other_queues_time_to_live_holds_for_them_and_its_delay_does_not(folder: Path) -> None:
    bench = Letters(folder)
    bench.queues.declare("brief", QueueSettings(ttl=5.0, delay=60.0))
    await bench.bound(brief="")
    _, told = await receiver(bench, "brief", 1)
    await bench.die_of(b"1", b"2")
    await bench.settled()
    assert received(told) == [b"1"]
    await elapse(6.0)
    assert bench.figures("brief").total_expired == 1
    await bench.close()


@durable
async def test_they_die_again_from_queue_to_queue(folder: Path) -> None:
    bench = Letters(folder)
    bench.queues.declare("a", QueueSettings(max_receives=1, dead_letter_exchange="x", dead_letter_routing_key="b"))
    await bench.bound("direct", a="q", b="b")
    await bench.die_of(b"1")
    await bench.settled()
    await bench.refuse("a")
    await bench.settled()
    assert bench.holds("q", "a", "b") == [[], [], [b"1"]]
    assert bench.headers("b")[0]["penstock-dead-queue"] == "a"
    await bench.close()


@durable
async def test_many_keys_in_one_batch_are_few_records_and_each_queue_has_its_own_in_order(folder: Path) -> None:
    bench = Letters(folder)
    await bench.bound("direct", a="0", b="1")
    sent = [Message(b"%04d" % number, b"%d" % (number % 2)) for number in range(100)]
    bench.store(*sent)
    with mock.patch.object(bench.storage, "record_all", wraps=bench.storage.record_all) as recorded:
        await bench.refuse()
    assert bench.holds("a", "b", "q") == [[m.payload for m in sent[::2]], [m.payload for m in sent[1::2]], []]
    assert recorded.call_count == 2
    await bench.close()


def test_what_is_much_goes_in_steps_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for messages, records in ((7, 64), (2_048, 2), (1, 1)):
        monkeypatch.setattr(letters_out, "STEP_MESSAGES", messages)
        monkeypatch.setattr(letters_out, "STEP_RECORDS", records)

        async def main(folder: Path) -> None:
            bench = Letters(folder)
            await bench.bound("topic", a="*.0", b="#", c="1.*")
            sent = [Message(b"%04d" % n, b"%d.%d" % (n % 3, n % 2)) for n in range(50)]
            bench.store(*sent)
            await bench.refuse()
            for _ in range(10):
                await bench.settled()
            assert bench.holds("a", "b", "c", "q") == [
                [m.payload for n, m in enumerate(sent) if n % 2 == 0],
                [m.payload for m in sent],
                [m.payload for n, m in enumerate(sent) if n % 3 == 1],
                [],
            ]
            assert bench.figures("q").leaving == 0
            await bench.close()

        run_in_virtual_time(main(tmp_path / f"{messages}-{records}"))


def test_a_turn_of_the_loop_ends_in_time_however_many_queues_have_steps_to_take(tmp_path: Path) -> None:
    route, turn, longest = Exchanges.route, LettersLine._turn, [0.0]
    names = [f"q{number}" for number in range(30)]

    def slow_route(*args: Any, **kwargs: Any) -> Any:
        asyncio.get_running_loop()._clock.now += 0.001  # type: ignore[attr-defined]
        return route(*args, **kwargs)

    def timed_turn(line: LettersLine) -> None:
        before = asyncio.get_running_loop().time()
        turn(line)
        longest[0] = max(longest[0], asyncio.get_running_loop().time() - before)

    async def main() -> None:
        bench = Letters(tmp_path / "data")
        await bench.bound("topic", all="#")
        for name in names:
            bench.queues.declare(name, QueueSettings(ttl=1.0, dead_letter_exchange="x"))
            bench.store(*[Message(b"%04d" % n, b"%d.%s" % (n, name.encode())) for n in range(20)], name=name)
        with mock.patch.object(Exchanges, "route", slow_route), mock.patch.object(LettersLine, "_turn", timed_turn):
            await elapse(2.0)
            for _ in range(30):
                await bench.settled()
        assert bench.figures("all").stored_messages == 20 * len(names)
        assert bench.holds(*names) == [[]] * len(names)
        await bench.close()

    run_in_virtual_time(main())
    assert 0.004 < longest[0] < 0.012


@pytest.mark.parametrize("slow", [(Exchanges, "route"), (Distributor, "move_dead_letters")])
def test_a_step_ends_in_time_however_long_a_route_or_a_record_takes(tmp_path: Path, slow: tuple[type, str]) -> None:
    kind, name = slow
    work, step, longest = getattr(kind, name), LettersOut.step, [0.0]

    def slow_work(*args: Any, **kwargs: Any) -> Any:
        asyncio.get_running_loop()._clock.now += 0.001  # type: ignore[attr-defined]
        return work(*args, **kwargs)

    def timed_step(*args: Any) -> None:
        before = asyncio.get_running_loop().time()
        step(*args)
        longest[0] = max(longest[0], asyncio.get_running_loop().time() - before)

    async def main() -> None:
        bench = Letters(tmp_path / "data")
        await bench.bound("topic", a="*.0", b="#", c="*.1")
        sent = [Message(b"%04d" % n, b"%d.%d" % (n, n % 2)) for n in range(300)]
        bench.store(*sent)
        with mock.patch.object(kind, name, slow_work), mock.patch.object(LettersOut, "step", timed_step):
            await bench.refuse()
            for _ in range(100):
                await bench.settled()
        assert bench.holds("a", "b", "c", "q") == [
            [m.payload for m in sent[::2]],
            [m.payload for m in sent],
            [m.payload for m in sent[1::2]],
            [],
        ]
        await bench.close()

    run_in_virtual_time(main())
    assert 0.002 < longest[0] < 0.007


@durable
async def test_where_the_disk_is_behind_they_wait_and_come_again(folder: Path) -> None:
    with warnings() as told_of:
        bench = Letters(folder)
        await bench.bound(a="", b="")
        bench.store(b"1")
        with mock.patch.object(bench.queues.distributor, "move_dead_letters", side_effect=DiskBehindError(2, 1)):
            await bench.refuse()
        assert bench.holds("q", "a", "b") == [[b"1"], [], []]
        assert bench.figures("q").leaving == 1
        assert len(told_of) == 1
        await elapse(DEAD_LETTER_TIMEOUT + 1)
        assert bench.holds("q", "a", "b") == [[], [b"1"], [b"1"]]
        await bench.close()


@durable
async def test_they_are_stored_once_however_late_that_is_durable(folder: Path) -> None:
    bench = Letters(folder)
    await bench.bound(a="", b="")
    await bench.die_of(b"1", b"2")
    await elapse(5 * DEAD_LETTER_TIMEOUT)
    await bench.settled()
    await elapse(5 * DEAD_LETTER_TIMEOUT)
    assert bench.holds("q", "a", "b") == [[], [b"1", b"2"], [b"1", b"2"]]
    assert bench.figures("q").leaving == 0
    await bench.close()


@durable
async def test_those_of_a_queue_that_fails_and_begins_anew_leave_once(folder: Path) -> None:
    bench = Letters(folder)
    bench.queues.declare("a", QueueSettings(max_messages=1))
    await bench.bound(a="", b="")
    bench.store(b"full", name="a")
    await bench.die_of(b"1", b"2")
    state = bench.queues.state("q")
    assert state is not None
    tick, failed = type(state).tick, []

    def fails_once(core: QueueState, now: float, wall_us: int | None = None) -> None:
        if core is state and not failed:
            failed.append(now)
            raise RuntimeError("a defect")
        tick(core, now, wall_us)

    with mock.patch.object(type(state), "tick", fails_once):
        await elapse(DEAD_LETTER_TIMEOUT + 1)
    assert failed
    await turns()
    await bench.acknowledge("a", 1)
    await elapse(DEAD_LETTER_TIMEOUT + 1)
    await bench.acknowledge("a", 1)
    await elapse(DEAD_LETTER_TIMEOUT + 1)
    assert bench.holds("q", "a", "b") == [[], [b"2"], [b"1", b"2"]]
    await bench.close()


async def a_circle(folder: Path | None, *names: str, plain: tuple[str, ...] = (), arguments: bytes = b"") -> Letters:
    """Queues whose messages expire after 5 s, each into the next by its key, and the last into the first."""
    bench = Letters(folder)
    await bench.bound("direct")
    decide = bench.queues.exchanges.exchanges.decide
    for name, following in zip(names, (*names[1:], names[0]), strict=True):
        way = {"dead_letter_queue": following} if name in plain else {"dead_letter_exchange": "x"}
        key = {} if name in plain else {"dead_letter_routing_key": following}
        bench.queues.declare(name, QueueSettings(ttl=5.0, **way, **key), arguments)
        await defined(bench, decide.bind("x", name, name))
    return bench


@pytest.mark.parametrize(
    ("names", "plain"), [("ab", ()), ("abc", ()), ("abc", ("b",)), ("ab", ("b",)), ("abc", ("a", "b", "c"))]
)
def test_what_nobody_has_tried_does_not_come_round(tmp_path: Path, names: str, plain: tuple[str, ...]) -> None:
    async def main() -> None:
        bench = await a_circle(tmp_path / "data", *names, plain=plain)
        bench.store(b"1", b"2", name="a")
        await turns()
        for _ in range(10):
            await elapse(6.0)
            bench.time_of_day += 6.0
            await bench.settled()
        last = f"{names[-1]}.dead"
        assert bench.holds(*names, last) == [[]] * len(names) + [[b"1", b"2"]]
        assert [said["penstock-dead-before"] for said in bench.headers(last)] == [" ".join(names[:-1])] * 2
        assert [said["penstock-dead-queue"] for said in bench.headers(last)] == [names[-1]] * 2
        await bench.close()

    run_in_virtual_time(main())


@pytest.mark.parametrize(("names", "plain"), [("ab", ()), ("abc", ("b",)), ("abc", ("c",)), ("abc", ("a", "b", "c"))])
@pytest.mark.parametrize("on_disk", [True, False])
def test_of_queues_that_another_protocol_has_declared_it_is_dropped(
    tmp_path: Path, names: str, plain: tuple[str, ...], on_disk: bool
) -> None:
    async def main() -> None:
        bench = await a_circle(tmp_path / "data" if on_disk else None, *names, plain=plain, arguments=b"words")
        bench.store(b"1", b"2", name="a")
        await turns()
        with warnings() as told_of:
            for _ in range(5):
                await elapse(6.0)
                bench.time_of_day += 6.0
                if on_disk:
                    await bench.settled()
        assert bench.holds(*names, *(f"{name}.dead" for name in names)) == [[]] * 2 * len(names)
        *others, last = (bench.figures(name) for name in names)
        assert [each.total_expired for each in others] == [0] * len(others)
        assert [each.total_dead_lettered for each in others] == [2] * len(others)
        assert (last.total_expired, last.total_dead_lettered, last.leaving, last.stored_messages) == (2, 0, 0, 0)
        (told,) = told_of
        assert told.startswith(f"dead letters of {names[-1]} are dropped, as they have expired on all of their way: ")
        await bench.close()
        if on_disk:
            again = Letters(tmp_path / "data")
            assert again.holds(*names) == [[]] * len(names)
            await again.close()

    run_in_virtual_time(main())


@durable
async def test_what_a_receiver_has_refused_is_kept_where_it_cannot_go_back(folder: Path) -> None:
    bench = Letters(folder)
    bench.queues.declare("p", QueueSettings(max_receives=1, dead_letter_exchange="x"), b"words")
    await bench.bound(p="")
    await bench.die_of(b"1", name="p")
    assert bench.holds("p", "p.dead") == [[], [b"1"]]
    await bench.close()


@durable
async def test_what_somebody_has_tried_comes_back_from_where_it_waits_each_time(folder: Path) -> None:
    bench = Letters(folder)
    await bench.bound("direct", q="q")
    wait = QueueSettings(ttl=5.0, dead_letter_exchange="x", dead_letter_routing_key="q")
    bench.queues.declare("wait", wait)
    await defined(bench, bench.queues.exchanges.exchanges.decide.bind("x", "wait", "later"))
    bench.store(Message(b"1", b"later"))
    for _ in range(4):
        # It has another key now, by which it goes where it is bound.
        await defined(bench, bench.queues.exchanges.exchanges.decide.bind("x", "wait", "q"))
        await bench.refuse()
        await bench.settled()
        assert bench.holds("q", "wait") == [[], [b"1"]]
        await elapse(6.0)
        bench.time_of_day += 6.0
        await bench.settled()
        assert bench.holds("q", "wait", "wait.dead") == [[b"1"], [], []]
    await bench.close()


@durable
async def test_after_many_queues_that_were_no_circle_it_goes_to_the_last_ones_own(folder: Path) -> None:
    names = [f"n{number:02d}" for number in range(MOST_BEFORE + 3)]
    bench = await a_circle(folder, *names)
    bench.store(b"1", name=names[0])
    await turns()
    with warnings() as told_of:
        for _ in range(MOST_BEFORE + 6):
            await elapse(6.0)
            bench.time_of_day += 6.0
            await bench.settled()
    last = names[MOST_BEFORE]
    assert bench.holds(f"{last}.dead") == [[b"1"]]
    assert told_of == [
        f"dead letters of {last} go to {last}.dead: they have expired in 16 queues before, and nobody has tried them"
    ]
    await bench.close()


@durable
async def test_of_those_that_expire_together_each_goes_where_it_has_not_been(folder: Path) -> None:
    bench = Letters(folder, QueueSettings(ttl=5.0, dead_letter_exchange="x"))
    await bench.bound(a="", b="")
    been = {
        "penstock-dead-reason": "expired",
        "penstock-dead-queue": "a",
        "penstock-dead-sent-us": "1",
        "penstock-dead-deliveries": "0",
    }
    bench.store(Message(b"1"), Message(b"2", headers=been), Message(b"3", headers=been | {"penstock-dead-before": "b"}))
    await turns()
    await elapse(6.0)
    await bench.settled()
    assert bench.holds("a", "b", "q.dead", "q") == [[b"1"], [b"1", b"2"], [b"3"], []]
    await bench.close()
