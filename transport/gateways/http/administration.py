"""Administration over HTTP: each route is a command of docs/protocol.md, section "Administration", with its arguments as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from actors.exchanges.limits import MAX_ROUTING_KEY_BYTES
from actors.limits import (
    MAX_DEDUPLICATION_WINDOW_SECONDS,
    MAX_PRIORITY,
    MAX_QUEUE_EXPIRY_SECONDS,
    MAX_SUBSCRIPTION_EXPIRY_SECONDS,
    MAX_TTL_SECONDS,
    MAX_VISIBILITY_SECONDS,
)
from actors.queue.vocabulary.settings import (
    ALIASES,
    AT_ONCE,
    MAX_DEDUPLICATION_IDS,
    MAX_RECEIVES_LIMIT,
    OVERFLOWS,
    QUEUE_SETTINGS,
    Unit,
)
from transport.gateways.http import described, requests
from transport.gateways.http.answers import Answer
from transport.gateways.http.commanding import command
from transport.gateways.http.problems import ProblemError
from transport.gateways.http.routes import PREFIX, Call, Field, Route
from transport.gateways.http.shapes import Shape, answers, page
from transport.security.principal import BROKER_RIGHTS, Principal, grants_of, name_of
from transport.wire.arguments import argument_of
from transport.wire.field_checks import MAX_INTEGER
from transport.wire.names import MAX_NAME_BYTES

MOST_ROWS: Final = 1000
DEFAULT_ROWS: Final = 100
"""Of a page."""
MAX_FILTER: Final = 255
MAX_REASON: Final = 255
"""Characters, as the commands have it."""
PAGE: Final = {
    "limit": Field(
        "integer",
        f"rows of a page: {DEFAULT_ROWS}, or up to {MOST_ROWS}",
        limits={"minimum": 1, "maximum": MOST_ROWS},
    ),
    "after": Field("string", "what the page before gave as next"),
}
_TYPES: Final = {Unit.COUNT: "integer", Unit.BYTES: "integer", Unit.SECONDS: "integer", Unit.FLAG: "boolean"}
_TWELVE_HOURS, _TEN_YEARS = round(MAX_VISIBILITY_SECONDS * 1000), round(MAX_TTL_SECONDS * 1000)
_A_LEAP_YEAR = round(MAX_SUBSCRIPTION_EXPIRY_SECONDS * 1000)
_LIMITS: Final[Mapping[str, Shape]] = {
    "overflow": {"enum": list(OVERFLOWS)},
    "max_receives": {"minimum": 0, "maximum": MAX_RECEIVES_LIMIT},
    "visibility_timeout": {"minimum": 1, "maximum": _TWELVE_HOURS},
    "delay": {"minimum": 0, "maximum": _TWELVE_HOURS},
    "ttl": {"minimum": AT_ONCE, "maximum": _TEN_YEARS},
    "exclusive": {},
    "single_active_consumer": {},
    "durable": {},
    "dead_letter_queue": {"maxLength": MAX_NAME_BYTES},
    "dead_letter_exchange": {"maxLength": MAX_NAME_BYTES},
    "dead_letter_routing_key": {"maxLength": MAX_ROUTING_KEY_BYTES},
    "subscription_expiry": {"minimum": 0, "maximum": _A_LEAP_YEAR},
    "max_priority": {"minimum": 0, "maximum": MAX_PRIORITY},
    "deduplication_window": {"minimum": 0, "maximum": round(MAX_DEDUPLICATION_WINDOW_SECONDS * 1000)},
    "max_deduplication_ids": {"minimum": 1, "maximum": MAX_DEDUPLICATION_IDS},
    "expires": {"minimum": 0, "maximum": round(MAX_QUEUE_EXPIRY_SECONDS * 1000)},
    "retry_delay": {"minimum": 0, "maximum": _TWELVE_HOURS},
    "retry_max_delay": {"minimum": 0, "maximum": _TWELVE_HOURS},
    "drop_failed": {},
    "groups": {},
}
"""Of settings; those that are not here are 1 or more, or 0 and more where 0 says something else."""
SETTINGS: Final = {
    argument_of(each): Field(
        _TYPES.get(each.unit, "string"),
        each.help,
        limits=_LIMITS.get(each.name, {"minimum": int(each.none != 0), "maximum": MAX_INTEGER}),
    )
    for each in QUEUE_SETTINGS
}
SETTINGS.update({alias: SETTINGS[name]._replace(text=f"another name for {name}") for alias, name in ALIASES.items()})


async def list_queues(call: Call) -> Answer:
    """A page of the queues; with ``contains`` of those whose name has it."""
    query = call.request.query
    limit = requests.whole_in_query(query.get("limit"), "limit", PAGE["limit"]) or DEFAULT_ROWS
    contains, after = query.get("contains", ""), query.get("after")
    if len(contains) > MAX_FILTER:
        raise ProblemError("protocol-error", f"contains has {len(contains)} characters, {MAX_FILTER} are the most")
    rows: list[Any] = []
    while True:
        # With few that match, small pages would be asked for without end.
        arguments: dict[str, Any] = {"limit": MOST_ROWS if contains else limit}
        if after is not None:
            arguments["after"] = after
        page = json.loads(await call.operations.command("queue.list", arguments))
        for row in page["rows"]:
            if contains in row["name"]:
                if len(rows) == limit:
                    return Answer({"rows": rows, "next": json.dumps([rows[-1]["name"]], ensure_ascii=False)})
                rows.append(row)
        after = page["next"]
        if after is None or (not contains and rows):
            return Answer({"rows": rows, "next": after})


async def show_queue(call: Call) -> Answer:
    """One queue."""
    (row,) = json.loads(await call.operations.command("queue.list", {"name": call.names["name"]})) or (None,)
    if row is None:
        raise ProblemError("not-found", f"there is no queue {call.names['name']!r}")
    return Answer(row)


async def show_journal(call: Call) -> Answer:
    """The journal's figures; null for a broker in memory."""
    found = json.loads(await call.operations.command("stats", {"lists": False}))
    return Answer({"journal": found.get("storage")})


async def close_connection(call: Call) -> Answer:
    """End a connection."""
    asked = await requests.json_body(call, CLOSE)
    asked["id"] = requests.whole(requests.digits(call.names["id"]), "the connection's number", None, least=0)
    return Answer(await call.operations.command("connection.close", asked))


async def abort_transaction(call: Call) -> Answer:
    """Discard a transaction."""
    version = requests.whole(requests.digits(call.names["version"]), "the version", None, least=0)
    arguments = {"writer": call.names["writer"], "version": version}
    return Answer(await call.operations.command("transaction.abort", arguments))


async def who_am_i(call: Call) -> Answer:
    """Who asks, and which rights of the broker they have."""
    return Answer(said_of(call.operations.principal))


def said_of(principal: Principal) -> dict[str, Any]:
    """Who somebody is, and what they may do."""
    return {
        "user": principal.name,
        "proof": principal.proof.name.lower(),
        "broker": [name_of(right) for right in BROKER_RIGHTS if principal.may(right)],
        "grants": grants_of(principal.grants),
    }


_ONE_OR_MORE: Final = {"minimum": 1, "maximum": MAX_INTEGER}
_ANY_NUMBER: Final = {"minimum": 0, "maximum": MAX_INTEGER}
_NAMED: Final = {"minLength": 1, "maxLength": MAX_NAME_BYTES}
BROWSE: Final = {
    "count": Field("integer", "how many; 10 unless told", limits=_ONE_OR_MORE),
    "start": Field("integer", "the number to begin with", limits=_ANY_NUMBER),
    "newest": Field("boolean", "the newest, in place of the oldest"),
    "bytes": Field("integer", "of each payload and key", limits=_ANY_NUMBER),
}
MOVE: Final = {
    "to": Field("string", "the other queue", required=True, limits=_NAMED),
    "count": Field("integer", "how many at most; all that is ready unless told", limits=_ONE_OR_MORE),
    "create": Field("boolean", "make the other queue where there is none"),
    "after": Field("string", "what the answer before gave as next"),
    "keep_history": Field(
        "boolean",
        "whether headers that say what messages have died of stay; unless told, only what goes back to where it died loses them",
    ),
}
RELEASE: Final = {"force": Field("boolean", "also while its owner is connected, which then gets the messages twice")}
CLOSE: Final = {"reason": Field("string", "what the other side is told", limits={"maxLength": MAX_REASON})}
_QUEUE: Final = f"{PREFIX}/queues/{{name}}"
_NAME: Final = {"name": "name"}

ROUTES: Final = (
    Route(
        "GET",
        f"{PREFIX}/queues",
        "queue.list",
        "A page of the queues, by name.",
        list_queues,
        query=PAGE
        | {"contains": Field("string", "only queues whose name has this in it", limits={"maxLength": MAX_FILTER})},
        answers=answers(page(described.QUEUE)),
    ),
    Route(
        "POST",
        f"{PREFIX}/queues",
        "queue.create",
        "Make a queue; one that is there must have the same settings.",
        command(
            "queue.create",
            body=(create := {"name": Field("string", "its name", required=True, limits=_NAMED)} | SETTINGS),
            status=201,
        ),
        create,
        answers=answers(described.SETTINGS, "it is there", 201),
        refuses=frozenset({"already-exists", "invalid-name"}),
    ),
    Route(
        "GET",
        _QUEUE,
        "queue.list",
        "One queue, with its settings and figures.",
        show_queue,
        answers=answers(described.QUEUE),
    ),
    Route(
        "PATCH",
        _QUEUE,
        "queue.alter",
        "Give a queue other settings; those that are not given stay.",
        command("queue.alter", body=SETTINGS, path=_NAME),
        SETTINGS,
        answers=answers(described.SETTINGS),
    ),
    Route(
        "DELETE",
        _QUEUE,
        "queue.delete",
        "Delete a queue with all it holds, and end its connections.",
        command("queue.delete", path=_NAME),
        answers=answers(described.DELETED),
    ),
    Route(
        "POST",
        f"{_QUEUE}/purge",
        "queue.purge",
        "Drop the messages that wait; what is held stays.",
        command("queue.purge", path=_NAME),
        answers=answers(described.PURGED),
    ),
    Route(
        "GET",
        f"{_QUEUE}/browse",
        "queue.peek",
        "Look at messages; nothing comes of it.",
        command("queue.peek", path=_NAME, query=BROWSE, fixed={"count": 10}),
        query=BROWSE,
        answers=answers(described.BROWSED),
    ),
    Route(
        "POST",
        f"{_QUEUE}/move",
        "queue.move",
        "Move messages to another queue; ask again with what the answer gives as next.",
        command("queue.move", body=MOVE, path={"name": "from"}),
        MOVE,
        answers=answers(described.MOVED),
        refuses=frozenset({"queue-full"}),
    ),
    Route(
        "GET",
        f"{PREFIX}/connections",
        "connection.list",
        "A page of the connections, by number.",
        command("connection.list", query=PAGE, fixed={"limit": DEFAULT_ROWS}),
        query=PAGE,
        answers=answers(page(described.CONNECTION)),
    ),
    Route(
        "DELETE",
        f"{PREFIX}/connections/{{id}}",
        "connection.close",
        "End a connection; the other side is told why.",
        close_connection,
        CLOSE,
        answers=answers(described.CLOSED),
    ),
    Route(
        "GET",
        f"{PREFIX}/subscriptions",
        "subscription.list",
        "A page of the subscriptions, by queue and name.",
        command("subscription.list", query=PAGE, fixed={"limit": DEFAULT_ROWS}),
        query=PAGE,
        answers=answers(page(described.SUBSCRIPTION)),
    ),
    Route(
        "POST",
        f"{PREFIX}/subscriptions/{{queue}}/{{subscription}}/release",
        "subscription.release",
        "Make receivable again what a subscription has reserved.",
        command("subscription.release", body=RELEASE, path={"queue": "queue", "subscription": "name"}),
        RELEASE,
        answers=answers(described.RELEASED),
        refuses=frozenset({"subscription-owned"}),
    ),
    Route(
        "DELETE",
        f"{PREFIX}/subscriptions/{{queue}}/{{subscription}}",
        "subscription.delete",
        "Forget a subscription.",
        command("subscription.delete", path={"queue": "queue", "subscription": "name"}),
        answers=answers(described.RELEASED),
        refuses=frozenset({"subscription-owned"}),
    ),
    Route(
        "GET",
        f"{PREFIX}/transactions",
        "transaction.list",
        "A page of the open transactions, by writer and version.",
        command("transaction.list", query=PAGE, fixed={"limit": DEFAULT_ROWS}),
        query=PAGE,
        answers=answers(page(described.TRANSACTION)),
    ),
    Route(
        "DELETE",
        f"{PREFIX}/transactions/{{writer}}/{{version}}",
        "transaction.abort",
        "Discard what a transaction has staged.",
        abort_transaction,
        answers=answers(described.ABORTED),
    ),
    Route(
        "GET",
        f"{PREFIX}/stats",
        "stats",
        "The figures of the broker, of its journal, and of all exchanges together.",
        command("stats", fixed={"lists": False}),
        answers=answers(described.STATS),
    ),
    Route(
        "GET",
        f"{PREFIX}/journal",
        "stats",
        "The figures of the journal.",
        show_journal,
        answers=answers(described.JOURNAL),
    ),
    Route(
        "GET",
        f"{PREFIX}/whoami",
        None,
        "Who asks, and what they may do.",
        who_am_i,
        answers=answers(described.WHO),
    ),
    Route(
        "GET",
        f"{PREFIX}/users",
        "user.list",
        "A page of the users, by name, and what each may do.",
        command("user.list", query=PAGE, fixed={"limit": DEFAULT_ROWS}),
        query=PAGE,
        answers=answers(page(described.USER)),
    ),
)
