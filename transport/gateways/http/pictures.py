"""What goes on, over HTTP: one picture, or a stream of server-sent events that carries what has changed (WHATWG HTML, section 9.2)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from transport.broker.served import SHUTTING_DOWN
from transport.gateways.http import described, requests
from transport.gateways.http.answers import ALWAYS, Answer
from transport.gateways.http.routes import PREFIX, Call, Field, Route
from transport.gateways.http.shapes import Answered, answers
from transport.picture.ordered import ORDERS
from transport.picture.slices import others_turns
from transport.picture.view import DEFAULT_ROWS, MOST_BEFORE, MOST_FILTER, MOST_ROWS, Asked, asked_of

if TYPE_CHECKING:
    from transport.gateways.http.console.sessions import Session
    from transport.picture.view import View

STREAM_SECONDS: Final = 3600.0
"""After which a stream ends, and a page asks for the next: so that nobody looks on whose right to look is over."""
QUIET_ROUNDS: Final = 15
"""Rounds without news behind which a comment is sent: who is gone is found out by it."""
RETRY_MS: Final = 1000
"""How soon a page is to ask again when its stream has ended."""
EVENTS: Final = "text/event-stream"

ASKED: Final = {
    "order": Field("string", "what comes first; pressure unless told", limits={"enum": list(ORDERS)}),
    "contains": Field("string", "only queues whose name has this in it", limits={"maxLength": MOST_FILTER}),
    "limit": Field(
        "integer", f"queues at most; {DEFAULT_ROWS} unless told", limits={"minimum": 1, "maximum": MOST_ROWS}
    ),
    "start": Field("integer", "how many to pass over", limits={"minimum": 0, "maximum": MOST_BEFORE}),
    "queue": Field("string", "a queue of which to show who sends and who receives"),
    "journal": Field("boolean", "whether to show the journal's figures"),
}


async def picture(call: Call) -> Answer:
    """One picture."""
    found = await call.operations.command("picture", _arguments(call))
    # To write it takes as long as to make it.
    await others_turns()
    return Answer(found)


async def events(call: Call) -> Answer:
    """A stream of them."""
    asked = asked_of(_arguments(call))
    view = call.operations.view()

    async def write(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={**ALWAYS, "Content-Type": f"{EVENTS}; charset=utf-8"})
        response.force_close()
        try:
            await response.prepare(request)
            if request.method != "HEAD":
                await _tell(request, response, _changes(view, asked, call.session))
            await response.write_eof()
        finally:
            view.close()
        return response

    return Answer(writes=write, lost=view.close)


async def _tell(request: web.BaseRequest, response: web.StreamResponse, events: AsyncGenerator[bytes, None]) -> None:
    async with aclosing(events) as told:
        async for each in told:
            await response.write(each)
            # The next is made when this one is taken: who reads slowly sees fewer pictures, and keeps none of them here.
            await request.writer.drain()


async def _changes(view: View, asked: Asked, session: Session | None = None) -> AsyncGenerator[bytes, None]:
    """The events of one stream: ``picture`` with everything, then ``change`` with what is other than before.

    It ends with the session of whoever asked, too.
    """
    ends = asyncio.get_running_loop().time() + STREAM_SECONDS
    if session is not None:
        ends = min(ends, session.until)
    yield f"retry: {RETRY_MS}\n\n".encode()
    before: dict[str, Any] | None = None
    quiet = 0
    while asyncio.get_running_loop().time() < ends:
        now = await view.take(asked) if await view.next() else None
        if now is None or view.over:
            code, text = SHUTTING_DOWN
            yield event("end", {"code": code, "detail": text})
            return
        if session is not None and session.over:
            yield event("end", {"code": "authentication-required", "detail": "the session is over"})
            return
        # To write it takes as long as to make it.
        await others_turns()
        if before is None:
            watched = [row["name"] for row in now["queues"]] + ([] if asked.queue is None else [asked.queue])
            yield event("picture", now | {"history": view.history(watched)})
        elif change := changed(before, now):
            yield event("change", change)
            quiet = 0
        else:
            quiet += 1
            if quiet >= QUIET_ROUNDS:
                quiet = 0
                yield b":\n\n"
        before = now
    yield event("end", {"code": "expired", "detail": "a stream lasts an hour: ask for the next"})


def changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """What of a picture is other than before; empty where nothing is.

    ``queues`` has of each queue the figures that changed, by its name; of one that was not there, all. ``order`` has the names in
    order, where that is another.
    """
    change: dict[str, Any] = {}
    for name in ("totals", "matching", "flow", "journal"):
        if now[name] != before[name]:
            change[name] = now[name]
    old = {row["name"]: row for row in before["queues"]}
    rows = {}
    for row in now["queues"]:
        known = old.get(row["name"], {})
        other = {key: value for key, value in row.items() if known.get(key) != value}
        if other:
            rows[row["name"]] = other
    if rows:
        change["queues"] = rows
    order = [row["name"] for row in now["queues"]]
    if order != [row["name"] for row in before["queues"]]:
        change["order"] = order
    return change


def event(name: str, data: Any) -> bytes:
    """One event, as it is sent."""
    return f"event: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


def _arguments(call: Call) -> dict[str, Any]:
    query = call.request.query
    requests.check_fields(dict(query), ASKED, "the query")
    found: dict[str, Any] = {name: query[name] for name in ASKED if name in query}
    for name in ("limit", "start"):
        if name in found:
            found[name] = requests.whole_in_query(found[name], name, ASKED[name])
    if "journal" in found:
        found["journal"] = requests.flag_in_query(found["journal"], "journal")
    return found


ROUTES: Final = (
    Route(
        "GET",
        f"{PREFIX}/picture",
        "picture",
        "What goes on: queues by pressure, the totals, and who holds back whom.",
        picture,
        query=ASKED,
        answers=answers(described.PICTURE),
    ),
    Route(
        "GET",
        f"{PREFIX}/events",
        "picture",
        "The same as a stream of server-sent events: a picture, then what changes, once a second.",
        events,
        query=ASKED,
        answers={200: Answered("the stream; it ends after an hour, or with the broker", {EVENTS: {"type": "string"}})},
        ends=False,
    ),
)
