"""docs/protocol.md by a client written from it alone: numbers, bytes, pages and frames at their limits, and what is refused."""

from __future__ import annotations

import socket

import pytest

from tests.transport.independent.conftest import SECONDS, Bench, payloads

# What somebody missed, or found wrong, who wrote a client from the page


def test_numbers_end_at_two_to_the_63_less_one(bench: Bench) -> None:
    admin = bench.admin()
    assert admin.ping(2**63 - 1) == 2**63 - 1
    admin.write([bench.client.PING, 2**63])
    with pytest.raises(bench.client.Refused, match="protocol-error"):
        admin.read(bench.client.RESULT)


def test_generated_ids_begin_with_the_prefix_and_not_with_the_epoch(bench: Bench) -> None:
    sender, receiver = bench.sender(), bench.receiver()
    sender.send_payloads(b"a", b"b")
    receiver.request(2)
    prefix = receiver.options["id_prefix"]
    assert len(prefix) == 8
    assert [message.id for message in receiver.receive(2)] == [prefix + n.to_bytes(8, "big") for n in range(2)]


@pytest.mark.parametrize(("less", "allowed"), [(0, False), (1, True)])
def test_all_but_the_last_message_take_less_than_the_byte_demand(bench: Bench, less: int, allowed: bool) -> None:
    sender = bench.sender()
    sender.listen()
    # Without its last message the batch has two offsets and the first payload.
    first = bench.client.Outgoing(b"x" * (sender.bytes - 8 - less))
    described, body = bench.client.pack_batch([first, bench.client.Outgoing(b"y" * 5000)])
    sender.write([bench.client.SEND, 0, None, *described], body)
    sender.under_way.append(0)
    if allowed:
        sender.confirm()
    else:
        with pytest.raises(bench.client.Refused, match="demand-exceeded"):
            sender.confirm()


def test_a_batch_may_take_the_byte_demand_to_the_last_byte(bench: Bench) -> None:
    sender = bench.sender()
    sender.listen()
    described, body = bench.client.pack_batch(
        [bench.client.Outgoing(b"x" * (sender.bytes - 12 - 7)), bench.client.Outgoing(b"y" * 7)]
    )
    assert len(body) == sender.bytes
    sender.write([bench.client.SEND, 0, None, *described], body)
    sender.under_way.append(0)
    sender.confirm()


def test_the_offsets_of_what_is_delivered_count_as_bytes(bench: Bench) -> None:
    sender, receiver = bench.sender(), bench.receiver()
    sender.send_payloads(*[b"x" * 100] * 3)
    sender.confirm()
    receiver.request(3, 1)
    assert len(receiver.receive(1)) == 1
    # 8 bytes of offsets and 100 of payload: that is used up, not a byte less.
    receiver.request(0, 107)
    receiver.ping(7)
    receiver.request(0, 1)
    assert len(receiver.receive(1)) == 1


def test_what_is_confirmed_begins_again_where_a_client_sends_again(bench: Bench) -> None:
    first = bench.sender()
    for payload in (b"a", b"b", b"c"):
        first.send_payloads(payload)
    first.confirm()
    assert first.confirmed == 3
    first.close()
    again = bench.sender()
    assert again.last_sequence == 3
    # From any stored number on, and cut otherwise than before.
    again.sequence = 1
    again.send_payloads(b"b", b"c", b"d")
    again.confirm()
    again.sequence = 0
    again.send_payloads(b"a")
    again.confirm()
    assert again.confirmed == 1
    again.sequence = 9
    again.send_payloads(b"z")
    with pytest.raises(bench.client.Refused, match="protocol-error") as refused:
        again.confirm()
    assert "message 9 of this producer came where 4 had to" in str(refused.value)
    receiver = bench.receiver()
    receiver.request(9)
    assert payloads(receiver.receive(4)) == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize("ranges", [[], [0, 0], [0], [0, 1, 1]])
@pytest.mark.parametrize("kind", ["ACK", "NACK", "EXTEND"])
def test_answers_for_nothing_are_refused(bench: Bench, kind: str, ranges: list[int]) -> None:
    sender, receiver = bench.sender(), bench.receiver()
    sender.send_payloads(b"a", b"b")
    receiver.request(2)
    receiver.receive(2)
    receiver.write([getattr(bench.client, kind), ranges, *([] if kind == "ACK" else [10])])
    with pytest.raises(bench.client.Refused, match="protocol-error"):
        receiver.receive(1)


def test_a_frame_of_a_receiver_is_small_and_one_of_a_sender_may_be_large(bench: Bench) -> None:
    receiver = bench.receiver()
    assert receiver.options["max_frame"] == 16 * 2**20
    receiver.write([bench.client.PING, 1], b"x" * 8 * 1024)
    with pytest.raises(bench.client.Refused, match="frame-too-large"):
        receiver.receive(1)
    sender = bench.sender()
    sender.write([bench.client.PING, 1], b"x" * 100_000)
    with pytest.raises(bench.client.Refused, match="protocol-error"):
        sender.listen_for_ever()


@pytest.mark.parametrize(
    ("said", "what"),
    [(b"GET / HTTP/1.1\r\n\r\n", "an HTTP request"), (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "the hello of TLS")],
)
def test_another_protocol_is_answered_with_what_it_is(bench: Bench, said: bytes, what: str) -> None:
    host, port = bench.broker.send_address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), SECONDS) as stranger:
        stranger.sendall(said)
        answer = b""
        while part := stranger.recv(4096):
            answer += part
    assert what.encode() in answer


def test_lists_come_in_pages(bench: Bench) -> None:
    for number in range(5):
        bench.receiver(f"queue-{number}")
    admin = bench.admin()
    pages = admin.rows("queue.list", 2)
    assert [len(page) for page in pages] == [2, 2, 1]
    names = [row["name"] for page in pages for row in page]
    assert names == [row["name"] for row in admin.command("queue.list")] == [f"queue-{number}" for number in range(5)]
    assert {
        name: sum(map(len, admin.rows(name, 4)))
        for name in ("subscription.list", "transaction.list", "connection.list")
    } == {"subscription.list": 0, "transaction.list": 0, "connection.list": 6}
    assert admin.command("stats", lists=False).keys() == {"broker", "storage", "exchanges"}
