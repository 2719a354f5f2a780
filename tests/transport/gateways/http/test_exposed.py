"""Metrics over HTTP: who may, which format, which queues, and what becomes of whoever does not read."""

from __future__ import annotations

import asyncio
import time
from base64 import b64encode
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics_parser

from actors.errors import QueueGoneError
from actors.queue.queue_state import QueueState
from actors.storage.table import JournalEntryTable
from streams import Sink, Source
from transport import Administration, Message, Receiver, Sender
from transport.cli import _written as written
from transport.cli._queue_page import page as page_of
from transport.gateways.http import connections
from transport.picture import families
from transport.picture.metrics import AT_ONCE
from transport.security.principal import Grant, Right
from transport.security.users import User, Users
from transport.security.users_file import change_users
from transport.security.verifier import LEAST_ITERATIONS, Verifier

pytestmark = pytest.mark.event_loop

Found = dict[tuple[str, tuple[tuple[str, str], ...]], float]
OPENMETRICS = {"Accept": "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3"}
ODD = ("a/b", 'quo"te', "back\\slash", "ümläut-✓", "{brace}", "a,b=c", "#hash", "\\n", "100%", "name" * 60)


def read(text: str, openmetrics: bool = False) -> Found:
    reader: Any = openmetrics_parser if openmetrics else parser
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in reader.text_string_to_metric_families(text)
        for sample in family.samples
    }


async def scraped(http: Any, path: str = "/metrics", **options: Any) -> Found:
    async with http.session.get(path, **options) as answer:
        text = await answer.text()
        assert answer.status == 200, text
        assert len(text.encode()) == answer.content_length
        return read(text, "openmetrics" in answer.headers["Content-Type"])


def test_the_totals_agree_with_what_was_sent_received_and_acknowledged(run: Any, api: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with api(directory=str(tmp_path / "data")) as http:
            send, receive = http.broker.send_address, http.broker.receive_address
            for queue, count in (("a", 1000), ("b", 234)):
                await Source.range(0, count).map(lambda n: b"%d" % n).to(Sender(send, queue=queue)).run()
            await Receiver(receive, queue="a", limit=500).to(Sink.acknowledge()).run()
            taken = await http.take("b", messages=10)
            await http.settle("acknowledge", taken[0]["receipt"], queue="b")
            await http.ask("POST", "/api/v1/queues/b/purge")
            found = await scraped(http)
            for name, value in (
                ("messages_received_total", 1234),
                ("messages_acknowledged_total", 501),
                ("messages_delivered_total", 510),
                ("messages_purged_total", 224),
                ("messages_redelivered_total", 0),
                ("messages_ready", 500),
                ("messages_in_flight", 9),
                ("messages_stored", 509),
                ("confirmation_seconds_count", 1234),
                ("delivery_lag_seconds_count", 510),
                ("queues", 2),
                ("senders_paused", 0),
            ):
                assert found[f"penstock_{name}", ()] == value, name
            assert found["penstock_connections", (("listener", "http"), ("role", "http"))] == 1
            assert found["penstock_bytes_received_total", (("listener", "send"),)] > 2000
            assert found["penstock_journal_sync_seconds_count", ()] > 0
            assert found["penstock_queues_held_back", (("kind", "no_receiver"),)] == 1
            of_queues = await scraped(http, "/metrics/queues")
            assert of_queues["penstock_queue_messages_received_total", (("queue", "a"),)] == 1000
            assert of_queues["penstock_queue_messages_received_total", (("queue", "b"),)] == 234
            assert of_queues["penstock_queue_held_back", (("kind", "no_receiver"), ("queue", "a"))] == 1
            assert await scraped(http, headers=OPENMETRICS)

    run(main)


def test_exchanges_say_what_was_published_and_what_no_queue_took_each_and_together(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            send = http.broker.send_address
            for name in ("menu", "news", "gone"):
                assert (await http.ask("PUT", f"/api/v1/exchanges/{name}", {"kind": "topic"}))[0] == 201
            await http.ask("POST", "/api/v1/queues", {"name": "hot"})
            for exchange in ("menu", "news"):
                binding = {"source": exchange, "destination": "hot", "key": "*.hot"}
                assert (await http.ask("POST", "/api/v1/bindings", binding))[0] == 201

            async def publish(exchange: str, *keys: str, mandatory: bool = False) -> None:
                told = {"mandatory": True, "on_returned": lambda _: None} if mandatory else {}
                sender = Sender(send, exchange=exchange, **told)
                await Source.from_iterable([Message(b"x", routing_key=key) for key in keys]).to(sender).run()

            await publish("menu", "soup.hot", "tea.hot", "ice.cold")
            await publish("news", "a.hot", "b.cold", "c.cold", mandatory=True)
            await publish("gone", "nobody")
            await publish("", "hot")
            assert (await http.ask("DELETE", "/api/v1/exchanges/gone"))[0] == 200
            sums = {"exchanges": 2, "bindings": 2, "published": 8, "unroutable": 4, "returned": 2, "waiting": 0}
            status, stats = await http.ask("GET", "/api/v1/stats")
            assert (status, stats["exchanges"]) == (200, sums)
            async with Administration(send) as administration:
                assert (await administration.statistics())["exchanges"] == sums
            found = await scraped(http)
            named = {name: f"messages_{name}_total" for name in ("published", "unroutable", "returned")}
            named |= {"exchanges": "exchanges", "bindings": "bindings", "waiting": "messages_waiting"}
            assert {name: found[f"penstock_{each}", ()] for name, each in named.items()} == sums
            each = await scraped(http, "/metrics/exchanges")
            for exchange, figures in (
                ("menu", (1, 0, 3, 1, 0)),
                ("news", (1, 0, 3, 2, 2)),
                ("amq.default", (0, 0, 1, 0, 0)),
                ("amq.topic", (0, 0, 0, 0, 0)),
            ):
                label = (("exchange", exchange),)
                assert tuple(each[family.name, label] for family in families.OF_AN_EXCHANGE) == figures, exchange
            assert len(each) == 8 * len(families.OF_AN_EXCHANGE)

    run(main)


def test_exchanges_come_in_pages_by_name_and_filtered(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            for name in (*ODD, "odd-1", "odd-2", "odd-3"):
                await http.broker.queues.exchanges.declare(name)
            for contains in ("", "odd", "nothing"):
                got: list[str] = []
                asked = {"limit": "2", "contains": contains}
                while True:
                    async with http.session.get("/metrics/exchanges", params=asked) as answer:
                        found, following = read(await answer.text()), answer.headers.get("Penstock-Next")
                    page = [dict(labels)["exchange"] for name, labels in found if name == "penstock_exchange_bindings"]
                    got += page
                    if following is None:
                        break
                    assert unquote(following) == page[-1]
                    asked["after"] = unquote(following)
                there = [*ODD, "odd-1", "odd-2", "odd-3", "amq.default", "amq.direct", "amq.fanout", "amq.headers"]
                assert got == sorted(name for name in (*there, "amq.match", "amq.topic") if contains in name)
            assert (await http.ask("GET", "/metrics/exchanges?limit=10001"))[1]["code"] == "protocol-error"

    run(main)


@pytest.mark.parametrize("path", ["/metrics", "/metrics/queues", "/metrics/exchanges"])
def test_both_formats_have_the_same_families_and_all_that_the_tables_name(
    run: Any, api: Any, path: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with api(directory=str(tmp_path / "data")) as http:
            await http.publish("1")
            plain, other = await scraped(http, path), await scraped(http, path, headers=OPENMETRICS)
            assert {name for name, _ in plain} == {name for name, _ in other}
            async with http.session.get(path) as answer:
                heads = [line.split()[2] for line in (await answer.text()).splitlines() if line.startswith("# TYPE")]
            of_one = {"queues": "penstock_queue_", "exchanges": "penstock_exchange_"}
            begins = of_one.get(path.rpartition("/")[2])
            others = tuple(of_one.values())
            # A broker that is alone says nothing of a cluster: tests/transport/node/test_administered.py has those.
            named = [each.name for each in families.EVERY if not each.name.startswith("penstock_cluster_")]
            assert heads == [
                name for name in named if (name.startswith(begins) if begins else not name.startswith(others))
            ]

    run(main)


def test_odd_names_of_queues_are_read_as_they_are(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            for name in ODD:
                assert (await http.ask("POST", "/api/v1/queues", {"name": name}))[0] == 201
            for headers in ({}, OPENMETRICS):
                found = await scraped(http, "/metrics/queues", headers=headers)
                names = {dict(labels)["queue"] for name, labels in found if name == "penstock_queue_messages_ready"}
                assert names == set(ODD)

    run(main)


def test_queues_come_in_pages_by_name_and_filtered(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            names = sorted([f"{'odd' if n % 2 else 'ev/en ü'.replace(' ', '-')}-{n:03}" for n in range(50)])
            for name in names:
                http.broker.queues.get_or_create(name)
            for contains in ("", "odd", "ü", "nothing"):
                got: list[str] = []
                asked = {"limit": "7", "contains": contains}
                while True:
                    async with http.session.get("/metrics/queues", params=asked) as answer:
                        found, following = read(await answer.text()), answer.headers.get("Penstock-Next")
                    page = [dict(labels)["queue"] for name, labels in found if name == "penstock_queue_max_bytes"]
                    got += page
                    if following is None:
                        break
                    assert len(page) == 7
                    assert unquote(following) == page[-1]
                    asked["after"] = unquote(following)
                assert got == [name for name in names if contains in name]
            for wrong in (
                "limit=0",
                "limit=10001",
                "limit=x",
                f"contains={'a' * 256}",
                f"after={'a' * 256}",
                "match=a",
            ):
                status, problem = await http.ask("GET", f"/metrics/queues?{wrong}")
                assert (status, problem["code"]) == (400, "protocol-error"), wrong
            assert (await http.ask("GET", "/metrics?contains=a"))[0] == 400

    run(main)


def basic(name: str) -> dict[str, str]:
    return {"Authorization": f"Basic {b64encode(f'{name}:secret'.encode()).decode()}"}


def test_it_takes_the_right_to_monitor(run: Any, api: Any, tmp_path: Path) -> None:
    proof = Verifier.of("secret", LEAST_ITERATIONS)
    everything = Grant("*", Right.CONFIGURE | Right.WRITE | Right.READ)
    users = Users([User("watch", proof, Right.MONITOR, ()), User("worker", proof, Right.NONE, (everything,))])

    async def main() -> None:
        change_users(tmp_path / "users.toml", lambda _: users)
        async with api(users_file=str(tmp_path / "users.toml")) as http:
            for path in ("/metrics", "/metrics/queues", "/metrics/exchanges"):
                async with http.session.get(path, headers=basic("watch")) as answer:
                    assert answer.status == 200
                status, problem = await http.ask("GET", path, headers=basic("worker"))
                assert (status, problem["code"]) == (403, "forbidden")
                status, problem = await http.ask("GET", path)
                assert (status, problem["code"]) == (401, "authentication-required")
                async with http.session.head(path, headers=basic("worker")) as answer:
                    assert answer.status == 403

    run(main)


@pytest.mark.parametrize("path", ["/metrics", "/metrics/queues"])
def test_a_head_has_the_length_and_nothing_behind_it(run: Any, api: Any, path: str) -> None:
    async def main() -> None:
        async with api() as http:
            reader, writer = await asyncio.open_connection(*http.address)
            request = b"%s %s HTTP/1.1\r\nHost: localhost\r\n\r\n"
            writer.write(request % (b"HEAD", path.encode()) + request % (b"GET", b"/health/live"))
            async with asyncio.timeout(30):
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                assert int(head.partition(b"content-length: ")[2].split()[0]) > 1000
                assert (await reader.readline()).startswith(b"HTTP/1.1 200 OK")
            writer.close()
            await writer.wait_closed()

    run(main)


def test_many_may_ask_at_once_and_each_has_all_of_it(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            for number in range(60):
                http.broker.queues.get_or_create(f"q{number:03}")
            asked = [scraped(http, path) for _ in range(4 * AT_ONCE) for path in ("/metrics", "/metrics/queues")]
            answers = await asyncio.gather(*asked)
            for totals, queues in zip(answers[::2], answers[1::2], strict=True):
                assert totals["penstock_queues", ()] == 60
                assert len([1 for name, _ in queues if name == "penstock_queue_messages_ready"]) == 60

    run(main)


def test_queues_that_come_and_go_meanwhile_take_nothing_from_the_sums(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            queues = http.broker.queues
            for number in range(400):
                queues.get_or_create(f"q{number:03}")
            await asyncio.gather(*(http.publish("1", queue=f"q{number:03}") for number in range(0, 400, 4)))
            before, done = 100.0, False

            async def come_and_go() -> None:
                for number in range(400):
                    queues.delete(f"q{number:03}")
                    queues.get_or_create(f"q{number:03}")
                    await asyncio.sleep(0)
                nonlocal done
                done = True

            going = asyncio.ensure_future(come_and_go())
            while not done:
                found = (await scraped(http))["penstock_messages_received_total", ()]
                assert found >= before
                before = found
            await going
            assert before == 100

    run(main)


def test_a_first_message_that_is_on_the_disk_alone_is_read_once_and_a_deleted_queue_has_none(
    run: Any, api: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[int] = []
    load = JournalEntryTable.load

    def counted(table: JournalEntryTable, entry: Any) -> Any:
        loads.append(entry.first)
        return load(table, entry)

    monkeypatch.setattr(JournalEntryTable, "load", counted)

    async def main() -> None:
        async with api(directory=str(tmp_path / "data")) as http:
            await http.publish("1", "2")
        async with api(directory=str(tmp_path / "data"), cache_bytes=0) as http:
            key = "penstock_queue_oldest_seconds", (("queue", "orders"),)
            ages = [(await scraped(http, "/metrics/queues"))[key] for _ in range(3)]
            assert 0 < ages[0] <= ages[1] <= ages[2]
            assert loads == [0]
            assert await scraped(http)

            def gone(*_: Any) -> int:
                raise QueueGoneError

            # What reading says where the queue was deleted since the count began.
            monkeypatch.setattr(QueueState, "oldest_ms", gone)
            assert (await scraped(http, "/metrics/queues"))[key] == 0

    run(main)


def test_the_next_due_time_of_a_queue_is_told_where_something_waits_for_its_time(
    run: Any, api: Any, tmp_path: Path
) -> None:
    key = "penstock_queue_next_due_timestamp_seconds", (("queue", "orders"),)

    async def main() -> None:
        async with api(directory=str(tmp_path / "data")) as http:
            await http.publish("now")
            assert (await http.queue())["next_due_us"] is None
            assert key not in await scraped(http, "/metrics/queues")
            # One in the calendar on the disk, and a sooner one in the queue.
            for delay in (7200, 40):
                before = time.time()
                path = f"/api/v1/queues/orders/messages?delay={delay}"
                assert (await http.ask("POST", path, {"payload": "later"}))[0] == 201
                due = (await http.queue())["next_due_us"] / 1e6
                assert before + delay <= due + 0.01 <= time.time() + delay + 1
                assert abs((await scraped(http, "/metrics/queues"))[key] - due) < 0.1
            page = page_of(await http.queue(), [], [], None, [])
            assert f"  next due   {written.instant(round(due * 1e6))}" in page

    run(main)


def test_whoever_does_not_read_holds_up_nobody_and_is_let_go(
    run: Any, api: Any, monkeypatch: pytest.MonkeyPatch, until: Any
) -> None:
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 0.2)

    async def main() -> None:
        async with api() as http:
            for number in range(2000):
                http.broker.queues.get_or_create(f"{number:04}-{'x' * 200}")
            silent = []
            for _ in range(3 * AT_ONCE):
                reader, writer = await asyncio.open_connection(*http.address, limit=1024)
                writer.write(b"GET /metrics/queues?limit=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
                silent.append((reader, writer))
            # Others are answered at once, though more do not read than answers are made at a time.
            for _ in range(5):
                assert (await scraped(http))["penstock_queues", ()] == 2000
            await until(lambda: len(http.broker.connections) == 1)
            assert (await scraped(http))["penstock_queues", ()] == 2000
            for _, writer in silent:
                writer.transport.abort()
            (held,) = [each._gateway._held for each in [http.listener]]
            await until(lambda: held.bytes == 0)

    run(main)


def test_whoever_goes_away_while_it_is_made_leaves_room_for_others(run: Any, api: Any) -> None:
    async def received(http: Any) -> None:
        # Not taken apart, which for twenty answers would be most of the test's work.
        async with http.session.get("/metrics/queues?limit=10000") as answer:
            await answer.read()

    async def main() -> None:
        async with api() as http:
            for number in range(500):
                http.broker.queues.get_or_create(f"{number:04}")
            for turns in range(20):
                asking = asyncio.ensure_future(received(http))
                for _ in range(5 + 5 * turns):
                    await asyncio.sleep(0)
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
            assert len(await scraped(http, "/metrics/queues?limit=10000")) == 500 * len(families.OF_A_QUEUE)

    run(main)


def test_bytes_and_connections_of_who_is_gone_stay_counted(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            send = http.broker.send_address
            sent = received = 0.0
            for _ in range(3):
                await Source.single(b"x" * 1000).to(Sender(send, queue="a")).run()
                found = await scraped(http)
                assert found["penstock_bytes_received_total", (("listener", "send"),)] >= received + 1000
                assert found["penstock_bytes_sent_total", (("listener", "send"),)] > sent
                received = found["penstock_bytes_received_total", (("listener", "send"),)]
                sent = found["penstock_bytes_sent_total", (("listener", "send"),)]
            assert found["penstock_connections_accepted_total", ()] == 4

    run(main)


def test_nothing_ticks_until_somebody_asks_and_nothing_does_behind_the_broker(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            delay = http.broker._metrics.loop_delay
            assert not delay.running
            await scraped(http, "/metrics/queues")
            assert not delay.running
            await scraped(http)
            assert delay.running
        assert not delay.running

    run(main)


def test_metrics_and_events_are_no_others_to_ask_for(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            for path in ("/metrics", "/metrics/queues"):
                assert (await http.ask("POST", path, {}))[0] == 405
                status, problem = await http.ask("GET", path, headers={"Origin": "http://elsewhere.example"})
                assert (status, problem["code"]) == (403, "forbidden")

    run(main)
