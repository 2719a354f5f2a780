"""Messages over HTTP: publish, take, and say what became of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from actors import BatchError, MessageBatch
from actors.batch import ID_BYTES, Message
from actors.limits import (
    GROUP_HEADER,
    MAX_DELAY_SECONDS,
    MAX_VISIBILITY_SECONDS,
)
from actors.queue.vocabulary.replies import Lost
from actors.queue.vocabulary.takes import MAX_TAKE_MESSAGES, MAX_TAKE_WAIT_SECONDS, Settlement
from transport.broker.asked_to_publish import Piece
from transport.broker.served import RefusalError
from transport.clients.json_messages import Given, json_of, kind_of, message_of
from transport.clients.sender_batches import check_deduplication_id, check_group
from transport.errors import ImpossibleTimeError, LocalProtocolError
from transport.gateways.http import described, requests
from transport.gateways.http import receipts as names
from transport.gateways.http.answers import Answer
from transport.gateways.http.message_fields import (
    ACKNOWLEDGE,
    ANY_BYTES,
    DEFAULT_TAKE_BYTES,
    EXTEND,
    MAX_PUBLISH_MESSAGES,
    MAX_PUBLISH_WAIT,
    MAX_RECEIPTS,
    MAX_TAKE_BYTES,
    MESSAGE,
    OCTETS,
    ONE_OF_BOTH,
    PUBLISH_QUERY,
    PUBLISHED,
    RETURN,
    TAKE,
)
from transport.gateways.http.openapi import object_of
from transport.gateways.http.problems import STATUSES, ProblemError
from transport.gateways.http.routes import Call, Route
from transport.gateways.http.shapes import (
    BYTES,
    Answered,
    answers,
)
from transport.picture.slices import Slices
from transport.wire.timing import Timing, parse_time

if TYPE_CHECKING:
    from actors.queue.vocabulary.replies import ReceivedMessages
    from transport.broker.takers import Taker
    from transport.gateways.http.receipts import Receipts

GATEWAY: Final = "http"
RECEIPT, NUMBER, DELIVERIES, KEY = "Penstock-Receipt", "Penstock-Number", "Penstock-Deliveries", "Penstock-Key"
"""Headers of an answer that is a message's bytes."""
MAX_KEY_HEADER: Final = 4096
"""Bytes of a key in a header of the answer. Clients take lines of 8 KiB, and some less; who wants the key of any message takes JSON."""

_LOST: Final = {
    Lost.GONE: (names.GONE, "the message is not in the queue any more: it was acknowledged, moved or purged"),
    Lost.EXPIRED: (names.EXPIRED, "the time of this delivery is over, or it was returned: the message comes again"),
}


# --- publish


async def publish(call: Call) -> Answer:
    """Store the messages of a request; answered when they are durable."""
    query, queue = call.request.query, call.names["name"]
    wait = requests.seconds(query.get("wait"), "wait", 0.0, MAX_PUBLISH_WAIT) or 0.0
    # Before the body is read: who may not publish has nothing parsed.
    call.operations.may_publish(queue)
    pieces = await pieces_of(call)
    try:
        parts = await call.operations.publisher(GATEWAY, queue).publish(*pieces, wait=wait)
    except RefusalError as error:
        raise ProblemError(error.code, str(error), {"stored": getattr(error, "stored", 0)}) from None
    numbers = ",".join(
        [
            text
            for first, count in parts
            for text in (["null"] * count if first is None else map(str, range(first, first + count)))
        ]
    )
    return Answer(b'{"numbers":[%b]}' % numbers.encode(), 201)


# --- take


async def take(call: Call) -> Answer:
    """Take messages, within a time."""
    asked = await requests.json_body(call, TAKE)
    octets = OCTETS in call.request.headers.get("Accept", "")
    messages = requests.whole(asked.get("messages"), "messages", 1, most=MAX_TAKE_MESSAGES) or 1
    if octets and messages != 1:
        raise ProblemError("protocol-error", f"an answer of {OCTETS} is one message: ask for no more")
    size = requests.whole(asked.get("bytes"), "bytes", DEFAULT_TAKE_BYTES, most=MAX_TAKE_BYTES) or 1
    wait = requests.seconds(asked.get("wait"), "wait", 0.0, MAX_TAKE_WAIT_SECONDS) or 0.0
    visibility = requests.seconds(asked.get("visibility"), "visibility", None, MAX_VISIBILITY_SECONDS)
    if visibility == 0:
        raise ProblemError("protocol-error", "visibility is 0 s, and a message is held for more than that")
    taker = call.operations.taker(GATEWAY, call.names["name"])
    if wait:
        requests.wait_long(call)
    del asked
    taken = await taker.take(messages, size, wait, visibility)
    try:
        answer = (
            _bytes(call.receipts, taker, taken)
            if octets
            else Answer({"messages": list(_rows(call.receipts, taker, taken))})
        )
    except BaseException:
        taker.unseen(taken)
        raise
    return Answer(
        answer.body,
        answer.status,
        answer.headers,
        answer.content_type,
        lambda: taker.seen(taken),
        lambda: taker.unseen(taken),
    )


def _rows(receipts: Receipts, taker: Taker, taken: tuple[ReceivedMessages, ...]) -> Iterable[dict[str, Any]]:
    for each in taken:
        batch = each.batch
        at = datetime.fromtimestamp(each.enqueued_us // 1_000_000, UTC).replace(
            microsecond=each.enqueued_us % 1_000_000
        )
        for index, payload in enumerate(batch.payloads.tolist()):
            number = each.first + index
            key = b"" if batch.keys is None else batch.keys[index]
            row = json_of(payload, key, b"" if batch.headers is None else batch.headers[index])
            row |= {
                "id": _id(taker, batch, number, index).hex(),
                "number": number,
                "deliveries": each.delivery_count,
                "possibly_replayed": each.possibly_replayed,
                "enqueued": at.isoformat(timespec="microseconds").replace("+00:00", "Z"),
                "receipt": receipts.make(_queue_of(taker), number, each.delivery_count),
            }
            if each.published is not None:
                row |= {"exchange": each.published.exchange, "routing_key": each.published.key_of(key)}
            if each.priority:
                row["priority"] = each.priority
            yield row


def _bytes(receipts: Receipts, taker: Taker, taken: tuple[ReceivedMessages, ...]) -> Answer:
    if not taken:
        return Answer(None, 204)
    (row,) = _rows(receipts, taker, taken)
    headers = {RECEIPT: row["receipt"], NUMBER: str(row["number"]), DELIVERIES: str(row["deliveries"])}
    if isinstance(key := row.get("key"), str) and len(key) <= MAX_KEY_HEADER and key.isascii() and key.isprintable():
        headers[KEY] = key
    return Answer(bytes(taken[0].batch.payloads[0]), 200, headers, OCTETS)


# --- settle


async def acknowledge(call: Call) -> Answer:
    """Messages are done with."""
    asked = await requests.json_body(call, ACKNOWLEDGE)
    return await _settle(call, asked, Settlement.ACKNOWLEDGE)


async def give_back(call: Call) -> Answer:
    """Messages come again, or are dead letters."""
    asked = await requests.json_body(call, RETURN)
    delay = requests.seconds(asked.get("delay"), "delay", 0.0, MAX_VISIBILITY_SECONDS) or 0.0
    failed = requests.flag(asked.get("failed"), "failed", True)
    return await _settle(call, asked, Settlement.RETURN, seconds=delay, failed=failed)


async def extend(call: Call) -> Answer:
    """Messages are held for longer."""
    asked = await requests.json_body(call, EXTEND)
    if asked.get("seconds") is None:
        raise ProblemError(
            "protocol-error", "the body has no seconds: for how long the messages are to be held, from now"
        )
    held = requests.seconds(asked["seconds"], "seconds", None, MAX_VISIBILITY_SECONDS)
    return await _settle(call, asked, Settlement.EXTEND, seconds=held or 0.0)


async def _settle(
    call: Call, asked: dict[str, Any], how: Settlement, *, seconds: float = 0.0, failed: bool = True
) -> Answer:
    texts = _receipts_of(asked)
    taker = call.operations.taker(GATEWAY, call.names["name"])
    problems: list[dict[str, str]] = []
    read: dict[str, names.Taken] = {}
    for each in texts:
        try:
            read[each] = call.receipts.read(each, _queue_of(taker), taker.name)
        except RefusalError as error:
            problems.append({"receipt": each, "code": error.code, "detail": str(error)})
    lost = await taker.settle(read.values(), how, seconds=seconds, failed=failed) if read else {}
    for each, taken in read.items():
        if (why := lost.get(taken)) is not None:
            code, detail = _LOST[why]
            problems.append({"receipt": each, "code": code, "detail": detail})
    if problems and len(texts) == 1:
        raise ProblemError(problems[0]["code"], problems[0]["detail"])
    return Answer({"settled": len(texts) - len(problems), "problems": problems})


def _queue_of(taker: Taker) -> int:
    """What stands for the queue in receipts: its ids begin with it, and those of no other."""
    return int.from_bytes(taker.id_prefix, "big")


def _id(taker: Taker, batch: MessageBatch, number: int, index: int) -> bytes:
    if batch.ids is not None:
        return bytes(batch.ids[index * ID_BYTES : (index + 1) * ID_BYTES])
    return taker.id_prefix + number.to_bytes(8, "big")


def _receipts_of(asked: dict[str, Any]) -> list[str]:
    """The receipts of a body, each once."""
    one, many = asked.get("receipt"), asked.get("receipts")
    if (one is None) is (many is None):
        raise ProblemError("protocol-error", "the body has a receipt, or receipts: one of both")
    texts = [one] if many is None else many
    if not isinstance(texts, list) or not all(isinstance(each, str) and each.isascii() for each in texts):
        raise ProblemError("protocol-error", "receipts are texts, as a take gave them")
    if not 1 <= len(texts) <= MAX_RECEIPTS:
        raise ProblemError("protocol-error", f"{len(texts)} receipts: 1 to {MAX_RECEIPTS} are possible")
    return list(dict.fromkeys(texts))


async def pieces_of(call: Call, given: Given = Given()) -> list[Piece]:  # noqa: B008 - immutable
    """What a request has to be stored, in its order: batches of messages that are alike in their times, and in whether they have ids."""
    request, query, until = call.request, call.request.query, call.operations.delay_until
    body = await requests.body_of(call)
    try:
        timing = Timing(
            requests.seconds(query.get("delay"), "delay", None, MAX_DELAY_SECONDS),
            requests.seconds(query.get("ttl"), "ttl", None, 2**40),
            requests.whole_in_query(query.get("priority"), "priority", PUBLISH_QUERY["priority"]),
            None if (at := query.get("deliver_at")) is None else parse_time(at),
        )
        if (group := query.get("group")) is not None:
            given = given._replace(headers={GROUP_HEADER: check_group(group)})
        if request.content_type != requests.JSON:
            key, deduplication_id = query.get("key"), query.get("deduplication_id")
            if deduplication_id is not None:
                check_deduplication_id(deduplication_id)
            named = None if key is None else key.encode()
            message = Message(body, named, given.headers or None, deduplication_id=deduplication_id)
            plain = key is None and deduplication_id is None and not given.headers
            batch = MessageBatch.from_payloads([body]) if plain else MessageBatch.from_messages([message])
            return [Piece(batch, timing.delay_by(until), timing.ttl, timing.priority or 0)]
        found = _messages_of(await requests.parsed_aside(call, body))
        made, slices = [], Slices()
        for each in found:
            made.append(message_of(each, given))
            await slices.pause()
        pieces = []
        for (when, _), alike in groupby(made, key=lambda each: (_timing(each[1], timing), each[0].id is not None)):
            batch = MessageBatch.from_messages([message for message, _ in alike])
            pieces.append(Piece(batch, when.delay_by(until), when.ttl, when.priority or 0))
            await slices.pause()
        return pieces
    except (ValueError, BatchError, ImpossibleTimeError, LocalProtocolError) as error:
        raise ProblemError("protocol-error", str(error)) from None


def _timing(own: Timing, of_request: Timing) -> Timing:
    return own.or_else(of_request)


def _messages_of(found: Any) -> list[Any]:
    """One message, or those in the field ``messages``."""
    if not isinstance(found, dict):
        raise ValueError(f"the body is no JSON object, but {kind_of(found)}")
    if "messages" not in found:
        return [found]
    requests.check_fields(found, ("messages",), "a body with messages")
    given = found["messages"]
    if not isinstance(given, list) or not 1 <= len(given) <= MAX_PUBLISH_MESSAGES:
        raise ValueError(f"messages is no list of 1 to {MAX_PUBLISH_MESSAGES} messages")
    return given


_SETTLED: Final = answers(described.SETTLED, "how many were settled, and what is wrong with each of the others")
_UNFIT: Final = frozenset(code for code, _ in _LOST.values()) | {names.INVALID, names.FOREIGN, names.STALE}

_OF_QUEUE: Final = "/api/v1/queues/{name}"
ROUTES: Final = (
    Route(
        "POST",
        f"{_OF_QUEUE}/messages",
        "sender",
        "Publish a message, or several in the field messages; answered when they are durable.",
        publish,
        MESSAGE,
        PUBLISH_QUERY,
        answers=answers(described.PUBLISHED, "all are durable; their numbers, null of duplicates and what waits", 201),
        refuses=frozenset({"queue-full"}),
        media=ANY_BYTES,
        whole=PUBLISHED,
    ),
    Route(
        "POST",
        f"{_OF_QUEUE}/take",
        "receiver",
        "Take messages; each comes with a receipt.",
        take,
        TAKE,
        answers={
            200: Answered(
                "what there is, which may be nothing; or the bytes of one message",
                {requests.JSON: described.TAKEN, OCTETS: BYTES},
                dict.fromkeys((RECEIPT, NUMBER, DELIVERIES, KEY), "of the message, where the answer is its bytes"),
            ),
            204: Answered("nothing came in time, and the bytes of a message were asked for"),
        },
    ),
    Route(
        "POST",
        f"{_OF_QUEUE}/acknowledge",
        "receiver",
        "Messages are done with, and gone for good.",
        acknowledge,
        ACKNOWLEDGE,
        answers=_SETTLED,
        refuses=_UNFIT,
        whole={**object_of(ACKNOWLEDGE), **ONE_OF_BOTH},
    ),
    Route(
        "POST",
        f"{_OF_QUEUE}/return",
        "receiver",
        "Messages come again.",
        give_back,
        RETURN,
        answers=_SETTLED,
        refuses=_UNFIT,
        whole={**object_of(RETURN), **ONE_OF_BOTH},
    ),
    Route(
        "POST",
        f"{_OF_QUEUE}/extend",
        "receiver",
        "Messages are held for longer.",
        extend,
        EXTEND,
        answers=_SETTLED,
        refuses=_UNFIT,
        whole={**object_of(EXTEND), **ONE_OF_BOTH},
    ),
)
assert all(code in STATUSES for code, _ in _LOST.values()), "each code has a status"


def json_bytes(value: object) -> bytes:
    """JSON as it is answered."""
    # Half a character has no bytes; written as JSON escapes it, it has.
    return value if isinstance(value, bytes) else _AS_JSON(value).encode("utf-8", "backslashreplace")


_AS_JSON: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
