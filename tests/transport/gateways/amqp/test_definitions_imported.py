"""``penstock definitions import``: what RabbitMQ has exported is made here, and its clients find it as they declare it (docs/amqp.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker

from tests.transport.gateways.amqp.conftest import AmqpBroker
from tests.transport.gateways.amqp.test_definitions import FILES

VERB = "definitions import"
OLD, NEW, ONE = (str(FILES / f"rabbitmq-{name}.json") for name in ("3.13", "4.1", "4.1-virtual-host"))


@pytest.fixture
def broker() -> Iterator[AmqpBroker]:
    with AmqpBroker("--amqp-virtual-hosts", "shop") as running, running.drained():
        yield running


def made_by(broker: AmqpBroker, *words: str, code: int = 0) -> tuple[list[str], list[str]]:
    """What an import says it has made, and what else it says."""
    found, out, said = broker.run(VERB, *words)
    assert found == code, said
    beginning = f"penstock {VERB}: "
    lines = said.splitlines()
    assert [line for line in lines if not line.startswith(beginning)] == []
    return out.decode().splitlines(), [line.removeprefix(beginning) for line in lines]


MADE = [
    "exchange late created",
    "exchange news created",
    "exchange shop/late created",
    "queue audit.logins created, with policy audit of virtual host /, operator policy bounded of virtual host /",
    "queue audit.calls created, with policy audit of virtual host /, operator policy bounded of virtual host /",
    "queue tasks created",
    "queue newest created",
    "queue shop/orders created, with policy late orders of virtual host shop",
    "queue shop/returns created",
    "binding from exchange news to queue audit.logins by login.# created",
    "binding from exchange news to exchange late by late.* created",
    "binding from exchange amq.headers to queue tasks created",
    "binding from exchange shop/amq.topic to queue shop/orders by eu.* created",
]


def test_what_is_not_there_is_made_and_the_next_time_all_is_there(broker: AmqpBroker) -> None:
    planned, told = made_by(broker, OLD, "--dry-run")
    assert planned == [line.replace("created", "would be created") for line in MADE]
    assert told[-1] == "13 would be created, 0 there already, 0 problems"
    code, out, _ = broker.run("queue list", "--json")
    assert (code, json.loads(out)) == (0, [])
    made, told = made_by(broker, OLD)
    assert made == MADE
    assert told[-1] == "13 created, 0 there already, 0 problems"
    again, told = made_by(broker, OLD)
    assert (again, told[-1]) == ([], "0 created, 13 there already, 0 problems")


def test_clients_find_what_was_imported_as_they_declare_it(broker: AmqpBroker) -> None:
    for file in (OLD, NEW, ONE):
        made_by(broker, file)
    for virtual_host in ("/", "shop"):
        where = pika.ConnectionParameters("127.0.0.1", broker.port, virtual_host)
        with pika.BlockingConnection(where) as connection:
            channel = connection.channel()
            for file in (OLD, NEW):
                document = json.loads(Path(file).read_bytes())
                for row in document["exchanges"]:
                    if row["vhost"] == virtual_host and not row["type"].startswith("x-"):
                        channel.exchange_declare(
                            row["name"],
                            row["type"],
                            durable=row["durable"],
                            auto_delete=row["auto_delete"],
                            internal=row.get("internal", False),
                            arguments=row["arguments"],
                        )
                for row in document["queues"]:
                    # Others have arguments that are refused, or a name that no queue can have.
                    if row["vhost"] == virtual_host and row["name"] not in (
                        "newest",
                        "events",
                        "my tasks",
                        "brief",
                    ):
                        channel.queue_declare(
                            row["name"],
                            durable=row["durable"],
                            auto_delete=row["auto_delete"],
                            arguments=row["arguments"],
                        )
            channel.confirm_delivery()
            if virtual_host == "shop":
                channel.queue_declare("carts", durable=True, arguments={"x-queue-type": "classic"})
                # It is internal here, as it was there; the policy has dead letters go there.
                channel.basic_publish("amq.topic", "eu.tea", b"tea", mandatory=True)
                channel.queue_bind("carts", "late", "orders")
                method, _, _ = channel.basic_get("orders")
                channel.basic_reject(method.delivery_tag, requeue=False)
                assert next(channel.consume("carts", auto_ack=True, inactivity_timeout=30))[2] == b"tea"
            else:
                channel.basic_publish("news", "login.till", b"in", mandatory=True)
                assert channel.basic_get("audit.logins", auto_ack=True)[2] == b"in"


def test_a_queue_that_was_imported_with_priorities_has_them_and_is_found_as_it_was(broker: AmqpBroker) -> None:
    made_by(broker, OLD)
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port)) as connection:
        channel = connection.channel()
        channel.queue_declare("tasks", durable=True, arguments={"x-max-priority": 10})
        channel.confirm_delivery()
        for priority in (1, 9):
            channel.basic_publish("", "tasks", str(priority).encode(), pika.BasicProperties(priority=priority))
        assert [channel.basic_get("tasks", auto_ack=True)[2] for _ in range(2)] == [b"9", b"1"]
        for arguments in ({"x-max-priority": 9}, {"x-max-priority": 10, "x-single-active-consumer": True}):
            with pytest.raises(ChannelClosedByBroker, match="PRECONDITION_FAILED - inequivalent arg 'x-"):
                connection.channel().queue_declare("tasks", durable=True, arguments=arguments)


def test_what_is_there_and_differs_stays_as_it_is_and_the_rest_is_made(broker: AmqpBroker, tmp_path: Path) -> None:
    for words in (
        "exchange create celery --kind topic",
        "queue create payments --max-messages 5 --max-bytes none --overflow reject --dead-letter-queue other --max-receives 3",
    ):
        code, _, said = broker.run(words)
        assert code == 0, said
    made, told = made_by(broker, NEW, code=1)
    assert made == [
        "queue celery created",
        "queue payments.failed created",
        "binding from exchange celery to queue celery by celery created",
    ]
    assert told[-3:] == [
        "exchange celery is left as it is: kind is topic, the file has direct",
        (
            "queue payments is left as it is: max_messages is 5, the file has 100000; max_receives is 3, the file has never; "
            "dead_letter_queue is other, the file has payments.failed"
        ),
        "3 created, 0 there already, 2 problems",
    ]


def test_each_virtual_host_that_the_broker_does_not_serve_is_told_once_and_is_no_problem(
    broker: AmqpBroker, tmp_path: Path
) -> None:
    queues = [{"vhost": host, "name": name} for host in ("/", "shop", "billing") for name in ("orders", "returns")]
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps({"vhosts": [{"name": "/"}, {"name": "empty"}], "queues": queues}))
    _, told = made_by(broker, str(file), "--virtual-hosts", "billing=invoices.")
    text = "warning: the broker does not serve virtual host {}, and no client of AMQP can enter it: start it with {}"
    assert told == [
        text.format("empty", '--amqp-virtual-hosts "empty"'),
        text.format("billing", '--amqp-virtual-hosts "billing=invoices."'),
        "6 created, 0 there already, 0 problems, 2 warnings",
    ]


def test_a_binding_whose_ends_are_not_there_is_a_problem_that_says_what_to_do(
    broker: AmqpBroker, tmp_path: Path
) -> None:
    binding = {"vhost": "eu", "source": "amq.topic", "destination": "orders", "destination_type": "queue"}
    file = tmp_path / "definitions.json"
    file.write_text(
        json.dumps({"queues": [{"vhost": "eu", "name": "orders"}], "bindings": [binding, binding | {"vhost": "/"}]})
    )
    for words in (("--dry-run",), ()):
        _, told = made_by(broker, str(file), *words, code=1)
        assert told == [
            (
                "warning: the broker does not serve virtual host eu, and no client of AMQP can enter it: "
                'start it with --amqp-virtual-hosts "eu"'
            ),
            (
                "binding from exchange eu/amq.topic to queue eu/orders is not made: there is no exchange eu/amq.topic: "
                "start the broker with the virtual host (--amqp-virtual-hosts eu)"
            ),
            "binding from exchange amq.topic to queue orders is not made: there is no queue orders",
            f"1 {'would be ' if words else ''}created, 0 there already, 2 problems, 1 warning",
        ]
    broken = json.dumps({"queues": [{"name": "q", "arguments": {"x-message-ttl": 5}}], "exchanges": 3}).encode()
    code, out, said = broker.run(VERB, "-", stdin=broken)
    assert (code, out, said) == (2, b"", f"penstock {VERB}: standard input: exchanges is 3, not a list\n")
    code, _, said = broker.run(VERB, str(tmp_path / "nowhere.json"))
    assert (code, said) == (2, f"penstock {VERB}: {tmp_path}/nowhere.json: cannot be read: No such file or directory\n")
