"""What is said on a connection of AMQP before it is open: who comes, what is agreed, and for which virtual host (AMQP 0-9-1, 2.2.4).

    C: protocol header    S: start    C: start-ok (a proof)    S: tune    C: tune-ok (limits)    C: open    S: open-ok

Without I/O: who has the proof's user and password is for the shell to say. The texts of errors are RabbitMQ's.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from transport.gateways.amqp.connection_methods import ConnectionStart, ConnectionTune
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.layout import MIN_FRAME_MAX
from transport.gateways.amqp.reply_codes import ReplyCode
from transport.gateways.amqp.tables import MAX_ARGUMENT_ENTRIES, Table, decode_table

if TYPE_CHECKING:
    from transport.gateways.amqp.connection_methods import ConnectionStartOk, ConnectionTuneOk

CHANNEL_MAX: Final = 2_047
"""Channels of one connection, as many as RabbitMQ allows unless it is told otherwise;"""
FRAME_MAX: Final = 131_072
"""bytes of a frame, likewise;"""
HEARTBEAT: Final = 60
"""seconds between two signs of life, as they are proposed, likewise."""
MOST_NAME_BYTES: Final = 255
"""Of a connection's name, as its client gives it."""
CAPABILITIES: Final = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)
"""Of RabbitMQ 4: clients look for these before they use something."""
PLAIN, AMQPLAIN, EXTERNAL = "PLAIN", "AMQPLAIN", "EXTERNAL"


class State(Enum):
    """How far it has come."""

    HEADER = "handshake"
    STARTING = "starting"
    SECURING = "securing"
    TUNING = "tuning"
    OPENING = "opening"
    RUNNING = "running"


class Password(NamedTuple):
    """A user and a password, as they came. The text of this has neither."""

    user: str
    password: str

    def __repr__(self) -> str:
        return "Password(...)"


class Certificate(NamedTuple):
    """Nothing was said but that TLS has shown who it is."""


class Client(NamedTuple):
    """What a client says of itself.

    Attributes:
        name: of the connection, or of the product; empty for none.
        product: what it is a client of, its version and platform; empty for none.
        capabilities: those that it says it has.
        mechanism: by which it proves who it is.
    """

    name: str = ""
    capabilities: frozenset[str] = frozenset()
    mechanism: str = ""
    product: str = ""


class Agreed(NamedTuple):
    """What both sides keep to.

    Attributes:
        channel_max: channels at a time.
        frame_max: bytes of a frame.
        heartbeat: seconds after which a side that has said nothing gives a sign; 0 for never.
    """

    channel_max: int
    frame_max: int
    heartbeat: int


class Negotiation:
    """One connection's, as its server.

    Args:
        version: the broker's.

    Attributes:
        state: how far it has come; whoever lets in and opens sets it on.
        client: what the client says of itself, from `proof` on.
    """

    def __init__(self, version: str) -> None:
        self.state = State.HEADER
        self.client = Client()
        self._version = version
        self._mechanisms: tuple[str, ...] = AMQPLAIN, PLAIN

    def expect(self, state: State, index: int) -> None:
        """A method has come that belongs to ``state``.

        Raises:
            AmqpError: CHANNEL_ERROR: it is not time for it.
        """
        if self.state is not state:
            raise AmqpError(ReplyCode.CHANNEL_ERROR, f"unexpected method in connection state {self.state.value}", index)

    def start(self, *, external: bool) -> ConnectionStart:
        """The protocol header has come: the answer to it.

        Args:
            external: whether TLS has shown who it is. To no other ``EXTERNAL`` is offered: clients take it where it is.
        """
        self.state = State.STARTING
        if external:
            self._mechanisms = EXTERNAL, *self._mechanisms
        properties = {
            "capabilities": dict.fromkeys(CAPABILITIES, True),
            "product": "Penstock",
            "version": self._version,
            "platform": "Python",
            "information": "AMQP 0-9-1, with the extensions of RabbitMQ",
        }
        return ConnectionStart(
            version_major=0,
            version_minor=9,
            server_properties=Table.of(properties),
            mechanisms=" ".join(self._mechanisms).encode(),
            locales=b"en_US",
        )

    def proof(self, method: ConnectionStartOk) -> Password | Certificate:
        """Who the client says it is, and how it proves that.

        Raises:
            AmqpError: COMMAND_INVALID: by a mechanism that was not offered. SYNTAX_ERROR: not as the mechanism has it.
        """
        self.expect(State.STARTING, method.INDEX)
        properties = method.client_properties
        told = properties.get("capabilities")
        capabilities = frozenset(entry.name for entry in told if entry.value is True) if isinstance(told, Table) else ()
        name = properties.get("connection_name") or properties.get("product")
        self.client = Client(_short(name), frozenset(capabilities), method.mechanism, _product(properties))
        self.state = State.SECURING
        if method.mechanism not in self._mechanisms:
            raise AmqpError(
                ReplyCode.COMMAND_INVALID, f"unknown authentication mechanism '{method.mechanism}'", method.INDEX
            )
        if method.mechanism == EXTERNAL:
            return Certificate()
        return _plain(method) if method.mechanism == PLAIN else _amqplain(method)

    def tune(self) -> ConnectionTune:
        """It is proved who it is: what this side proposes."""
        self.state = State.TUNING
        return ConnectionTune(channel_max=CHANNEL_MAX, frame_max=FRAME_MAX, heartbeat=HEARTBEAT)

    def tuned(self, method: ConnectionTuneOk) -> Agreed:
        """What is agreed.

        Raises:
            AmqpError: NOT_ALLOWED: a limit that is above what was proposed, or too low to speak at all.
        """
        self.expect(State.TUNING, method.INDEX)
        self.state = State.OPENING
        _check(method.INDEX, "frame_max", method.frame_max, MIN_FRAME_MAX, FRAME_MAX)
        _check(method.INDEX, "channel_max", method.channel_max, 1, CHANNEL_MAX)
        return Agreed(method.channel_max, method.frame_max, method.heartbeat)

    def refused(self) -> AmqpError:
        """The proof is none: what a client is told that wants to be told."""
        text = (
            f"Login was refused using authentication mechanism {self.client.mechanism}. "
            "For details see the broker logfile."
        )
        return AmqpError(ReplyCode.ACCESS_REFUSED, text)


def _check(index: int, name: str, value: int, least: int, most: int) -> None:
    unlimited = " (no limit)" if name == "channel_max" and not value else ""
    if value and value < least:
        text = f"negotiated {name} = {value} is lower than the minimum allowed value ({least})"
        raise AmqpError(ReplyCode.NOT_ALLOWED, text, index)
    if not value or value > most:
        text = f"negotiated {name} = {value}{unlimited} is higher than the maximum allowed value ({most})"
        raise AmqpError(ReplyCode.NOT_ALLOWED, text, index)


def _plain(method: ConnectionStartOk) -> Password:
    """RFC 4616: who it is to be, who it is, and the password, with a zero byte between each."""
    parts = method.response.split(b"\0")
    if len(parts) != 3:
        raise AmqpError(ReplyCode.SYNTAX_ERROR, "response is not of the mechanism PLAIN", method.INDEX)
    return _password(parts[1], parts[2], method.INDEX)


def _amqplain(method: ConnectionStartOk) -> Password:
    """A table's entries, without its length: LOGIN and PASSWORD."""
    table = decode_table(method.response, MAX_ARGUMENT_ENTRIES)
    login, password = table.field("LOGIN"), table.field("PASSWORD")
    if login is None or password is None or login.kind != "S" or password.kind != "S":
        raise AmqpError(
            ReplyCode.SYNTAX_ERROR, "AMQPLAIN auth info has no LOGIN or PASSWORD that is a string", method.INDEX
        )
    return _password(_bytes(login.value), _bytes(password.value), method.INDEX)


def _password(user: bytes, password: bytes, index: int) -> Password:
    try:
        return Password(user.decode(), password.decode())
    except UnicodeDecodeError:
        raise AmqpError(ReplyCode.SYNTAX_ERROR, "a user or a password is no UTF-8", index) from None


def _bytes(value: object) -> bytes:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value)  # type: ignore[call-overload]


def _product(properties: Table) -> str:
    """A client's product with its version and platform, as far as it says them: ``pika 1.3.2, Python 3.11.2``."""
    product, version, platform = (_short(properties.get(each)) for each in ("product", "version", "platform"))
    return _short(", ".join(filter(None, (" ".join(filter(None, (product, version))), platform))))


def _short(value: object) -> str:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    text = value if isinstance(value, str) else ""
    return text.encode("utf-8", "replace")[:MOST_NAME_BYTES].decode("utf-8", "ignore")
