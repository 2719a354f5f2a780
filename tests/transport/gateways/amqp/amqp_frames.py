"""Frames as a client writes them, by pamqp, and what a decoder of ours makes of them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pamqp import body, commands, frame, header

from tests.transport.gateways.amqp.amqp_values import marshalled
from transport.gateways.amqp.events import Event, Published, Settled
from transport.gateways.amqp.frames import FrameDecoder
from transport.gateways.amqp.layout import PROTOCOL_HEADER

FRAME_MAX = 131_072


def raw_frame(kind: int, channel: int, payload: bytes, end: bytes = b"\xce") -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + end


def content(
    data: bytes, properties: commands.Basic.Properties | None = None, channel: int = 1, most: int = FRAME_MAX - 8
) -> bytes:
    """Header and bodies."""
    of = properties or commands.Basic.Properties()
    parts = [data[at : at + most] for at in range(0, len(data), most)]
    head = header.ContentHeader(body_size=len(data), properties=of)
    return frame.marshal(head, channel) + b"".join(frame.marshal(body.ContentBody(part), channel) for part in parts)


def published(
    data: bytes,
    key: str = "queue",
    exchange: str = "",
    properties: commands.Basic.Properties | None = None,
    channel: int = 1,
    most: int = FRAME_MAX - 8,
) -> bytes:
    """A message as a client publishes it."""
    method = commands.Basic.Publish(exchange=exchange, routing_key=key)
    return marshalled(method, channel) + content(data, properties, channel, most)


def opened(*channels: int, **options: Any) -> FrameDecoder:
    """A decoder that has had a protocol header, and these channels opened."""
    decoder = FrameDecoder(**options)
    decoder.receive(PROTOCOL_HEADER)
    assert decoder.next_event() is not None
    decoder.frame_max = FRAME_MAX
    for channel in channels or (1,):
        decoder.receive(marshalled(commands.Channel.Open(), channel))
        assert decoder.next_event() is not None
    return decoder


def events(decoder: FrameDecoder, *received: bytes) -> list[Event]:
    """All that these bytes complete, asked for as a shell asks."""
    found = []
    for data in received:
        decoder.receive(memoryview(data))
        while decoder.waiting:
            event = decoder.next_event()
            assert event is not None
            found.append(event)
        assert decoder.next_event() is None
    return found


def single(found: Iterable[Event]) -> list[Any]:
    """Events one by one, whatever was grouped."""
    return list(_single(found))


def _single(found: Iterable[Event]) -> Iterator[Any]:
    for event in found:
        if isinstance(event, Published):
            for method, properties, data in zip(event.methods, event.properties, event.bodies, strict=True):
                yield "published", event.channel, method, properties, bytes(data)
        elif isinstance(event, Settled):
            for tag in event.tags:
                yield "settled", event.channel, event.method, tag, event.multiple, event.requeue
        else:
            yield event


def bodies(found: Sequence[Event]) -> list[bytes]:
    return [each[-1] for each in single(found) if each[:1] == ("published",)]
