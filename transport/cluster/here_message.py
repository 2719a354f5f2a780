"""What a node says of itself when it is met, as bytes.

A msgpack array ``[name, cluster, end, directory, send, receive, replication, http]``, and behind it ``amqp, amqps`` where it has one, and
true where `Here.heals`.
``cluster`` is "" for none yet, ``end`` one more than the last record of its log, and an address is nil where there is none. An older
program knows the first eight alone.
"""

from __future__ import annotations

from typing import Any

import msgpack

from actors.replication.document import DocumentError, Member, check_member_name
from actors.replication.forming import Here
from transport.cluster.frames import Buffer
from transport.errors import RemoteProtocolError

FIELDS = 8
AMQP_FIELDS = 2
CLUSTER_CHARACTERS = 32


def pack_here(here: Here) -> bytes:
    """The bytes."""
    member = here.member
    packed: bytes = msgpack.packb(
        [
            here.name,
            here.cluster,
            here.end,
            member.directory,
            member.send,
            member.receive,
            member.replication,
            member.http,
            *((member.amqp, member.amqps) if member.amqp or member.amqps else ()),
            *((True,) if here.heals else ()),
        ]
    )
    return packed


def unpack_here(data: Buffer) -> Here:
    """The reverse.

    Raises:
        RemoteProtocolError: it is none.
    """
    try:
        fields: Any = msgpack.unpackb(data, max_ext_len=0)
        heals = (
            isinstance(fields, list) and len(fields) in (FIELDS + 1, FIELDS + AMQP_FIELDS + 1) and fields[-1] is True
        )
        if heals:
            fields.pop()
        if not isinstance(fields, list) or len(fields) not in (FIELDS, FIELDS + AMQP_FIELDS):
            raise RemoteProtocolError("a node that says of itself what no node does")
        name, cluster, end, directory, send, receive, replication, http, amqp, amqps = (*fields, None, None)[:10]
        if not isinstance(cluster, str) or len(cluster) not in (0, CLUSTER_CHARACTERS):
            raise RemoteProtocolError("a node of a cluster that cannot be")
        if type(end) is not int or end < 1:
            raise RemoteProtocolError(f"a node whose log ends with {end!r:.40}")
        member = Member(directory, send, receive, replication, http, amqp=amqp, amqps=amqps)
        return Here(check_member_name(name), cluster, end, member, heals)
    except (ValueError, msgpack.UnpackException, DocumentError) as error:
        raise RemoteProtocolError(f"a node that says of itself what cannot be: {error}") from None
