"""docs/protocol.md by a client written from it alone: delays, times to live, queues that reject, exclusive queues, transactions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.transport.independent.conftest import Bench, payloads


def test_a_delayed_batch_comes_after_its_delay_and_others_pass_it(bench: Bench, jump: Any) -> None:
    sender, receiver = bench.sender(), bench.receiver()
    sender.send([bench.client.Outgoing(b"later")], delay_ms=20_000)
    sender.send([bench.client.Outgoing(b"now")], delay_ms=0)
    sender.confirm()
    receiver.request(2)
    (first,) = receiver.receive(1)
    row = bench.admin().queue("orders")
    assert (row["ready"], row["delayed"]) == (0, 1)
    bench.broker.jump(jump, 20.0)
    (second,) = receiver.receive(1)
    assert [(message.payload, message.sequence, message.possibly_replayed) for message in (first, second)] == [
        (b"now", 1, False),
        (b"later", 0, False),
    ]


def test_a_batch_past_its_time_to_live_is_not_delivered(bench: Bench) -> None:
    sender, receiver = bench.sender(), bench.receiver()
    # The second is receivable when the first has had its time twice over.
    sender.send([bench.client.Outgoing(b"stale")], ttl_ms=40, delay_ms=60)
    sender.send([bench.client.Outgoing(b"fresh")], ttl_ms=60_000, delay_ms=80)
    sender.confirm()
    receiver.request(2)
    (message,) = receiver.receive(1)
    assert (message.payload, message.sequence) == (b"fresh", 1)
    assert receiver.ping(1) == 1


def test_a_queue_that_rejects_says_so_and_its_sender_uses_the_numbers_again(on_broker: Any) -> None:
    with on_broker(max_queue_messages=3, overflow="reject") as bench:
        sender, receiver = bench.sender(), bench.receiver()
        sender.send_payloads(b"a", b"b")
        sender.send_payloads(b"c")
        sender.confirm()
        sender.send_payloads(b"d", b"e")
        sender.send_payloads(b"f")
        sender.answered()
        assert sender.confirmed == 3
        assert len(sender.rejections) == 2
        assert all(len(text) > 10 for text in sender.rejections)
        assert sender.sequence == 3
        receiver.request(10)
        receiver.acknowledge(*receiver.receive(3))
        assert receiver.ping(1) == 1
        sender.rejections.clear()
        sender.send_payloads(b"g")
        sender.confirm()
        assert (sender.confirmed, sender.firsts[-1]) == (4, 3)
        assert payloads(receiver.receive(1)) == [b"g"]
        sender.close()
        assert bench.sender().last_sequence == 4


def test_what_was_sent_behind_a_rejected_batch_is_not_stored_even_where_there_is_room(on_broker: Any) -> None:
    with on_broker(max_queue_messages=3, overflow="reject") as bench:
        sender = bench.sender()
        sender.send_payloads(b"a", b"b")
        sender.send_payloads(b"c", b"d")
        # There is room for this one, but whoever sent it counts on what was before it.
        sender.send_payloads(b"e")
        sender.answered()
        assert (sender.confirmed, len(sender.rejections)) == (2, 2)
        again = bench.sender()
        assert again.last_sequence == 2


def test_the_second_receiver_of_an_exclusive_queue_is_told_that_it_waits(on_broker: Any) -> None:
    with on_broker(exclusive=True) as bench:
        sender, first, second = bench.sender(), bench.receiver(), bench.receiver()
        assert (first.waits_in_line, second.waits_in_line) == (False, True)
        sender.send_payloads(b"a", b"b")
        second.request(2)
        first.request(1)
        assert payloads(first.receive(1)) == [b"a"]
        first.close()
        assert [(message.payload, message.possibly_replayed) for message in second.receive(2)] == [
            (b"a", True),
            (b"b", False),
        ]


def test_what_is_staged_is_received_after_the_commit_and_what_lost_never(bench: Bench) -> None:
    winner, loser, other = bench.stage("0-0"), bench.stage("0-1"), bench.stage("0-0", queue="returns")
    for sender, payload in ((winner, b"won"), (loser, b"lost"), (other, b"too")):
        assert (sender.last_sequence, sender.options["committed"]) == (None, False)
        sender.send_payloads(payload, payload)
        sender.confirm()
    row = bench.admin().queue("orders")
    assert (row["ready"], row["staged_messages"]) == (0, 4)
    transaction = bench.transaction()
    assert transaction.last_version is None
    transaction.enlist("orders", "0-0", 2)
    transaction.enlist("returns", "0-0", 2)
    assert transaction.commit() == 4
    receiver, returns = bench.receiver(), bench.receiver("returns")
    receiver.request(10)
    returns.request(10)
    assert payloads(receiver.receive(2)) == [b"won", b"won"]
    assert payloads(returns.receive(2)) == [b"too", b"too"]
    row = bench.admin().queue("orders")
    assert (row["ready"], row["staged_messages"]) == (0, 0)


def test_a_commit_may_be_repeated_and_nothing_is_staged_for_a_committed_version(bench: Bench) -> None:
    bench.transaction(4).commit()
    again = bench.transaction(4)
    assert again.last_version == 4
    again.enlist("orders", "none", 7)
    assert again.commit() == 0
    late = bench.stage("0-0", version=3)
    assert late.options["committed"] is True
    # What is sent has to be granted first; if nothing is, nothing can be sent.
    late.messages, late.bytes = 1, 1
    late.send_payloads(b"x")
    with pytest.raises(bench.client.Refused, match="transaction-committed"):
        late.listen_for_ever()


def test_a_stage_goes_on_from_last_sequence_and_its_newest_connection_has_it(bench: Bench) -> None:
    first = bench.stage("0-0")
    first.send_payloads(b"a", b"b")
    first.confirm()
    second = bench.stage("0-0")
    assert second.last_sequence == 2
    with pytest.raises(bench.client.Refused, match="taken-over"):
        first.listen_for_ever()
    second.send_payloads(b"c")
    second.confirm()
    transaction = bench.transaction()
    transaction.enlist("orders", "0-0", 3)
    assert transaction.commit() == 3


def test_a_stage_that_is_not_as_enlisted_is_refused_and_nothing_is_committed(bench: Bench) -> None:
    stage = bench.stage("0-0")
    stage.send_payloads(b"a")
    stage.confirm()
    transaction = bench.transaction()
    transaction.enlist("orders", "0-0", 2)
    with pytest.raises(bench.client.Refused, match="transaction-incomplete") as refused:
        transaction.commit()
    assert not refused.value.close
    # After a refusal nothing is enlisted; the connection goes on.
    assert transaction.abort() == 1
    assert bench.transaction().last_version is None


def test_commands_list_and_abort_transactions(bench: Bench) -> None:
    stage = bench.stage("0-0", version=6)
    stage.send_payloads(b"a", b"b")
    stage.confirm()
    admin = bench.admin()
    (row,) = admin.command("transaction.list")
    assert (row["writer"], row["version"], row["messages"]) == ("w", 6, 2)
    assert admin.command("transaction.abort", writer="w", version=6)["discarded"] == 2
    assert admin.command("transaction.list") == []
