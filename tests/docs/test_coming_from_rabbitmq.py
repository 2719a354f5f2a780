"""docs/coming-from-rabbitmq.md: what it says to write here can be written, and a broker takes it."""

from __future__ import annotations

import asyncio
import inspect
from typing import Final

import pytest

from tests.streams.pages import DOCS, MOST_WORDS, broken_links, codes, tables
from transport import Administration, Binding, Delivery, Message, Receiver, Sender
from transport.testing import HostedBroker

PAGE: Final = DOCS / "coming-from-rabbitmq.md"
CODES: Final = [code for found in tables(PAGE.read_text("utf-8")) for row in found[1:] for code in codes(row[1])]
CALLS: Final = [code for code in CODES if code.startswith(("Sender(", "Receiver(", "Binding(", "Message("))]
COMMANDS: Final = [code for code in CODES if code.startswith("broker.")]
SETTINGS: Final = inspect.signature(Administration.create_queue).parameters


@pytest.mark.parametrize("code", CALLS)
def test_a_client_can_be_made_as_the_page_says(code: str) -> None:
    kinds = (Sender, Receiver, Binding, Message)
    known = {kind.__name__: kind for kind in kinds} | {"ADDRESS": "127.0.0.1:1", "f": print, "body": b"tea"}
    assert isinstance(eval(code, known), kinds)


def test_every_command_of_the_page_is_taken_by_a_broker_in_which_its_names_are_known() -> None:
    async def main(address: str) -> None:
        for command in COMMANDS:
            async with Administration(address) as broker:
                for exchange in ("logs", "all"):
                    await broker.declare_exchange(exchange, "topic")
                if "create_queue" not in command:
                    await broker.create_queue("work")
                if "declare_exchange" in command:
                    await broker.delete_exchange("logs")
                await eval(command, {"broker": broker})
                for exchange in ("logs", "all", "orders", "later"):
                    await absent(broker, "delete_exchange", exchange)
                await absent(broker, "delete_queue", "work")

    assert len(COMMANDS) == 11
    with HostedBroker() as running:
        asyncio.run(main(running.send_address))


async def absent(broker: Administration, delete: str, name: str) -> None:
    if name in {row["name"] for row in [*await broker.queues(), *await broker.exchanges()]}:
        await getattr(broker, delete)(name)


def test_what_else_it_names_is_there() -> None:
    # What is typed into a shell is looked at in tests/transport/test_commands_documented.py.
    rest = [code for code in CODES if code not in CALLS and code not in COMMANDS and not code.startswith("penstock ")]
    for code in rest:
        name = code.partition("(")[0]
        if name.startswith("delivery."):
            assert hasattr(Delivery, name.removeprefix("delivery.")), code
        else:
            assert name in SETTINGS, code
    assert len(rest) == 7


def test_it_leads_somewhere_and_can_be_read_in_one_sitting() -> None:
    assert broken_links(PAGE) == []
    assert len(PAGE.read_text("utf-8").split()) <= MOST_WORDS
