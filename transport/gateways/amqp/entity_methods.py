"""The methods of AMQP's classes exchange and queue. Written by `python scripts/amqp_methods.py`; do not edit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from transport.gateways.amqp.method import Method
from transport.gateways.amqp.tables import EMPTY_TABLE, Table


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeDeclare(Method):
    """``exchange.declare``; answered by ``exchange.declare-ok``."""

    INDEX: ClassVar[int] = 0x0028000A
    NAME: ClassVar[str] = "exchange.declare"
    LAYOUT: ClassVar[str] = "short shortstr shortstr bit bit bit bit bit table"
    ANSWERS: ClassVar[tuple[int, ...]] = (0x0028000B,)
    ticket: int = 0
    exchange: str
    type: str = "direct"
    passive: bool = False
    durable: bool = False
    auto_delete: bool = False
    internal: bool = False
    nowait: bool = False
    arguments: Table = EMPTY_TABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeDeclareOk(Method):
    """``exchange.declare-ok``."""

    INDEX: ClassVar[int] = 0x0028000B
    NAME: ClassVar[str] = "exchange.declare-ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeDelete(Method):
    """``exchange.delete``; answered by ``exchange.delete-ok``."""

    INDEX: ClassVar[int] = 0x00280014
    NAME: ClassVar[str] = "exchange.delete"
    LAYOUT: ClassVar[str] = "short shortstr bit bit"
    ANSWERS: ClassVar[tuple[int, ...]] = (0x00280015,)
    ticket: int = 0
    exchange: str
    if_unused: bool = False
    nowait: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeDeleteOk(Method):
    """``exchange.delete-ok``."""

    INDEX: ClassVar[int] = 0x00280015
    NAME: ClassVar[str] = "exchange.delete-ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeBind(Method):
    """``exchange.bind``; answered by ``exchange.bind-ok``."""

    INDEX: ClassVar[int] = 0x0028001E
    NAME: ClassVar[str] = "exchange.bind"
    LAYOUT: ClassVar[str] = "short shortstr shortstr shortstr bit table"
    ANSWERS: ClassVar[tuple[int, ...]] = (0x0028001F,)
    ticket: int = 0
    destination: str
    source: str
    routing_key: str = ""
    nowait: bool = False
    arguments: Table = EMPTY_TABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeBindOk(Method):
    """``exchange.bind-ok``."""

    INDEX: ClassVar[int] = 0x0028001F
    NAME: ClassVar[str] = "exchange.bind-ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeUnbind(Method):
    """``exchange.unbind``; answered by ``exchange.unbind-ok``."""

    INDEX: ClassVar[int] = 0x00280028
    NAME: ClassVar[str] = "exchange.unbind"
    LAYOUT: ClassVar[str] = "short shortstr shortstr shortstr bit table"
    ANSWERS: ClassVar[tuple[int, ...]] = (0x00280033,)
    ticket: int = 0
    destination: str
    source: str
    routing_key: str = ""
    nowait: bool = False
    arguments: Table = EMPTY_TABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeUnbindOk(Method):
    """``exchange.unbind-ok``."""

    INDEX: ClassVar[int] = 0x00280033
    NAME: ClassVar[str] = "exchange.unbind-ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDeclare(Method):
    """``queue.declare``; answered by ``queue.declare-ok``."""

    INDEX: ClassVar[int] = 0x0032000A
    NAME: ClassVar[str] = "queue.declare"
    LAYOUT: ClassVar[str] = "short shortstr bit bit bit bit bit table"
    ANSWERS: ClassVar[tuple[int, ...]] = (0x0032000B,)
    ticket: int = 0
    queue: str = ""
    passive: bool = False
    durable: bool = False
    exclusive: bool = False
    auto_delete: bool = False
    nowait: bool = False
    arguments: Table = EMPTY_TABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDeclareOk(Method):
    """``queue.declare-ok``."""

    INDEX: ClassVar[int] = 0x0032000B
    NAME: ClassVar[str] = "queue.declare-ok"
    LAYOUT: ClassVar[str] = "shortstr long long"
    queue: str
    message_count: int
    consumer_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueBind(Method):
    """``queue.bind``; answered by ``queue.bind-ok``."""

    INDEX: ClassVar[int] = 0x00320014
    NAME: ClassVar[str] = "queue.bind"
    LAYOUT: ClassVar[str] = "short shortstr shortstr shortstr bit table"
    ANSWERS: ClassVar[tuple[int, ...]] = (0x00320015,)
    ticket: int = 0
    queue: str = ""
    exchange: str
    routing_key: str = ""
    nowait: bool = False
    arguments: Table = EMPTY_TABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueBindOk(Method):
    """``queue.bind-ok``."""

    INDEX: ClassVar[int] = 0x00320015
    NAME: ClassVar[str] = "queue.bind-ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePurge(Method):
    """``queue.purge``; answered by ``queue.purge-ok``."""

    INDEX: ClassVar[int] = 0x0032001E
    NAME: ClassVar[str] = "queue.purge"
    LAYOUT: ClassVar[str] = "short shortstr bit"
    ANSWERS: ClassVar[tuple[int, ...]] = (0x0032001F,)
    ticket: int = 0
    queue: str = ""
    nowait: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePurgeOk(Method):
    """``queue.purge-ok``."""

    INDEX: ClassVar[int] = 0x0032001F
    NAME: ClassVar[str] = "queue.purge-ok"
    LAYOUT: ClassVar[str] = "long"
    message_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDelete(Method):
    """``queue.delete``; answered by ``queue.delete-ok``."""

    INDEX: ClassVar[int] = 0x00320028
    NAME: ClassVar[str] = "queue.delete"
    LAYOUT: ClassVar[str] = "short shortstr bit bit bit"
    ANSWERS: ClassVar[tuple[int, ...]] = (0x00320029,)
    ticket: int = 0
    queue: str = ""
    if_unused: bool = False
    if_empty: bool = False
    nowait: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDeleteOk(Method):
    """``queue.delete-ok``."""

    INDEX: ClassVar[int] = 0x00320029
    NAME: ClassVar[str] = "queue.delete-ok"
    LAYOUT: ClassVar[str] = "long"
    message_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueUnbind(Method):
    """``queue.unbind``; answered by ``queue.unbind-ok``."""

    INDEX: ClassVar[int] = 0x00320032
    NAME: ClassVar[str] = "queue.unbind"
    LAYOUT: ClassVar[str] = "short shortstr shortstr shortstr table"
    ANSWERS: ClassVar[tuple[int, ...]] = (0x00320033,)
    ticket: int = 0
    queue: str = ""
    exchange: str
    routing_key: str = ""
    arguments: Table = EMPTY_TABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueUnbindOk(Method):
    """``queue.unbind-ok``."""

    INDEX: ClassVar[int] = 0x00320033
    NAME: ClassVar[str] = "queue.unbind-ok"
