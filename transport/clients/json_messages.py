"""A message as a JSON object, both ways: what ``penstock receive --jsonl`` prints and ``send --jsonl`` takes, and the HTTP API likewise.

Bytes are text where they are UTF-8, in ``payload`` and ``key``; else, or where the text would be much longer than they are, they are in
``payload_base64`` and ``key_base64``. A header's value is a text, or an object ``{"base64": ...}``. An ``id`` has 32 hexadecimal digits.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any, Final, NamedTuple

from actors.batch import ID_BYTES, MAX_HEADERS_PER_MESSAGE, HeaderValue, Message, pack_headers, unpack_headers
from actors.errors import BatchError
from actors.limits import GROUP_HEADER
from transport.clients.sender_batches import MAX_BATCH_BYTES, check_deduplication_id, check_group
from transport.config.units import parse_duration
from transport.errors import ImpossibleTimeError, LocalProtocolError
from transport.wire.amqp_headers import told_headers
from transport.wire.timing import NO_TIMING, Timing, parse_time

MUCH_LONGER: Final = 2
"""A text that takes more than so many times its bytes is written in base64: of control characters each takes six."""
HEX: Final = re.compile(rf"[0-9a-fA-F]{{{2 * ID_BYTES}}}")
TAKEN: Final = frozenset(
    {
        "payload",
        "payload_base64",
        "key",
        "key_base64",
        "headers",
        "id",
        "delay",
        "deliver_at",
        "ttl",
        "priority",
        "group",
        "deduplication_id",
    }
)
"""What a message is made of."""
TIMES: Final = frozenset({"delay", "ttl", "priority", "deliver_at"})
"""Of that, what holds for its batch."""
TOLD: Final = frozenset(
    {"queue", "number", "deliveries", "possibly_replayed", "enqueued", "receipt", "exchange", "routing_key"}
)
"""What is told of a delivery. Who sends the message again passes over it, but for its routing key where it goes to an exchange."""


class Given(NamedTuple):
    """What every message has that says nothing of it.

    Attributes:
        key, headers: these.
        published: whether it goes to an exchange: then ``routing_key`` is the key of one that says no key.
    """

    key: bytes | None = None
    headers: dict[str, HeaderValue] = {}  # noqa: RUF012 - never changed
    published: bool = False


def message_of(found: object, given: Given = Given()) -> tuple[Message, Timing]:  # noqa: B008 - immutable
    """The message that a JSON value is, and its own timing.

    Raises:
        ValueError: it is none; the text says what is wrong with it.
    """
    if not isinstance(found, dict):
        raise ValueError(f"it is no JSON object, but {kind_of(found)}")
    if "headers_base64" in found:
        raise ValueError("headers_base64 are headers that were no map of strings; write headers in their place")
    # There may be very many, of which the first is enough.
    unknown = next((name for name in found if name not in TAKEN and name not in TOLD), None)
    if unknown is not None:
        raise ValueError(f"{unknown!r:.60} is no field of a message; there are {', '.join(sorted(TAKEN))}")
    payload = payload_of(found)
    if payload is None:
        raise ValueError("it has neither payload nor payload_base64")
    key = _bytes(found, "key")
    if key is None and given.published and found.get("routing_key"):
        key = _encoded(found["routing_key"], "routing_key")
    headers = given.headers | _headers(found.get("headers"))
    if (group := found.get("group")) is not None:
        headers[GROUP_HEADER] = _group(group)
    message = Message(
        payload,
        given.key if key is None else key,
        headers or None,
        _id(found.get("id")),
        deduplication_id=found.get("deduplication_id"),
    )
    try:
        if message.deduplication_id is not None:
            check_deduplication_id(message.deduplication_id)
        size = len(payload) + len(message.key or b"") + len(pack_headers(message.all_headers))
    except (BatchError, UnicodeEncodeError, LocalProtocolError) as error:
        raise ValueError(str(error)) from None
    if size > MAX_BATCH_BYTES:
        raise ValueError(f"its message has {size} bytes, and the largest {MAX_BATCH_BYTES}; send a reference to it")
    return message, _timing(found)


def json_of(payload: bytes, key: bytes, packed_headers: bytes) -> dict[str, Any]:
    """The fields of a message that has these. Headers that are no map of strings are in ``headers_base64``."""
    said: dict[str, Any] = {}
    _say(said, "payload", payload)
    if key:
        _say(said, "key", key)
    if packed_headers:
        try:
            headers = told_headers(unpack_headers(packed_headers) or {})
        except BatchError:
            said["headers_base64"] = _base64(packed_headers)
        else:
            said["headers"] = {name: _header(value) for name, value in headers.items()}
    return said


def payload_of(found: dict[str, Any]) -> bytes | None:
    """The payload that ``payload`` or ``payload_base64`` of an object says; None where it has neither.

    Raises:
        ValueError: it has both, or what it has is none.
    """
    return _bytes(found, "payload")


def payload_fields(payload: bytes) -> dict[str, str]:
    """The field that says a payload: as a text, or where it is none in base64."""
    said: dict[str, str] = {}
    _say(said, "payload", payload)
    return said


# --- reading


def _bytes(found: dict[str, Any], name: str) -> bytes | None:
    text, encoded = found.get(name), found.get(f"{name}_base64")
    if text is not None and encoded is not None:
        raise ValueError(f"it has both {name} and {name}_base64")
    if encoded is not None:
        return _from_base64(encoded, f"{name}_base64")
    return None if text is None else _encoded(text, name)


def _encoded(text: object, what: str) -> bytes:
    if not isinstance(text, str):
        raise ValueError(f"{what} is {kind_of(text)}, not a text; what is no text goes into base64")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} has half a character (\\ud800-\\udfff), which no text has") from None


def _from_base64(encoded: object, what: str) -> bytes:
    try:
        if isinstance(encoded, str):
            return base64.b64decode(encoded, validate=True)
    except ValueError:
        pass
    raise ValueError(f"{what} is no base64")


def _headers(found: object) -> dict[str, HeaderValue]:
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ValueError(f"headers is {kind_of(found)}, not an object of texts")
    if len(found) > MAX_HEADERS_PER_MESSAGE:
        # There may be very many, and looking at each takes as long.
        raise ValueError(
            f"{len(found)} headers on one message exceed {MAX_HEADERS_PER_MESSAGE}; put them in the payload"
        )
    headers: dict[str, HeaderValue] = {}
    for name, value in found.items():
        what = f"the header {name!r:.60}"
        _encoded(name, f"the name of {what}")
        if isinstance(value, dict) and value.keys() == {"base64"}:
            headers[name] = _from_base64(value["base64"], what)
        else:
            _encoded(value, what)
            headers[name] = value
    return headers


def _id(found: object) -> bytes | None:
    if found is None:
        return None
    if isinstance(found, str) and HEX.fullmatch(found):
        return bytes.fromhex(found)
    raise ValueError(f"id is no id of {ID_BYTES} bytes: write {2 * ID_BYTES} hexadecimal digits")


def _group(found: object) -> str:
    try:
        return check_group(found)
    except LocalProtocolError as error:
        raise ValueError(str(error)) from None


def _timing(found: dict[str, Any]) -> Timing:
    if not TIMES & found.keys():
        return NO_TIMING
    try:
        at = found.get("deliver_at")
        at = parse_time(at) if isinstance(at, str) else at
        return Timing(_seconds(found.get("delay")), _seconds(found.get("ttl")), found.get("priority"), at)
    except (ImpossibleTimeError, LocalProtocolError) as error:
        raise ValueError(str(error)) from None


def _seconds(value: Any) -> float | None:
    return parse_duration(value) if isinstance(value, str) else value


def kind_of(value: object) -> str:
    """What a JSON value is, in words."""
    kinds = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "a text",
        list: "a list",
        dict: "an object",
    }
    return kinds.get(type(value), "null")


# --- writing


def _say(said: dict[str, Any], name: str, value: bytes) -> None:
    text = _text(value)
    if text is None:
        said[f"{name}_base64"] = _base64(value)
    else:
        said[name] = text


def _text(value: bytes) -> str | None:
    """As a text; None where it is none, or one that is much longer when it is written."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    if text.isprintable():
        # Quotes and backslashes take two bytes each, which is the most that is allowed.
        return text
    return text if len(json.dumps(text, ensure_ascii=False).encode()) <= MUCH_LONGER * len(value) + 64 else None


def _header(value: HeaderValue) -> str | dict[str, str]:
    if isinstance(value, bytes):
        return {"base64": _base64(value)}
    return value


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()
