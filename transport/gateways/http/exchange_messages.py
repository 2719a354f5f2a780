"""Publishing to exchanges over HTTP: what is published is answered when every queue that it went to has it."""

from __future__ import annotations

from typing import Any, Final

from actors.exchanges.limits import MAX_ROUTING_KEY_BYTES
from transport.broker.served import RefusalError
from transport.clients.json_messages import Given
from transport.gateways.http import described, message_fields, messages, requests
from transport.gateways.http.answers import Answer
from transport.gateways.http.exchanges import name_of
from transport.gateways.http.problems import ProblemError
from transport.gateways.http.routes import PREFIX, Call, Field, Route
from transport.gateways.http.shapes import answers
from transport.wire.exchange_named import checked_target

QUERY: Final = message_fields.PUBLISH_QUERY | {
    "wait": message_fields.PUBLISH_QUERY["wait"]._replace(text="for room in the queues; 0 unless told"),
    "routing_key": Field(
        "string", "of messages that have no key; empty unless told", limits={"maxLength": MAX_ROUTING_KEY_BYTES}
    ),
    "mandatory": Field("boolean", "whether the answer says which messages no queue took"),
}

PUBLISHED: Final = Given(published=True)


async def publish(call: Call) -> Answer:
    """Publish the messages of a request to an exchange; answered when they are durable in all queues that they went to."""
    query, exchange = call.request.query, name_of(call)
    wait = requests.seconds(query.get("wait"), "wait", 0.0, message_fields.MAX_PUBLISH_WAIT) or 0.0
    told = query.get("mandatory")
    mandatory = told is not None and bool(requests.typed_in_query(told, "mandatory", QUERY["mandatory"]))
    to = checked_target(exchange, query.get("routing_key"), mandatory)
    # Before the body is read: who may not publish has nothing parsed.
    call.operations.may_publish_to(exchange)
    pieces = await messages.pieces_of(call, PUBLISHED)
    try:
        outcome = await call.operations.publish(to, pieces, wait)
    except RefusalError as error:
        more: dict[str, Any] = {"stored": getattr(error, "stored", 0)}
        if mandatory:
            more["returned"] = list(getattr(error, "returned", ()))
        raise ProblemError(error.code, str(error), more) from None
    answer: dict[str, Any] = {"published": outcome.messages}
    if mandatory:
        answer["returned"] = list(outcome.returned)
    if outcome.reason is not None:
        answer["reason"] = outcome.reason
    return Answer(answer, 200 if outcome.returned else 201)


_ANSWER: Final = described.PUBLISHED_TO_EXCHANGE
ROUTES: Final = (
    Route(
        "POST",
        f"{PREFIX}/exchanges/{{exchange}}/messages",
        "sender",
        "Publish a message, or several in the field messages, to an exchange; answered when they are durable.",
        publish,
        message_fields.MESSAGE,
        QUERY,
        answers={
            **answers(_ANSWER, "all are durable in the queues that they went to", 201),
            **answers(_ANSWER, "the same, but for those in returned, which no queue took"),
        },
        refuses=frozenset({"queue-full"}),
        media=message_fields.ANY_BYTES,
        whole=message_fields.PUBLISHED,
    ),
)
