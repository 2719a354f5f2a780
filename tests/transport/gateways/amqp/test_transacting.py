"""`transport.gateways.amqp.transacting`: what one transaction may hold, how it is put together, and how long its commit waits for room."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, cast
from unittest import mock

import pytest

from actors.queue.vocabulary.distributed import Settlement
from streams.testkit import elapse, run_in_virtual_time
from transport.gateways.amqp import transacting
from transport.gateways.amqp.consuming import Outcome
from transport.gateways.amqp.deliveries import Held
from transport.gateways.amqp.errors import AmqpError
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

    def __init__(self) -> None:
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


def made() -> tuple[Host, Transacting]:
    host = Host()
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


def test_what_comes_back_has_a_limit_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transacting, "MOST_RETURNED_BYTES", 1_500)
    host, subject = made()
    for _ in range(2):
        subject.returned([LOST])
    assert not host.failed
    subject.returned([LOST])
    (error,) = host.failed
    assert "1836 bytes of messages that no queue takes wait for the commit, above MOST_RETURNED_BYTES of 1500" in str(
        error
    )


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
