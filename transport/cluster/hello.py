"""How two nodes come to trust one another: four small messages, before which nothing else is read. No I/O.

Who dials says HELLO: which versions it speaks, which cluster and which directory it is, whom it wants, and a nonce. The other answers
CHALLENGE with the same of itself. Who dials sends PROOF, the other READY with its own; or whoever finds a reason says REFUSED, and why.

A proof is an HMAC-SHA-256 under the cluster's secret, of which side it is and of all bytes of HELLO and CHALLENGE. So it proves who has the
secret, and everything that both have said; it fits no other connection, and no other side of this one. The secret does not go over the
wire, and who dials proves first: whoever only connects gets nothing to try secrets on. Where certificates prove who somebody is
and there is no secret, proofs are empty.

A message is: ``mark`` 4s b"PLNK", ``kind`` u8, ``length`` u16, then its body.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass
from typing import Final, NamedTuple

from actors.replication.document import MAX_ADDRESS_BYTES, MAX_MEMBER_NAME_BYTES, DocumentError, check_member_name
from transport.errors import RemoteProtocolError, TransportError

VERSION: Final = 1
"""Of the protocol that this program speaks."""
LEAST_VERSION: Final = 1
"""The oldest that it speaks too: during an upgrade nodes are of two versions."""
NONCE_BYTES: Final = 32
START_BYTES: Final = 8
PROOF_BYTES: Final = 32
MAX_BODY_BYTES: Final = 1_024
"""Of a message of the handshake, at most."""
MAX_REASON_BYTES: Final = 300
"""Of a refusal's text."""
MAX_CODE_BYTES: Final = 32

MARK: Final = b"PLNK"
NOBODY: Final = "0" * 32
"""The cluster of who is of none yet, and the directory that is wanted of one whose id is not known: see meeting.py."""
_OF_NONE_YET: Final = "of none yet"
"""How a text ends that says so of one of two nodes."""
HELLO, CHALLENGE, PROOF, READY, REFUSED = range(1, 6)

VERSIONS: Final = "version"
"""Codes of refusals: the two speak no version together;"""
CLUSTER: Final = "cluster"
"""they are of two clusters;"""
DIRECTORY: Final = "directory"
"""who was dialled has another directory than the one that was wanted;"""
UNPROVED: Final = "secret"
"""the secrets differ, or only one has any;"""
UNKNOWN: Final = "unknown"
"""the document names no such directory, as far as it is known there;"""
NAMES: Final = "names"
"""the certificate is for other names;"""
TAKEN: Final = "taken"
"""another node with this very directory is connected: one of the two is a copy;"""
CROSSED: Final = "crossed"
"""both have dialled, and the other connection is the one that stays;"""
CLOSING: Final = "closing"
"""the node ends."""
CODES: Final = frozenset({VERSIONS, CLUSTER, DIRECTORY, UNPROVED, UNKNOWN, NAMES, TAKEN, CROSSED, CLOSING})
"""All of them. A peer may say others."""

_HEAD: Final = struct.Struct("<4sBH")
_HELLO: Final = struct.Struct(f"<HHB16s16s16s{START_BYTES}s{NONCE_BYTES}s")
_CHALLENGE: Final = struct.Struct(f"<HB16s16s{START_BYTES}s{NONCE_BYTES}s")
_DIALS: Final = b"penstock link: who dials"
_ANSWERS: Final = b"penstock link: who answers"
_DIALS_FRAMES: Final = b"penstock link: frames of who dials"
_ANSWERS_FRAMES: Final = b"penstock link: frames of who answers"


class HandshakeError(RemoteProtocolError):
    """What came is no handshake of a link."""


class LinkRefusedError(TransportError):
    """One of the two does not take the other.

    Attributes:
        reason: one of the codes above; what a peer says may be another one.
        by_peer: whether the other side has said so.
    """

    def __init__(self, reason: str, text: str, *, by_peer: bool = False) -> None:
        super().__init__(text)
        self.reason = reason
        self.by_peer = by_peer

    @property
    def of_none_yet(self) -> bool:
        """Whether one of the two is of no cluster, and may be about to be of the other's."""
        return self.reason == CLUSTER and str(self).endswith(_OF_NONE_YET)


@dataclass(frozen=True, slots=True)
class Identity:
    """What a node says of itself.

    Attributes:
        cluster: the cluster's id, 32 digits of hex.
        directory: its directory's, likewise.
        name: the member's.
        address: where the others reach it.
        start: random bytes of this start of the program: two that run have different ones.
    """

    cluster: str
    directory: str
    name: str
    address: str
    start: bytes

    def __post_init__(self) -> None:
        if len(self.start) != START_BYTES:
            raise ValueError(f"a start has {START_BYTES} bytes, not {len(self.start)}")


class Agreed(NamedTuple):
    """What a handshake comes to.

    Attributes:
        peer: who the other one is.
        version: what both speak.
        seed_out: of the frames that are sent.
        seed_in: of those that come.
    """

    peer: Identity
    version: int
    seed_out: int
    seed_in: int


def pack(kind: int, body: bytes) -> bytes:
    """A message."""
    return _HEAD.pack(MARK, kind, len(body)) + body


def refusal(reason: str, text: str) -> bytes:
    """A message that refuses the other side."""
    code = reason.encode()
    return pack(REFUSED, bytes((len(code),)) + code + text.encode(errors="replace")[:MAX_REASON_BYTES])


class HandshakeReader:
    """What has come of a handshake; never more than one message and what came with it."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def add(self, data: memoryview | bytes) -> None:
        """These bytes have come."""
        self._buffer += data

    def next_message(self) -> tuple[int, bytes] | None:
        """(kind, body) of the next message that is whole.

        Raises:
            HandshakeError: it is none.
        """
        buffer = self._buffer
        if buffer[: len(MARK)] != MARK[: len(buffer)]:
            raise HandshakeError("what came is not the beginning of a link between nodes: does a client connect here?")
        if len(buffer) < _HEAD.size:
            return None
        _, kind, length = _HEAD.unpack_from(buffer)
        if not HELLO <= kind <= REFUSED or length > MAX_BODY_BYTES:
            raise HandshakeError(f"a message of kind {kind} and {length} bytes, which no handshake has")
        if len(buffer) < _HEAD.size + length:
            return None
        body = bytes(buffer[_HEAD.size : _HEAD.size + length])
        del buffer[: _HEAD.size + length]
        return kind, body

    def rest(self) -> bytes:
        """What came behind the last message, and is of frames."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        return rest

    @property
    def empty(self) -> bool:
        """Whether nothing is left."""
        return not self._buffer


class _Side:
    """What both sides do."""

    def __init__(self, me: Identity, secret: bytes | None, nonce: bytes) -> None:
        if len(nonce) != NONCE_BYTES:
            raise ValueError(f"a nonce has {NONCE_BYTES} bytes, not {len(nonce)}")
        self.me = me
        self.peer: Identity | None = None
        self.version = 0
        self._secret = secret
        self._nonce = nonce
        self._said = b""

    def _proof(self, label: bytes) -> bytes:
        if self._secret is None:
            return b""
        return self._derived(label)

    def _derived(self, label: bytes) -> bytes:
        return hmac.digest(self._secret or b"", label + b"\0" + hashlib.sha256(self._said).digest(), "sha256")

    def _check_proof(self, body: bytes, label: bytes, also: bytes | None = None) -> None:
        if also is not None and not hmac.compare_digest(body, self._proof(label)):
            self._secret = also
        if not hmac.compare_digest(body, self._proof(label)):
            raise LinkRefusedError(UNPROVED, "the two have different secrets: each node needs the same")

    def _check_has_secret(self, has: bool) -> None:
        if has != (self._secret is not None):
            raise LinkRefusedError(
                UNPROVED, "one of the two nodes has a secret and the other has none: each needs the same"
            )

    def _check_cluster(self, cluster: str) -> None:
        if cluster != self.me.cluster:
            # Whoever reads it may be either of the two.
            named = [f"of the cluster {each}" for each in (cluster, self.me.cluster) if each != NOBODY]
            text = f"one of the two nodes is {named[0]}, and the other {named[1] if named[1:] else _OF_NONE_YET}"
            raise LinkRefusedError(CLUSTER, text)

    def agreed(self, *, dials: bool) -> Agreed:
        """What it came to, when it is over."""
        assert self.peer is not None
        seeds = [int.from_bytes(self._derived(label)[:4], "little") for label in (_DIALS_FRAMES, _ANSWERS_FRAMES)]
        return Agreed(self.peer, self.version, *(seeds if dials else reversed(seeds)))


class Dialing(_Side):
    """The side of who dials.

    Args:
        me: who it is.
        wanted: the directory that is to answer.
        secret: the cluster's, of two the one that is tried; None where certificates prove who somebody is.
        nonce: random bytes of this connection.
    """

    def __init__(self, me: Identity, wanted: str, secret: bytes | None, nonce: bytes) -> None:
        super().__init__(me, secret, nonce)
        self._wanted = wanted

    def begin(self) -> bytes:
        """What is sent first."""
        me = self.me
        head = _HELLO.pack(
            LEAST_VERSION,
            VERSION,
            self._secret is not None,
            bytes.fromhex(me.cluster),
            bytes.fromhex(me.directory),
            bytes.fromhex(self._wanted),
            me.start,
            self._nonce,
        )
        self._said = pack(HELLO, head + _names(me))
        return self._said

    def received(self, kind: int, body: bytes) -> bytes | None:
        """What is sent then; None when it is ready.

        Raises:
            LinkRefusedError: one refuses the other.
            HandshakeError: it is not what is to come now.
        """
        if kind == REFUSED:
            raise _unpack_refusal(body)
        if kind == CHALLENGE and self.peer is None:
            return self._challenged(body)
        if kind == READY and self.peer is not None:
            self._check_proof(body, _ANSWERS)
            return None
        raise HandshakeError(f"a message of kind {kind} in the wrong place of a handshake")

    def _challenged(self, body: bytes) -> bytes:
        try:
            version, has_secret, cluster, directory, start, _ = _CHALLENGE.unpack_from(body)
        except struct.error:
            raise HandshakeError("a CHALLENGE that is none") from None
        if not LEAST_VERSION <= version <= VERSION:
            raise LinkRefusedError(VERSIONS, _no_version(version, version))
        name, address = _unpack_names(body[_CHALLENGE.size :])
        self._check_cluster(cluster.hex())
        if directory.hex() != self._wanted != NOBODY:
            raise LinkRefusedError(DIRECTORY, _other_directory(self._wanted, directory.hex()))
        self._check_has_secret(bool(has_secret))
        self.peer = Identity(cluster.hex(), directory.hex(), name, address, start)
        self.version = version
        self._said += pack(CHALLENGE, body)
        return pack(PROOF, self._proof(_DIALS))


class Answering(_Side):
    """The side of who was dialled.

    Attributes:
        proved: whether the other one has proved itself: then `ready` ends the handshake, unless there is a reason against it.

    Args:
        me: as above.
        secret: as above.
        nonce: as above.
        also: another secret by which the other one may prove itself; it is answered by the same then.
    """

    def __init__(self, me: Identity, secret: bytes | None, nonce: bytes, also: bytes | None = None) -> None:
        super().__init__(me, secret, nonce)
        self.proved = False
        self._also = also

    def received(self, kind: int, body: bytes) -> bytes | None:
        """What is sent then; None when the other one has proved itself. Raises as `Dialing.received`."""
        if kind == REFUSED:
            raise _unpack_refusal(body)
        if kind == HELLO and self.peer is None:
            return self._hello(body)
        if kind == PROOF and self.peer is not None and not self.proved:
            self._check_proof(body, _DIALS, self._also)
            self.proved = True
            return None
        raise HandshakeError(f"a message of kind {kind} in the wrong place of a handshake")

    def ready(self) -> bytes:
        """What is sent last, by who takes the other one."""
        assert self.proved
        return pack(READY, self._proof(_ANSWERS))

    def _hello(self, body: bytes) -> bytes:
        me = self.me
        try:
            least, most, has_secret, cluster, directory, wanted, start, _ = _HELLO.unpack_from(body)
        except struct.error:
            raise HandshakeError("a HELLO that is none") from None
        # The first two fields stay where they are in every version, or none could say that it is another.
        version = min(most, VERSION)
        if version < max(least, LEAST_VERSION):
            raise LinkRefusedError(VERSIONS, _no_version(least, most))
        name, address = _unpack_names(body[_HELLO.size :])
        self._check_cluster(cluster.hex())
        # Who is of a cluster is wanted by its id.
        if wanted.hex() != me.directory and not wanted.hex() == NOBODY == me.cluster:
            raise LinkRefusedError(DIRECTORY, _other_directory(wanted.hex(), me.directory))
        self._check_has_secret(bool(has_secret))
        if directory.hex() == me.directory:
            raise LinkRefusedError(
                TAKEN, f"both have the directory {me.directory}: one of them is a copy, or it is the same node"
            )
        self.peer = Identity(cluster.hex(), directory.hex(), name, address, start)
        self.version = version
        head = _CHALLENGE.pack(
            version,
            self._secret is not None,
            bytes.fromhex(me.cluster),
            bytes.fromhex(me.directory),
            me.start,
            self._nonce,
        )
        challenge = pack(CHALLENGE, head + _names(me))
        self._said = pack(HELLO, body) + challenge
        return challenge


def _names(me: Identity) -> bytes:
    name, address = me.name.encode(), me.address.encode()
    return bytes((len(name),)) + name + struct.pack("<H", len(address)) + address


def _unpack_names(rest: bytes) -> tuple[str, str]:
    """(name, address), and nothing behind them."""
    try:
        stop = 1 + rest[0]
        (length,) = struct.unpack_from("<H", rest, stop)
        address = rest[stop + 2 :].decode("ascii")
        if rest[0] > MAX_MEMBER_NAME_BYTES or length != len(address) or length > MAX_ADDRESS_BYTES:
            raise HandshakeError("a name or an address that is too long")
        if not address.isprintable():
            raise HandshakeError("an address that is not printable")
        return check_member_name(rest[1:stop].decode("ascii")), address
    except (IndexError, struct.error, UnicodeDecodeError, DocumentError) as error:
        raise HandshakeError(f"a node that says no name: {error}") from None


def _unpack_refusal(body: bytes) -> LinkRefusedError:
    length = body[0] if body else 0
    code, text = body[1 : 1 + length], body[1 + length :]
    if length > MAX_CODE_BYTES or len(text) > MAX_REASON_BYTES:
        raise HandshakeError("a refusal that is none")
    return LinkRefusedError(code.decode(errors="replace"), text.decode(errors="replace"), by_peer=True)


def _no_version(least: int, most: int) -> str:
    return (
        f"it speaks the versions {least} to {most}, and this node {LEAST_VERSION} to {VERSION}: upgrade the older one"
    )


def _other_directory(wanted: str, found: str) -> str:
    return f"the directory {wanted} is wanted, and there is {found}: it was wiped, restored or copied, or the address is another node's"
