"""The shapes of what routes answer with. What a class says of it is read from there."""

from __future__ import annotations

from typing import Final

from actors.exchanges.kinds import ALL_KINDS, KINDS
from actors.queue.scheduled import STATES
from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.stages import OpenTransaction
from actors.queue.vocabulary.statistics import QueueStatistics, SubscriptionStatistics
from actors.replication.document import CHANGES, MODES
from actors.scheduling.schedule import MISSED
from transport.gateways.http.shapes import (
    BASE64,
    COUNT,
    FLAG,
    NAME,
    NUMBER,
    TEXT,
    WHOLE,
    Shape,
    by_name,
    fields_of,
    maybe,
    optional,
    record,
    several,
)
from transport.picture.pressure import Kind
from transport.security.principal import BROKER_RIGHTS, RESOURCE_RIGHTS, Proof, name_of

_SETTINGS: Final = fields_of(QueueSettings)
_FIGURES: Final = fields_of(QueueStatistics, ("name", "connections", "subscriptions", "paused"))
_CONNECTED: Final = {
    "senders": COUNT,
    "receivers": COUNT,
    "subscriptions": COUNT,
    "paused": maybe(TEXT),
    "active": maybe(COUNT),
}
ID: Final[Shape] = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
HEADERS: Final = by_name({"anyOf": [TEXT, record(base64=BASE64)]})

SETTINGS: Final = record(name=NAME, **_SETTINGS)
QUEUE: Final = {
    "anyOf": [
        record(name=NAME, **_FIGURES, **_SETTINGS, **_CONNECTED, declared=FLAG, owned=FLAG),
        record(name=NAME, failed=TEXT, **_SETTINGS, declared=FLAG, owned=FLAG),
    ]
}
DELETED: Final = record(name=NAME, connections=COUNT)
PURGED: Final = record(name=NAME, purged=COUNT)
MOVED: Final = record(**{"from": NAME}, to=NAME, moved=COUNT, next=maybe(TEXT))
BROWSED: Final = record(
    name=NAME,
    messages=several(
        optional(
            record(
                number=COUNT,
                id=ID,
                enqueued_us=COUNT,
                age_ms={"type": "integer"},
                deliveries=COUNT,
                replayed=FLAG,
                size=COUNT,
                payload=BASE64,
                key_size=COUNT,
                key=maybe(BASE64),
                headers_size=COUNT,
                headers=maybe(HEADERS),
            ),
            exchange=TEXT,
            routing_key=TEXT,
            priority=COUNT,
        )
    ),
    next=maybe(COUNT),
)
EXCHANGE_KINDS: Final = tuple(KINDS)
_EXCHANGE: Final = {
    "name": TEXT,
    "kind": {"enum": list(ALL_KINDS)},
    "durable": FLAG,
    "auto_delete": FLAG,
    "internal": FLAG,
    "arguments": by_name({}),
}
_ENDS: Final = {"source": NAME, "destination": NAME, "to_exchange": FLAG, "key": TEXT, "arguments": by_name({})}
_SUMS: Final = dict.fromkeys(("bindings", "published", "unroutable", "returned", "waiting"), COUNT)
EXCHANGE: Final = record(**_EXCHANGE, **_SUMS)
EXCHANGE_SUMS: Final = record(exchanges=COUNT, **_SUMS)
EXCHANGE_MADE: Final = record(**_EXCHANGE, changed=FLAG)
EXCHANGE_DELETED: Final = record(name=NAME)
EXCHANGE_ROUTE: Final = record(name=TEXT, key=TEXT, queues=several(NAME))
BINDING: Final = record(**_ENDS, durable=FLAG)
BOUND: Final = record(**_ENDS, changed=FLAG)
_SCHEDULE: Final = {
    "name": NAME,
    "expression": TEXT,
    "zone": TEXT,
    "queue": maybe(NAME),
    "exchange": maybe(TEXT),
    "routing_key": TEXT,
    "key": TEXT,
    "ttl_ms": maybe(COUNT),
    "priority": COUNT,
    "missed": {"enum": list(MISSED)},
    "payload_bytes": COUNT,
    "paused": FLAG,
    "state": {"enum": list(STATES)},
    "next": maybe(TEXT),
    "waiting": maybe(TEXT),
    "times_fired": COUNT,
    "times_missed": COUNT,
    "times_failed": COUNT,
    "error": maybe(TEXT),
}
SCHEDULE: Final = record(**_SCHEDULE)
SCHEDULE_SHOWN: Final = optional(record(**_SCHEDULE, headers=by_name(TEXT)), payload=TEXT, payload_base64=BASE64)
SCHEDULE_MADE: Final = record(**_SCHEDULE, changed=FLAG)
SCHEDULE_DELETED: Final = record(name=NAME)
SCHEDULE_PAUSED: Final = record(name=NAME, changed=FLAG)
CONNECTION: Final = record(
    id=COUNT,
    role=maybe(TEXT),
    queue=maybe(TEXT),
    exchange=maybe(TEXT),
    client_id=maybe(TEXT),
    user=maybe(TEXT),
    peer=maybe(TEXT),
    demand=COUNT,
    in_flight=COUNT,
    held_ms=COUNT,
    in_line=COUNT,
    priority=WHOLE,
    connected_s=NUMBER,
    bytes_in=COUNT,
    bytes_out=COUNT,
    virtual_host=maybe(TEXT),
    product=maybe(TEXT),
    channels=maybe(COUNT),
    consumers=maybe(COUNT),
    prefetch=maybe(COUNT),
)
CLOSED: Final = record(closed=COUNT)
SUBSCRIPTION: Final = record(queue=NAME, **fields_of(SubscriptionStatistics))
RELEASED: Final = record(queue=NAME, name=TEXT, released=COUNT)
TRANSACTION: Final = record(**fields_of(OpenTransaction))
ABORTED: Final = record(writer=TEXT, version=WHOLE, discarded=COUNT)
JOURNAL: Final = record(
    journal=maybe(
        record(
            directory=TEXT,
            segments=COUNT,
            disk_bytes=COUNT,
            next_lsn=COUNT,
            durable_lsn=COUNT,
            pending_bytes=COUNT,
            syncs=COUNT,
            groups=COUNT,
            records=COUNT,
            checkpoints=COUNT,
            sync_ms=NUMBER,
            free_bytes=maybe({"type": "integer"}),
            cache_bytes=COUNT,
            cache_hits=COUNT,
            cache_misses=COUNT,
            paused=maybe(TEXT),
        )
    )
)
_MEMBER: Final = record(
    name=TEXT,
    role={"enum": ["leader", "follower", "learner", "candidate", "closing", "away", "damaged"]},
    directory=ID,
    moves_to=maybe(ID),
    send=TEXT,
    receive=TEXT,
    replication=TEXT,
    http=maybe(TEXT),
    amqp=maybe(TEXT),
    amqps=maybe(TEXT),
    counts=FLAG,
    listed=maybe(FLAG),
    in_step=maybe(FLAG),
    connected=FLAG,
    filling=FLAG,
    full=maybe(TEXT),
    stored=maybe(COUNT),
    lag_records=maybe(COUNT),
    lag_bytes=maybe(COUNT),
    lag_s=maybe(NUMBER),
    heard_s=maybe(NUMBER),
    damaged=maybe(FLAG),
    damage=maybe(TEXT),
    cut_records=maybe(COUNT),
    cut_messages=maybe(COUNT),
    kept_files=maybe(COUNT),
    kept_bytes=maybe(COUNT),
    kept_damaged=maybe(COUNT),
    doubt=maybe(FLAG),
)
CLUSTER: Final = record(
    node=TEXT,
    role={"enum": ["leader", "follower", "candidate", "closing", "waiting", "damaged"]},
    cluster=maybe(ID),
    epoch=COUNT,
    leader=maybe(TEXT),
    mode=maybe({"enum": list(MODES)}),
    register=maybe(TEXT),
    end=maybe(COUNT),
    committed=maybe(COUNT),
    confirmed=maybe(COUNT),
    whole=maybe(FLAG),
    held_back=maybe(NUMBER),
    held_back_for=maybe(TEXT),
    given_up=several(TEXT),
    damage=maybe(TEXT),
    change=maybe(record(kind={"enum": list(CHANGES)}, name=TEXT)),
    members=several(_MEMBER),
)
STATS: Final = optional(
    record(
        broker=record(
            version=TEXT,
            epoch=COUNT,
            uptime_s=NUMBER,
            rss_bytes=COUNT,
            connections=COUNT,
            memory_watermark_bytes=COUNT,
            memory_pressure=FLAG,
            paused=maybe(TEXT),
        ),
        storage=JOURNAL["properties"]["journal"],
        exchanges=EXCHANGE_SUMS,
    ),
    cluster=CLUSTER,
)
"""A broker that is alone has no ``cluster``."""
CHANGED_MEMBER: Final = record(name=TEXT, directory=ID)
GIVEN_UP: Final = record(kind={"enum": list(CHANGES)}, name=TEXT)
WHO: Final = record(
    user=TEXT,
    proof={"enum": [each.name.lower() for each in Proof]},
    broker=several({"enum": [name_of(right) for right in BROKER_RIGHTS]}),
    grants=several(
        record(on=TEXT, rights=several({"enum": [name_of(right) for right in RESOURCE_RIGHTS]})),
    ),
)
USER: Final = record(
    name=NAME,
    broker=WHO["properties"]["broker"],
    grants=WHO["properties"]["grants"],
    password=FLAG,
    tokens=COUNT,
    access_keys=COUNT,
    certificates=COUNT,
)
SESSION: Final = {
    "anyOf": [
        record(users={"const": True}, user={"type": "null"}),
        optional(record(users=FLAG, **WHO["properties"], version=maybe(TEXT)), csrf=TEXT, expires_s=COUNT),
    ]
}

_ROW: Final = {
    "name": NAME,
    **dict.fromkeys(
        (
            "ready",
            "held",
            "delayed",
            "granted",
            "wanted",
            "stored_messages",
            "stored_bytes",
            "attached_senders",
            "attached_receivers",
            "waiting_senders",
            "oldest_ms",
        ),
        COUNT,
    ),
    **dict.fromkeys(("max_messages", "max_bytes"), maybe(COUNT)),
    **dict.fromkeys(("came", "went", "acknowledged"), NUMBER),
    "pressure": {"enum": [kind.value for kind in Kind]},
    "sentence": TEXT,
}
_PARTY: Final = record(
    id=maybe(COUNT),
    role=TEXT,
    client=TEXT,
    subscription=maybe(TEXT),
    peer=maybe(TEXT),
    demand=COUNT,
    held=COUNT,
    waits=FLAG,
    messages=COUNT,
    rate=NUMBER,
)
PICTURE: Final = record(
    round=COUNT,
    totals=record(
        ready=COUNT,
        held=COUNT,
        stored_messages=COUNT,
        stored_bytes=COUNT,
        came=NUMBER,
        went=NUMBER,
        queues=COUNT,
        connections=COUNT,
    ),
    matching=COUNT,
    queues=several(record(**_ROW)),
    flow=maybe(
        record(**_ROW, senders=several(_PARTY), receivers=several(_PARTY), all_senders=COUNT, all_receivers=COUNT)
    ),
    journal=JOURNAL["properties"]["journal"],
    cluster=maybe(
        record(
            node=TEXT,
            role=CLUSTER["properties"]["role"],
            epoch=COUNT,
            members=COUNT,
            in_step=maybe(COUNT),
            worst=maybe(TEXT),
            lag_records=maybe(COUNT),
            lag_bytes=maybe(COUNT),
            lag_s=maybe(NUMBER),
        )
    ),
)

TAKEN: Final = record(
    messages=several(
        optional(
            record(
                id=ID,
                number=COUNT,
                deliveries=COUNT,
                possibly_replayed=FLAG,
                enqueued={"type": "string", "format": "date-time"},
                receipt=TEXT,
            ),
            payload=TEXT,
            payload_base64=BASE64,
            key=TEXT,
            key_base64=BASE64,
            headers=HEADERS,
            headers_base64=BASE64,
            exchange=TEXT,
            routing_key=TEXT,
            priority=COUNT,
        )
    )
)
PUBLISHED: Final = record(numbers=several(maybe(COUNT)))
PUBLISHED_TO_EXCHANGE: Final = optional(record(published=COUNT), returned=several(COUNT), reason=TEXT)
SETTLED: Final = record(settled=COUNT, problems=several(record(receipt=TEXT, code=TEXT, detail=TEXT)))
ALIVE: Final = record(status={"const": "alive"})
READY: Final = record(status={"const": "ready"})
