"""docs/protocol.md by a client written from it alone: subscriptions."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.transport.independent.conftest import Bench, payloads


def test_a_subscription_reserves_fetches_and_commits(bench: Bench) -> None:
    sender, subscription = bench.sender(), bench.subscription()
    sender.send_payloads(*[b"%d" % number for number in range(6)])
    sender.confirm()
    assert (subscription.subscription_epoch, subscription.base, subscription.high) == (1, 0, 0)
    end, facts = subscription.reserve(0, 4)
    assert end == 4
    assert facts["backlog"] == 2
    assert facts["high_water"] == 6
    assert set(facts) >= {"backlog", "backlog_bytes", "oldest_ms", "sender_demand", "high_water", "in_flight"}
    assert subscription.reserve(0, 10)[0] == 4, "what is reserved is the answer, nothing more is taken"
    fetched = subscription.fetch(0, 4)
    assert [(message.position, message.payload) for message in fetched] == [(n, b"%d" % n) for n in range(4)]
    assert payloads(subscription.fetch(1, 3)) == [b"1", b"2"]
    assert subscription.commit(3) == 3
    assert subscription.commit(2) == 3
    assert subscription.reserve(4, 10)[0] == 6
    assert payloads(subscription.fetch(3, 6)) == [b"3", b"4", b"5"]
    assert subscription.commit(6) == 6
    row = bench.admin().queue("orders")
    assert (row["ready"], row["reserved"], row["total_acknowledged"]) == (0, 0, 6)


def test_a_reservation_waits_for_the_first_message_and_answers_start_when_none_comes(bench: Bench) -> None:
    subscription = bench.subscription()
    began = time.monotonic()
    assert subscription.reserve(0, 5, wait_ms=50)[0] == 0
    assert time.monotonic() - began >= 0.045
    sender = bench.sender()
    sender.send_payloads(b"a")
    assert subscription.reserve(0, 5, wait_ms=10_000)[0] == 1


def test_reservations_outlive_their_connection_and_the_next_owner_has_a_greater_epoch(bench: Bench) -> None:
    sender, first = bench.sender(), bench.subscription()
    sender.send_payloads(b"a", b"b")
    assert first.reserve(0, 1, wait_ms=10_000)[0] == 1
    with pytest.raises(bench.client.Refused, match="subscription-owned"):
        bench.subscription()
    second = bench.subscription(take_over=True)
    assert (second.subscription_epoch, second.base, second.high) == (2, 0, 1)
    assert payloads(second.fetch(0, 1)) == [b"a"]
    with pytest.raises(bench.client.Refused, match="stale-epoch"):
        first.commit(1)


def test_only_who_begins_to_own_makes_a_queue_and_is_told_so(bench: Bench) -> None:
    for options in ({"must_exist": True}, {"epoch": 1}, {"mode": "read", "epoch": 1}):
        with pytest.raises(bench.client.Refused, match="not-found"):
            bench.subscription(queue="ordres", **options)
    first = bench.subscription(queue="ordres")
    assert first.options["created"] is True
    first.close()
    bench.sender("there")
    assert bench.subscription(queue="there", must_exist=True).options["created"] is False


@pytest.mark.parametrize("option", ["take_over", "must_exist"])
def test_a_flag_that_is_no_boolean_is_refused(bench: Bench, option: str) -> None:
    with pytest.raises(bench.client.Refused, match=f"protocol-error.*{option}"):
        bench.subscription(**{option: 1})


def test_readers_fetch_for_the_owner_and_only_with_its_epoch(bench: Bench) -> None:
    sender, owner = bench.sender(), bench.subscription()
    sender.send_payloads(b"a", b"b")
    sender.confirm()
    owner.reserve(0, 2)
    reader = bench.subscription(mode="read", epoch=owner.subscription_epoch)
    assert payloads(reader.fetch(0, 2)) == [b"a", b"b"]
    with pytest.raises(bench.client.Refused, match="stale-epoch"):
        bench.subscription(mode="read", epoch=owner.subscription_epoch + 1)


@pytest.mark.parametrize("request_of", [lambda s: s.reserve(5, 1), lambda s: s.fetch(0, 9), lambda s: s.commit(9)])
def test_positions_that_are_not_there_are_data_loss_naming_the_request(bench: Bench, request_of: Any) -> None:
    subscription = bench.subscription()
    with pytest.raises(bench.client.Refused, match="data-loss") as refused:
        request_of(subscription)
    # The page: "returned in the answer or in an ERROR's text".
    assert "request 1" in refused.value.text.lower()
    assert not refused.value.close


def test_latest_begins_with_what_comes_and_below_bounds_what_is_taken(bench: Bench) -> None:
    sender = bench.sender()
    sender.send_payloads(b"old")
    sender.confirm()
    subscription = bench.subscription(starting="latest")
    sender.send_payloads(b"new", b"newer")
    sender.confirm()
    assert subscription.reserve(0, 10, below=2)[0] == 1
    assert payloads(subscription.fetch(0, 1)) == [b"new"]


def test_a_released_subscription_gives_its_messages_back(bench: Bench) -> None:
    sender, subscription, admin = bench.sender(), bench.subscription(), bench.admin()
    sender.send_payloads(b"a", b"b")
    sender.confirm()
    assert subscription.reserve(0, 2)[0] == 2
    assert [row["name"] for row in admin.command("subscription.list")] == ["query"]
    with pytest.raises(bench.client.Refused, match="subscription-owned"):
        admin.command("subscription.release", queue="orders", name="query")
    assert admin.command("subscription.release", queue="orders", name="query", force=True)["released"] == 2
    receiver = bench.receiver()
    receiver.request(2)
    assert [(m.payload, m.possibly_replayed) for m in receiver.receive(2)] == [(b"a", True), (b"b", True)]
    with pytest.raises(bench.client.Refused, match="data-loss"):
        subscription.fetch(0, 2)


def test_what_nobody_owns_for_its_timeout_is_given_back(bench: Bench) -> None:
    sender, subscription = bench.sender(), bench.subscription(owner_timeout_ms=30)
    sender.send_payloads(b"a")
    sender.confirm()
    subscription.reserve(0, 1)
    subscription.close()
    receiver = bench.receiver()
    receiver.request(1)
    assert receiver.receive(1)[0].possibly_replayed
