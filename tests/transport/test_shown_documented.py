"""What docs/cli.md shows of verbs that look at a broker is what they print, in 80 columns, over a broker that holds what the page says."""

from __future__ import annotations

import asyncio
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from streams import Sink, Source
from transport import Administration, MessageBatch, Sender
from transport.cli import _looking
from transport.cli._tables import cell_len
from transport.cli.app import app
from transport.clients.stage_client import StageClient
from transport.clients.subscription_client import SubscriptionClient

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
SHOWN = re.compile(r"^```console\n\$ penstock ([^\n]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COLUMNS = 80
DIFFERENT = {
    r"\d[\d,.]* (?:ms|s|min|h|d)(?: \d+ (?:s|min|h))?(?: ago)?\b": "TIME",
    r"epoch [\d,]+": "EPOCH",
    r"version [\w.+-]+": "VERSION",
    r"[\d.,]+ [KMG]iB resident": "SIZE resident",
    r"127\.0\.0\.1:\d+": "ADDRESS",
    r"sender-[0-9a-f-]{36}": "CLIENT",
    r"(?m)^ *\d+  (?=\w+ )": "ID  ",
    r"─+": "─",
    r"  +": "  ",
}
"""What is another each time, and how wide its column is."""


def comparable(text: str) -> list[str]:
    for pattern, same in DIFFERENT.items():
        text = re.sub(pattern, same, text)
    return [line.strip() for line in text.strip().splitlines()]


def fill(sending: str, receiving: str, stack: ExitStack) -> None:
    """A subscription that holds a message and whose owner is there, and what a writer has staged."""
    owner = SubscriptionClient(receiving, queue="emails", subscription="report", mode="own", client_id="spark-1")
    stack.enter_context(owner).reserve(0, 1, 1000)
    with StageClient(sending, queue="emails", writer="nightly", version=12, stage="0-0") as client:
        client.send(MessageBatch.from_payloads([b"a", b"b", b"c"]))
        client.finish()


def invoke(words: list[str], address: str) -> str:
    return CliRunner().invoke(app, [*words, "--address", address], env={"TERM": "dumb", "NO_COLOR": "1"}).stdout


def test_what_the_page_shows_is_what_is_printed(run: Any, serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_looking, "terminal_width", lambda: COLUMNS)
    monkeypatch.setattr(_looking, "MEASURING_SECONDS", 0.01)
    shown = [(found[1].split(), found[2]) for found in SHOWN.finditer(PAGE.read_text("utf-8"))]
    assert {" ".join(words[:2]) for words, _ in shown} >= {"queue list", "queue show", "queue export", "stats"}

    async def main() -> None:
        async with serve() as broker:
            async with Administration(broker.send_address) as administration:
                await administration.create_queue("orders", max_messages=5)
                await administration.create_queue("emails", max_receives=3, ttl=86_400)
            for queue, payloads in (("orders", [b"x"] * 5), ("emails", [b"y"] * 2)):
                sender = Sender(broker.send_address, queue=queue)
                await Source.from_iterable([MessageBatch.from_payloads(payloads)]).via(sender).to(Sink.ignore()).run()
            with ExitStack() as stack:
                await asyncio.to_thread(fill, broker.send_address, broker.receive_address, stack)
                for words, expected in shown:
                    printed = await asyncio.to_thread(invoke, words, broker.send_address)
                    assert comparable(printed) == comparable(expected), " ".join(words)
                    assert max(map(cell_len, printed.splitlines())) <= COLUMNS
                await asyncio.to_thread(stack.close)

    run(main)
