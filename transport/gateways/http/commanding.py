"""Routes that are a command of docs/protocol.md, section "Administration": what they ask, and what they answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from transport.gateways.http import requests
from transport.gateways.http.answers import Answer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from transport.gateways.http.routes import Call, Field


def command(
    operation: str,
    *,
    body: Mapping[str, Field] | None = None,
    path: Mapping[str, str] | None = None,
    query: Mapping[str, Field] | None = None,
    status: int = 200,
    fixed: Mapping[str, Any] | None = None,
) -> Callable[[Call], Awaitable[Answer]]:
    """What runs a command: its arguments are those of the body and the query, and names of the path under the command's own."""

    async def run(call: Call) -> Answer:
        asked: dict[str, Any] = dict(fixed or {})
        if body is not None:
            asked |= await requests.json_body(call, body)
        asked |= said_in_query(call, query or {})
        for name, argument in (path or {}).items():
            asked[argument] = call.names[name]
        return Answer(await call.operations.command(operation, asked), status)

    return run


async def answered(call: Call, operation: str, asked: dict[str, Any], *, made: bool = False) -> Answer:
    """What a command answers; where it says what was ``made``, whether that has changed anything is the status."""
    answer = await call.operations.command(operation, asked)
    return Answer(answer, 201 if made and json.loads(answer)["changed"] else 200)


def said_in_query(call: Call, fields: Mapping[str, Field]) -> dict[str, Any]:
    """What a query says of these fields, each of its type."""
    query = call.request.query
    return {
        name: requests.typed_in_query(value, name, field)
        for name, field in fields.items()
        if (value := query.get(name)) is not None
    }
