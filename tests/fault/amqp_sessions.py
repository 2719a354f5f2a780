"""Sessions of clients of AMQP that are written badly, made of chance: what each says as bytes, and how the broker is to end it.

Four kinds. One does what is right for a while, and then one thing that is wrong: the code is known. One says tables of every shape, deep,
wide, and broken. One says any method with any arguments, in any state, about queues that others use too. And one is a good session of
which some bytes are other ones. Of the last two it is known what must not be: silence, an internal error, or a code that there is not.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, fields
from random import Random
from typing import Any, Final

from actors.queue.vocabulary.settings import MAX_ARGUMENTS_BYTES
from tests.fault.strangers import mutated
from tests.transport.gateways.amqp.raw_amqp import (
    CLOSE,
    CLOSE_CHANNEL,
    HANDSHAKE,
    OPEN,
    methods,
    published,
    start_ok,
    tune_ok,
)
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.layout import FRAME_BODY, FRAME_HEAD, FRAME_HEADER, FRAME_METHOD, PROTOCOL_HEADER
from transport.gateways.amqp.method import Method
from transport.gateways.amqp.method_codec import encode_method
from transport.gateways.amqp.methods import METHODS
from transport.gateways.amqp.properties import Properties
from transport.gateways.amqp.protocol import MAX_MESSAGE_BYTES
from transport.gateways.amqp.reply_codes import CLOSES_CHANNEL, ReplyCode
from transport.gateways.amqp.tables import MAX_ARGUMENT_ENTRIES, MAX_TABLE_DEPTH, MAX_TABLE_ENTRIES, Table
from transport.gateways.amqp.writing import HEARTBEAT

CHANNELS: Final = 3
"""That a session has open."""
POOL: Final = tuple(f"fuzz-{number}" for number in range(6))
"""Names that all sessions use, for queues and for exchanges."""
OWN: Final = "own"
"""How the queues of a session begin that nobody else is to touch."""
KNOWN_ARGUMENTS: Final = (
    "x-message-ttl",
    "x-max-length",
    "x-max-length-bytes",
    "x-overflow",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-queue-type",
    "x-expires",
    "x-max-priority",
    "x-match",
    "alternate-exchange",
    "x-priority",
)
NUMBERS: Final = (0, 1, 2, 3, 255, 256, 65_535, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)
SIZES: Final = {"octet": 1, "short": 2, "long": 4, "longlong": 8, "timestamp": 8}
LAST_WORDS: Final = frozenset({"connection.close", "connection.close-ok"})
"""Methods that end everything; said once, at the end."""


@dataclass(frozen=True, slots=True)
class Session:
    """What one client says.

    Attributes:
        kind: which of the four.
        what: what is wrong with it.
        data: all that it says.
        code: with which it is to be closed; None where that is not known, 0 where nothing is wrong.
        closes_connection: whether it is the connection that is closed, and not a channel.
    """

    kind: str
    what: str
    data: bytes
    code: int | None = None
    closes_connection: bool = True


def frame(kind: int, channel: int, payload: bytes, end: bytes = b"\xce") -> bytes:
    """Any frame."""
    return FRAME_HEAD.pack(kind, channel, len(payload)) + payload + end


def header(channel: int, size: int, properties: bytes = b"\0\0", class_id: int = 60, weight: int = 0) -> bytes:
    """Any content header."""
    return frame(FRAME_HEADER, channel, struct.pack(">HHQ", class_id, weight, size) + properties)


def with_table(channel: int, method: Method, raw: bytes) -> bytes:
    """A method whose last argument is an empty table, with these bytes as its table."""
    payload = encode_method(method)
    assert payload.endswith(bytes(4)), "its table is the last, and empty"
    return frame(FRAME_METHOD, channel, payload[:-4] + struct.pack(">I", len(raw)) + raw)


# Tables.


def name_of(random: Random) -> bytes:
    """Any name of a field, with its length."""
    chance = random.randrange(8)
    if chance == 0:
        name = random.randbytes(random.randrange(12))
    elif chance == 1:
        name = random.choice(KNOWN_ARGUMENTS).encode()
    else:
        name = bytes(random.choices(b"abcdefgh-.", k=random.randrange(1, 12)))
    return bytes((len(name),)) + name


def value_of(random: Random, depth: int) -> bytes:
    """Any value with its type, not more than ``depth`` tables in one another."""
    kind = random.choice("tbBsuIilLTfdDSxV" + "FA" * (depth > 0))
    if kind in "FA":
        inside = b"".join(
            (name_of(random) if kind == "F" else b"") + value_of(random, depth - 1) for _ in range(random.randrange(4))
        )
        return kind.encode() + struct.pack(">I", len(inside)) + inside
    if kind in "Sx":
        data = random.randbytes(random.choice((0, 1, 7, 300)))
        return kind.encode() + struct.pack(">I", len(data)) + data
    if kind in "fd":
        return kind.encode() + struct.pack(">f" if kind == "f" else ">d", random.uniform(-1e9, 1e9))
    width = {"t": 1, "b": 1, "B": 1, "s": 2, "u": 2, "I": 4, "i": 4, "D": 5, "V": 0}.get(kind, 8)
    return kind.encode() + random.randbytes(width)


def table_of(random: Random) -> bytes:
    """A table that is one, without its length."""
    return b"".join(name_of(random) + value_of(random, random.randrange(4)) for _ in range(random.randrange(1, 6)))


def deep_table(depth: int) -> bytes:
    """So many tables in one another."""
    raw = b""
    for _ in range(depth - 1):
        raw = b"\1tF" + struct.pack(">I", len(raw)) + raw
    return raw


def wide_table(entries: int) -> bytes:
    """So many entries, as small as there are."""
    return b"\0V" * entries


def broken_table(random: Random) -> tuple[str, bytes]:
    """What is wrong, and bytes that are no table."""
    good = table_of(random)
    number = struct.pack(">d", random.choice((float("inf"), float("-inf"), float("nan"))))
    return random.choice(
        (
            ("ends early", good[:-1]),
            ("unknown type", good + b"\1a?" + good),
            ("too deep", deep_table(MAX_TABLE_DEPTH + random.choice((1, 2, 500)))),
            ("too wide", wide_table(MAX_TABLE_ENTRIES + 1)),
            ("no number", good + b"\1fd" + number),
            ("a string beyond the end", good + b"\1sS\xff\xff\xff\xff"),
            ("a table beyond the end", good + b"\1tF" + struct.pack(">I", 9) + b"\1a"),
        )
    )


# What is right.


def properties_of(random: Random) -> bytes:
    """Properties that are some."""
    said: dict[str, Any] = {}
    for name in ("content_type", "content_encoding", "correlation_id", "message_id", "type", "app_id", "reply_to"):
        if random.random() < 0.3:
            said[name] = "".join(random.choices("abcü/ ", k=random.choice((0, 3, 120))))
    for name, most in (("delivery_mode", 256), ("priority", 256), ("timestamp", 1 << 64)):
        if random.random() < 0.3:
            said[name] = random.randrange(most)
    if random.random() < 0.1:
        said["expiration"] = str(random.randrange(100_000))
    if random.random() < 0.3:
        said["headers"] = Table((), table_of(random))
    return Properties.of(**said).raw


class Right:
    """A session that does what is right, on channels 1 to ``CHANNELS``.

    Args:
        random: chance.
        number: of the session; no other has it.
    """

    def __init__(self, random: Random, number: str) -> None:
        self._random = random
        self.queue = f"{OWN}-{number}"
        self._consumers = 0

    def opened(self) -> bytes:
        """The handshake, channels, and a queue of its own."""
        channels = b"".join(methods(number, connection.ChannelOpen()) for number in range(1, CHANNELS + 1))
        return HANDSHAKE + channels + methods(1, entity.QueueDeclare(queue=self.queue, exclusive=True))

    def steps(self, most: int = 12) -> bytes:
        """Some of what clients do."""
        return b"".join(self._step() for _ in range(self._random.randrange(most)))

    def _step(self) -> bytes:
        random, queue = self._random, self.queue
        channel = random.randint(1, CHANNELS)
        chance = random.randrange(12)
        if chance <= 3:
            body = random.randbytes(random.choice((0, 1, 100, 5_000)))
            return published(queue, body, channel, properties=properties_of(random)) * random.choice((1, 1, 3, 30))
        if chance == 4:
            return published("nowhere", channel=channel, exchange="amq.topic", mandatory=True)
        if chance == 5:
            return methods(channel, basic.ConfirmSelect(nowait=random.random() < 0.5))
        if chance == 6:
            return methods(channel, basic.BasicQos(prefetch_count=random.choice((0, 1, 10)), global_=chance % 2 == 0))
        if chance == 7:
            self._consumers += 1
            said = basic.BasicConsume(queue=queue, consumer_tag=f"c{self._consumers}", no_ack=random.random() < 0.5)
            return methods(channel, said)
        if chance == 8:
            return methods(channel, basic.BasicGet(queue=queue, no_ack=random.random() < 0.5))
        if chance == 9:
            said = entity.QueueBind(queue=queue, exchange="amq.headers", routing_key="k")
            return with_table(channel, said, b"\1aI" + random.randbytes(4))
        if chance == 10:
            return HEARTBEAT + methods(channel, connection.ChannelFlow(active=True))
        return methods(channel, basic.BasicCancel(consumer_tag=f"c{self._consumers}"), basic.BasicRecover(requeue=True))


Wrong = tuple[str, bytes, ReplyCode]
"""What is wrong, how it is said, and with which code that is closed."""


def wrong_frames(random: Random) -> Wrong:
    """What is no frame, or not its time."""
    channel = random.randint(1, CHANNELS)
    publish = methods(channel, basic.BasicPublish(routing_key="q"))
    return random.choice(
        (
            (
                "a type of frame that there is not",
                frame(random.choice((0, 4, 7, 9, 255)), 0, b""),
                ReplyCode.FRAME_ERROR,
            ),
            ("another end", frame(FRAME_METHOD, channel, bytes(9), b"\xcd"), ReplyCode.FRAME_ERROR),
            ("a frame that is too large", FRAME_HEAD.pack(3, channel, 131_073), ReplyCode.FRAME_ERROR),
            ("the largest size there is", FRAME_HEAD.pack(1, channel, 2**32 - 1), ReplyCode.FRAME_ERROR),
            ("a method of three bytes", frame(FRAME_METHOD, channel, b"\0\x0a\0"), ReplyCode.FRAME_ERROR),
            ("a header that is cut", publish + frame(FRAME_HEADER, channel, b"\0\x3c\0"), ReplyCode.FRAME_ERROR),
            ("a body without a method", frame(FRAME_BODY, channel, b"x"), ReplyCode.UNEXPECTED_FRAME),
            ("a header without a method", header(channel, 1), ReplyCode.UNEXPECTED_FRAME),
            ("a method in a content", publish + methods(channel, connection.ChannelOpen()), ReplyCode.UNEXPECTED_FRAME),
            ("a body before its header", publish + frame(FRAME_BODY, channel, b"x"), ReplyCode.UNEXPECTED_FRAME),
            ("two headers", publish + header(channel, 5) * 2, ReplyCode.UNEXPECTED_FRAME),
            ("a header of another class", publish + header(channel, 1, class_id=50), ReplyCode.UNEXPECTED_FRAME),
            ("a header with a weight", publish + header(channel, 1, weight=1), ReplyCode.UNEXPECTED_FRAME),
            ("more than was announced", publish + header(channel, 1) + frame(3, channel, b"xy"), ReplyCode.FRAME_ERROR),
            ("half a gigabyte and one", publish + header(channel, (512 << 20) + 1), ReplyCode.FRAME_ERROR),
            ("properties that are none", publish + header(channel, 1, b"\x80\0\x09ab"), ReplyCode.SYNTAX_ERROR),
            ("a heartbeat on a channel", frame(8, channel, b""), ReplyCode.UNEXPECTED_FRAME),
            ("a heartbeat that says something", frame(8, 0, b"x"), ReplyCode.FRAME_ERROR),
            ("a frame of a method on no channel", methods(CHANNELS + 9, CLOSE_CHANNEL), ReplyCode.CHANNEL_ERROR),
            ("a message on no channel", published("q", channel=CHANNELS + 9), ReplyCode.CHANNEL_ERROR),
        )
    )


def wrong_methods(random: Random) -> Wrong:
    """Methods that end the connection."""
    channel = random.randint(1, CHANNELS)

    def said(*each: Method) -> bytes:
        return methods(channel, *each)

    twice = basic.BasicConsume(queue="amq.rabbitmq.reply-to", consumer_tag="twice", no_ack=True)
    return random.choice(
        (
            ("no such method", frame(FRAME_METHOD, channel, b"\0\x3c\0\xff"), ReplyCode.COMMAND_INVALID),
            ("no such class", frame(FRAME_METHOD, channel, b"\1\0\0\1"), ReplyCode.COMMAND_INVALID),
            ("arguments that end early", frame(FRAME_METHOD, channel, b"\0\x3c\0\x46\0\0\5q"), ReplyCode.FRAME_ERROR),
            ("arguments and more", frame(FRAME_METHOD, channel, b"\0\x3c\0\x6e\0more"), ReplyCode.FRAME_ERROR),
            ("a name that is no text", frame(1, channel, b"\0\x3c\0\x1e\2\xff\xfe\0"), ReplyCode.FRAME_ERROR),
            ("a channel that is open", said(connection.ChannelOpen()), ReplyCode.CHANNEL_ERROR),
            ("a channel beyond the last", methods(2_048, connection.ChannelOpen()), ReplyCode.NOT_ALLOWED),
            ("an answer that nobody asked for", said(entity.QueueBindOk()), ReplyCode.COMMAND_INVALID),
            ("tune-ok again", methods(0, tune_ok()), ReplyCode.CHANNEL_ERROR),
            ("open again", methods(0, OPEN), ReplyCode.CHANNEL_ERROR),
            ("start-ok again", methods(0, start_ok()), ReplyCode.CHANNEL_ERROR),
            ("recover without requeue", said(basic.BasicRecover(requeue=False)), ReplyCode.NOT_IMPLEMENTED),
            ("prefetch in bytes", said(basic.BasicQos(prefetch_size=9)), ReplyCode.NOT_IMPLEMENTED),
            ("flow that stops", said(connection.ChannelFlow(active=False)), ReplyCode.NOT_IMPLEMENTED),
            ("immediate", published("q", channel=channel, immediate=True), ReplyCode.NOT_IMPLEMENTED),
            ("a tag that is taken", said(twice, twice), ReplyCode.NOT_ALLOWED),
        )
    )


def wrong_requests(random: Random, queue: str) -> Wrong:
    """What ends its channel alone."""
    channel = random.randint(1, CHANNELS)

    def said(*each: Method) -> bytes:
        return methods(channel, *each)

    tag = random.choice((2**20, 2**63, 2**64 - 1))
    other = entity.QueueDeclare(queue=queue, exclusive=True, auto_delete=True)
    large = methods(channel, basic.BasicPublish(routing_key=queue)) + header(channel, MAX_MESSAGE_BYTES + 1)
    return random.choice(
        (
            ("no such queue", said(entity.QueueDeclare(queue="nowhere", passive=True)), ReplyCode.NOT_FOUND),
            ("get from no queue", said(basic.BasicGet(queue="nowhere")), ReplyCode.NOT_FOUND),
            ("consume from no queue", said(basic.BasicConsume(queue="nowhere")), ReplyCode.NOT_FOUND),
            ("bind no queue", said(entity.QueueBind(queue="nowhere", exchange="amq.topic")), ReplyCode.NOT_FOUND),
            ("bind to no exchange", said(entity.QueueBind(queue=queue, exchange="nowhere")), ReplyCode.NOT_FOUND),
            ("publish to no exchange", published("q", channel=channel, exchange="nowhere"), ReplyCode.NOT_FOUND),
            ("ack of what never came", said(basic.BasicAck(delivery_tag=tag)), ReplyCode.PRECONDITION_FAILED),
            ("nack of that", said(basic.BasicNack(delivery_tag=tag, multiple=True)), ReplyCode.PRECONDITION_FAILED),
            ("reject of that", said(basic.BasicReject(delivery_tag=tag)), ReplyCode.PRECONDITION_FAILED),
            ("the same queue, but another", said(other), ReplyCode.PRECONDITION_FAILED),
            ("a reserved name", said(entity.QueueDeclare(queue="amq.mine")), ReplyCode.ACCESS_REFUSED),
            ("the default exchange", said(entity.ExchangeDelete(exchange="")), ReplyCode.ACCESS_REFUSED),
            ("an exchange of the system", said(entity.ExchangeDelete(exchange="amq.topic")), ReplyCode.ACCESS_REFUSED),
            ("another connection's queue", said(entity.QueueDeclare(queue=queue)), ReplyCode.RESOURCE_LOCKED),
            ("a message that is too large", large, ReplyCode.PRECONDITION_FAILED),
            (
                "an expiration that is none",
                published(queue, channel=channel, properties=Properties.of(expiration="soon").raw),
                ReplyCode.PRECONDITION_FAILED,
            ),
            (
                "an argument of a wrong type",
                said(entity.QueueDeclare(queue=queue + "-b", arguments=Table.of({"x-message-ttl": "soon"}))),
                ReplyCode.PRECONDITION_FAILED,
            ),
        )
    )


# Sessions.


def one_thing_wrong(random: Random, number: str) -> Session:
    """What is right for a while, one thing that is wrong, and more that is right, which nobody may look at."""
    right = Right(random, number)
    what, said, code = random.choice((wrong_frames, wrong_methods, lambda chance: wrong_requests(chance, right.queue)))(
        random
    )
    data = right.opened() + right.steps() + said + right.steps(4)
    closes_connection = code not in CLOSES_CHANNEL
    if not closes_connection:
        data += methods(0, CLOSE)
    return Session("wrong", what, data, code, closes_connection)


def with_tables(random: Random, number: str) -> Session:
    """Tables wherever a method, or a message, has one."""
    right = Right(random, number)
    good = random.random() < 0.5
    what, raw = "fine", b""
    if good:
        what, raw = random.choice(
            (
                ("any", table_of(random)),
                # Two less than there may be: it may stand in two others.
                ("deep", deep_table(random.randint(1, MAX_TABLE_DEPTH - 2))),
                ("wide", wide_table(MAX_ARGUMENT_ENTRIES - 2)),
            )
        )
    else:
        what, raw = broken_table(random)
    ways = [
        lambda: published(right.queue, properties=b"\x20\0" + struct.pack(">I", len(raw)) + raw),
        lambda: with_table(1, basic.BasicConsume(queue=right.queue), unknown(raw)),
    ]
    if not good or len(raw) < MAX_ARGUMENTS_BYTES - 20:
        ways.append(lambda: with_table(1, entity.QueueDeclare(queue=right.queue + "-t", exclusive=True), unknown(raw)))
    said = random.choice(ways)()
    data = right.opened() + said + methods(0, CLOSE)
    return Session("tables", what, data, 0 if good else ReplyCode.SYNTAX_ERROR)


def unknown(raw: bytes) -> bytes:
    """The same table, in another: so none of its names means anything."""
    return b"\1t" + b"A" + struct.pack(">I", len(raw) + 5) + b"F" + struct.pack(">I", len(raw)) + raw


def any_methods(random: Random, number: str) -> Session:
    """Any method with any arguments, in any state, about what other sessions use too."""
    begin = random.choice((b"", PROTOCOL_HEADER, PROTOCOL_HEADER + methods(0, start_ok()), HANDSHAKE))
    if begin == HANDSHAKE or random.random() < 0.7:
        begin = Right(random, number).opened()
    said = b"".join(any_method(random) for _ in range(random.randrange(1, 40)))
    return Session("methods", "any", begin + said + methods(0, CLOSE))


def any_method(random: Random) -> bytes:
    """One, perhaps with a content."""
    method = random.choice(_SAID)
    channel = random.choice((0, 1, 1, 2, 2, 3, 3, CHANNELS + 1))
    out = bytearray(struct.pack(">I", method.INDEX))
    bits = 0
    for kind, each in zip(method.LAYOUT.split(), fields(method), strict=True):  # type: ignore[arg-type]  # each is a dataclass
        if kind == "bit":
            bits += 1
            continue
        out += _bits(random, bits)
        bits = 0
        if kind == "shortstr":
            out += _short(random, each.name)
        elif kind in ("longstr", "table"):
            data = _arguments(random) if kind == "table" else random.randbytes(random.randrange(20))
            out += struct.pack(">I", len(data)) + data
        else:
            size = SIZES[kind]
            out += (random.choice(NUMBERS) % (1 << 8 * size)).to_bytes(size, "big")
    out += _bits(random, bits)
    said = frame(FRAME_METHOD, channel, bytes(out))
    if method.CONTENT:
        body = random.randbytes(random.choice((0, 5, 300)))
        said += header(channel, len(body), properties_of(random)) + (frame(FRAME_BODY, channel, body) if body else b"")
    return said


_SAID: Final = [
    each
    for each in METHODS.values()
    # Half of all would end everything at once: what only servers say is said now and then.
    for _ in range(1 if each.NAME.endswith("-ok") or each.NAME.startswith("connection") else 12)
    if each.NAME not in LAST_WORDS
]


def _bits(random: Random, count: int) -> bytes:
    return bytes(random.choice((0, 0, 1, 2, 4, 8, 31)) % (1 << min(8, count)) for _ in range((count + 7) // 8))


def _short(random: Random, name: str) -> bytes:
    chance = random.random()
    if name == "type":
        data = random.choice((b"direct", b"fanout", b"topic", b"headers", b"x-delayed-message"))
    elif chance < 0.75:
        data = random.choice(("", *POOL, *POOL, "amq.topic", "amq.headers", "a.b")).encode()
    elif chance < 0.95:
        data = "".join(random.choices("fuz-ü.#*\r\n\0", k=random.choice((1, 5, 200))))[:120].encode()
    else:
        data = random.randbytes(random.choice((3, 255)))
    return bytes((len(data),)) + data


def _arguments(random: Random) -> bytes:
    chance = random.random()
    if chance < 0.5:
        return b""
    return table_of(random) if chance < 0.9 else broken_table(random)[1]


def other_bytes(random: Random, number: str) -> Session:
    """A good session of which some bytes are other ones."""
    right = Right(random, number)
    handshake = len(PROTOCOL_HEADER) if random.random() < 0.2 else len(HANDSHAKE)
    data = right.opened() + right.steps(20) + methods(0, CLOSE)
    return Session("bytes", "other", data[:handshake] + mutated(data[handshake:], random))


KINDS: Final[dict[str, Callable[[Random, str], Session]]] = {
    "wrong": one_thing_wrong,
    "tables": with_tables,
    "methods": any_methods,
    "bytes": other_bytes,
}
"""Every kind by its name."""


def session_of(seed: int, number: int) -> Session:
    """The session with this number of a run; the same each time."""
    random = Random(f"amqp {seed} {number}")
    return KINDS[random.choice(tuple(KINDS))](random, f"{seed}-{number}")
