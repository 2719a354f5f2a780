"""The description of the API, OpenAPI 3.1, made from the table of routes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from transport.gateways.http.problems import MEDIA_TYPE, STATUSES

if TYPE_CHECKING:
    from transport.gateways.http.routes import Field, Route

VERSION: Final = "1"
_DURATION: Final = {
    "oneOf": [{"type": "number", "minimum": 0}, {"type": "string"}],
    "description": "seconds, or a text such as 500ms or 1m30s",
}


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """The whole description."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Penstock",
            "version": VERSION,
            "description": "Queues over HTTP: publish, take, acknowledge, and administer.",
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": {
                "Problem": {
                    "type": "object",
                    "description": "RFC 9457, with the code of docs/protocol.md",
                    "required": ["type", "title", "status", "detail", "code"],
                    "properties": {
                        "type": {"type": "string"},
                        "title": {"type": "string"},
                        "status": {"type": "integer"},
                        "detail": {"type": "string"},
                        "code": {"type": "string", "examples": sorted(STATUSES)},
                    },
                }
            },
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "token": {"type": "http", "scheme": "bearer"},
            },
        },
        "security": [{"basic": []}, {"token": []}, {}],
    }


def _operation(route: Route) -> dict[str, Any]:
    needs = "" if route.operation is None else f" It takes the right of `{route.operation}`."
    described: dict[str, Any] = {
        "operationId": _identifier(route),
        "summary": route.summary,
        "description": f"{route.summary}{needs}",
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
            for name in _names(route.path)
        ]
        + [
            {"name": name, "in": "query", "required": field.required, "schema": _schema(field)}
            for name, field in route.query.items()
        ],
        "responses": {
            "2XX": {"description": "done", "content": {route.answers: {"schema": _answer(route)}}},
            "4XX": _problem("the request cannot be carried out"),
            "5XX": _problem("not now, or a defect"),
        },
    }
    if route.open:
        described["security"] = []
    if route.body:
        described["requestBody"] = {"content": {"application/json": {"schema": _object(route.body)}}}
    return described


def _identifier(route: Route) -> str:
    parts = [part.strip("{}").replace(".", "_") for part in route.path.split("/")[1:] if part not in ("api", "v1")]
    return "_".join([route.method.lower(), *parts])


def _names(path: str) -> list[str]:
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]


def _object(fields: Mapping[str, Field]) -> dict[str, Any]:
    required = [name for name, field in fields.items() if field.required]
    described: dict[str, Any] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: _schema(field) for name, field in fields.items()},
    }
    return described | ({"required": required} if required else {})


def _answer(route: Route) -> dict[str, Any]:
    return {} if route.answers == "application/json" else {"type": "string"}


def _schema(field: Field) -> dict[str, Any]:
    kind = dict(_DURATION) if field.kind == "duration" else {"type": field.kind}
    return {**kind, "description": field.text}


def _problem(text: str) -> dict[str, Any]:
    return {"description": text, "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
