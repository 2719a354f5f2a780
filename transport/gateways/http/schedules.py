"""Schedules over HTTP: each route is a command of docs/protocol.md, section "Administration"."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Final

from actors.exchanges.limits import MAX_ROUTING_KEY_BYTES
from actors.limits import MAX_PRIORITY
from actors.scheduling.limits import MAX_EXPRESSION_BYTES, MAX_SCHEDULED_KEY_BYTES
from actors.scheduling.schedule import MISSED
from transport.clients.json_messages import payload_fields, payload_of
from transport.gateways.http import described, requests
from transport.gateways.http.administration import DEFAULT_ROWS, PAGE
from transport.gateways.http.answers import Answer
from transport.gateways.http.commanding import answered, command
from transport.gateways.http.openapi import object_of
from transport.gateways.http.problems import ProblemError
from transport.gateways.http.routes import PREFIX, Call, Field, Route
from transport.gateways.http.shapes import BASE64, answers, both, by_name, page
from transport.wire.names import MAX_NAME_BYTES
from transport.wire.timing import MAX_TTL_MS

_NAMED: Final = {"minLength": 1, "maxLength": MAX_NAME_BYTES}
_KEY: Final = {"maxLength": MAX_ROUTING_KEY_BYTES}
DECLARE: Final = {
    "expression": Field(
        "string",
        "when: of cron, or an interval such as every 30s",
        required=True,
        limits={"minLength": 1, "maxLength": MAX_EXPRESSION_BYTES},
    ),
    "zone": Field("string", "the time zone of a cron expression; UTC unless told", limits=_NAMED),
    "queue": Field("string", "where its messages go, unless they go to an exchange", limits=_NAMED),
    "exchange": Field("string", "the exchange", limits={"maxLength": MAX_NAME_BYTES}),
    "routing_key": Field("string", "with which they are published there", limits=_KEY),
    "payload": Field("string", "of each message, where it is text; empty unless told"),
    "payload_base64": Field("string", "the same, where it is any bytes", limits=BASE64),
    "headers": Field("object", "of each message", limits=by_name({"type": "string"})),
    "key": Field("string", "of each message", limits={"maxLength": MAX_SCHEDULED_KEY_BYTES}),
    "ttl_ms": Field("integer", "after which a message is of no use", limits={"minimum": 0, "maximum": MAX_TTL_MS}),
    "priority": Field(
        "integer", "of each message, where its queue has levels", limits={"minimum": 0, "maximum": MAX_PRIORITY}
    ),
    "missed": Field("string", "what is done about missed times; skip unless told", limits={"enum": list(MISSED)}),
    "replace": Field("boolean", "whether it takes the place of one that says something else"),
}


async def declare(call: Call) -> Answer:
    """A schedule is to be there."""
    asked = await requests.json_body(call, DECLARE)
    if (headers := asked.get("headers")) is not None:
        if not isinstance(headers, dict):
            raise ProblemError("protocol-error", "headers must be an object of strings")
        asked["headers"] = json.dumps(headers)
    try:
        payload = payload_of(asked)
    except ValueError as error:
        raise ProblemError("protocol-error", str(error)) from None
    asked.pop("payload_base64", None)
    if payload is not None:
        asked["payload"] = b64encode(payload).decode()
    return await answered(call, "schedule.create", asked | {"name": call.names["schedule"]}, made=True)


async def show(call: Call) -> Answer:
    """One schedule. Its payload is said as that of a message is: the command has all of them in base64."""
    shown = json.loads(await call.operations.command("schedule.show", {"name": call.names["schedule"]}))
    said = payload_fields(b64decode(shown.pop("payload")))
    return Answer(json.dumps(shown | said, separators=(",", ":")).encode())


_SCHEDULE: Final = f"{PREFIX}/schedules/{{schedule}}"
_MADE: Final = answers(described.SCHEDULE_MADE, "it was there already") | answers(
    described.SCHEDULE_MADE, "it is there now, and has begun", 201
)
_NAME: Final = {"schedule": "name"}
_NOT_FOUND: Final = frozenset({"not-found"})

ROUTES: Final = (
    Route(
        "GET",
        f"{PREFIX}/schedules",
        "schedule.list",
        "A page of the schedules, by name: when each is due, and how it stands.",
        command("schedule.list", query=PAGE, fixed={"limit": DEFAULT_ROWS}),
        query=PAGE,
        answers=answers(page(described.SCHEDULE)),
    ),
    Route(
        "GET",
        _SCHEDULE,
        "schedule.show",
        "One schedule, with what its messages hold.",
        show,
        answers=answers(described.SCHEDULE_SHOWN),
        refuses=_NOT_FOUND,
    ),
    Route(
        "PUT",
        _SCHEDULE,
        "schedule.create",
        "Have a schedule be there; one that is there must say the same, or be replaced.",
        declare,
        DECLARE,
        whole={**object_of(DECLARE), "not": both("payload", "payload_base64")},
        answers=_MADE,
        refuses=frozenset({"already-exists", "not-found", "invalid-name"}),
    ),
    Route(
        "DELETE",
        _SCHEDULE,
        "schedule.delete",
        "Delete a schedule; what it has stored stays.",
        command("schedule.delete", path=_NAME),
        answers=answers(described.SCHEDULE_DELETED),
        refuses=_NOT_FOUND,
    ),
    Route(
        "POST",
        f"{_SCHEDULE}/pause",
        "schedule.pause",
        "Have nothing come of a schedule until it is resumed.",
        command("schedule.pause", path=_NAME),
        answers=answers(described.SCHEDULE_PAUSED),
        refuses=_NOT_FOUND,
    ),
    Route(
        "POST",
        f"{_SCHEDULE}/resume",
        "schedule.resume",
        "Have a schedule go on, from the next of its times.",
        command("schedule.resume", path=_NAME),
        answers=answers(described.SCHEDULE_PAUSED),
        refuses=_NOT_FOUND,
    ),
)
