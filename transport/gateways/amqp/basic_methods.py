"""The methods of AMQP's classes basic, confirm and tx. Written by `python scripts/amqp_methods.py`; do not edit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from transport.gateways.amqp.method import Method
from transport.gateways.amqp.tables import EMPTY_TABLE, Table


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicQos(Method):
    """``basic.qos``; answered by ``basic.qos-ok``."""

    INDEX: ClassVar[int] = 0x003C000A
    NAME: ClassVar[str] = "basic.qos"
    LAYOUT: ClassVar[str] = "long short bit"
    ANSWERS: ClassVar[tuple[int, ...]] = (0x003C000B,)
    prefetch_size: int = 0
    prefetch_count: int = 0
    global_: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicQosOk(Method):
    """``basic.qos-ok``."""

    INDEX: ClassVar[int] = 0x003C000B
    NAME: ClassVar[str] = "basic.qos-ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicConsume(Method):
    """``basic.consume``; answered by ``basic.consume-ok``."""

    INDEX: ClassVar[int] = 0x003C0014
    NAME: ClassVar[str] = "basic.consume"
    LAYOUT: ClassVar[str] = "short shortstr shortstr bit bit bit bit table"
    ANSWERS: ClassVar[tuple[int, ...]] = (0x003C0015,)
    ticket: int = 0
    queue: str = ""
    consumer_tag: str = ""
    no_local: bool = False
    no_ack: bool = False
    exclusive: bool = False
    nowait: bool = False
    arguments: Table = EMPTY_TABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicConsumeOk(Method):
    """``basic.consume-ok``."""

    INDEX: ClassVar[int] = 0x003C0015
    NAME: ClassVar[str] = "basic.consume-ok"
    LAYOUT: ClassVar[str] = "shortstr"
    consumer_tag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicCancel(Method):
    """``basic.cancel``; answered by ``basic.cancel-ok``."""

    INDEX: ClassVar[int] = 0x003C001E
    NAME: ClassVar[str] = "basic.cancel"
    LAYOUT: ClassVar[str] = "shortstr bit"
    ANSWERS: ClassVar[tuple[int, ...]] = (0x003C001F,)
    consumer_tag: str
    nowait: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicCancelOk(Method):
    """``basic.cancel-ok``."""

    INDEX: ClassVar[int] = 0x003C001F
    NAME: ClassVar[str] = "basic.cancel-ok"
    LAYOUT: ClassVar[str] = "shortstr"
    consumer_tag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicPublish(Method):
    """``basic.publish``, with a content."""

    INDEX: ClassVar[int] = 0x003C0028
    NAME: ClassVar[str] = "basic.publish"
    LAYOUT: ClassVar[str] = "short shortstr shortstr bit bit"
    CONTENT: ClassVar[bool] = True
    ticket: int = 0
    exchange: str = ""
    routing_key: str = ""
    mandatory: bool = False
    immediate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicReturn(Method):
    """``basic.return``, with a content."""

    INDEX: ClassVar[int] = 0x003C0032
    NAME: ClassVar[str] = "basic.return"
    LAYOUT: ClassVar[str] = "short shortstr shortstr shortstr"
    CONTENT: ClassVar[bool] = True
    reply_code: int
    reply_text: str = ""
    exchange: str
    routing_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicDeliver(Method):
    """``basic.deliver``, with a content."""

    INDEX: ClassVar[int] = 0x003C003C
    NAME: ClassVar[str] = "basic.deliver"
    LAYOUT: ClassVar[str] = "shortstr longlong bit shortstr shortstr"
    CONTENT: ClassVar[bool] = True
    consumer_tag: str
    delivery_tag: int
    redelivered: bool = False
    exchange: str
    routing_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicGet(Method):
    """``basic.get``; answered by ``basic.get-ok`` or ``basic.get-empty``."""

    INDEX: ClassVar[int] = 0x003C0046
    NAME: ClassVar[str] = "basic.get"
    LAYOUT: ClassVar[str] = "short shortstr bit"
    ANSWERS: ClassVar[tuple[int, ...]] = (
        0x003C0047,
        0x003C0048,
    )
    ticket: int = 0
    queue: str = ""
    no_ack: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicGetOk(Method):
    """``basic.get-ok``, with a content."""

    INDEX: ClassVar[int] = 0x003C0047
    NAME: ClassVar[str] = "basic.get-ok"
    LAYOUT: ClassVar[str] = "longlong bit shortstr shortstr long"
    CONTENT: ClassVar[bool] = True
    delivery_tag: int
    redelivered: bool = False
    exchange: str
    routing_key: str
    message_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicGetEmpty(Method):
    """``basic.get-empty``."""

    INDEX: ClassVar[int] = 0x003C0048
    NAME: ClassVar[str] = "basic.get-empty"
    LAYOUT: ClassVar[str] = "shortstr"
    cluster_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicAck(Method):
    """``basic.ack``."""

    INDEX: ClassVar[int] = 0x003C0050
    NAME: ClassVar[str] = "basic.ack"
    LAYOUT: ClassVar[str] = "longlong bit"
    delivery_tag: int = 0
    multiple: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicReject(Method):
    """``basic.reject``."""

    INDEX: ClassVar[int] = 0x003C005A
    NAME: ClassVar[str] = "basic.reject"
    LAYOUT: ClassVar[str] = "longlong bit"
    delivery_tag: int
    requeue: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicRecoverAsync(Method):
    """``basic.recover-async``."""

    INDEX: ClassVar[int] = 0x003C0064
    NAME: ClassVar[str] = "basic.recover-async"
    LAYOUT: ClassVar[str] = "bit"
    requeue: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicRecover(Method):
    """``basic.recover``; answered by ``basic.recover-ok``."""

    INDEX: ClassVar[int] = 0x003C006E
    NAME: ClassVar[str] = "basic.recover"
    LAYOUT: ClassVar[str] = "bit"
    ANSWERS: ClassVar[tuple[int, ...]] = (0x003C006F,)
    requeue: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicRecoverOk(Method):
    """``basic.recover-ok``."""

    INDEX: ClassVar[int] = 0x003C006F
    NAME: ClassVar[str] = "basic.recover-ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class BasicNack(Method):
    """``basic.nack``."""

    INDEX: ClassVar[int] = 0x003C0078
    NAME: ClassVar[str] = "basic.nack"
    LAYOUT: ClassVar[str] = "longlong bit bit"
    delivery_tag: int = 0
    multiple: bool = False
    requeue: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmSelect(Method):
    """``confirm.select``; answered by ``confirm.select-ok``."""

    INDEX: ClassVar[int] = 0x0055000A
    NAME: ClassVar[str] = "confirm.select"
    LAYOUT: ClassVar[str] = "bit"
    ANSWERS: ClassVar[tuple[int, ...]] = (0x0055000B,)
    nowait: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmSelectOk(Method):
    """``confirm.select-ok``."""

    INDEX: ClassVar[int] = 0x0055000B
    NAME: ClassVar[str] = "confirm.select-ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class TxSelect(Method):
    """``tx.select``; answered by ``tx.select-ok``."""

    INDEX: ClassVar[int] = 0x005A000A
    NAME: ClassVar[str] = "tx.select"
    ANSWERS: ClassVar[tuple[int, ...]] = (0x005A000B,)


@dataclass(frozen=True, slots=True, kw_only=True)
class TxSelectOk(Method):
    """``tx.select-ok``."""

    INDEX: ClassVar[int] = 0x005A000B
    NAME: ClassVar[str] = "tx.select-ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class TxCommit(Method):
    """``tx.commit``; answered by ``tx.commit-ok``."""

    INDEX: ClassVar[int] = 0x005A0014
    NAME: ClassVar[str] = "tx.commit"
    ANSWERS: ClassVar[tuple[int, ...]] = (0x005A0015,)


@dataclass(frozen=True, slots=True, kw_only=True)
class TxCommitOk(Method):
    """``tx.commit-ok``."""

    INDEX: ClassVar[int] = 0x005A0015
    NAME: ClassVar[str] = "tx.commit-ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class TxRollback(Method):
    """``tx.rollback``; answered by ``tx.rollback-ok``."""

    INDEX: ClassVar[int] = 0x005A001E
    NAME: ClassVar[str] = "tx.rollback"
    ANSWERS: ClassVar[tuple[int, ...]] = (0x005A001F,)


@dataclass(frozen=True, slots=True, kw_only=True)
class TxRollbackOk(Method):
    """``tx.rollback-ok``."""

    INDEX: ClassVar[int] = 0x005A001F
    NAME: ClassVar[str] = "tx.rollback-ok"
