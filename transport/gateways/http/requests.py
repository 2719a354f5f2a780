"""What a request says, read within bounds: its body, its query, and the JSON in it."""

from __future__ import annotations

import asyncio
import json
import math
from typing import TYPE_CHECKING, Any, Final

from aiohttp import HttpVersion11

from transport.clients.json_messages import kind_of
from transport.config.units import parse_duration
from transport.gateways.http.problems import ProblemError
from transport.picture.slices import own_turn
from transport.wire.field_checks import MAX_INTEGER

if TYPE_CHECKING:
    from collections.abc import Collection

    from aiohttp import web

    from transport.gateways.http.routes import Call, Field

MAX_BODY_BYTES: Final = 16 * 1024 * 1024
"""Of a request: what a frame of the native protocol may have."""
MAX_FIELDS_BYTES: Final = 256 * 1024
"""Of a body that has no messages: four times what the most receipts take. In memory JSON may take twenty times its bytes."""
LEAST_BYTES_A_SECOND: Final = 1024
BODY_SECONDS: Final = 10.0
"""A body comes at this rate at least, behind so many seconds."""
AT_ONCE_BYTES: Final = 4 * 1024
"""Of JSON, which takes half a millisecond at most. What has more has a turn of the loop without another such."""
ASIDE_BYTES: Final = 64 * 1024
"""Of JSON, beyond which it is parsed by another thread."""
MOST_DIGITS: Final = 100
"""Of a number. Those of some thousand digits take longer to read than all else, and no other thread runs meanwhile."""
MOST_VALUES: Final = 500_000
"""Of a body of JSON: 10,000 messages may have fifty each."""
JSON: Final = "application/json"


async def body_of(call: Call, most: int | None = None) -> bytes:
    """A request's body, of so many bytes at most; of `MAX_BODY_BYTES` unless told.

    Raises:
        ProblemError: it is too large, or comes too slowly, or there is no room for it.
    """
    request = call.request
    most = MAX_BODY_BYTES if most is None else most
    announced = request.content_length
    if announced is not None and announced > most:
        raise _too_large(announced, most)
    await _go_on(call)
    content = request.content
    if content.is_eof():
        # It came with its head, as small ones do: nothing is waited for.
        whole = content.read_nowait(-1)
        if len(whole) > most:
            raise _too_large(len(whole), most)
        call.share.take(len(whole))
        _has_come(request)
        return whole
    loop = asyncio.get_running_loop()
    parts: list[bytes] = []
    began, size = loop.time(), 0
    try:
        while True:
            async with asyncio.timeout_at(began + BODY_SECONDS + size / LEAST_BYTES_A_SECOND):
                part = await content.readany()
            if not part:
                return b"".join(parts)
            size += len(part)
            if size > most:
                raise _too_large(size, most)
            call.share.take(len(part))
            parts.append(part)
    except TimeoutError:
        raise ProblemError(
            "too-slow",
            f"the body comes more slowly than {LEAST_BYTES_A_SECOND} bytes a second",
            headers={"Connection": "close"},
        ) from None


def wait_long(call: Call) -> None:
    """The request is about to wait: let go of what it does not need meanwhile.

    That is the timer of aiohttp for connections on which nobody asks anything, which begins anew behind the answer; and what it has
    worked out of the head, which it works out again when somebody asks.
    """
    call.request.protocol.keep_alive(True)
    call.request._cache.clear()


def _has_come(request: web.BaseRequest) -> None:
    """A body has been read to its end: drop its buffer, an empty `deque` of 700 bytes, which a request would keep as long as it waits."""
    request.content._buffer = ()  # type: ignore[assignment]  # nothing is put into it behind the end


async def _go_on(call: Call) -> None:
    """Tell a client that waits for it (RFC 9110, 10.1.1) to send its body."""
    expected = call.request.headers.get("Expect")
    if expected is None or call.request.version < HttpVersion11:
        # A client of before knows no such answer (RFC 9110, 10.1.1).
        return
    if expected.lower() != "100-continue":
        raise ProblemError("expectation-failed", f"a request expects {expected!r:.40}; 100-continue is possible")
    writer = call.request.writer
    await writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    # The answer itself has not begun.
    writer.output_size = 0


def _too_large(size: int, most: int) -> ProblemError:
    text = f"the body has {size} bytes or more, and the largest has {most}: send less at a time"
    return ProblemError("frame-too-large", text, headers={"Connection": "close"})


async def json_body(call: Call, fields: Collection[str], most: int | None = None) -> dict[str, Any]:
    """The JSON object that a request has for a body, with no other fields than these; an empty body is an object without any.

    A field that is null is as if it were not there.

    Raises:
        ProblemError: it is none.
    """
    request, body = call.request, await body_of(call, MAX_FIELDS_BYTES if most is None else most)
    if not body:
        return {}
    if request.content_type != JSON and not request.content_type.endswith("+json"):
        # A form of another page would be sent without asking; it is no JSON.
        raise ProblemError(
            "unsupported-media-type", f"the body is {request.content_type:.60}, not {JSON} (curl --json)"
        )
    found = await parsed_aside(call, body)
    if not isinstance(found, dict):
        raise ProblemError("protocol-error", f"the body is no JSON object, but {kind_of(found)}")
    check_fields(found, fields, "the body")
    return {name: value for name, value in found.items() if value is not None}


def parsed(body: bytes) -> Any:
    """The JSON value that a body is (RFC 8259); raises ProblemError where it is none, or has a name twice in an object."""
    try:
        # As bytes it might be UTF-16 as well, and others would read something else in it.
        return _DECODER.decode(body.decode())
    except (ValueError, RecursionError) as error:
        raise ProblemError("protocol-error", f"the body is no JSON: {error}") from None


async def parsed_aside(call: Call, body: bytes) -> Any:
    """As `parsed`, of a body that may be large: others have their turns meanwhile.

    One is looked at by a thread at a time. More would be no faster, and would keep the loop from its turns. What waits for that here is let
    go of with its request; what waited for a thread would be kept, and counted no more.
    """
    if len(body) <= AT_ONCE_BYTES:
        return parsed(body)
    if len(body) <= ASIDE_BYTES:
        await own_turn()
        return parsed(body)
    aside = call.share.aside
    await aside.acquire()
    looking = asyncio.get_running_loop().run_in_executor(None, _bounded, body)
    # The thread goes on, whoever gives up.
    looking.add_done_callback(lambda _: aside.release())
    return await asyncio.shield(looking)


def _bounded(body: bytes) -> Any:
    """As `parsed`, of a body with no more values than may be: each takes a hundred bytes of memory, and few of the body."""
    # Without what is escaped each second piece between quotes is no text.
    bare = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    quotes = bare.count(b'"')
    values = quotes // 2
    if values <= MOST_VALUES:
        structure = b"".join(bare.split(b'"')[::2])
        values = max(values, sum(structure.count(each) for each in (b",", b"[", b"{")))
    if values > MOST_VALUES:
        raise ProblemError(
            "frame-too-large",
            f"the body has {values} values, and {MOST_VALUES} are the most: send fewer messages at a time",
        )
    return parsed(body)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Readers differ in which of two fields of one name they take; so there may be none."""
    found = dict(pairs)
    if len(found) != len(pairs):
        before: set[str] = set()
        twice = next(name for name, _ in pairs if name in before or before.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"{twice!r:.60} is there twice in an object")
    return found


def _no_number(constant: str) -> Any:
    """What `json` takes beside JSON: NaN and infinities."""
    raise ValueError(f"{constant} is no number of JSON")


def _short(digits: str) -> str:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a number has {len(digits)} digits, and {MOST_DIGITS} are the most")
    return digits


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_each_once,
    parse_int=lambda digits: int(_short(digits)),
    parse_float=lambda digits: float(_short(digits)),
    parse_constant=_no_number,
)


def check_fields(found: dict[str, Any], fields: Collection[str], what: str) -> None:
    """Raise ProblemError for a field that is none of these: what it asks would not be done."""
    # There may be very many, of which the first is enough.
    unknown = next((name for name in found if name not in fields), None)
    if unknown is not None:
        there = f"there are {', '.join(sorted(fields))}" if fields else "there are none"
        raise ProblemError("protocol-error", f"{unknown!r:.60} is no field of {what}; {there}")


def whole(found: Any, name: str, default: int | None, least: int = 1, most: int = MAX_INTEGER) -> int | None:
    """A whole number within bounds; ``default`` for None."""
    if found is None:
        return default
    if type(found) is not int or not least <= found <= most:
        raise ProblemError("protocol-error", f"{name} is {found!r:.40}, not a whole number from {least} to {most}")
    return found


def digits(found: str) -> Any:
    """The whole number that a text of a query or a path is; as it is where it is none."""
    return int(found) if found.isascii() and found.isdigit() and len(found) < 20 else found


def whole_in_query(found: str | None, name: str, field: Field) -> int | None:
    """A whole number within the limits of a field of the query; None where it is not there."""
    least, most = field.limits.get("minimum", 0), field.limits.get("maximum", MAX_INTEGER)
    return None if found is None else whole(digits(found), name, None, least, most)


def flag_in_query(found: str, name: str) -> bool:
    """True or false as a query has it."""
    return flag({"true": True, "false": False}.get(found, found), name, False)


def typed_in_query(found: str, name: str, field: Field) -> Any:
    """A field of the query, of its type."""
    if field.kind == "integer":
        return whole_in_query(found, name, field)
    if field.kind == "boolean":
        return flag_in_query(found, name)
    return found


def seconds(found: Any, name: str, default: float | None, most: float) -> float | None:
    """A time as a number of seconds, or as the command line writes it (``500ms``); ``default`` for None."""
    if found is None:
        return default
    try:
        value = parse_duration(found) if isinstance(found, str) else found
    except ValueError as error:
        raise ProblemError("protocol-error", f"{name}: {error}") from None
    if (
        not isinstance(value, int | float)
        or isinstance(value, bool)
        or not 0 <= value <= most
        or not math.isfinite(value)
    ):
        raise ProblemError("protocol-error", f"{name} is {found!r:.40}, not a time from 0 to {most:g} seconds")
    return float(value)


def flag(found: Any, name: str, default: bool) -> bool:
    """True or false; ``default`` for None."""
    if found is None:
        return default
    if type(found) is not bool:
        raise ProblemError("protocol-error", f"{name} is {found!r:.40}, not true or false")
    return found


def text(found: Any, name: str, default: str | None = None) -> str | None:
    """A text; ``default`` for None."""
    if found is None:
        return default
    if not isinstance(found, str):
        raise ProblemError("protocol-error", f"{name} is {kind_of(found)}, not a text")
    return found
