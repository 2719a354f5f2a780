"""Exchanges and bindings over HTTP: each route is a command of docs/protocol.md, section "Administration"."""

from __future__ import annotations

import json
from typing import Any, Final

from actors.exchanges.limits import MAX_ROUTING_KEY_BYTES
from actors.exchanges.vocabulary import ALTERNATE, DELAYED, DELAYED_TYPE
from transport.broker.operations import DEFAULT_EXCHANGE_RESOURCE
from transport.gateways.http import described, requests
from transport.gateways.http.administration import DEFAULT_ROWS, PAGE
from transport.gateways.http.answers import Answer
from transport.gateways.http.commanding import answered, said_in_query
from transport.gateways.http.problems import ProblemError
from transport.gateways.http.routes import PREFIX, Call, Field, Route
from transport.gateways.http.shapes import Answered, answers, by_name, page
from transport.wire.names import MAX_NAME_BYTES, check_name

_NAMED: Final = {"minLength": 1, "maxLength": MAX_NAME_BYTES}
_KEY: Final = {"maxLength": MAX_ROUTING_KEY_BYTES}
DECLARE: Final = {
    "kind": Field("string", "direct unless told", limits={"enum": list(described.EXCHANGE_KINDS)}),
    "durable": Field("boolean", "whether it outlives a restart: true unless told"),
    "auto_delete": Field("boolean", "whether it is deleted with its last binding"),
    "internal": Field("boolean", "whether only other exchanges publish to it"),
    "delayed": Field("boolean", "whether messages with a delay wait before it routes them"),
    "alternate": Field("string", "the exchange that gets what none of its bindings takes", limits=_NAMED),
}
DELETE: Final = {"if_unused": Field("boolean", "only where it has no bindings")}
ROUTED: Final = {
    "key": Field("string", "the routing key; empty unless told", limits=_KEY),
    "headers": Field("string", "the headers, a JSON object"),
}
BOUND: Final = PAGE | {
    "source": Field("string", "only those of this exchange"),
    "destination": Field("string", "only those that lead to this queue, or exchange with to_exchange"),
    "to_exchange": Field("boolean", "whether destination is an exchange"),
}
BIND: Final = {
    "source": Field("string", "the exchange", required=True, limits=_NAMED),
    "destination": Field("string", "the queue, or the other exchange", required=True, limits=_NAMED),
    "key": Field("string", "what the routing key has to be, or a pattern; empty unless told", limits=_KEY),
    "arguments": Field("object", "of a headers exchange, what the headers have to be", limits=by_name({})),
    "to_exchange": Field("boolean", "whether destination is an exchange"),
}


def name_of(call: Call) -> str:
    """The exchange that a path names. The default exchange, whose name is empty, is called there as where rights are given."""
    name = call.names["exchange"]
    return "" if name == DEFAULT_EXCHANGE_RESOURCE else name


async def list_exchanges(call: Call) -> Answer:
    """A page of the exchanges."""
    return await answered(call, "exchange.list", {"limit": DEFAULT_ROWS} | said_in_query(call, PAGE))


async def show_exchange(call: Call) -> Answer:
    """One exchange."""
    name = name_of(call)
    (row,) = json.loads(await call.operations.command("exchange.list", {"name": name})) or (None,)
    if row is None:
        raise ProblemError("not-found", f"there is no exchange {name!r}")
    return Answer(row)


async def declare(call: Call) -> Answer:
    """An exchange is to be there."""
    asked = await requests.json_body(call, DECLARE)
    arguments: dict[str, Any] = {}
    if asked.pop("delayed", None):
        arguments[DELAYED_TYPE] = asked.pop("kind", None) or "direct"
        asked["kind"] = DELAYED
    if (alternate := requests.text(asked.pop("alternate", None), "alternate")) is not None:
        arguments[ALTERNATE] = alternate
    if arguments:
        asked["arguments"] = json.dumps(arguments)
    return await answered(call, "exchange.create", asked | {"name": name_of(call)}, made=True)


async def delete(call: Call) -> Answer:
    """An exchange is to be gone."""
    return await answered(call, "exchange.delete", said_in_query(call, DELETE) | {"name": name_of(call)})


async def route(call: Call) -> Answer:
    """Where a message would go."""
    return await answered(call, "exchange.route", said_in_query(call, ROUTED) | {"name": name_of(call)})


async def list_bindings(call: Call) -> Answer:
    """A page of the bindings."""
    return await answered(call, "binding.list", {"limit": DEFAULT_ROWS} | said_in_query(call, BOUND))


async def bind(call: Call) -> Answer:
    """A binding is to be there."""
    return await answered(call, "binding.create", await _binding(call), made=True)


async def unbind(call: Call) -> Answer:
    """A binding is to be gone."""
    return await answered(call, "binding.delete", await _binding(call))


async def _binding(call: Call) -> dict[str, Any]:
    asked = await requests.json_body(call, BIND)
    for end, what in (("source", "exchange"), ("destination", "queue or exchange")):
        if isinstance(name := asked.get(end), str):
            check_name(name, what)
    if (table := asked.get("arguments")) is not None:
        # Judged where all others are, which are told as text.
        asked["arguments"] = json.dumps(table)
    return asked


_EXCHANGE: Final = f"{PREFIX}/exchanges/{{exchange}}"


def _made(shape: dict[str, Any]) -> dict[int, Answered]:
    return answers(shape, "it was there already") | answers(shape, "it is there now", 201)


ROUTES: Final = (
    Route(
        "GET",
        f"{PREFIX}/exchanges",
        "exchange.list",
        "A page of the exchanges, by name; the default exchange has an empty one.",
        list_exchanges,
        query=PAGE,
        answers=answers(page(described.EXCHANGE)),
    ),
    Route(
        "GET",
        _EXCHANGE,
        "exchange.list",
        f"One exchange; {DEFAULT_EXCHANGE_RESOURCE} is the default exchange.",
        show_exchange,
        answers=answers(described.EXCHANGE),
    ),
    Route(
        "PUT",
        _EXCHANGE,
        "exchange.create",
        "Have an exchange be there; one that is there must be the same.",
        declare,
        DECLARE,
        answers=_made(described.EXCHANGE_MADE),
        refuses=frozenset({"already-exists"}),
    ),
    Route(
        "DELETE",
        _EXCHANGE,
        "exchange.delete",
        "Delete an exchange, with the bindings from it and to it.",
        delete,
        query=DELETE,
        answers=answers(described.EXCHANGE_DELETED),
        refuses=frozenset({"in-use"}),
    ),
    Route(
        "GET",
        f"{_EXCHANGE}/route",
        "exchange.route",
        "The queues that a message would go to; nothing is published.",
        route,
        query=ROUTED,
        answers=answers(described.EXCHANGE_ROUTE),
    ),
    Route(
        "GET",
        f"{PREFIX}/bindings",
        "binding.list",
        "A page of the bindings, in the order in which they were made.",
        list_bindings,
        query=BOUND,
        answers=answers(page(described.BINDING)),
    ),
    Route(
        "POST",
        f"{PREFIX}/bindings",
        "binding.create",
        "Have what matches go from an exchange to a queue, or to another exchange.",
        bind,
        BIND,
        answers=_made(described.BOUND),
        refuses=frozenset({"not-found", "invalid-name"}),
    ),
    Route(
        "DELETE",
        f"{PREFIX}/bindings",
        "binding.delete",
        "Delete a binding, named as it was made; changed says whether there was one.",
        unbind,
        BIND,
        answers=answers(described.BOUND),
        refuses=frozenset({"not-found", "invalid-name"}),
    ),
)
