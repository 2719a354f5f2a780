"""`transport.gateways.amqp.transacting`: what one transaction may hold, how it is put together, and how long its commit waits for room."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, cast
from unittest import mock

import pytest

from actors.queue.vocabulary.distributed import Settlement
from streams.testkit import elapse, run_in_virtual_time
from transport.gateways.amqp import held_back, transacting
from transport.gateways.amqp.consuming import Outcome
from transport.gateways.amqp.deliveries import Held
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.held_back import HeldBack
from transport.gateways.amqp.publishing_line import Returned
from transport.gateways.amqp.reply_codes import ReplyCode
from transport.gateways.amqp.transacting import ROOM_SECONDS, Transacting


class Holder:
    def __init__(self, queue: str, number: int) -> None:
        self.queue, self.number, self.actor = queue, number, f"actor of {queue}"


class Passing:
    """The transaction behind the door."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.rolled_back = 0

    def commit(self, settlements: Sequence[Settlement]) -> int:
        self.host.said.append("commit")
        self.host.settlements = list(settlements)
        return 7

    def roll_back(self) -> None:
        self.rolled_back += 1

    async def durable(self, number: int) -> None:
        self.host.said.append(f"durable {number}")


class Host:
    """The channel, its connection, and what it publishes and receives in one."""

    def __init__(self, kept: HeldBack | None = None) -> None:
        self.held_back = kept or HeldBack()
        self.said: list[str] = []
        self.settlements: list[Settlement] = []
        self.withheld: list[tuple[str, list[Held[Any]]]] = []
        self.failed: list[AmqpError] = []
        self.returned: list[Returned] = []
        self.link = self.operations = self.names = self.receiving = self.publishing = self

    def passing_transaction(self) -> Passing:
        return Passing(self)

    def queue(self, name: str) -> str:
        return f"/{name}"

    def withheld_settled(self, taken: list[Held[Any]]) -> None:
        self.withheld.append(("settled", taken))

    def withheld_put_back(self, taken: list[Held[Any]]) -> None:
        self.withheld.append(("put back", taken))

    async def all_confirmed(self) -> None:
        self.said.append("confirmed")

    def publishing_over(self) -> None:
        self.said.append("over")

    def give_back(self, messages: Sequence[Returned]) -> None:
        self.said.append("returned")
        self.returned += messages

    def fail(self, error: AmqpError) -> None:
        self.failed.append(error)


A, B = Holder("a", 3), Holder("b", 5)
LOST = Returned("", b"k", b"", b"x" * 100)


def made(kept: HeldBack | None = None) -> tuple[Host, Transacting]:
    host = Host(kept)
    return host, Transacting(cast("Any", host))


def finished(work: Coroutine[None, None, Any]) -> Any:
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")


def held(holder: Holder, first: int, count: int, tag: int) -> Held[Any]:
    return Held(cast("Any", holder), first, count, tag)


def test_what_is_settled_in_a_row_is_one_piece_and_each_queue_has_all_of_its_own() -> None:
    host, subject = made()
    subject.settled(Outcome.ACKNOWLEDGED, [held(A, 0, 2, 1), held(A, 2, 1, 3), held(B, 9, 1, 4)])
    subject.settled(Outcome.ACKNOWLEDGED, [held(A, 3, 1, 5)])
    subject.settled(Outcome.REFUSED, [held(A, 4, 1, 6)])
    subject.settled(Outcome.RETURNED, [held(B, 10, 2, 7), held(B, 7, 1, 9)])
    assert len(subject._settled) == 6
    finished(subject.commit())
    assert host.settlements == [
        Settlement("/a", 3, cast("Any", A.actor), ((0, 4),), ((4, 5),), (), "rejected"),
        Settlement("/b", 5, cast("Any", B.actor), ((9, 10),), (), ((7, 8), (10, 12)), "rejected"),
    ]
    assert [what for what, _ in host.withheld] == ["settled"]


def test_what_is_returned_comes_behind_all_that_is_durable_and_before_the_answer() -> None:
    host, subject = made()
    subject.returned([LOST])
    answer = subject.commit()
    assert host.said == ["commit"]
    assert finished(answer).NAME == "tx.commit-ok"
    assert host.said == ["commit", "durable 7", "confirmed", "over", "returned"]
    assert host.returned == [LOST]
    finished(subject.commit())
    assert host.returned == [LOST]


def test_a_rollback_puts_back_what_was_settled_and_forgets_what_was_returned() -> None:
    host, subject = made()
    taken = [held(A, 0, 2, 1)]
    subject.settled(Outcome.ACKNOWLEDGED, taken)
    subject.returned([LOST])
    with mock.patch.object(host, "passing_transaction", return_value=(passing := mock.Mock())):
        subject.stage()
    subject.roll_back()
    assert passing.roll_back.call_count == 1
    assert host.withheld == [("put back", taken)]
    finished(subject.commit())
    assert (host.settlements, host.returned) == ([], [])


def test_one_transaction_settles_so_many_ranges_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transacting, "MOST_SETTLED", 2)
    _, subject = made()
    for number in range(2):
        subject.settled(Outcome.ACKNOWLEDGED, [held(A, 2 * number, 1, 2 * number + 1)])
    with pytest.raises(AmqpError, match=r"3 ranges of deliveries .* above MOST_SETTLED of 2: commit more") as caught:
        subject.settled(Outcome.ACKNOWLEDGED, [held(A, 9, 1, 9)])
    assert caught.value.reply_code is ReplyCode.PRECONDITION_FAILED


def test_what_comes_back_has_a_limit_of_bytes_for_all_transactions_of_a_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(held_back, "MOST_RETURNED_BYTES", 1_500)
    kept = HeldBack()
    (host, subject), (other, beside) = made(kept), made(kept)
    subject.returned([LOST])
    beside.returned([LOST])
    assert not host.failed
    subject.returned([LOST])
    (error,) = host.failed
    text = "1836 bytes of messages that no queue takes wait for the commit, above MOST_RETURNED_BYTES of 1500 for a connection"
    assert text in str(error)
    assert error.reply_code is ReplyCode.PRECONDITION_FAILED
    assert not other.failed


@pytest.mark.parametrize("ends", [Transacting.end, Transacting.roll_back, lambda subject: finished(subject.commit())])
def test_what_comes_back_counts_until_its_transaction_is_over(ends: Callable[[Transacting], None]) -> None:
    kept = HeldBack()
    (_, subject), (_, beside) = made(kept), made(kept)
    subject.returned([LOST, LOST])
    beside.returned([LOST])
    ends(subject)
    assert kept.bytes == 612
    ends(subject)
    assert kept.bytes == 612


def test_what_comes_back_has_a_limit_of_bytes_for_all_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_back, "MOST_RETURNED_OF_ALL", 1_500)
    of_all = HeldBack()
    made_of_each = [made(of_all.of_connection()) for _ in range(3)]
    for _, subject in made_of_each:
        subject.returned([LOST])
    assert [len(host.failed) for host, _ in made_of_each] == [0, 0, 1]
    assert "1836 bytes of messages that no queue takes wait for commits of all connections" in str(
        made_of_each[2][0].failed[0]
    )
    for _, subject in made_of_each:
        subject.end()
    assert of_all.bytes == 0


def test_a_commit_waits_for_room_and_not_for_ever() -> None:
    async def waits() -> None:
        host, subject = made()
        subject.awaits_room()
        await elapse(ROOM_SECONDS - 1)
        subject.awaits_room()
        assert not host.failed
        await elapse(2)
        (error,) = host.failed
        assert str(error).startswith(
            "PRECONDITION_FAILED - partial tx completion: nothing of the transaction is done: a queue has"
        )
        for ends in (subject.end, lambda: finished(subject.commit())):
            subject.awaits_room()
            ends()
            await elapse(2 * ROOM_SECONDS)
            assert len(host.failed) == 1

    run_in_virtual_time(waits())
