"""The pages of the clients: their programs print what they show, and their tables are those of the classes."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streams import Sink, Source
from tests.docs.programs import Program, printed, programs
from tests.streams.pages import DOCS, MOST_WORDS, broken_links, codes, tables
from transport import (
    Administration,
    BrokerError,
    ConnectionLostError,
    Consumer,
    DeliveredBatch,
    Delivery,
    ImpossibleTimeError,
    LocalProtocolError,
    MessageTooLargeError,
    MoveStoppedError,
    Receiver,
    Sender,
    errors,
)
from transport.clients.backoff import DEFAULT_CONNECT_TIMEOUT
from transport.clients.sender_batches import MAX_BATCH_BYTES
from transport.errors import InvalidNameError
from transport.testing import HostedBroker
from transport.wire.field_checks import MAX_REASON_BYTES

PAGES = (
    "sender",
    "receiver",
    "delivery",
    "administration",
    "queue",
    "ledger",
    "exchanges",
    "delayed-exchanges",
    "delays",
    "schedules",
    "deduplication",
    "groups",
)
CLIENTS = {"sender": Sender, "receiver": Receiver, "consumer": Consumer, "administration": Administration}
PROGRAMS = [
    pytest.param(program, id=f"{page}-{n}") for page in PAGES for n, program in enumerate(programs(DOCS / f"{page}.md"))
]
NO_BROKER = "127.0.0.1:1"


def page(name: str) -> Path:
    return DOCS / f"{name}.md"


def table(name: str, head: str) -> list[list[str]]:
    """The rows of the table of a page whose first column has this head."""
    (found,) = (rows[1:] for rows in tables(page(name).read_text("utf-8")) if rows[0][0] == head)
    return found


@pytest.fixture(scope="module")
def broker() -> Iterator[HostedBroker]:
    with HostedBroker() as running:
        yield running


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_prints_what_the_page_shows(program: Program, broker: HostedBroker) -> None:
    assert printed(program.text, broker) == program.shown


@pytest.mark.parametrize("client", CLIENTS)
def test_the_table_has_every_option_in_its_order_with_its_default(client: str) -> None:
    parameters = list(inspect.signature(CLIENTS[client]).parameters.values())
    expected = [(each.name, "required" if each.default is each.empty else repr(each.default)) for each in parameters]
    assert [(codes(name)[0], default.strip("`")) for name, default, *_ in table(client, "option")] == expected


def test_the_page_has_every_public_attribute_and_answer_of_a_delivery() -> None:
    told = {codes(row[0])[0] for row in table("delivery", "attribute")}
    told |= {codes(row[0])[0].partition("(")[0] for row in table("delivery", "answer")}
    assert told == {name for name in dir(Delivery) if not name.startswith("_")}
    answers = {name for name in ("acknowledge", "reject", "dead_letter", "extend") if hasattr(DeliveredBatch, name)}
    assert len(answers) == len(table("delivery", "answer"))
    assert f"at most {MAX_REASON_BYTES} bytes" in page("delivery").read_text("utf-8")


def test_the_page_has_every_method_of_an_administration() -> None:
    told = {code.partition("(")[0] for row in table("administration", "method") for code in codes(row[0])}
    ours = {name for name in dir(Administration) if not name.startswith(("_", "link_"))}
    assert told == ours


@pytest.mark.parametrize(
    "name", [name for name in PAGES if (DOCS / f"{name}.md").read_text("utf-8").count("| error |")]
)
def test_an_error_that_a_page_names_is_one_and_says_what_it_is(name: str) -> None:
    for cell, told, _ in table(name, "error"):
        for error in codes(cell):
            kind = getattr(errors, error)
            assert issubclass(kind, ValueError) == ("it is a `ValueError`" in told), error


@pytest.mark.parametrize("name", PAGES)
def test_a_page_leads_somewhere_and_can_be_read_in_one_sitting(name: str) -> None:
    assert broken_links(page(name)) == []
    assert len(page(name).read_text("utf-8").split()) <= MOST_WORDS


async def send(broker: HostedBroker, element: Any, **options: Any) -> None:
    await Source.of(element).to(Sender(broker.send_address, **{"queue": "errors", **options})).run()


async def receive(broker: HostedBroker, **options: Any) -> None:
    await Receiver(broker.receive_address, **{"queue": "errors", **options}).to(Sink.ignore()).run()


async def administer(address: str, what: Callable[[Administration], Any]) -> None:
    # Where nobody is, it is a matter of seconds otherwise; where a broker is, it may stand still for one.
    patience = 0.1 if address == NO_BROKER else DEFAULT_CONNECT_TIMEOUT
    async with Administration(address, connect_timeout=patience) as administration:
        await what(administration)


async def moved_to_a_full_queue(administration: Administration) -> None:
    await administration.create_queue("tight", max_messages=1)
    await Source.of(b"1", b"2").to(Sender(str(administration.address), queue="spilled")).run()
    await administration.move("spilled", "tight")


FAILING: dict[str, tuple[Callable[[HostedBroker], Any], type[Exception]]] = {
    "a text is sent": (lambda b: send(b, "tea"), LocalProtocolError),
    "a message is too large": (lambda b: send(b, bytes(MAX_BATCH_BYTES + 1)), MessageTooLargeError),
    "a sender may send nothing": (lambda b: send(b, b"", max_in_flight=0), LocalProtocolError),
    "a delay is negative": (lambda b: send(b, b"", delay=-1), ImpossibleTimeError),
    "a name has white space": (lambda b: send(b, b"", queue="a b"), InvalidNameError),
    "a sender makes no queue": (lambda b: send(b, b"", queue="none", create=False), BrokerError),
    "a receiver makes no queue": (lambda b: receive(b, queue="none", create=False), BrokerError),
    "a receiver rejects where nothing is kept": (lambda b: receive(b, on_failure="reject"), LocalProtocolError),
    "a retry is before now": (lambda b: receive(b, retry_delay=-1), ImpossibleTimeError),
    "nobody is there": (lambda _: administer(NO_BROKER, Administration.queues), ConnectionLostError),
    "a queue is not there": (lambda b: administer(b.send_address, lambda a: a.queue("none")), BrokerError),
    "a setting cannot be": (
        lambda b: administer(b.send_address, lambda a: a.create_queue("x", overflow="y")),
        BrokerError,
    ),
    "a time cannot be": (
        lambda b: administer(b.send_address, lambda a: a.create_queue("x", delay=-1)),
        ImpossibleTimeError,
    ),
    "the target is full": (lambda b: administer(b.send_address, moved_to_a_full_queue), MoveStoppedError),
}


@pytest.mark.parametrize("what", FAILING)
def test_an_error_is_raised_where_a_page_says_so(what: str, broker: HostedBroker) -> None:
    fails, error = FAILING[what]

    async def main() -> None:
        await fails(broker)

    with pytest.raises(error) as raised:
        asyncio.run(main())
    assert type(raised.value) is error


def test_the_limit_of_a_message_on_the_page_is_the_one_in_force() -> None:
    assert f"{MAX_BATCH_BYTES:,} bytes" in page("sender").read_text("utf-8")
