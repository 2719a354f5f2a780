"""The table of routes: method and path, the row of `OPERATIONS` that each needs, and what carries it out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

from transport.gateways.http.problems import ProblemError
from transport.wire.names import check_name

if TYPE_CHECKING:
    from aiohttp import web

    from transport.broker.operations import Operations
    from transport.gateways.http.answers import Answer
    from transport.gateways.http.console.sessions import Session
    from transport.gateways.http.held import Share
    from transport.gateways.http.receipts import Receipts
    from transport.gateways.http.shapes import Answered, Shape
    from transport.gateways.http.signing import Signing

PREFIX: Final = "/api/v1"
MOST_FOUND: Final = 512
"""Methods and paths whose route is remembered; each has 8 KiB at most."""
KINDS: Final = {
    "exchange": "exchange",
    "schedule": "schedule",
    "subscription": "subscription",
    "writer": "writer",
    "member": "node",
    "id": "connection",
    "version": "version",
}
"""What the names in paths are names of; all others are queues'."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request on its way to what carries it out.

    Attributes:
        request: as it came.
        operations: the door, for whoever asks.
        names: what stands in the path for each name in braces.
        receipts: what names messages that are taken.
        share: counts the bytes that its body and its answer hold.
        signing: signs people in who ask with a browser.
        session: the one that vouches for whoever asks; None where something else does.
    """

    request: web.BaseRequest
    operations: Operations
    names: Mapping[str, str]
    receipts: Receipts
    share: Share
    signing: Signing
    session: Session | None = None


class Field(NamedTuple):
    """A field of a body, or of a query.

    Attributes:
        kind: its JSON type; ``any``; or ``duration``, a number of seconds or a text such as ``500ms``.
        text: what it means.
        required: whether it must be there.
        limits: what JSON Schema says of it beside its type.
    """

    kind: str
    text: str
    required: bool = False
    limits: Shape = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Route:
    """A row of the table.

    Attributes:
        method: of HTTP.
        path: below `PREFIX`, with names in braces.
        operation: the row of `OPERATIONS` whose right it takes; None where it takes none.
        summary: what it does.
        handler: what does it.
        body: the fields of its body.
        query: the fields of its query.
        open: whether it is answered whoever asks.
        answers: the ways in which it answers where it does what it is asked, by their statuses.
        refuses: codes of problems that it may answer with, beside those of all routes of its form: see `openapi.codes_of`.
        media: further types of its body, each with its shape.
        whole: the shape of its body, where the fields do not say it.
        ends: whether its answer ends by itself: a stream of events does not.
        of_any_node: whether it is about the cluster, and any node of it answers.
    """

    method: str
    path: str
    operation: str | None
    summary: str
    handler: Callable[[Call], Awaitable[Answer]]
    body: Mapping[str, Field] = field(default_factory=dict)
    query: Mapping[str, Field] = field(default_factory=dict)
    open: bool = False
    answers: Mapping[int, Answered] = field(default_factory=dict)
    refuses: frozenset[str] = frozenset()
    media: Mapping[str, Shape] = field(default_factory=dict)
    whole: Shape = field(default_factory=dict)
    ends: bool = True
    of_any_node: bool = False

    @property
    def everywhere(self) -> bool:
        """Whether a broker answers it that does not lead its cluster: what is asked of the process itself."""
        return self.open or self.of_any_node or self.path.startswith("/metrics")


class Table:
    """Finds the route of a request.

    Args:
        routes: all there are; no two have a method and a path of the same shape.
    """

    def __init__(self, routes: tuple[Route, ...]) -> None:
        self.routes = routes
        # Most requests are about one of a few queues.
        self.find = lru_cache(MOST_FOUND)(self._find)
        self._by_shape: dict[tuple[str | None, ...], dict[str, Route]] = {}
        for route in routes:
            methods = self._by_shape.setdefault(_shape(route.path), {})
            assert route.method not in methods, f"{route.method} {route.path} is there twice"
            methods[route.method] = route

    def _find(self, method: str, raw_path: str) -> tuple[Route, Mapping[str, str]]:
        """The route of a method and a path as it came, with percent signs; and the names in it.

        Raises:
            ProblemError: there is none.
            InvalidNameError: a name in it cannot be one.
        """
        try:
            parts = tuple(unquote(part, errors="strict") for part in raw_path.split("/")[1:])
        except UnicodeDecodeError:
            raise ProblemError("invalid-name", "the path has a name that is not UTF-8") from None
        for shape in _shapes(parts):
            methods = self._by_shape.get(shape)
            if methods is None:
                continue
            route = methods.get(method) or (methods.get("GET") if method == "HEAD" else None)
            if route is None:
                allowed = ", ".join(sorted(methods))
                text = f"{method:.20} is not possible there; {allowed} is"
                raise ProblemError("method-not-allowed", text, headers={"Allow": allowed})
            named = route.path.split("/")[1:]
            names = {name[1:-1]: part for name, part in zip(named, parts, strict=True) if name.startswith("{")}
            if not all(names.values()):
                continue
            for what, name in names.items():
                check_name(name, KINDS.get(what, "queue"))
            return route, MappingProxyType(names)
        raise ProblemError("not-found", f"there is nothing at this path: {PREFIX}/openapi.json says what there is")


def _shape(path: str) -> tuple[str | None, ...]:
    """A path's parts, with None for a name."""
    return tuple(None if part.startswith("{") else part for part in path.split("/")[1:])


def _shapes(parts: tuple[str, ...]) -> Iterator[tuple[str | None, ...]]:
    """What shapes a path may have: some of its parts, from the third on, may be names."""
    few = parts[:8]
    if len(parts) > len(few):
        return
    free = range(min(3, len(few)), len(few))
    for bits in range(1 << len(free)):
        yield tuple(None if index in free and bits >> (index - 3) & 1 else part for index, part in enumerate(few))
