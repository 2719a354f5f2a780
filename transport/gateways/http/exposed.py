"""Metrics over HTTP: text in one of Prometheus's two formats, written piece by piece to whoever takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from aiohttp import web

from transport.gateways.http import requests, shapes
from transport.gateways.http.answers import ALWAYS, Answer
from transport.gateways.http.routes import Call, Field, Route
from transport.gateways.http.shapes import Answered
from transport.picture.exposition import OPENMETRICS, TEXT, openmetrics_wanted
from transport.picture.metrics import DEFAULT_QUEUES, MOST_FILTER, MOST_QUEUES, AskedQueues

if TYPE_CHECKING:
    from transport.picture.metrics import Page

NEXT: Final = "Penstock-Next"
"""The header that says, with percent signs, what to ask for as ``after``; it is missing on the last page."""


def _asked(what: str) -> dict[str, Field]:
    return {
        "contains": Field("string", f"only {what} whose name has this in it", limits={"maxLength": MOST_FILTER}),
        "after": Field(
            "string",
            f"only {what} whose name comes behind this one: what {NEXT} said, with its percent signs undone",
            limits={"maxLength": MOST_FILTER},
        ),
        "limit": Field(
            "integer", f"{what} at most; {DEFAULT_QUEUES} unless told", limits={"minimum": 1, "maximum": MOST_QUEUES}
        ),
    }


ASKED: Final = _asked("queues")


async def totals(call: Call) -> Answer:
    """Everything that is not of one queue, or of one exchange."""
    requests.check_fields(dict(call.request.query), {}, "the query")
    return _written(await call.operations.metrics().totals(call.share.take, openmetrics=_openmetrics(call)))


async def queues(call: Call) -> Answer:
    """Each queue."""
    asked = _which(call)
    return _written(await call.operations.metrics().each_queue(asked, call.share.take, openmetrics=_openmetrics(call)))


async def exchanges(call: Call) -> Answer:
    """Each exchange."""
    asked, openmetrics = _which(call), _openmetrics(call)
    return _written(await call.operations.metrics().each_exchange(asked, call.share.take, openmetrics=openmetrics))


def _which(call: Call) -> AskedQueues:
    query = call.request.query
    requests.check_fields(dict(query), ASKED, "the query")
    limit = requests.whole_in_query(query.get("limit"), "limit", ASKED["limit"]) or DEFAULT_QUEUES
    return AskedQueues(query.get("contains", ""), query.get("after", ""), limit)


def _openmetrics(call: Call) -> bool:
    return openmetrics_wanted(call.request.headers.get("Accept", ""))


def _written(page: Page) -> Answer:
    """The answer that writes a page."""

    async def write(request: web.BaseRequest) -> web.StreamResponse:
        pieces = page.pieces
        headers = {**ALWAYS, "Content-Type": page.content_type, "Vary": "Accept"}
        if page.following is not None:
            headers[NEXT] = quote(page.following, safe="")
        response = web.StreamResponse(headers=headers)
        response.content_length = sum(map(len, pieces))
        await response.prepare(request)
        if request.method != "HEAD":
            pieces.reverse()
            while pieces:
                await response.write(pieces.pop())
                # One that reads slowly is waited for, and one that does not is let go; what it has is not kept here.
                await request.writer.drain()
        await response.write_eof()
        return response

    return Answer(writes=write)


TEXTS: Final = {kind.partition(";")[0]: shapes.TEXT for kind in (TEXT, OPENMETRICS)}
"""What either format is, by its media type."""
ROUTES: Final = (
    Route(
        "GET",
        "/metrics",
        "stats",
        "The totals of the broker, for Prometheus.",
        totals,
        answers={200: Answered("the totals", TEXTS)},
    ),
    Route(
        "GET",
        "/metrics/queues",
        "stats",
        "The figures of each queue, for Prometheus.",
        queues,
        query=ASKED,
        answers={
            200: Answered("a page of queues", TEXTS, {NEXT: "what to ask for as after; missing on the last page"})
        },
    ),
    Route(
        "GET",
        "/metrics/exchanges",
        "stats",
        "The figures of each exchange, for Prometheus.",
        exchanges,
        query=_asked("exchanges"),
        answers={
            200: Answered("a page of exchanges", TEXTS, {NEXT: "what to ask for as after; missing on the last page"})
        },
    ),
)
