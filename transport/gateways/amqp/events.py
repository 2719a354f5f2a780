"""What a connection of AMQP has said, as its channels are to hear it. What came together, and is alike, is one event."""

from __future__ import annotations

from typing import NamedTuple

from transport.gateways.amqp.basic_methods import BasicPublish
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.method import Method
from transport.wire.receiving import Part


class ProtocolHeader(NamedTuple):
    """The first word of a client, and the version that it names; 0-9 is spoken to as 0-9-1."""

    version: tuple[int, int, int]


class Heartbeat(NamedTuple):
    """A sign of life; any other frame is one too."""


class MethodReceived(NamedTuple):
    """A method without a content; or with one, on a channel that is not open, where nothing is put together."""

    channel: int
    method: Method


class Published(NamedTuple):
    """Messages of one channel in a row, one or more, complete: an item of each list for each.

    Attributes:
        channel: where.
        methods: equal methods are mostly one object.
        properties: the bytes that came, checked; `Properties` reads them.
        bodies: each owns its memory.
        size: bytes of all bodies and properties.
    """

    channel: int
    methods: list[BasicPublish]
    properties: list[bytes]
    bodies: list[Part]
    size: int


class Settled(NamedTuple):
    """Deliveries of one channel that were acknowledged or rejected in a row, all in the same way.

    Attributes:
        channel: where.
        method: the index of ``basic.ack``, ``basic.nack`` or ``basic.reject``.
        tags: in the order that they came; 0 is every delivery there is, where ``multiple`` is said.
        multiple: whether each tag means all before it too.
        requeue: whether what was rejected is to be delivered again.
    """

    channel: int
    method: int
    tags: list[int]
    multiple: bool
    requeue: bool


class Refused(NamedTuple):
    """A channel is to be closed with this error. What still comes there is passed over already."""

    channel: int
    error: AmqpError


Event = ProtocolHeader | Heartbeat | MethodReceived | Published | Settled | Refused
