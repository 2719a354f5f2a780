"""What messages over HTTP, and what is asked about them, are made of: the fields of their requests, and how much there may be of each."""

from __future__ import annotations

from typing import Final

from actors.limits import (
    MAX_DEDUPLICATION_ID_BYTES,
    MAX_DELAY_SECONDS,
    MAX_GROUP_BYTES,
    MAX_PRIORITY,
    MAX_TTL_SECONDS,
    MAX_VISIBILITY_SECONDS,
)
from actors.queue.vocabulary.takes import MAX_TAKE_MESSAGES, MAX_TAKE_WAIT_SECONDS
from transport.clients.json_messages import TAKEN, TOLD
from transport.gateways.http import described
from transport.gateways.http.openapi import object_of
from transport.gateways.http.routes import Field
from transport.gateways.http.shapes import BASE64, BYTES, TEXT, both, from_one_to, one_of, seconds_to, several

MAX_PUBLISH_WAIT: Final = 60.0
"""Seconds that a request may wait for room."""
MAX_PUBLISH_MESSAGES: Final = 10_000
"""Of one request."""
MAX_RECEIPTS: Final = 1_000
"""Of one request, as many as one takes."""
DEFAULT_TAKE_BYTES: Final = 4 * 1024 * 1024
MAX_TAKE_BYTES: Final = 16 * 1024 * 1024
"""Of the messages of one request: of their payloads, keys and headers."""
OCTETS: Final = "application/octet-stream"

_DURATION = "duration"
_RECEIPTS: Final = {
    "receipt": Field("string", "what a take gave with the message"),
    "receipts": Field(
        "array",
        f"several of them, at most {MAX_RECEIPTS}",
        limits={"items": TEXT, "minItems": 1, "maxItems": MAX_RECEIPTS},
    ),
}
ONE_OF_BOTH: Final = one_of("receipt", "receipts")
_HELD: Final = seconds_to(MAX_VISIBILITY_SECONDS)
_DELAYED: Final = seconds_to(MAX_DELAY_SECONDS)
_DEDUPLICATION_ID: Final = {"minLength": 1, "maxLength": MAX_DEDUPLICATION_ID_BYTES}
_GROUP: Final = {"minLength": 1, "maxLength": MAX_GROUP_BYTES}
_PRIORITY: Final = {"minimum": 0, "maximum": MAX_PRIORITY}
MESSAGE: Final = {
    "payload": Field("string", "the payload, where it is text"),
    "payload_base64": Field("string", "the payload, where it is any bytes", limits=BASE64),
    "key": Field("string", "its key, where that is text"),
    "key_base64": Field("string", "its key, where that is any bytes", limits=BASE64),
    "headers": Field("object", 'texts by their names, or objects {"base64": ...}', limits=described.HEADERS),
    "id": Field("string", "32 hexadecimal digits; without one the broker gives one"),
    "group": Field("string", "of a queue with groups one receiver at a time has what is of one", limits=_GROUP),
    "delay": Field(_DURATION, "until it can be received", limits=_DELAYED),
    "deliver_at": Field("any", "in its place the time from when it can be received: seconds since 1970, or RFC 3339"),
    "ttl": Field(_DURATION, "after which it is of no use", limits=seconds_to(MAX_TTL_SECONDS)),
    "priority": Field(
        "integer", "before what has a lower one it is received, where the queue has levels", limits=_PRIORITY
    ),
    "deduplication_id": Field(
        "string",
        "one message with this id is stored within the queue's window, where it has one",
        limits=_DEDUPLICATION_ID,
    ),
}
assert MESSAGE.keys() == TAKEN, "what a message is made of"
_MESSAGE: Final = {
    **object_of(
        MESSAGE
        | {name: Field("any", "as a take told it; of no meaning here") for name in sorted(TOLD)}
        | {"routing_key": Field("any", "the key of a message without one, where it goes to an exchange")}
    ),
    **one_of("payload", "payload_base64"),
    "not": both("key", "key_base64"),
}
PUBLISHED: Final = {
    "anyOf": [
        _MESSAGE,
        {
            "type": "object",
            "additionalProperties": False,
            "required": ["messages"],
            "properties": {
                "messages": {**several(_MESSAGE), "minItems": 1, "maxItems": MAX_PUBLISH_MESSAGES},
            },
        },
    ]
}
TAKE: Final = {
    "messages": Field("integer", "how many at most; 1 unless told", limits=from_one_to(MAX_TAKE_MESSAGES)),
    "bytes": Field(
        "integer", "of them together at most, but one message in any case", limits=from_one_to(MAX_TAKE_BYTES)
    ),
    "wait": Field(_DURATION, "for the first message; 0 unless told", limits=seconds_to(MAX_TAKE_WAIT_SECONDS)),
    "visibility": Field(_DURATION, "for which they are held; the queue's own by default", limits=_HELD),
}
ACKNOWLEDGE: Final = _RECEIPTS
RETURN: Final = _RECEIPTS | {
    "delay": Field(_DURATION, "until they can be received again", limits=_HELD),
    "failed": Field("boolean", "whether that counts as a failure: true by default"),
}
EXTEND: Final = _RECEIPTS | {
    "seconds": Field(_DURATION, "from now, for which they are held", required=True, limits=_HELD)
}
PUBLISH_QUERY: Final = {
    "wait": Field(_DURATION, "for room in the queue; 0 unless told", limits=seconds_to(MAX_PUBLISH_WAIT)),
    "delay": Field(_DURATION, "of messages that have none of their own", limits=_DELAYED),
    "deliver_at": Field("string", "likewise: seconds since 1970, or RFC 3339"),
    "ttl": Field(_DURATION, "likewise", limits=seconds_to(MAX_TTL_SECONDS)),
    "priority": Field("integer", "likewise", limits=_PRIORITY),
    "group": Field("string", "likewise, of a queue with groups", limits=_GROUP),
    "key": Field("string", "of the message, where the body is its bytes"),
    "deduplication_id": Field("string", "likewise", limits=_DEDUPLICATION_ID),
}
ANY_BYTES: Final = {OCTETS: {**BYTES, "description": "one message, as it is; so is a body of any other type"}}
