"""The methods of AMQP's classes connection, channel and access. Written by `python scripts/amqp_methods.py`; do not edit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from transport.gateways.amqp.method import Method
from transport.gateways.amqp.tables import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionStart(Method):
    """``connection.start``; answered by ``connection.start-ok``."""

    INDEX: ClassVar[int] = 0x000A000A
    NAME: ClassVar[str] = "connection.start"
    LAYOUT: ClassVar[str] = "octet octet table longstr longstr"
    ANSWERS: ClassVar[tuple[int, ...]] = (0x000A000B,)
    version_major: int = 0
    version_minor: int = 9
    server_properties: Table
    mechanisms: bytes = b"PLAIN"
    locales: bytes = b"en_US"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionStartOk(Method):
    """``connection.start-ok``."""

    INDEX: ClassVar[int] = 0x000A000B
    NAME: ClassVar[str] = "connection.start-ok"
    LAYOUT: ClassVar[str] = "table shortstr longstr shortstr"
    client_properties: Table
    mechanism: str = "PLAIN"
    response: bytes = field(repr=False)
    locale: str = "en_US"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSecure(Method):
    """``connection.secure``; answered by ``connection.secure-ok``."""

    INDEX: ClassVar[int] = 0x000A0014
    NAME: ClassVar[str] = "connection.secure"
    LAYOUT: ClassVar[str] = "longstr"
    ANSWERS: ClassVar[tuple[int, ...]] = (0x000A0015,)
    challenge: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSecureOk(Method):
    """``connection.secure-ok``."""

    INDEX: ClassVar[int] = 0x000A0015
    NAME: ClassVar[str] = "connection.secure-ok"
    LAYOUT: ClassVar[str] = "longstr"
    response: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionTune(Method):
    """``connection.tune``; answered by ``connection.tune-ok``."""

    INDEX: ClassVar[int] = 0x000A001E
    NAME: ClassVar[str] = "connection.tune"
    LAYOUT: ClassVar[str] = "short long short"
    ANSWERS: ClassVar[tuple[int, ...]] = (0x000A001F,)
    channel_max: int = 0
    frame_max: int = 0
    heartbeat: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionTuneOk(Method):
    """``connection.tune-ok``."""

    INDEX: ClassVar[int] = 0x000A001F
    NAME: ClassVar[str] = "connection.tune-ok"
    LAYOUT: ClassVar[str] = "short long short"
    channel_max: int = 0
    frame_max: int = 0
    heartbeat: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOpen(Method):
    """``connection.open``; answered by ``connection.open-ok``."""

    INDEX: ClassVar[int] = 0x000A0028
    NAME: ClassVar[str] = "connection.open"
    LAYOUT: ClassVar[str] = "shortstr shortstr bit"
    ANSWERS: ClassVar[tuple[int, ...]] = (0x000A0029,)
    virtual_host: str = "/"
    capabilities: str = ""
    insist: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOpenOk(Method):
    """``connection.open-ok``."""

    INDEX: ClassVar[int] = 0x000A0029
    NAME: ClassVar[str] = "connection.open-ok"
    LAYOUT: ClassVar[str] = "shortstr"
    known_hosts: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionClose(Method):
    """``connection.close``; answered by ``connection.close-ok``."""

    INDEX: ClassVar[int] = 0x000A0032
    NAME: ClassVar[str] = "connection.close"
    LAYOUT: ClassVar[str] = "short shortstr short short"
    ANSWERS: ClassVar[tuple[int, ...]] = (0x000A0033,)
    reply_code: int
    reply_text: str = ""
    class_id: int
    method_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionCloseOk(Method):
    """``connection.close-ok``."""

    INDEX: ClassVar[int] = 0x000A0033
    NAME: ClassVar[str] = "connection.close-ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionBlocked(Method):
    """``connection.blocked``."""

    INDEX: ClassVar[int] = 0x000A003C
    NAME: ClassVar[str] = "connection.blocked"
    LAYOUT: ClassVar[str] = "shortstr"
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionUnblocked(Method):
    """``connection.unblocked``."""

    INDEX: ClassVar[int] = 0x000A003D
    NAME: ClassVar[str] = "connection.unblocked"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionUpdateSecret(Method):
    """``connection.update-secret``; answered by ``connection.update-secret-ok``."""

    INDEX: ClassVar[int] = 0x000A0046
    NAME: ClassVar[str] = "connection.update-secret"
    LAYOUT: ClassVar[str] = "longstr shortstr"
    ANSWERS: ClassVar[tuple[int, ...]] = (0x000A0047,)
    new_secret: bytes = field(repr=False)
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionUpdateSecretOk(Method):
    """``connection.update-secret-ok``."""

    INDEX: ClassVar[int] = 0x000A0047
    NAME: ClassVar[str] = "connection.update-secret-ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelOpen(Method):
    """``channel.open``; answered by ``channel.open-ok``."""

    INDEX: ClassVar[int] = 0x0014000A
    NAME: ClassVar[str] = "channel.open"
    LAYOUT: ClassVar[str] = "shortstr"
    ANSWERS: ClassVar[tuple[int, ...]] = (0x0014000B,)
    out_of_band: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelOpenOk(Method):
    """``channel.open-ok``."""

    INDEX: ClassVar[int] = 0x0014000B
    NAME: ClassVar[str] = "channel.open-ok"
    LAYOUT: ClassVar[str] = "longstr"
    channel_id: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelFlow(Method):
    """``channel.flow``; answered by ``channel.flow-ok``."""

    INDEX: ClassVar[int] = 0x00140014
    NAME: ClassVar[str] = "channel.flow"
    LAYOUT: ClassVar[str] = "bit"
    ANSWERS: ClassVar[tuple[int, ...]] = (0x00140015,)
    active: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelFlowOk(Method):
    """``channel.flow-ok``."""

    INDEX: ClassVar[int] = 0x00140015
    NAME: ClassVar[str] = "channel.flow-ok"
    LAYOUT: ClassVar[str] = "bit"
    active: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelClose(Method):
    """``channel.close``; answered by ``channel.close-ok``."""

    INDEX: ClassVar[int] = 0x00140028
    NAME: ClassVar[str] = "channel.close"
    LAYOUT: ClassVar[str] = "short shortstr short short"
    ANSWERS: ClassVar[tuple[int, ...]] = (0x00140029,)
    reply_code: int
    reply_text: str = ""
    class_id: int
    method_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelCloseOk(Method):
    """``channel.close-ok``."""

    INDEX: ClassVar[int] = 0x00140029
    NAME: ClassVar[str] = "channel.close-ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRequest(Method):
    """``access.request``; answered by ``access.request-ok``."""

    INDEX: ClassVar[int] = 0x001E000A
    NAME: ClassVar[str] = "access.request"
    LAYOUT: ClassVar[str] = "shortstr bit bit bit bit bit"
    ANSWERS: ClassVar[tuple[int, ...]] = (0x001E000B,)
    realm: str = "/data"
    exclusive: bool = False
    passive: bool = True
    active: bool = True
    write: bool = True
    read: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRequestOk(Method):
    """``access.request-ok``."""

    INDEX: ClassVar[int] = 0x001E000B
    NAME: ClassVar[str] = "access.request-ok"
    LAYOUT: ClassVar[str] = "short"
    ticket: int = 1
