"""Messages over HTTP: what is published is stored, what is taken is held, and a receipt says what became of it."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from pathlib import Path
from typing import Any

import pytest

from actors.batch import Message, MessageBatch
from streams import Sink, Source
from tests.actors.publishing_bench import Client
from tests.actors.stored_queues import turns
from transport import Receiver, Sender
from transport.clients.sender_batches import MAX_BATCH_BYTES
from transport.gateways.http import requests
from transport.gateways.http.requests import MAX_BODY_BYTES, MOST_VALUES

Q = "/api/v1/queues/orders"

pytestmark = pytest.mark.event_loop


@pytest.fixture(params=["in memory", "on disk"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    return {} if request.param == "in memory" else {"directory": str(tmp_path)}


def test_a_message_comes_back_as_it_was_sent(run: Any, api: Any, stored: dict[str, Any]) -> None:
    binary = bytes(range(256))

    async def main() -> None:
        async with api(**stored) as http:
            sent: list[dict[str, Any]] = [
                {"payload": "tea", "key": "ann", "headers": {"table": "7", "raw": {"base64": "/w=="}}},
                {"payload_base64": base64.b64encode(binary).decode(), "id": "0" * 31 + "1"},
                {"payload": ""},
            ]
            assert await http.ask("POST", f"{Q}/messages", {"messages": sent}) == (201, {"numbers": [0, 1, 2]})
            assert await http.ask("POST", f"{Q}/messages", {"payload": "one"}) == (201, {"numbers": [3]})
            first, second, third, fourth = await http.take()
            assert {name: first[name] for name in sent[0]} == sent[0]
            assert (second["payload_base64"], second["id"]) == (sent[1]["payload_base64"], sent[1]["id"])
            assert (third["payload"], fourth["payload"]) == ("", "one")
            assert [each["number"] for each in (first, second, third, fourth)] == [0, 1, 2, 3]
            assert all((each["deliveries"], each["possibly_replayed"]) == (1, False) for each in (first, fourth))

    run(main)


def test_bytes_of_any_type_are_a_message_of_their_own(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            headers = {"Content-Type": "application/octet-stream"}
            path = f"{Q}/messages?key=ann&delay=0"
            async with http.session.post(path, data=b"\x00\xff", headers=headers) as answer:
                assert answer.status == 201
            async with http.session.post(f"{Q}/take", headers={"Accept": "application/octet-stream"}) as answer:
                assert (answer.status, await answer.read()) == (200, b"\x00\xff")
                assert (answer.headers["Penstock-Key"], answer.headers["Penstock-Number"]) == ("ann", "0")
                receipt = answer.headers["Penstock-Receipt"]
            assert await http.settle("acknowledge", receipt) == (200, {"settled": 1, "problems": []})
            async with http.session.post(f"{Q}/take", headers={"Accept": "application/octet-stream"}) as answer:
                assert (answer.status, await answer.read()) == (204, b"")

    run(main)


@pytest.mark.parametrize(
    ("key", "told"),
    [("k" * 4096, True), ("k" * 4097, False), ("k\r\nSet-Cookie: a=b", False), ("k\u00e9", False), ("\0", False)],
    ids=["the longest", "longer", "a line of its own", "no ASCII", "nothing that is printed"],
)
def test_a_key_that_no_header_should_have_is_left_out_of_them_and_stays_with_the_message(
    run: Any, api: Any, key: str, told: bool
) -> None:
    async def main() -> None:
        async with api() as http:
            assert (await http.ask("POST", f"{Q}/messages", {"payload": "tea", "key": key}))[0] == 201
            async with http.session.post(f"{Q}/take", headers={"Accept": "application/octet-stream"}) as answer:
                assert (answer.status, await answer.read()) == (200, b"tea")
                assert answer.headers.get("Penstock-Key") == (key if told else None)
                assert "Set-Cookie" not in answer.headers
                receipt = answer.headers["Penstock-Receipt"]
            await http.settle("return", receipt)
            (again,) = await http.take()
            assert again["key"] == key

    run(main)


def test_natives_and_http_have_the_same_queue(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            await Source.single(b"native").to(Sender(http.broker.send_address, queue="orders")).run()
            (taken,) = await http.take(wait=30)
            assert taken["payload"] == "native"
            await http.settle("acknowledge", taken["receipt"])
            await http.publish("by http")
            got = await Receiver(http.broker.receive_address, queue="orders", limit=1).to(Sink.head()).run()
            assert got.payload == b"by http"

    run(main)


def test_a_take_waits_for_its_first_message_and_no_longer(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            await http.publish("before")
            assert [each["payload"] for each in await http.take()] == ["before"]
            assert await http.take(wait="20ms") == []
            waiting = asyncio.create_task(http.take(wait="30s"))
            await http.publish("after")
            assert [each["payload"] for each in await waiting] == ["after"]

    run(main)


def test_a_receipt_settles_once_and_each_wrong_one_is_refused_by_name(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            await http.publish("a", "b", "c")
            await http.publish("x", queue="other")
            first, second, third = await http.take(visibility="10s")
            (foreign,) = await http.take("other")
            assert (await http.settle("acknowledge", first["receipt"]))[0] == 200
            for receipt, status, code in (
                (first["receipt"], 410, "receipt-gone"),
                (foreign["receipt"], 409, "foreign-receipt"),
                (first["receipt"][:-1] + "!", 400, "invalid-receipt"),
                ("", 400, "invalid-receipt"),
            ):
                answered, problem = await http.settle("acknowledge", receipt)
                assert (answered, problem["code"], problem["status"]) == (status, code, status)
            assert (await http.settle("return", second["receipt"]))[0] == 200
            (again,) = await http.take()
            assert (again["payload"], again["deliveries"], again["possibly_replayed"]) == ("b", 2, True)
            status, problem = await http.settle("acknowledge", second["receipt"])
            assert (status, problem["code"]) == (409, "receipt-expired")
            status, answer = await http.settle("acknowledge", first["receipt"], again["receipt"], third["receipt"])
            assert (status, answer["settled"]) == (200, 2)
            assert [(each["receipt"], each["code"]) for each in answer["problems"]] == [
                (first["receipt"], "receipt-gone")
            ]
            row = await http.queue()
            assert (row["stored_messages"], row["total_acknowledged"], row["total_out"]) == (0, 3, 4)

    run(main)


def test_a_receipt_of_the_life_before_is_stale_and_its_message_comes_again(run: Any, api: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with api(directory=str(tmp_path)) as http:
            await http.publish("a")
            (before,) = await http.take()
        async with api(directory=str(tmp_path)) as http:
            status, problem = await http.settle("acknowledge", before["receipt"])
            assert (status, problem["code"]) == (410, "stale-receipt")
            (after,) = await http.take()
            assert (after["id"], after["payload"]) == (before["id"], "a")
            assert (await http.settle("acknowledge", after["receipt"]))[0] == 200

    run(main)


def test_what_is_extended_is_held_longer_and_what_is_returned_with_a_delay_comes_later(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            await http.publish("a", "b")
            first, second = await http.take(visibility="1h")
            assert (await http.settle("extend", first["receipt"], seconds="2h"))[0] == 200
            assert (await http.settle("return", second["receipt"], delay="1h", failed=False))[0] == 200
            row = await http.queue()
            assert (row["in_flight"], row["delayed"], row["ready"]) == (1, 1, 0)
            # From now on, whatever was said before: it may be less as well.
            assert (await http.settle("extend", first["receipt"], seconds="1ms"))[0] == 200
            (again,) = await http.take(wait=30)
            assert (again["payload"], again["deliveries"]) == ("a", 2)

    run(main)


def test_a_full_queue_answers_503_with_when_to_try_again_and_why(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            await http.ask("POST", "/api/v1/queues", {"name": "orders", "max_messages": 2})
            await http.publish("a", "b")
            async with http.session.post(f"{Q}/messages?wait=20ms", json={"payload": "c"}) as answer:
                problem = await answer.json(content_type="application/problem+json")
                assert (answer.status, answer.headers["Retry-After"], problem["code"]) == (503, "1", "queue-full")
                assert "queue orders is full (2 of 2 messages)" in problem["detail"]
                assert problem["stored"] == 0
            waiting = asyncio.create_task(http.ask("POST", f"{Q}/messages?wait=30s", {"payload": "d"}))
            taken = await http.take()
            await http.settle("acknowledge", *[each["receipt"] for each in taken])
            assert await waiting == (201, {"numbers": [2]})

    run(main)


@pytest.mark.parametrize(
    ("path", "body", "detail"),
    [
        ("messages", {"payload": 3}, "payload is a number, not a text"),
        ("messages", {"messages": []}, "messages is no list of 1 to 10000 messages"),
        ("messages", {"messages": [{"payload": "a", "colour": "red"}]}, "'colour' is no field of a message"),
        ("messages", [], "the body is no JSON object, but a list"),
        ("messages?delay=never", {"payload": "a"}, "delay: "),
        ("messages?wait=2m", {"payload": "a"}, "wait is '2m', not a time from 0 to 60 seconds"),
        ("take", {"messages": 0}, "messages is 0, not a whole number from 1 to 1000"),
        ("take", {"messages": True}, "messages is True, not a whole number"),
        ("take", {"wait": 61}, "wait is 61, not a time from 0 to 60 seconds"),
        ("take", {"visibility": 0}, "visibility is 0 s"),
        ("take", {"colour": "red"}, "'colour' is no field of the body"),
        ("acknowledge", {}, "a receipt, or receipts: one of both"),
        ("acknowledge", {"receipts": []}, "0 receipts: 1 to 1000 are possible"),
        ("acknowledge", {"receipts": [3]}, "receipts are texts"),
        ("return", {"receipt": "x", "failed": "perhaps"}, "failed is 'perhaps', not true or false"),
        ("extend", {"receipt": "x"}, "the body has no seconds"),
    ],
)
def test_what_cannot_be_is_one_problem_that_says_what(run: Any, api: Any, path: str, body: Any, detail: str) -> None:
    async def main() -> None:
        async with api() as http:
            await http.publish("a")
            status, problem = await http.ask("POST", f"{Q}/{path}", body)
            assert (status, problem["code"]) == (400, "protocol-error")
            assert detail in problem["detail"]
            assert (await http.queue())["ready"] == 1

    run(main)


def test_a_caller_that_vanishes_while_it_waits_costs_no_delivery(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            await http.publish("first")
            (first,) = await http.take()
            await http.settle("acknowledge", first["receipt"])
            callers = []
            for _ in range(50):
                reader, writer = await asyncio.open_connection(*http.address)
                body = b'{"wait": 60}'
                writer.write(
                    b"POST /api/v1/queues/orders/take HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                    b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
                )
                callers.append((reader, writer))
            while (await http.queue())["demand_waiting"] < 50:
                pass
            for _, writer in callers:
                writer.transport.abort()
            while (await http.queue())["demand_waiting"]:
                pass
            await http.publish("second")
            (second,) = await http.take(wait=30)
            assert (second["deliveries"], second["possibly_replayed"]) == (1, False)
            assert (await http.queue())["total_out"] == 2

    run(main)


def test_a_queue_that_is_not_there_is_made_by_a_publish_and_by_nothing_else(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            for path, body in (("take", {}), ("acknowledge", {"receipt": "x"})):
                status, problem = await http.ask("POST", f"{Q}/{path}", body)
                assert (status, problem["code"]) == (404, "not-found")
            await http.publish("a")
            assert (await http.queue())["ready"] == 1

    run(main)


def test_a_receipt_is_of_one_delivery_of_one_message_and_any_byte_changed_makes_it_none(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            await http.publish("a")
            (taken,) = await http.take()
            receipt = taken["receipt"]
            whole = bytearray(base64.urlsafe_b64decode(receipt))
            for place in range(len(whole)):
                for bit in range(8):
                    whole[place] ^= 1 << bit
                    other = base64.urlsafe_b64encode(whole).decode()
                    whole[place] ^= 1 << bit
                    status, problem = await http.settle(("acknowledge", "return")[bit % 2], other)
                    assert (status, problem["code"]) == (400, "invalid-receipt"), (place, bit)
            status, problem = await http.settle("extend", other, seconds=1)
            assert (status, problem["code"]) == (400, "invalid-receipt")
            assert await http.settle("acknowledge", receipt) == (200, {"settled": 1, "problems": []})

    run(main)


@pytest.mark.parametrize(("how", "more"), [("acknowledge", {}), ("return", {}), ("extend", {"seconds": 9})])
def test_a_receipt_whose_time_is_over_is_refused_and_the_next_one_is_good(
    run: Any, api: Any, how: str, more: dict[str, Any]
) -> None:
    async def main() -> None:
        async with api() as http:
            await http.publish("a")
            (before,) = await http.take(visibility="50ms")
            (after,) = await http.take(wait=30, visibility="1h")
            assert (after["deliveries"], after["possibly_replayed"]) == (2, True)
            status, problem = await http.settle(how, before["receipt"], **more)
            assert (status, problem["code"]) == (409, "receipt-expired")
            assert (await http.settle("acknowledge", after["receipt"]))[0] == 200
            for receipt in (before["receipt"], after["receipt"]):
                status, problem = await http.settle(how, receipt, **more)
                assert (status, problem["code"]) == (410, "receipt-gone")

    run(main)


@pytest.mark.parametrize("how", ["acknowledge", "return"])
def test_a_receipt_is_used_once_in_one_request_and_of_two_that_come_together_one_is_taken(
    run: Any, api: Any, how: str
) -> None:
    async def main() -> None:
        async with api() as http:
            await http.publish("a", "b")
            first, second = await http.take(visibility="1h")
            status, answer = await http.settle(how, first["receipt"], first["receipt"])
            assert (status, answer) == (200, {"settled": 1, "problems": []})
            both = await asyncio.gather(*[http.settle(how, second["receipt"]) for _ in range(2)])
            assert sorted(status for status, _ in both) == [200, 410 if how == "acknowledge" else 409]

    run(main)


def test_a_receipt_of_a_queue_that_was_made_anew_under_its_name_is_foreign(run: Any, api: Any, stored: Any) -> None:
    async def main() -> None:
        async with api(**stored) as http:
            await http.publish("a")
            (before,) = await http.take()
            assert (await http.ask("DELETE", Q))[0] == 200
            await http.publish("a")
            await http.take()
            status, problem = await http.settle("acknowledge", before["receipt"])
            assert (status, problem["code"]) == (409, "foreign-receipt")

    run(main)


def test_an_acknowledgement_is_on_the_disk_when_it_is_answered(run: Any, api: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with api(directory=str(tmp_path)) as http:
            await http.publish("a", "b")
            first, second = await http.take()
            storage = http.broker._storage
            durable = []
            for each in (first, second):
                assert (await http.settle("acknowledge", each["receipt"]))[0] == 200
                durable.append((storage.durable, storage._journal.next_lsn, bool(storage._gathered)))
            assert all(upto == last - 1 and not gathered for upto, last, gathered in durable)
            # Each has a record of its own: none waited for the next.
            assert durable[1][0] > durable[0][0]

    run(main)


def test_a_message_of_a_whole_body_that_no_receiver_could_have_is_refused(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            raw = {"Content-Type": "application/octet-stream"}
            for size, status in ((MAX_BODY_BYTES, 413), (MAX_BATCH_BYTES, 201)):
                async with http.session.post(f"{Q}/messages", data=io.BytesIO(b"x" * size), headers=raw) as answer:
                    assert answer.status == status
            await http.publish("small")
            # A native receiver has all there is.
            receiver = Receiver(http.broker.receive_address, queue="orders", limit=2)
            received: list[int] = []

            async def note(delivery: Any) -> None:
                received.append(len(delivery.payload))

            await receiver.handle(1, note).to(Sink.acknowledge()).run()
            assert received == [MAX_BATCH_BYTES, 5]

    run(main)


@pytest.mark.parametrize(
    "body",
    ['{"messages":[' + ",".join(["{}"] * MOST_VALUES) + "]}", '{"payload":[' + "[]," * MOST_VALUES + "0]}"],
    ids=["objects", "lists"],
)
def test_a_body_of_very_many_values_is_refused_before_it_is_taken_apart(
    run: Any, api: Any, body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "parsed", lambda _: pytest.fail("it was parsed"))

    async def main() -> None:
        async with api() as http:
            kind = {"Content-Type": "application/json"}
            async with http.session.post(f"{Q}/messages", data=io.BytesIO(body.encode()), headers=kind) as answer:
                problem = await answer.json(content_type="application/problem+json")
            assert (answer.status, problem["code"]) == (413, "frame-too-large")
            assert "values, and 500000 are the most: send fewer messages at a time" in problem["detail"]

    run(main)


def test_what_looks_like_many_values_within_a_text_is_one(run: Any, api: Any) -> None:
    text = '[{"a": 1}, ' * 200_000 + "\\"

    async def main() -> None:
        async with api() as http:
            kind, body = {"Content-Type": "application/json"}, io.BytesIO(json.dumps({"payload": text}).encode())
            async with http.session.post(f"{Q}/messages", data=body, headers=kind) as answer:
                assert answer.status == 201
            (taken,) = await http.take()
            assert taken["payload"] == text

    run(main)


def test_half_a_character_in_a_receipt_is_refused_and_nothing_is_settled(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            await http.publish("a")
            (taken,) = await http.take()
            status, problem = await http.settle("acknowledge", taken["receipt"], "\ud800")
            assert (status, problem["code"]) == (400, "protocol-error")
            assert (await http.settle("acknowledge", taken["receipt"]))[0] == 200

    run(main)


@pytest.mark.parametrize("found", ["0x" + "1" * 30, "1" * 31 + "\n", "{" + "1" * 32 + "}", "1_" * 16, "\u0661" * 32])
def test_an_id_is_hexadecimal_digits_and_nothing_else(run: Any, api: Any, found: str) -> None:
    async def main() -> None:
        async with api() as http:
            status, problem = await http.ask("POST", f"{Q}/messages", {"payload": "a", "id": found})
            assert (status, problem["code"]) == (400, "protocol-error")

    run(main)


def test_what_was_published_to_an_exchange_says_so_and_who_sends_it_again_may_leave_that_in(
    run: Any, api: Any, stored: dict[str, Any]
) -> None:
    async def main() -> None:
        async with api(**stored) as http:
            await http.publish("plain")
            publisher = Client(http.broker, "", "orders")
            await turns()
            publisher.send(MessageBatch.from_messages([Message(b"keyed", b"orders"), Message(b"bare")]))
            await turns()
            await publisher.ref.stop(block=False)
            status, found = await http.ask("GET", f"{Q}/browse?count=3")
            assert status == 200
            published = {"exchange": "", "routing_key": "orders"}
            taken = await http.take()
            for rows in (taken, found["messages"]):
                assert not published.keys() & rows[0].keys()
                assert [row | published for row in rows[1:]] == rows[1:]
            again = {name: value for name, value in taken[1].items() if name != "id"}
            assert await http.ask("POST", f"{Q}/messages", again) == (201, {"numbers": [3]})

    run(main)
