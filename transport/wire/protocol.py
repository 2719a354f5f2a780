"""The connection's state machine without I/O: which frame may come when, from whom.

Both sides run one `Protocol`. It is fed raw frames and answers values, or raises the error that ends the connection.
docs/protocol.md is the specification.

    CONNECTED --HELLO--> OPENING --(AUTH four times)--WELCOME--> OPEN --ERROR(close), end of stream--> CLOSED
"""

from __future__ import annotations

from enum import Enum

from transport.errors import (
    BrokerError,
    InvalidNameError,
    NotLeaderError,
    RemoteProtocolError,
    UnknownRoleError,
    UnprovedBrokerError,
    UnsupportedVersionError,
)
from transport.wire import messages as wire
from transport.wire.codec import decode
from transport.wire.cumulative import GrantedDemand
from transport.wire.frames import CONTROL_FRAME_BYTES, HANDSHAKE_FRAME_BYTES, MAX_FRAME_BYTES, RawFrame
from transport.wire.work import announced_messages


class Side(Enum):
    """Which end of the connection this is."""

    CLIENT = "client"
    BROKER = "broker"


class State(Enum):
    """Where the connection is in its life."""

    CONNECTED = "connected"
    OPENING = "opening"
    OPEN = "open"
    CLOSED = "closed"


SIGNS: frozenset[type[wire.Frame]] = frozenset({wire.Ping, wire.Pong})
ALWAYS: frozenset[type[wire.Frame]] = SIGNS | {wire.Error}

FROM_CLIENT: dict[str, frozenset[type[wire.Frame]]] = {
    "sender": frozenset({wire.Send, wire.Why, wire.Tally}),
    "receiver": frozenset({wire.Request, wire.Ack, wire.Nack, wire.Extend, wire.Cancel, wire.Why}),
    "subscription": frozenset({wire.Reserve, wire.Commit, wire.Fetch, wire.Request, wire.Cancel}),
    "admin": frozenset({wire.Command}),
    "transaction": frozenset({wire.Enlist, wire.CommitTransaction, wire.AbortTransaction}),
}
"""What an open client of each role may send."""

FROM_BROKER: dict[str, frozenset[type[wire.Frame]]] = {
    "sender": frozenset({wire.Demand, wire.Sent, wire.Returned, wire.Tallied, wire.Because}),
    "receiver": frozenset({wire.Deliver, wire.Turn, wire.Because}),
    "subscription": frozenset({wire.Reserved, wire.Committed, wire.Fetched, wire.FetchEnd}),
    "admin": frozenset({wire.Result}),
    "transaction": frozenset({wire.TransactionEnded}),
}
"""What the broker may send to an open client of each role."""

WITH_BODY: frozenset[type[wire.Frame]] = frozenset({wire.Send, wire.Deliver, wire.Fetched, wire.Result})
"""Frames with a body beside their header, which may be large."""
CHANGING_STATE: frozenset[type[wire.Frame]] = frozenset({wire.Hello, wire.Auth, wire.Welcome, wire.Error})
"""Frames after which the connection is in another state, or may be."""
SENDING_ROLES = frozenset({"sender", "transaction", "admin"})
RECEIVING_ROLES = frozenset({"receiver", "subscription"})
ROLES_WITHOUT_QUEUE = frozenset({"admin", "transaction"})
NOBODY_PROVES = "nobody here proves it so: the name, password, token or certificate is wrong, or its time is over"
"""A broker's one text for whatever proof fails: it tells nothing of which users there are. A client knows which it has shown."""
MECHANISM = "mechanism"
"""HELLO's option that names how the client proves itself in AUTH frames."""
SCRAM = "SCRAM-SHA-256"
"""The one way that there is."""
TOKEN = "token"  # noqa: S105 - the option's name
"""HELLO's option that holds the proof itself."""
UNPROVED = "the broker has not proved that it knows the user. It is older than this client, or has no users"
AUTHS_EACH = 2
"""AUTH frames of each side, in turn, in SCRAM-SHA-256: the client's two messages and the broker's."""


class Protocol:
    """One side of one connection.

    Attributes:
        side: which side.
        roles: the roles that this address serves (broker) or the one role asked for (client).
        role: the role, once HELLO has named it.
        state: where the connection is.
        granted: the demand that what a sender sends is held against; None where none has been granted.
        takes_sends: whether the peer may send batches now.
        awaits_pong: the token of the PING whose PONG is to be told of; 0 for none.
        leader: of a broker that does not lead: where its clients find the one that does.
        signed: of a client: whether the broker has said that it is there, and that the answer to HELLO takes its time.
    """

    __slots__ = (
        "_allowed",
        "_auths",
        "_before_welcome",
        "awaits_pong",
        "granted",
        "leader",
        "role",
        "roles",
        "side",
        "signed",
        "state",
        "takes_sends",
    )

    def __init__(self, side: Side, roles: frozenset[str]) -> None:
        self.side = side
        self.roles = roles
        self.role: str | None = None
        self.state = State.CONNECTED
        self.granted: GrantedDemand | None = None
        self.takes_sends = False
        # AUTH frames that the peer has still to send.
        self._auths = 0
        self.awaits_pong = 0
        self.leader = ""
        self.signed = False
        # What the peer may say once it has proved itself.
        self._before_welcome: frozenset[type[wire.Frame]] = frozenset()
        self._allowed: frozenset[type[wire.Frame]] = frozenset({wire.Hello}) if side is Side.BROKER else frozenset()

    def receive(self, raw: RawFrame) -> wire.Frame:
        """The value of the next frame.

        Raises:
            RemoteProtocolError: it is malformed, or not allowed now.
            DemandExceededError: it has more messages than were granted; they were not looked at.
            BrokerError: on the client's side, the broker's ERROR that closes.
        """
        if self.granted is not None and raw.header[0] == wire.Send.TYPE:
            messages = announced_messages(raw)
            if messages is not None:
                self.granted.use(messages, len(raw.body))
        frame = decode(raw)
        if type(frame) not in self._allowed:
            if type(frame) is wire.Welcome and self._auths:
                raise UnprovedBrokerError(f"WELCOME is not allowed {self._where()}: {UNPROVED}")
            raise RemoteProtocolError(f"{type(frame).__name__.upper()} is not allowed {self._where()}")
        if type(frame) in CHANGING_STATE:
            self._change_state(frame)
        return frame

    @property
    def largest_frame(self) -> int:
        """The largest that the peer may send, as the connection stands: only who sends batches, or answers, needs large ones."""
        if self.state is not State.OPEN:
            return HANDSHAKE_FRAME_BYTES
        return MAX_FRAME_BYTES if self._allowed & WITH_BODY else CONTROL_FRAME_BYTES

    def said_hello(self, hello: wire.Hello) -> None:
        """The client's shell has sent HELLO. Where it names a mechanism, WELCOME is taken only from a broker that has said its part."""
        self.role = hello.role
        answers = frozenset({wire.Welcome, wire.Error})
        self._opening(hello, answers if hello.options.get(wire.SIGN) is None else answers | SIGNS)

    def said_welcome(self) -> None:
        """The broker's shell has sent WELCOME."""
        self._opened()

    def _change_state(self, frame: wire.Frame) -> None:
        if isinstance(frame, wire.Hello):
            self._hello(frame)
        elif isinstance(frame, wire.Auth):
            self._auths -= 1
            if not self._auths:
                self._allowed = self._before_welcome
        elif isinstance(frame, wire.Welcome):
            self._opened()
        elif isinstance(frame, wire.Error) and frame.close:
            self.state = State.CLOSED
            if frame.code == wire.NOT_LEADER:
                raise NotLeaderError(frame.code, frame.text, frame.leader)
            raise BrokerError(frame.code, frame.text)

    def _hello(self, hello: wire.Hello) -> None:
        if hello.version != wire.VERSION:
            raise UnsupportedVersionError(
                f"version {hello.version} is not spoken here; this broker speaks version {wire.VERSION}"
            )
        if hello.role not in self.roles:
            raise UnknownRoleError(
                f"role {hello.role!r:.40} is not served on this address; it serves {', '.join(sorted(self.roles))}"
            )
        # Names are within their limits where they are given.
        if hello.queue is None and hello.role not in ROLES_WITHOUT_QUEUE and not _named_elsewhere(hello):
            raise InvalidNameError(f"HELLO in the role {hello.role} names a queue")
        if hello.client_id is None and hello.role == "sender":
            raise InvalidNameError("HELLO in the role sender has a client_id")
        self.role = hello.role
        self._opening(hello, ALWAYS)

    def _opening(self, hello: wire.Hello, allowed: frozenset[type[wire.Frame]]) -> None:
        self.state = State.OPENING
        proves = hello.options.get(MECHANISM) is not None
        self._auths = AUTHS_EACH if proves else 0
        self._before_welcome = allowed
        self._allowed = frozenset({wire.Auth, wire.Error}) if proves else allowed

    def _opened(self) -> None:
        assert self.role is not None, "WELCOME answers HELLO"
        self.state = State.OPEN
        table = FROM_CLIENT if self.side is Side.BROKER else FROM_BROKER
        self._allowed = ALWAYS | table[self.role]
        self.takes_sends = wire.Send in self._allowed

    def _where(self) -> str:
        if self.state is State.OPEN:
            return f"from the {'client' if self.side is Side.BROKER else 'broker'} in the role {self.role}"
        first = "AUTH" if self._auths else "HELLO" if self.state is State.CONNECTED else "WELCOME"
        return f"while the connection is {self.state.value}; {first} comes first"


def _named_elsewhere(hello: wire.Hello) -> bool:
    """Whether a HELLO without a queue in its field names one that must be there, or an exchange; raises where that is no name."""
    from transport.wire.exchange_named import read_target  # noqa: PLC0415 - for a broker, and few clients say it
    from transport.wire.queue_named import with_queue  # noqa: PLC0415 - as above

    if hello.role == "receiver":
        from transport.wire.receiver_bindings import wants_own_queue  # noqa: PLC0415 - as above

        if wants_own_queue(hello):
            return True
    return with_queue(hello)[0].queue is not None or read_target(hello) is not None
