"""The description of the API, OpenAPI 3.1, made from the table of routes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from transport.gateways.http.problems import MEDIA_TYPE, RETRY_SECONDS, STATUSES
from transport.gateways.http.shapes import COUNT, JSON, NAME, WHOLE, maybe

if TYPE_CHECKING:
    from transport.gateways.http.routes import Field, Route
    from transport.gateways.http.shapes import Answered

STORED: Final = "of several messages so many are stored, the first ones"
LEADER: Final = (
    "of a broker that does not lead its cluster: the addresses of the one that does, as far as they are known"
)
RETURNED: Final = "where it was asked for: which of these no queue took"
_NUMBERS: Final = {"id": WHOLE, "version": WHOLE}
"""The parts of paths that are numbers; all others are names."""
VERSION: Final = "1"
_DURATION: Final = "seconds, or a text such as 500ms or 1m30s"

_ALL: Final = frozenset(
    {"protocol-error", "forbidden", "misdirected", "limit-exceeded", "internal-error", "shutting-down"}
)
_OF_LEADER: Final = frozenset({"not-leader"})
_NOT_OPEN: Final = frozenset({"authentication-required", "authentication-failed"})
_OF_BODY: Final = frozenset({"expectation-failed", "frame-too-large", "too-slow", "unsupported-media-type"})
_OF_OPERATION: Final = frozenset({"timeout", "journal-failed"})
_OF_NAME: Final = frozenset({"invalid-name", "not-found", "queue-deleted"})


def codes_of(route: Route) -> frozenset[str]:
    """The code of every problem that a route may answer with: what comes of its form, and what it says itself."""
    codes = _ALL | route.refuses
    if not route.open:
        codes |= _NOT_OPEN
    if route.body:
        codes |= _OF_BODY
    if route.operation is not None:
        codes |= _OF_OPERATION
    if not route.everywhere:
        codes |= _OF_LEADER
    if _names(route.path):
        codes |= _OF_NAME
    return codes


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """The whole description."""
    paths: dict[str, dict[str, Any]] = {}
    problems: dict[str, Any] = {}
    for route in routes:
        described, found = _operation(route)
        paths.setdefault(route.path, {})[route.method.lower()] = described
        problems |= found
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
                        "type": {"const": "about:blank"},
                        "title": {"type": "string"},
                        "status": {"type": "integer", "enum": sorted(set(STATUSES.values()))},
                        "detail": {"type": "string"},
                        "code": {"type": "string", "enum": sorted(STATUSES)},
                        "leader": {"type": "array", "items": {"type": "string"}, "description": LEADER},
                        "stored": {"type": "integer", "minimum": 0, "description": STORED},
                        "returned": {"type": "array", "items": COUNT, "description": RETURNED},
                    },
                }
            },
            "responses": dict(sorted(problems.items())),
            "headers": {
                "Retry-After": {
                    "description": "seconds after which to try again, where that is of use",
                    "schema": {"type": "integer"},
                },
                "WWW-Authenticate": {
                    "description": "how to say who asks",
                    "required": True,
                    "schema": {"type": "string"},
                },
            },
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "token": {"type": "http", "scheme": "bearer"},
            },
        },
        "security": [{"basic": []}, {"token": []}, {}],
    }


def _operation(route: Route) -> tuple[dict[str, Any], dict[str, Any]]:
    """A route, and the answers for problems that it refers to, by their names."""
    problems = _problems(codes_of(route))
    needs = "" if route.operation is None else f" It takes the right of `{route.operation}`."
    described: dict[str, Any] = {
        "operationId": _identifier(route),
        "summary": route.summary,
        "description": f"{route.summary}{needs}",
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": _NUMBERS.get(name, NAME)}
            for name in _names(route.path)
        ]
        + [
            {"name": name, "in": "query", "required": field.required, "schema": _schema(field)}
            for name, field in route.query.items()
        ],
        "responses": {
            **{str(status): _answered(each) for status, each in route.answers.items()},
            **{status: {"$ref": f"#/components/responses/{name}"} for status, (name, _) in problems.items()},
        },
    }
    if route.open:
        described["security"] = []
    if route.body:
        content = {JSON: {"schema": dict(route.whole) or object_of(route.body)}}
        content |= {kind: {"schema": dict(shape)} for kind, shape in route.media.items()}
        needed = any(field.required for field in route.body.values()) or bool(route.whole)
        described["requestBody"] = {"content": content} | ({"required": True} if needed else {})
    return described, dict(problems.values())


def _identifier(route: Route) -> str:
    parts = [part.strip("{}").replace(".", "_") for part in route.path.split("/")[1:] if part not in ("api", "v1")]
    return "_".join([route.method.lower(), *parts])


def _names(path: str) -> list[str]:
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]


def object_of(fields: Mapping[str, Field]) -> dict[str, Any]:
    """The shape of an object with no other fields than these. One that need not be there may be null."""
    required = [name for name, field in fields.items() if field.required]
    described: dict[str, Any] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            name: _schema(field) if field.required or field.kind == "any" else maybe(_schema(field))
            for name, field in fields.items()
        },
    }
    return described | ({"required": required} if required else {})


def _schema(field: Field) -> dict[str, Any]:
    if field.kind == "duration":
        return {**field.limits, "description": f"{field.text}: {_DURATION}"}
    if field.kind == "any":
        return {"description": field.text}
    return {"type": field.kind, **field.limits, "description": field.text}


def _answered(answered: Answered) -> dict[str, Any]:
    described: dict[str, Any] = {"description": answered.text}
    if answered.content:
        described["content"] = {kind: {"schema": dict(shape)} for kind, shape in answered.content.items()}
    if answered.headers:
        described["headers"] = {
            name: {"description": text, "schema": {"type": "string"}} for name, text in answered.headers.items()
        }
    return described


def _problems(codes: frozenset[str]) -> dict[str, tuple[str, dict[str, Any]]]:
    """The answers for problems with these codes, by status: a name, and what says which codes it has."""
    by_status: dict[int, list[str]] = {}
    for code in sorted(codes):
        by_status.setdefault(STATUSES[code], []).append(code)
    return {
        str(status): (".".join([str(status), *some]), _problem(status, some))
        for status, some in sorted(by_status.items())
    }


def _problem(status: int, codes: list[str]) -> dict[str, Any]:
    of_these = {"properties": {"status": {"const": status}, "code": {"enum": codes}}}
    shape = {"allOf": [{"$ref": "#/components/schemas/Problem"}, of_these]}
    described: dict[str, Any] = {"description": ", ".join(codes), "content": {MEDIA_TYPE: {"schema": shape}}}
    if status == 401:
        described["headers"] = {"WWW-Authenticate": {"$ref": "#/components/headers/WWW-Authenticate"}}
    elif any(code in RETRY_SECONDS for code in codes):
        described["headers"] = {"Retry-After": {"$ref": "#/components/headers/Retry-After"}}
    return described
