"""`penstock top` into a pipe: a line for each queue that has changed since the look before, or a JSON object a look."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from datetime import datetime

from transport.cli import _written as written
from transport.cli._run import drop_unwritten, on_signal, tell
from transport.cli._tables import cell, put
from transport.cli._top_looks import Looks, Seen, Wanted
from transport.clients.picture import QueueRow

AGAIN = "trying again"


async def write_looks(looks: Looks, wanted: Wanted, verb: str, *, as_json: bool) -> None:
    """Write what is seen, until a signal, the last look, or nobody reads any more."""
    looks.want(wanted)
    task = asyncio.ensure_future(_write(looks, verb, as_json=as_json, only=wanted.queue))
    with on_signal(lambda _number: _cancel(task)):
        try:
            await task
        except asyncio.CancelledError:
            pass
        except BrokenPipeError:
            drop_unwritten()


def _cancel(task: asyncio.Future[None]) -> None:
    task.cancel()


async def _write(looks: Looks, verb: str, *, as_json: bool, only: str | None) -> None:
    before: dict[str, QueueRow] = {}
    lost = False
    async with aclosing(looks.all()) as all_looks:
        async for seen in all_looks:
            if seen.picture is None:
                if not lost:
                    tell(verb, f"{seen.lost}; {AGAIN}")
                lost = True
                continue
            if lost:
                tell(verb, "going on")
                lost = False
            if as_json:
                put([json.dumps(seen.picture, separators=(",", ":"))])
                continue
            rows = _rows(seen, only)
            if lines := changed_lines(before, rows, datetime.now().astimezone().strftime("%H:%M:%S")):
                put(lines)
            before = {row["name"]: row for row in rows}


def _rows(seen: Seen, only: str | None) -> list[QueueRow]:
    assert seen.picture is not None
    if only is None:
        return seen.picture["queues"]
    return [] if seen.picture["flow"] is None else [seen.picture["flow"]]


def changed_lines(before: dict[str, QueueRow], rows: list[QueueRow], at: str) -> list[str]:
    """The lines of those that are other than before: the time, figures, and the sentence, which names the queue."""
    return [f"{at}  {figures}  {cell(row.get('sentence', ''))}" for row in rows if (figures := _news(before, row))]


def _news(before: dict[str, QueueRow], row: QueueRow) -> str:
    figures = _figures(row)
    known = before.get(row["name"])
    same = known is not None and _figures(known) == figures and known.get("sentence") == row.get("sentence")
    return "" if same else figures


def _figures(row: QueueRow) -> str:
    return (
        f"{cell(row['name'])}  {cell(row.get('pressure', ''))}  "
        f"ready {written.count(row.get('ready', 0))}  held {written.count(row.get('held', 0))}  "
        f"in {written.rate(row.get('came', 0))}/s  out {written.rate(row.get('went', 0))}/s"
    )
