"""Senders against a broker that says what a test needs said: that it forgot, lost or rejects."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from actors.batch import MessageBatch
from streams import Sink, Source
from streams.testkit import TestSource
from tests.transport.scripted_clients import QUICK, Client, scripted, until_end
from transport import Confirmation, LocalProtocolError, RemoteProtocolError, Sender
from transport.errors import ConfirmedLostError, QueueFullError
from transport.wire.messages import (
    Demand,
    Error,
    Frame,
    Send,
    Sent,
)
from transport.wire.timing import Timed

FULL = "the queue is full at 3 messages"

FOLLOWS = "it follows a batch that was rejected"


def payloads(frame: Send) -> list[bytes]:
    return frame.batch.payloads.tolist()


GRANT = Demand(1000, 1 << 20)


# A sender that comes back


def test_a_sender_is_told_when_the_broker_has_lost_what_it_confirmed(run: Any) -> None:
    heard: list[Frame] = []

    async def confirms(client: Client) -> None:
        await client.welcome(last_sequence=None)
        client.say(GRANT)
        await client.send()
        client.say(Sent(3, 0))
        await client.send()

    async def has_older_data(client: Client) -> None:
        await client.welcome(epoch=2, last_sequence=1)
        heard.extend(await until_end(client))

    async def main() -> None:
        async with scripted(confirms, has_older_data) as address:
            sender = Sender(address, queue="orders", client_id="till-7", max_batch_messages=3, reconnect=QUICK)
            with pytest.raises(ConfirmedLostError, match="'till-7' below 1, but had confirmed those below 3"):
                await Source.from_iterable([b"a", b"b", b"c", b"d"]).to(sender).run()
        assert [frame.code for frame in heard if isinstance(frame, Error)] == ["data-loss"]
        assert not any(isinstance(frame, Send) for frame in heard)

    run(main)


def test_a_broker_that_would_know_and_has_nothing_at_its_next_start_has_lost_what_it_confirmed(run: Any) -> None:
    async def confirms(client: Client) -> None:
        await client.welcome(last_sequence=None, remembers=True)
        client.say(GRANT)
        await client.send()
        client.say(Sent(3, 0))
        await client.send()

    async def lacks_it(client: Client) -> None:
        await client.welcome(epoch=2, last_sequence=None, remembers=True)
        await until_end(client)

    async def main() -> None:
        async with scripted(confirms, lacks_it) as address:
            sender = Sender(address, queue="orders", client_id="till-7", max_batch_messages=3, reconnect=QUICK)
            with pytest.raises(
                ConfirmedLostError, match=r"^queue orders: .*'till-7' below 0, .*below 3: .*lost, 3 of"
            ) as caught:
                await Source.from_iterable([b"a", b"b", b"c", b"d"]).to(sender).run()
        error = caught.value
        assert (error.client_id, error.stored, error.confirmed, error.where) == ("till-7", 0, 3, "queue orders")

    run(main)


def test_a_queue_that_was_deleted_while_its_broker_ran_is_no_loss(run: Any) -> None:
    async def confirms(client: Client) -> None:
        await client.welcome(last_sequence=None, remembers=True)
        client.say(GRANT)
        await client.send()
        client.say(Sent(1, 0))
        await client.send()

    async def made_anew(client: Client) -> None:
        await client.welcome(last_sequence=None, remembers=True)
        client.say(GRANT)
        await client.send()
        client.say(Sent(2, 0))
        await until_end(client)

    async def main() -> None:
        async with scripted(confirms, made_anew) as address:
            sender = Sender(address, queue="orders", max_batch_messages=1, reconnect=QUICK)
            summary = await Source.from_iterable([b"a", b"b"]).to(sender).run()
            assert (summary.messages, summary.reconnects) == (2, 1)

    run(main)


@pytest.mark.parametrize(
    ("epoch", "why"), [(2, "started anew without a journal"), (1, "the queue was deleted, or too many other producers")]
)
def test_a_sender_goes_on_where_the_broker_has_forgotten_it_and_says_so(
    run: Any, caplog: pytest.LogCaptureFixture, epoch: int, why: str
) -> None:
    sent: list[tuple[int, list[bytes]]] = []

    async def confirms(client: Client) -> None:
        await client.welcome(last_sequence=None)
        client.say(GRANT)
        await client.send()
        client.say(Sent(3, 0))
        await client.send()

    async def forgets(client: Client) -> None:
        await client.welcome(epoch=epoch, last_sequence=None)
        client.say(GRANT)
        frame = await client.send()
        sent.append((frame.sequence, payloads(frame)))
        client.say(Sent(4, 0))
        await until_end(client)

    async def main() -> None:
        async with scripted(confirms, forgets) as address:
            sender = Sender(address, queue="orders", max_batch_messages=3, reconnect=QUICK)
            summary = await Source.from_iterable([b"a", b"b", b"c", b"d"]).to(sender).run()
            assert (summary.messages, summary.resent, summary.reconnects) == (4, 1, 1)

    with caplog.at_level(logging.WARNING, "penstock.sender"):
        run(main)
    assert sent == [(3, [b"d"])]
    assert [why in record.getMessage() for record in caplog.records if record.name == "penstock.sender"] == [True]


def test_a_sender_that_begins_says_nothing_of_being_forgotten(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def breaks_off(client: Client) -> None:
        await client.welcome(last_sequence=None)

    async def confirms(client: Client) -> None:
        await client.welcome(epoch=2, last_sequence=None)
        client.say(GRANT)
        await client.send()
        client.say(Sent(1, 0))
        await until_end(client)

    async def main() -> None:
        async with scripted(breaks_off, confirms) as address:
            summary = await Source.of(b"a").to(Sender(address, queue="orders", reconnect=QUICK)).run()
            assert summary.messages == 1

    with caplog.at_level(logging.WARNING, "penstock.sender"):
        run(main)
    assert not [record for record in caplog.records if record.name == "penstock.sender"]


def test_a_sender_whose_name_another_used_meanwhile_fails_and_takes_nothing_for_confirmed(run: Any) -> None:
    async def takes(client: Client) -> None:
        await client.welcome(last_sequence=None)
        client.say(GRANT)
        await client.send()

    async def has_more(client: Client) -> None:
        await client.welcome(last_sequence=50)
        await until_end(client)

    async def main() -> None:
        async with scripted(takes, has_more) as address:
            confirmed: list[Confirmation] = []
            flow = Sender(address, queue="orders", reconnect=QUICK)
            with pytest.raises(RemoteProtocolError, match="client id of its own"):
                await Source.of(b"a").via(flow).to(Sink.foreach(confirmed.append)).run()
            assert confirmed == []

    run(main)


# Rejection


def test_a_rejected_batch_fails_the_stream_and_what_was_confirmed_before_it_is_known(run: Any) -> None:
    async def rejects(client: Client) -> None:
        await client.welcome(last_sequence=None)
        client.say(GRANT)
        for answer in (Sent(2, 0), Sent(4, None, FULL)):
            await client.send()
            client.say(answer)
        await until_end(client)

    async def main() -> None:
        async with scripted(rejects) as address:
            confirmed: list[Confirmation] = []
            flow = Sender(address, queue="orders", max_batch_messages=2)
            source = Source.from_iterable([b"a", b"b", b"c", b"d", b"e"])
            with pytest.raises(
                QueueFullError, match="'orders' rejected 2 messages from number 2 on: the queue is full"
            ) as caught:
                await source.via(flow).to(Sink.foreach(confirmed.append)).run()
            error = caught.value
            assert (error.queue, error.sequence, error.messages, error.reason) == ("orders", 2, 2, FULL)
            assert confirmed == [Confirmation(0, 2, 0)]

    run(main)


def test_a_failing_sender_stops_its_source(run: Any) -> None:
    async def rejects(client: Client) -> None:
        await client.welcome(last_sequence=None)
        client.say(GRANT)
        await client.send()
        client.say(Sent(1, None, FULL))
        await until_end(client)

    async def main() -> None:
        async with scripted(rejects) as address:
            source: TestSource[bytes] = TestSource()
            running = source.to(Sender(address, queue="orders")).run()
            await source.probe.expect_request()
            source.probe.send_next(b"a")
            await source.probe.expect_cancellation()
            with pytest.raises(QueueFullError):
                await running

    run(main)


def test_a_sender_told_to_drop_goes_on_with_the_same_numbers_and_counts(run: Any) -> None:
    sent: list[tuple[int, list[bytes]]] = []

    async def rejects_for_a_while(client: Client) -> None:
        await client.welcome(last_sequence=None)
        client.say(Demand(4, 1 << 20))
        first, second = await client.send(), await client.send()
        # Only now, so that both are under way: what follows a rejected batch is rejected with it.
        client.say(Sent(2, None, FULL), Sent(4, None, FOLLOWS), GRANT)
        third = await client.send()
        client.say(Sent(1, 0))
        sent.extend((frame.sequence, payloads(frame)) for frame in (first, second, third))
        await until_end(client)

    async def main() -> None:
        async with scripted(rejects_for_a_while) as address:
            sender = Sender(address, queue="orders", max_batch_messages=2, on_rejected="drop")
            summary = await Source.from_iterable([b"a", b"b", b"c", b"d", b"e"]).to(sender).run()
            assert (summary.messages, summary.rejected) == (1, 4)

    run(main)
    assert sent == [(0, [b"a", b"b"]), (2, [b"c", b"d"]), (0, [b"e"])]


def test_a_flow_told_to_drop_reports_each_rejection_in_its_place(run: Any) -> None:
    async def rejects(client: Client) -> None:
        await client.welcome(last_sequence=None)
        client.say(GRANT)
        await client.send()
        client.say(Sent(1, None, FULL))
        await client.send()
        client.say(Sent(1, 7))
        await until_end(client)

    async def main() -> None:
        async with scripted(rejects) as address:
            flow = Sender(address, queue="orders", max_batch_messages=1, max_in_flight=1, on_rejected="drop")
            confirmations = await Source.of(b"a", b"b").via(flow).to(Sink.collect()).run()
            assert confirmations == [Confirmation(0, 1, None, FULL), Confirmation(0, 1, 7)]

    run(main)


def test_a_sender_is_told_what_it_may_do_with_rejections() -> None:
    with pytest.raises(LocalProtocolError, match="on_rejected is 'retry', not 'fail' or 'drop'"):
        Sender(queue="q", on_rejected="retry")  # type: ignore[arg-type]  # a wrong one is what the test is about


# Timing


def test_a_senders_timing_and_its_elements_own_leave_as_properties(run: Any) -> None:
    sent: list[tuple[list[bytes], Any]] = []

    async def takes(client: Client) -> None:
        await client.welcome(last_sequence=None)
        client.say(GRANT)
        up_to = 0
        while up_to < 4:
            frame = await client.send()
            sent.append((payloads(frame), frame.properties))
            up_to = frame.sequence + len(frame.batch)
            client.say(Sent(up_to, frame.sequence))
        await until_end(client)

    async def main() -> None:
        async with scripted(takes) as address:
            elements: list[Any] = [
                b"a",
                Timed(b"b", delay=60),
                Timed(MessageBatch.from_payloads([b"c"]), ttl=0.5),
                b"d",
            ]
            sender = Sender(address, queue="orders", ttl=3600)
            assert (await Source.from_iterable(elements).to(sender).run()).messages == 4

    run(main)
    assert sent == [
        ([b"a"], {"ttl_ms": 3_600_000}),
        ([b"b"], {"delay_ms": 60_000, "ttl_ms": 3_600_000}),
        ([b"c"], {"ttl_ms": 500}),
        ([b"d"], {"ttl_ms": 3_600_000}),
    ]


def test_a_timing_that_cannot_be_is_refused_when_the_sender_is_made() -> None:
    with pytest.raises(LocalProtocolError, match="delay is 31622401"):
        Sender(queue="q", delay=31_622_401)
    with pytest.raises(LocalProtocolError, match="ttl is -1"):
        Sender(queue="q", ttl=-1)
