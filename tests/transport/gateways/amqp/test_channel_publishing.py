"""`transport.gateways.amqp.channel_publishing`: rooms, cuts, rejections and what comes back, against a sender that does as it likes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actors import OfferBatch
from actors.queue.vocabulary.commands import CaughtUp, ExplainWait
from actors.queue.vocabulary.distributed import RoomAwaited, Unroutable
from actors.queue.vocabulary.replies import CapacityGranted, SentMessages, WaitExplained
from transport.gateways.amqp import channel_publishing
from transport.gateways.amqp.basic_methods import BasicPublish
from transport.gateways.amqp.channel_publishing import NoLineError, Publishing
from transport.gateways.amqp.confirms import Confirms
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.events import Published
from transport.gateways.amqp.properties import NO_PROPERTIES
from transport.gateways.amqp.publishing_line import PIECE_BYTES, WHY_LARGE, Returned
from transport.gateways.amqp.reply_codes import ReplyCode
from transport.gateways.amqp.waiting_total import LARGE_BYTES

LARGE = 1 << 40


class Sender:
    """The actor of one exchange: it grants room, stores in order, and rejects what a test has it reject."""

    def __init__(self, port: Any, stored: list[bytes]) -> None:
        self.port = port
        self.stored = stored
        self.offers: deque[Any] = deque()
        self.expected = 0
        self.rejected_at: int | None = None
        self.stopped = False
        self.room = 0
        # The number of the first that waits for room.
        self.waits_from: int | None = None

    def deliver(self, message: Any) -> None:
        assert not self.stopped, "it was told to end"
        assert self.waits_from is None or not isinstance(message, OfferBatch), "it has no room"
        self.offers.append(message)
        if isinstance(message, OfferBatch):
            self.room -= len(message.batch)
            assert self.room >= 0, "more than it has room for"

    def stop_nowait(self) -> None:
        self.stopped = True

    def grant(self, messages: int, size: int = LARGE) -> None:
        self.room += messages
        self.port.tell(CapacityGranted(messages, size))

    @property
    def stands(self) -> bool:
        """Whether what it would answer first waits for room, or stands behind that."""
        offered = [each.sequence for each in self.offers if isinstance(each, OfferBatch)]
        return self.waits_from is not None and offered[0] >= self.waits_from

    def wait(self, at: int) -> None:
        """One of what it was offered waits for room."""
        self.waits_from = [each.sequence for each in self.offers if isinstance(each, OfferBatch)][at]
        self.port.tell(RoomAwaited(self.waits_from))

    def go_on(self) -> None:
        """There is room again."""
        self.waits_from = None
        self.port.tell(RoomAwaited(None))

    def answer(self, *, rejects: bool = False, unroutable: Sequence[int] = ()) -> None:
        """Answer the first of what it was told; behind something that is rejected all is, until its number comes again."""
        message = self.offers.popleft()
        if isinstance(message, CaughtUp):
            self.port.caught_up()
            return
        sequence, batch = message.sequence, message.batch
        stop = sequence + len(batch)
        if self.rejected_at is not None and sequence == self.rejected_at and not rejects:
            self.rejected_at = None
        if self.rejected_at is None and not rejects:
            assert sequence == self.expected, "a gap"
            self.expected = stop
            self.stored += [bytes(each) for each in batch.payloads.tolist()]
            if unroutable:
                self.port.tell(Unroutable(tuple((sequence + at, 1) for at in unroutable), "no queue"))
            self.port.tell(SentMessages(stop, None, None))
        else:
            if self.rejected_at is None:
                assert sequence == self.expected, "a gap"
                self.rejected_at = sequence
            self.port.tell(SentMessages(stop, None, "full"))


class Host:
    """The channel."""

    user = None

    def __init__(self, link: Any = None) -> None:
        self.link = link or SimpleNamespace(lines=0)
        self.senders: dict[str, Sender] = {}
        self.stored: dict[str, list[bytes]] = {}
        self.back: list[Returned] = []
        self.failures: list[tuple[str, str]] = []
        self.due = False
        self.changes = 0

    def publisher(self, exchange: str, port: Any, *, mandatory: bool) -> Any:
        self.senders[exchange] = Sender(port, self.stored.setdefault(exchange, []))
        return self.senders[exchange]

    def answers_due(self) -> None:
        self.due = True

    def returned(self, messages: Sequence[Returned]) -> None:
        self.back += messages

    def publishing_failed(self, code: str, text: str) -> None:
        self.failures.append((code, text))

    def waiting_changed(self) -> None:
        self.changes += 1

    def check_waiting(self, more: int, *, counted: bool = False) -> None:
        raise AssertionError(f"{more} bytes are not large, or about to go, {counted}")

    def fail(self, error: AmqpError) -> None:
        raise AssertionError(error)

    def explained(self, text: str | None) -> None:
        raise AssertionError(text)


def published(*messages: tuple[str, bytes]) -> Published:
    """Messages with their exchanges."""
    methods = [BasicPublish(exchange=exchange, routing_key="k") for exchange, _ in messages]
    bodies: list[Any] = [body for _, body in messages]
    return Published(1, methods, [NO_PROPERTIES] * len(bodies), bodies, sum(map(len, bodies)))


def publishing(*, confirms: bool = True) -> tuple[Publishing, Host]:
    host = Host()
    made = Publishing(cast("Any", host))
    made.confirms = Confirms() if confirms else None
    return made, host


class Model(RuleBasedStateMachine):
    """Two exchanges. Each message is stored once and in order, or rejected, and its client hears which."""

    def __init__(self) -> None:
        super().__init__()
        self.subject, self.host = publishing()
        self.sent: list[tuple[str, bytes]] = []
        self.heard: dict[int, bool] = {}
        self.marks = 0
        self.when_marked: set[bytes] = set()

    @rule(data=st.data(), count=st.integers(1, 5))
    def publish(self, data: st.DataObject, count: int) -> None:
        new = []
        for _ in range(count):
            new.append((data.draw(st.sampled_from("ab")), b"%d" % (len(self.sent) + len(new))))
        self.sent += new
        self.subject.publish(published(*new))

    @rule(data=st.data(), messages=st.integers(1, 4), few_bytes=st.booleans())
    def grant(self, data: st.DataObject, messages: int, few_bytes: bool) -> None:
        if self.host.senders:
            sender = self.host.senders[data.draw(st.sampled_from(sorted(self.host.senders)))]
            sender.grant(messages, 10 if few_bytes else LARGE)

    @rule(data=st.data(), rejects=st.booleans())
    def answer(self, data: st.DataObject, rejects: bool) -> None:
        ready = sorted(name for name, sender in self.host.senders.items() if sender.offers and not sender.stands)
        if ready:
            self.host.senders[data.draw(st.sampled_from(ready))].answer(rejects=rejects)
            self.hear()

    @rule(data=st.data())
    def room_is_awaited_or_comes(self, data: st.DataObject) -> None:
        for name, sender in sorted(self.host.senders.items()):
            offered = sum(isinstance(each, OfferBatch) for each in sender.offers)
            if sender.waits_from is not None and data.draw(st.booleans(), label=f"{name} goes on"):
                sender.go_on()
            elif offered and sender.waits_from is None and sender.rejected_at is None:
                sender.wait(data.draw(st.integers(0, offered - 1)))

    @rule()
    def mark(self) -> None:
        self.marks = 1
        self.when_marked = {body for _, body in self.sent}
        self.subject.when_stored(self.marked)

    def marked(self) -> None:
        self.marks = 0
        done = {body for stored in self.host.stored.values() for body in stored}
        self.hear()
        done |= {self.sent[number - 1][1] for number, stored in self.heard.items() if not stored}
        assert self.when_marked <= done, "a mark overtook a message"

    def hear(self) -> None:
        assert self.subject.confirms is not None
        for tag, multiple, stored in self.subject.confirms.answers():
            for number in range(1 if multiple else tag, tag + 1):
                self.heard.setdefault(number, stored)

    @rule()
    def all_is_done(self) -> None:
        for sender in self.host.senders.values():
            if sender.waits_from is not None:
                sender.go_on()
        for _ in range(10_000):
            busy = [sender for sender in self.host.senders.values() if sender.offers]
            for sender in busy:
                sender.answer()
            if not busy:
                if not self.subject.unstored:
                    break
                for sender in self.host.senders.values():
                    sender.grant(100)
        self.hear()
        assert not self.subject.owed
        assert self.subject.waiting_bytes == 0
        assert self.marks == 0
        assert sorted(self.heard) == list(range(1, len(self.sent) + 1))
        for name in "ab":
            expected = [
                body for number, (exchange, body) in enumerate(self.sent, 1) if exchange == name and self.heard[number]
            ]
            assert self.host.stored.get(name, []) == expected

    @invariant()
    def what_waits_is_counted(self) -> None:
        waiting = 0
        for (name, _), line in self.subject._lines.items():
            first = self.host.senders[name].waits_from
            offered = [each for each in self.host.senders[name].offers if isinstance(each, OfferBatch)]
            held = [each.batch.nbytes + PIECE_BYTES for each in offered if first is not None and each.sequence >= first]
            waiting += sum(piece.size for piece in [*line._waiting, *line._back]) + sum(held)
            assert line.waits == bool(line._waiting or held)
        assert self.subject.waiting_bytes == waiting
        assert not self.host.failures


TestPublishing = Model.TestCase
TestPublishing.settings = settings(max_examples=100, stateful_step_count=40)


def test_nothing_is_offered_without_room_and_a_piece_is_cut_where_there_is_little() -> None:
    subject, host = publishing()
    subject.publish(published(*(("a", b"%d" % number) for number in range(5))))
    sender = host.senders["a"]
    assert not sender.offers
    assert subject.waiting_bytes >= PIECE_BYTES
    sender.grant(2)
    (offer,) = sender.offers
    assert offer.batch.payloads.tolist() == [b"0", b"1"]
    sender.grant(10)
    assert [each.sequence for each in sender.offers] == [0, 2]
    assert subject.waiting_bytes == 0


def test_the_answer_to_a_mark_is_not_taken_for_that_to_the_next() -> None:
    """A queue was found without a message that had been published before: the answer to a mark of before it came."""
    subject, host = publishing()
    done: list[int] = []
    for number in range(2):
        subject.publish(published(("a", b"%d" % number)))
        if not number:
            host.senders["a"].grant(2)
        subject.when_stored(lambda number=number: done.append(number))
    sender = host.senders["a"]
    assert [type(each) for each in sender.offers] == [OfferBatch, CaughtUp] * 2
    for _ in range(3):
        sender.answer()
        assert done == []
    sender.answer()
    assert done == [1]


def test_a_mark_does_not_overtake_what_is_sent_again_though_it_was_sent_before_that() -> None:
    subject, host = publishing()
    for number in range(2):
        subject.publish(published(("a", b"%d" % number)))
    sender = host.senders["a"]
    sender.grant(10)
    done: list[bytes] = []
    subject.when_stored(lambda: done.extend(host.stored["a"]))
    sender.answer(rejects=True)
    sender.answer()
    assert [type(each) for each in sender.offers] == [CaughtUp, OfferBatch]
    sender.answer()
    assert done == []
    sender.answer()
    sender.answer()
    assert done == [b"1"]


def test_empty_messages_that_wait_take_room_too() -> None:
    """A channel that publishes empty messages one by one would have filled the memory before it was held."""
    subject, _ = publishing(confirms=False)
    for _ in range(100):
        subject.publish(published(("a", b"")))
    assert subject.waiting_bytes >= 100 * PIECE_BYTES


def test_what_no_queue_takes_comes_back_whatever_is_on_its_way_behind_it() -> None:
    subject, host = publishing()
    for number in range(3):
        subject.publish(published(("a", b"%d" % number), ("a", b"%d+" % number)))
    sender = host.senders["a"]
    sender.grant(100)
    sender.answer()
    sender.answer(unroutable=[1])
    sender.answer(unroutable=[0])
    assert [each.body for each in host.back] == [b"1+", b"2"]
    assert {(each.exchange, bytes(each.routing_key)) for each in host.back} == {("a", b"k")}


def test_a_line_more_than_there_may_be_waits_for_one_that_has_stored_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_publishing, "MOST_LINES", 2)
    subject, host = publishing()
    with pytest.raises(NoLineError) as caught:
        subject.publish(published(("a", b"1"), ("b", b"2"), ("c", b"3"), ("c", b"4")))
    rest = caught.value.rest
    assert (rest.bodies, rest.size) == ([b"3", b"4"], 2 + 2 * len(NO_PROPERTIES))
    done: list[str] = []

    def again() -> None:
        subject.publish(rest)
        done.append("again")

    subject.when_free(again)
    for name in "ba":
        host.senders[name].grant(1)
    assert not done
    host.senders["b"].answer()
    assert done == ["again"]
    assert host.senders["b"].stopped
    assert not host.senders["a"].stopped
    host.senders["c"].grant(2)
    host.senders["c"].answer()
    assert host.stored["c"] == [b"3", b"4"]


def test_where_a_connection_has_many_lines_each_of_its_channels_has_one_and_gives_it_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(channel_publishing, "MOST_LINES_OF_CONNECTION", 2)
    link = SimpleNamespace(lines=0)
    first, second = Host(link), Host(link)
    one, other = Publishing(cast("Any", first)), Publishing(cast("Any", second))
    one.publish(published(("a", b"1"), ("b", b"2")))
    other.publish(published(("a", b"3")))
    assert link.lines == 3
    with pytest.raises(NoLineError) as caught:
        other.publish(published(("b", b"4")))
    second.senders["a"].grant(1)
    second.senders["a"].answer()
    other.publish(caught.value.rest)
    assert second.senders["a"].stopped
    assert link.lines == 3
    one.end()
    assert link.lines == 1
    second.senders["b"].grant(1)
    second.senders["b"].answer()
    second.senders["b"].port.refused("not-found", "it is deleted", False)
    assert link.lines == 0


@pytest.mark.parametrize("busy", [True, False])
def test_an_exchange_that_is_gone_fails_the_channel_only_where_something_was_on_its_way(busy: bool) -> None:
    subject, host = publishing()
    subject.publish(published(("a", b"1")))
    first = host.senders["a"]
    first.grant(1)
    if not busy:
        first.answer()
    first.port.refused("not-found", "no exchange", close=True)
    assert host.failures == ([("not-found", "no exchange")] if busy else [])
    if not busy:
        assert first.stopped
        subject.publish(published(("a", b"2")))
        assert host.senders["a"] is not first


def test_a_channel_that_is_over_drops_what_waits_and_hears_nothing_more() -> None:
    subject, host = publishing()
    called: list[Callable[[], None]] = []
    subject.publish(published(("a", b"1")))
    subject.when_stored(lambda: called.append(lambda: None))
    subject.end()
    assert host.senders["a"].stopped
    assert subject.waiting_bytes == 0
    host.senders["a"].port.refused("shutting-down", "it ends", close=True)
    host.senders["a"].port.caught_up()
    assert (host.failures, called) == ([], [])


def test_what_waits_for_room_when_the_broker_ends_is_rejected_and_what_was_offered_is_asked_for() -> None:
    """A client that publishes into a full queue held the broker up for as long as it may wait."""
    subject, host = publishing()
    for number in range(3):
        subject.publish(published(("a", b"%d" % number)))
    sender = host.senders["a"]
    sender.grant(1)
    subject.wait_no_more()
    assert subject.confirms is not None
    assert [(each.tag, each.stored) for each in subject.confirms.answers()] == [(2, False), (3, False)]
    assert [type(each) for each in sender.offers] == [OfferBatch, CaughtUp]
    assert sender.offers[1].answered
    assert subject.owed
    sender.answer()
    assert [(each.tag, each.stored) for each in subject.confirms.answers()] == [(1, True)]
    assert not subject.owed


def test_of_a_transaction_nothing_that_waits_is_left_out_at_the_brokers_end() -> None:
    host = Host()
    subject = Publishing(cast("Any", host))
    subject.transacted = True
    for number in range(2):
        subject.publish(published(("a", b"%d" % number)))
    sender = host.senders["a"]
    sender.grant(1)
    subject.wait_no_more()
    assert host.failures == [("shutting-down", "the broker is stopping; connect again later")]
    assert [type(each) for each in sender.offers] == [OfferBatch]
    # What has come where it goes waits for the disk alone.
    host.failures.clear()
    sender.grant(1)
    subject.wait_no_more()
    assert host.failures == []
    assert [type(each) for each in sender.offers] == [OfferBatch, OfferBatch, CaughtUp]


class Refusing(Host):
    """A channel beside others, who have taken the memory or not."""

    def __init__(self, *, full: bool) -> None:
        super().__init__()
        self.full = full
        self.asked: list[tuple[int, bool]] = []
        self.ends: list[AmqpError] = []

    def check_waiting(self, more: int, *, counted: bool = False) -> None:
        self.asked.append((more, counted))
        if self.full:
            raise AmqpError(ReplyCode.CONTENT_TOO_LARGE, "too much")

    def fail(self, error: AmqpError) -> None:
        self.ends.append(error)


def counted_as(body: bytes) -> int:
    """Bytes that a message is, with all that it takes, while it waits."""
    subject, _ = publishing()
    subject.publish(published(("a", body)))
    return subject.waiting_bytes


MUCH = bytes(LARGE_BYTES)
ONE = counted_as(b"1")
SIZE = counted_as(MUCH)


def test_what_was_offered_and_waits_counts_until_it_goes_on_and_what_comes_is_not_offered() -> None:
    subject, host = publishing()
    sent = [b"%d" % number for number in range(4)]
    for body in sent[:3]:
        subject.publish(published(("a", body)))
    sender = host.senders["a"]
    sender.grant(10)
    assert subject.waiting_bytes == 0
    changes = host.changes
    sender.wait(1)
    assert subject.waiting_bytes == 2 * ONE
    assert host.changes == changes + 1
    assert subject.explain()
    assert isinstance(sender.offers.pop(), ExplainWait)
    subject.publish(published(("a", sent[3])))
    sender.answer()
    assert subject.waiting_bytes == 3 * ONE
    sender.go_on()
    assert subject.waiting_bytes == 0
    assert not subject.explain()
    while sender.offers:
        sender.answer()
    assert host.stored["a"] == sent


@pytest.mark.parametrize("transacted", [True, False])
def test_what_was_offered_and_waits_when_the_broker_ends_is_left_to_its_sender_unless_it_is_a_transactions(
    transacted: bool,
) -> None:
    host = Host()
    subject = Publishing(cast("Any", host))
    subject.transacted = transacted
    subject.publish(published(("a", b"1")))
    sender = host.senders["a"]
    sender.grant(1)
    sender.wait(0)
    subject.wait_no_more()
    assert [code for code, _ in host.failures] == ["shutting-down"] * transacted
    assert [type(each) for each in sender.offers] == [OfferBatch, CaughtUp][: 2 - transacted]
    assert subject.waiting_bytes == ONE


def test_what_waits_elsewhere_when_it_might_have_gone_on_counts_from_there() -> None:
    subject, host = publishing()
    for number in range(3):
        subject.publish(published(("a", b"%d" % number)))
    sender = host.senders["a"]
    sender.grant(10)
    for waits in (3, 1, 2):
        sender.wait(3 - waits)
        assert subject.waiting_bytes == waits * ONE


@pytest.mark.parametrize("how", ["end", "refused"])
def test_what_was_offered_and_waits_counts_no_more_when_its_line_is_over(how: str) -> None:
    subject, host = publishing()
    subject.publish(published(("a", b"1")))
    sender = host.senders["a"]
    sender.grant(10)
    sender.wait(0)
    if how == "end":
        subject.end()
    else:
        sender.port.refused("shutting-down", "it ends", close=True)
    assert subject.waiting_bytes == 0
    sender.port.tell(RoomAwaited(0))
    assert subject.waiting_bytes == 0


@pytest.mark.parametrize("full", [True, False])
def test_a_large_one_that_was_offered_and_waits_ends_its_channel_where_others_have_the_memory(full: bool) -> None:
    host = Refusing(full=full)
    subject = Publishing(cast("Any", host))
    subject.publish(published(("a", b"1")))
    sender = host.senders["a"]
    sender.grant(3)
    for body in (MUCH, b"3"):
        subject.publish(published(("a", body)))
    assert host.asked == []
    sender.wait(1)
    held = SIZE + ONE
    assert host.asked == [(held, True)]
    assert [error.reply_code for error in host.ends] == [ReplyCode.CONTENT_TOO_LARGE] * full
    assert (sender.stopped, subject.unstored, subject.waiting_bytes) == (full, not full, 0 if full else held)
    # What its sender says yet hurts nobody.
    sender.answer()
    if full:
        assert (sender.waits_from, sender.stands) == (1, True)
        sender.answer()
    assert host.stored["a"] == ([b"1", MUCH] if full else [b"1"])


def test_small_ones_that_were_offered_wait_whoever_has_the_memory() -> None:
    host = Refusing(full=True)
    subject = Publishing(cast("Any", host))
    subject.publish(published(("a", b"1")))
    host.senders["a"].grant(1)
    host.senders["a"].wait(0)
    assert (host.asked, host.ends, subject.unstored) == ([], [], True)


@pytest.mark.parametrize("reason", ["full", None])
def test_a_large_one_that_comes_by_itself_is_refused_when_its_queue_has_said_that_it_is_full(
    reason: str | None,
) -> None:
    """The first of a channel was refused whatever room its queue had: nothing is granted before its sender has begun."""
    host = Refusing(full=True)
    subject = Publishing(cast("Any", host))
    subject.publish(published(("a", MUCH)))
    sender = host.senders["a"]
    (asked,) = sender.offers
    assert isinstance(asked, ExplainWait)
    assert (asked.request, host.asked) == (WHY_LARGE, [])
    sender.port.tell(WaitExplained(asked.request, reason, "the reason"))
    assert host.asked == [(SIZE, True)] * (reason is not None)
    assert (len(host.ends), sender.stopped, subject.waiting_bytes) == ((1, True, 0) if reason else (0, False, SIZE))


def test_one_that_has_gone_by_the_time_that_its_queue_has_answered_is_not_refused() -> None:
    host = Refusing(full=True)
    subject = Publishing(cast("Any", host))
    subject.publish(published(("a", MUCH)))
    host.senders["a"].grant(1)
    host.senders["a"].port.tell(WaitExplained(WHY_LARGE, "full", "the reason"))
    assert (host.asked, host.ends, subject.unstored) == ([], [], True)
