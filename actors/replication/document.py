"""The one document that a cluster agrees on: who leads, in which epoch, and who its members are. Small, versioned, checked when read.

It lies in the register (`register.py`). It is JSON, so that a person can look at it there. What it holds is checked whenever one is made,
so there is no document that breaks a rule, neither in a program nor in the register. A field that is not known is refused: an older program
would drop it at its next swap.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from actors.errors import ActorError

FORMAT: Final = 1
"""Of the JSON: its ``version``."""
MAX_DOCUMENT_BYTES: Final = 64 * 1024
"""Of the JSON."""
MAX_MEMBERS: Final = 32
"""Learners too."""
MAX_MEMBER_NAME_BYTES: Final = 63
MAX_ADDRESS_BYTES: Final = 300
"""A name of DNS has 253."""
MAX_WRITER_BYTES: Final = 128
MAX_EPOCH: Final = 2**32 - 1
"""A record of the journal has four bytes for it (journal/format.py)."""
MOST_EPOCHS_AHEAD: Final = 2**24
"""Of what a node knows: to be away for so many leaders takes years. A node that went along with a number that somebody made up would bring
the cluster to where there is no greater one."""

ASYNC: Final = "async"
ONE: Final = "one"
MAJORITY: Final = "majority"
ALL: Final = "all"
MODES: Final = (ASYNC, ONE, MAJORITY, ALL)
"""What has to have a record on its disk before it is confirmed: the leader alone, one more, half + 1, or every member in step."""

ADD: Final = "add"
REMOVE: Final = "remove"
MOVE: Final = "move"
CHANGES: Final = (ADD, REMOVE, MOVE)
"""What may become of a member: a learner counts from then on, a member goes, or lives in another directory or at other addresses."""

_OPTIONAL: Final = ("amqp", "amqps")
"""Fields of a member that a document may be without: those that it was written with before there were these."""
_ID: Final = re.compile(r"[0-9a-f]{32}")
_NAME: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MAX_MEMBER_NAME_BYTES - 1}}}")


class DocumentError(ActorError, ValueError):
    """A document that breaks a rule, or bytes that are none; the text says which."""


class Places(NamedTuple):
    """Where clients reach a node, each ``host:port``; None for nowhere.

    Attributes:
        send: who sends.
        receive: who receives.
        http: the HTTP API.
        amqp: clients of AMQP.
        amqps: likewise, under TLS.
    """

    send: str
    receive: str
    http: str | None = None
    amqp: str | None = None
    amqps: str | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """A node that the document names.

    Attributes:
        directory: the id of its data directory, 16 random bytes as hex. A wiped or restored one has another id.
        send: where clients send, ``host:port``.
        receive: where clients receive.
        replication: where the other members reach it.
        http: where its HTTP API is; None for none.
        learner: whether it does not count yet: it is being filled.
        in_step: whether the mode ``all`` waits for it.
        amqp: where clients of AMQP connect; None for nowhere, and where the document was written before there was this.
        amqps: likewise, under TLS.
    """

    directory: str
    send: str
    receive: str
    replication: str
    http: str | None = None
    learner: bool = False
    in_step: bool = True
    amqp: str | None = None
    amqps: str | None = None

    def __post_init__(self) -> None:
        _check_id("directory", self.directory)
        for name in ("send", "receive", "replication"):
            _check_address(name, getattr(self, name))
        for name in ("http", *_OPTIONAL):
            if getattr(self, name) is not None:
                _check_address(name, getattr(self, name))
        for name in ("learner", "in_step"):
            _check_type(name, getattr(self, name), bool, "true or false")
        if self.learner and self.in_step:
            raise DocumentError("a learner is not in step: in_step has to be false where learner is true")

    @property
    def places(self) -> Places:
        """Where clients reach it."""
        return Places(self.send, self.receive, self.http, self.amqp, self.amqps)

    def reached_at(self, places: Places) -> Member:
        """The same member, which clients reach elsewhere.

        Raises:
            DocumentError: nobody can be reached there.
        """
        return replace(self, **places._asdict())


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the members that is under way: until it is known to be done or given up, a commit needs the majorities of both.

    Attributes:
        kind: one of ``CHANGES``.
        name: the member that it is about.
        member: what the member is from then on, for ``MOVE``; None for the others.
    """

    kind: str
    name: str
    member: Member | None = None

    def __post_init__(self) -> None:
        if self.kind not in CHANGES:
            raise DocumentError(f"change.kind is {_shown(self.kind)}, and can be {', '.join(CHANGES)}")
        check_member_name(self.name, "change.name")
        if (self.kind == MOVE) != (self.member is not None):
            raise DocumentError(
                f"a change that is to {self.kind} {self.name!r} has {'no' if self.kind == MOVE else 'a'} member"
            )


@dataclass(frozen=True, slots=True)
class ClusterDocument:
    """What a cluster agrees on.

    Attributes:
        cluster: the cluster's id, 16 random bytes as hex, made once with the first document.
        epoch: counts leaders; from 1.
        leader: the name of the member that leads in this epoch.
        members: all members by name, learners too; it cannot be changed, nor can what is in it.
        mode: one of ``MODES``.
        change: the change of members that is under way; None for none.
        writer: who wrote this document, and in which try: other text at each swap, so that whoever lost the answer knows its own again.
    """

    cluster: str
    epoch: int
    leader: str
    members: Mapping[str, Member] = field(hash=False)
    mode: str = MAJORITY
    change: Change | None = None
    writer: str = ""

    def __post_init__(self) -> None:
        _check_id("cluster", self.cluster)
        _check_type("epoch", self.epoch, int, "a whole number")
        if not 1 <= self.epoch <= MAX_EPOCH:
            raise DocumentError(f"epoch is {self.epoch}, and epochs go from 1 to {MAX_EPOCH}")
        if self.mode not in MODES:
            raise DocumentError(f"mode is {_shown(self.mode)}, and can be {', '.join(MODES)}")
        _check_text("writer", self.writer, MAX_WRITER_BYTES)
        object.__setattr__(self, "members", MappingProxyType(dict(sorted(self.members.items()))))
        self._check_members()
        self._check_leader()
        if self.change is not None:
            self._check_change(self.change)

    @property
    def counting(self) -> tuple[str, ...]:
        """The names of the members that count: all but learners."""
        return tuple(name for name, member in self.members.items() if not member.learner)

    @property
    def majority(self) -> int:
        """How many of those that count are half + 1."""
        return len(self.counting) // 2 + 1

    @property
    def names(self) -> dict[str, str]:
        """What the members are called, by their directories; those of a change that is under way too."""
        them = (self.members_after_change, self.members)
        return {member.directory: name for members in them for name, member in members.items()}

    @property
    def members_after_change(self) -> Mapping[str, Member]:
        """The members as they are when the change is done; as they are now where there is none."""
        if self.change is None:
            return self.members
        after = dict(self.members)
        kind, name, member = self.change.kind, self.change.name, self.change.member
        if kind == REMOVE:
            del after[name]
        else:
            after[name] = replace(after[name], learner=False) if member is None else member
        return MappingProxyType(after)

    def name_of(self, directory: str) -> str:
        """The name of the member that lives in a directory, or will when the change is done; the directory's own where there is none."""
        return self.names.get(directory, directory)

    def _check_members(self) -> None:
        if len(self.members) > MAX_MEMBERS:
            raise DocumentError(f"there are {len(self.members)} members, and there can be {MAX_MEMBERS}")
        owners: dict[str, str] = {}
        for name, member in self.members.items():
            check_member_name(name, "a member's name")
            _check_type(f"the member {name!r}", member, Member, "a member")
            other = owners.setdefault(member.directory, name)
            if other != name:
                raise DocumentError(f"the members {other!r} and {name!r} have the same directory, {member.directory}")
        if not self.counting:
            raise DocumentError("no member counts: at least one has to be there that is no learner")

    def _check_leader(self) -> None:
        _check_type("leader", self.leader, str, "a name")
        leader = self.members.get(self.leader)
        if leader is None:
            raise DocumentError(f"the leader {_shown(self.leader)} is no member: those are {', '.join(self.members)}")
        if leader.learner:
            raise DocumentError(f"the leader {self.leader!r} is a learner, and a learner cannot lead")

    def _check_change(self, change: Change) -> None:
        _check_type("change", change, Change, "a change")
        member = self.members.get(change.name)
        if member is None:
            raise DocumentError(f"the change is of {change.name!r}, and there is no such member")
        if change.kind == ADD and not member.learner:
            raise DocumentError(f"{change.name!r} is to be added, and counts already")
        if change.kind != ADD and self.counting == (change.name,) and (change.member is None or change.member.learner):
            raise DocumentError(f"without {change.name!r} no member would count")


def encode_document(document: ClusterDocument) -> bytes:
    """The JSON of a document; the same bytes for equal documents.

    Raises:
        DocumentError: it has more than ``MAX_DOCUMENT_BYTES``.
    """
    values: dict[str, Any] = {
        "version": FORMAT,
        "cluster": document.cluster,
        "epoch": document.epoch,
        "leader": document.leader,
        "mode": document.mode,
        "members": {name: _plain(member) for name, member in document.members.items()},
        "change": None,
        "writer": document.writer,
    }
    if (change := document.change) is not None:
        member = None if change.member is None else _plain(change.member)
        values["change"] = {"kind": change.kind, "name": change.name, "member": member}
    content = json.dumps(values, indent=1, ensure_ascii=False).encode()
    if len(content) > MAX_DOCUMENT_BYTES:
        raise DocumentError(f"the document has {len(content)} bytes, and can have {MAX_DOCUMENT_BYTES}")
    return content


def decode_document(content: bytes) -> ClusterDocument:
    """The document of some bytes.

    Raises:
        DocumentError: they are none, or one that breaks a rule; nothing of it is taken then.
    """
    if len(content) > MAX_DOCUMENT_BYTES:
        raise DocumentError(f"the document has {len(content)} bytes, and can have {MAX_DOCUMENT_BYTES}")
    try:
        # RecursionError is for what is nested without end.
        values = json.loads(content.decode(), object_pairs_hook=_once)
    except DocumentError:
        raise
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"the document is no JSON: {error}") from None
    version = values.get("version") if isinstance(values, dict) else None
    if type(version) is int and version > FORMAT:
        raise DocumentError(
            f"the document is of version {version}, and this program knows {FORMAT}: it needs a newer one"
        )
    values = _fields("the document", values, ("version", *_names(ClusterDocument)))
    if values.pop("version") != FORMAT or type(version) is not int:
        raise DocumentError(f"version is {_shown(version)}, and can be {FORMAT}")
    members = values["members"]
    _check_type("members", members, dict, "an object of members by name")
    values["members"] = {name: _member(f"the member {_shown(name)}", member) for name, member in members.items()}
    if values["change"] is not None:
        change = _fields("change", values["change"], _names(Change))
        if change["member"] is not None:
            change["member"] = _member("change.member", change["member"])
        values["change"] = Change(**change)
    return ClusterDocument(**values)


def check_continues(document: ClusterDocument | None, cluster: str, epoch: int) -> None:
    """Whether a document may be what has become of the one that a node knows. Nothing but this cluster's nodes changes that.

    Args:
        document: as it was read; None where there is none.
        cluster: the id of the cluster that the node is of.
        epoch: the greatest that the node knows.

    Raises:
        DocumentError: somebody else has put it there, or taken it away. The text says what is wrong.
    """
    if document is None:
        raise DocumentError("the cluster's document is gone: somebody has deleted it. Put it back")
    if document.cluster != cluster:
        raise DocumentError(
            f"the document is of the cluster {document.cluster}, and this node is of {cluster}: somebody else has put it there. Put "
            "the right one back"
        )
    if document.epoch > epoch + MOST_EPOCHS_AHEAD:
        raise DocumentError(
            f"the document is of epoch {document.epoch}, and this node knows of {epoch}: so many have not led meanwhile. Put the right "
            "one back"
        )


def check_member_name(name: object, what: str = "the name") -> str:
    """``name`` if a member can have it: letters, digits, ``.``, ``_`` and ``-``, and the first is a letter or a digit.

    Raises:
        DocumentError: it cannot; ``what`` it names appears in the text.
    """
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise DocumentError(
            f"{what} is {_shown(name)}, and has to be 1-{MAX_MEMBER_NAME_BYTES} letters, digits, '.', '_' and '-', "
            "the first a letter or a digit"
        )
    return name


def _plain(member: Member) -> dict[str, Any]:
    plain = {name: getattr(member, name) for name in _names(Member)}
    # An older program reads a document without these, and none with them.
    return {name: value for name, value in plain.items() if value is not None or name not in _OPTIONAL}


def _member(what: str, values: object) -> Member:
    try:
        found = _fields("it", values, _names(Member), _OPTIONAL)
        for name in _OPTIONAL:
            if name in found and found[name] is None:
                raise DocumentError(f"{name} is null: leave it out where there is none")
        return Member(**found)
    except DocumentError as error:
        raise DocumentError(f"{what}: {error}") from None


def _names(cls: type[ClusterDocument | Member | Change]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(cls))


def _fields(what: str, values: object, names: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    needed = [name for name in names if name not in optional]
    if not isinstance(values, dict):
        raise DocumentError(f"{what} is {_shown(values)}, and has to be an object with {', '.join(needed)}")
    if missing := [name for name in needed if name not in values]:
        raise DocumentError(f"{what} has no {', '.join(missing)}")
    if unknown := [_shown(name) for name in values if name not in names]:
        raise DocumentError(f"{what} has {', '.join(unknown[:3])}, which this program does not know")
    return dict(values)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise DocumentError("the document says something twice: a name stands in one object two times")
    return values


def _check_id(what: str, value: object) -> None:
    if not isinstance(value, str) or _ID.fullmatch(value) is None:
        raise DocumentError(f"{what} is {_shown(value)}, and has to be 32 digits of hex, in lower case")


def _check_address(what: str, value: object) -> None:
    _check_text(what, value, MAX_ADDRESS_BYTES)
    assert isinstance(value, str)
    host, _, port = value.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise DocumentError(f"{what} is {_shown(value)}, and an IPv6 host has to be in brackets, as in [::1]:9184")
    if not host or not (port.isascii() and port.isdigit()) or len(port) > 5 or not 1 <= int(port) <= 65535:
        raise DocumentError(f"{what} is {_shown(value)}, and has to be host:port with a port of 1-65535")


def _check_text(what: str, value: object, most: int) -> None:
    if not isinstance(value, str) or not value.isascii() or not value.isprintable() or len(value) > most:
        raise DocumentError(f"{what} is {_shown(value)}, and has to be printable ASCII, at most {most} characters")


def _check_type(what: str, value: object, kind: type, expected: str) -> None:
    # A truth is no number here.
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise DocumentError(f"{what} is {_shown(value)}, and has to be {expected}")


def _shown(value: object) -> str:
    return f"{value!r:.80}"
