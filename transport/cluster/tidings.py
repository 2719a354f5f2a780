"""What a node tells the others: damage of its directory, what was cut off its log, where clients reach it. And what it is told to do.

Nothing of replication goes by it. Who has met damage says nothing else any more: it promises nothing, and has stored nothing. A node of
which there is nothing to tell says nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgpack

from actors.replication.document import DocumentError, Member, Places
from transport.cluster.frames import Buffer
from transport.errors import RemoteProtocolError

logger = logging.getLogger("penstock.cluster")

MAX_DAMAGE_BYTES: Final = 1_000
"""Of the text about damage."""
MAX_TIDINGS_BYTES: Final = 4_096
MAX_FIGURE: Final = (1 << 63) - 1


class Tidings(NamedTuple):
    """What a node tells of its directory.

    Attributes:
        damage: what it has met, with file and offset; "" where there is none.
        asks: whether it is to be filled anew without a person, once others have all (`cluster_auto_heal`).
        cut_records: how many were cut off its log since it started;
        cut_messages: and how many messages these held.
        kept_files: copies of what was cut off that lie in its directory;
        kept_bytes: and their bytes.
        kept_damaged: damaged journals that lie there.
        short: whether so little of its disk is free that senders would wait, where it led.
        document: the version of the document, where this node leads and has changed that since; else 0.
        places: where clients reach it, where the document says otherwise: the fields of `Places`, "" for None; empty where it does not.
    """

    damage: str = ""
    asks: bool = False
    cut_records: int = 0
    cut_messages: int = 0
    kept_files: int = 0
    kept_bytes: int = 0
    kept_damaged: int = 0
    short: bool = False
    document: int = 0
    places: tuple[str, ...] = ()

    def facts(self) -> dict[str, Any]:
        """As people and programs are shown them; of a node that has met none ``damage`` is None."""
        facts = self._asdict()
        for name in ("asks", "short", "document", "places"):
            del facts[name]
        return facts | {"damage": self.damage or None}


def told_places(places: Places) -> tuple[str, ...]:
    """As `Tidings` has them."""
    return tuple(place or "" for place in places)


def places_of(told: tuple[str, ...]) -> Places | None:
    """The reverse; None where the document is right.

    Raises:
        DocumentError: nobody can be reached there.
    """
    if not told:
        return None
    known = told[: len(Places._fields)]  # a later version may know of more
    if len(known) < 2:
        raise DocumentError("clients reach it nowhere")
    places = Places(known[0], known[1], *(place or None for place in known[2:]))
    Member("0" * 32, replication=places.send, **places._asdict())  # which looks through them
    return places


class Heal(NamedTuple):
    """Who leads, to a node that has met damage: put the directory aside, and wait in a new one to be filled."""


NOTHING: Final = Tidings()
UNKNOWN: Final[Mapping[str, Any]] = dict.fromkeys(NOTHING.facts())
"""The facts of a node that has told nothing, or is not heard."""


def pack_tidings(tidings: Tidings) -> bytes:
    """The bytes: a msgpack map of the fields."""
    damage = tidings.damage.encode(errors="replace")[:MAX_DAMAGE_BYTES].decode(errors="ignore")
    packed: bytes = msgpack.packb(tidings._replace(damage=damage)._asdict())
    return packed


def unpack_tidings(data: Buffer) -> Tidings:
    """The reverse; fields that this version does not know are passed over.

    Raises:
        RemoteProtocolError: it is none.
    """
    if len(data) > MAX_TIDINGS_BYTES:
        raise RemoteProtocolError(f"a node that tells of its directory in {len(data)} bytes")
    try:
        fields: Any = msgpack.unpackb(data, max_ext_len=0, use_list=False)
    except (ValueError, msgpack.UnpackException) as error:
        raise RemoteProtocolError(f"a node that tells of its directory what cannot be read: {error}") from None
    if not isinstance(fields, dict):
        raise RemoteProtocolError("a node that tells of its directory what no node does")
    found = {name: fields[name] for name in Tidings._fields if name in fields}
    for name, value in found.items():
        default = Tidings._field_defaults[name]
        # A truth is a whole number too.
        if type(value) is not type(default) or (type(value) is int and not 0 <= value <= MAX_FIGURE):
            raise RemoteProtocolError(f"a node that tells of its directory {value!r:.40} for {name}")
    try:
        places_of(found.get("places", ()))
    except DocumentError as error:
        logger.info("a node tells where clients reach it, and nobody can: %s", error)
        del found["places"]
    return Tidings(**found)
