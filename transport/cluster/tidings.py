"""What a node tells the others: damage of its directory, what was cut off its log, where clients reach it. And what it is told to do.

Nothing of replication goes by it. Who has met damage says nothing else any more: it promises nothing, and has stored nothing. A node of
which there is nothing to tell says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgpack

from actors.replication.document import DocumentError, Member, Places
from transport.cluster.frames import Buffer
from transport.errors import RemoteProtocolError

MAX_DAMAGE_BYTES: Final = 1_000
"""Of the text about damage."""
MAX_TIDINGS_BYTES: Final = 4_096
MAX_FIGURE: Final = (1 << 63) - 1
LEAST_PLACES: Final = 2
"""Where senders and where receivers reach a node."""


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
        places: where clients reach it, where the document says otherwise; None where it does not.
        ending: whether its process ends in good order: the mode ``all`` need not wait until it is silent for long.
        doubt: whether it has cut a write off its log that was damaged or not finished, and may lack what it had answered for.
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
    places: Places | None = None
    ending: bool = False
    doubt: bool = False

    def facts(self) -> dict[str, Any]:
        """As people and programs are shown them; of a node that has met none ``damage`` is None."""
        facts = self._asdict()
        for name in ("asks", "short", "document", "places", "ending"):
            del facts[name]
        return facts | {"damage": self.damage or None}


class Heal(NamedTuple):
    """Who leads, to a node that has met damage: put the directory aside, and wait in a new one to be filled."""


NOTHING: Final = Tidings()
UNKNOWN: Final[Mapping[str, Any]] = dict.fromkeys(NOTHING.facts())
"""The facts of a node that has told nothing, or is not heard."""


def pack_tidings(tidings: Tidings) -> bytes:
    """The bytes: a msgpack map of the fields. Of the places that is a list of those of `Places`, "" for None; empty for none at all."""
    damage = tidings.damage.encode(errors="replace")[:MAX_DAMAGE_BYTES].decode(errors="ignore")
    places = [] if tidings.places is None else [place or "" for place in tidings.places]
    packed: bytes = msgpack.packb(tidings._asdict() | {"damage": damage, "places": places})
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
    told = found.pop("places", ())
    for name, value in found.items():
        default = Tidings._field_defaults[name]
        # A truth is a whole number too.
        if type(value) is not type(default) or (type(value) is int and not 0 <= value <= MAX_FIGURE):
            raise RemoteProtocolError(f"a node that tells of its directory {value!r:.40} for {name}")
    return Tidings(**found, places=_places(told))


def _places(told: object) -> Places | None:
    """Raises RemoteProtocolError where nobody can be reached there. A node looks through its own before it starts (`plan_of`)."""
    if told == ():
        return None
    if not isinstance(told, tuple) or len(told) < LEAST_PLACES:
        raise RemoteProtocolError(f"a node that tells that clients reach it at {told!r:.40}, and that is nowhere")
    known = told[: len(Places._fields)]  # a later version may know of more
    places = Places(*known[:LEAST_PLACES], *(place if place != "" else None for place in known[LEAST_PLACES:]))
    try:
        Member("0" * 32, replication=places.send, **places._asdict())  # which looks through them
    except DocumentError as error:
        raise RemoteProtocolError(f"a node that tells where clients reach it, and nobody can: {error}") from None
    return places
