"""When two declarations are of the same queue or exchange: RabbitMQ's rules, and its texts.

A queue that AMQP has declared keeps the arguments that it was declared with, as they came. One that was declared natively has settings, and
is compared by these; where it has the broker's own, it is what it is to whoever says nothing of that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.field_types import INTEGERS, term_of, type_of
from transport.gateways.amqp.reply_codes import ReplyCode
from transport.gateways.amqp.tables import Field, Table, decode_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.queue.queue_figures import FoundQueue
    from actors.queue.vocabulary.settings import QueueSettings

    Wanted = tuple[QueueSettings, dict[str, Any]]

_OUR_OWN: Final = ("x-message-deduplication", "x-cache-ttl", "x-cache-size", "x-groups")
"""Of plugins, and of this broker."""
COMPARED: Final = (
    "x-expires",
    "x-message-ttl",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-priority",
    "x-overflow",
    "x-queue-mode",
    "x-queue-version",
    "x-single-active-consumer",
    "x-queue-type",
    "x-queue-master-locator",
    "x-delivery-limit",
    *_OUR_OWN,
)
"""Arguments in which two declarations of one queue have to agree; the first in which they do not is told."""
COMPARED_OF_QUORUM: Final = (
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-dead-letter-strategy",
    "x-expires",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-overflow",
    "x-single-active-consumer",
    "x-queue-type",
    "x-quorum-initial-group-size",
    "x-delivery-limit",
    "x-message-ttl",
    "x-queue-leader-locator",
    "x-max-priority",
    *_OUR_OWN,
)
"""The same of one that was declared as a quorum queue. Both are in RabbitMQ's order; what it refuses of the type, and means something here,
is behind that."""
LIMIT: Final = "max_receives"
"""Of failures: it is the number of the one that is too many, and `x-delivery-limit` the number of those that are not."""
SETTINGS: Final = {
    "dead_letter_exchange": "x-dead-letter-exchange",
    "dead_letter_routing_key": "x-dead-letter-routing-key",
    "dead_letter_queue": "x-dead-letter-routing-key",
    "max_messages": "x-max-length",
    "max_bytes": "x-max-length-bytes",
    "ttl": "x-message-ttl",
    "expires": "x-expires",
    "max_priority": "x-max-priority",
    "overflow": "x-overflow",
    "single_active_consumer": "x-single-active-consumer",
    LIMIT: "x-delivery-limit",
    "deduplication_window": "x-cache-ttl",
    "max_deduplication_ids": "x-cache-size",
    "groups": "x-groups",
}
"""Settings in which they have to where the queue was declared natively, and how they are said."""
_TIMES: Final = frozenset({"ttl", "expires", "deduplication_window"})
_NAMES: Final = frozenset({"dead_letter_exchange", "dead_letter_queue"})
_ALIKE: Final = (INTEGERS | {"T"}, frozenset("fd"))
"""Types of fields whose values are compared, whichever of them each has."""
_AUTO_DELETE: Final = 1
_HEAD_BYTES: Final = 2
_OURS: Final = 0xA9
"""The first octet of what is kept: another gateway's begins otherwise."""
_MS: Final = 1000


class DeclaredWith(NamedTuple):
    """What AMQP has declared a queue with.

    Attributes:
        auto_delete: whether it goes with its last consumer.
        arguments: as they came.
    """

    auto_delete: bool
    arguments: Table

    def kept(self) -> bytes:
        """The bytes that are kept with the queue: two octets, and the table without its length."""
        return bytes((_OURS, _AUTO_DELETE * self.auto_delete)) + bytes(self.arguments.raw)

    @classmethod
    def of(cls, kept: bytes) -> DeclaredWith | None:
        """What is kept; None where AMQP has not declared the queue. Whoever administers may have given any bytes."""
        if len(kept) < _HEAD_BYTES or kept[0] != _OURS:
            return None
        try:
            return cls(bool(kept[1] & _AUTO_DELETE), decode_table(kept[_HEAD_BYTES:]))
        except AmqpError:
            return None


def check_queue(
    there: FoundQueue,
    declared: DeclaredWith,
    durable: bool,
    wanted: Callable[[], Wanted],
    text: str,
    shown: Callable[[str], str] = str,
) -> None:
    """Whether a queue that is there is what is declared.

    Args:
        there: the queue.
        declared: what it is declared with.
        durable: whether it is to be.
        wanted: gives the settings that come of that, and those that were said; asked for only of a queue that was declared natively.
            Whether arguments can be nobody looks at where AMQP has declared it: they have to be the same.
        text: how texts speak of the queue.
        shown: what a queue or an exchange of the broker's is called here.

    Raises:
        AmqpError: PRECONDITION_FAILED: it is another.
    """
    check_same("durable", there.settings.durable, durable, text)
    present = DeclaredWith.of(there.arguments)
    check_same("auto_delete", present is not None and present.auto_delete, declared.auto_delete, text)
    if present is not None:
        is_quorum = present.arguments.get("x-queue-type") == "quorum"
        for name in COMPARED_OF_QUORUM if is_quorum else COMPARED:
            check_argument(name, present.arguments.field(name), declared.arguments.field(name), text)
        return
    settings, said = wanted()
    for setting, name in SETTINGS.items():
        # Of failures AMQP says nothing, unless it wants to.
        if said.get(setting) is None and (not there.declared or setting == LIMIT):
            continue
        is_there, declares = _shown_setting(there.settings, setting, shown), _shown_setting(settings, setting, shown)
        if is_there != declares:
            _inequivalent(name, is_there, declares, text)


def check_same(name: str, present: object, declared: object, text: str) -> None:
    """Whether a property of a declaration is what it is; errors as of `check_queue`."""
    if present != declared:
        _inequivalent(name, _shown(present), _shown(declared), text)


def check_same_text(name: str, present: str | None, declared: str | None, text: str) -> None:
    """The same of an argument that is a text, and may not be there."""
    there, said = (None if value is None else Field("S", str(value)) for value in (present, declared))
    check_argument(name, there, said, text)


def check_argument(name: str, present: Field | None, declared: Field | None, text: str) -> None:
    """The same of an argument as it came; None where it was not said."""
    if present == declared or (name == "x-queue-type" and _is_usual(present) and _is_usual(declared)):
        return
    if present is None or declared is None:
        _inequivalent(name, _shown_field(present), _shown_field(declared), text)
    kinds = {present.kind, declared.kind}
    alike = len(kinds) == 1 or any(kinds <= alike for alike in _ALIKE)
    if not (alike and present.value == declared.value):
        _inequivalent(name, _shown(present.value), _shown(declared.value), text)


def _inequivalent(name: str, present: str, declared: str, text: str) -> NoReturn:
    said = f"inequivalent arg '{name}' for {text}: received {declared} but current is {present}"
    raise AmqpError(ReplyCode.PRECONDITION_FAILED, said)


def _shown(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, bool | Table | tuple):
        value = term_of(value)
    return f"'{value}'"


def _shown_field(field: Field | None) -> str:
    if field is None:
        return "none"
    value = "'undefined'" if field.value is None else _shown(field.value)
    return f"the value {value} of type '{type_of(field)}'"


def _shown_setting(settings: QueueSettings, name: str, shown: Callable[[str], str]) -> str:
    value = getattr(settings, name)
    if value is None or value is False:
        return "none"
    if name in _NAMES:
        value = shown(value)
    if name == LIMIT:
        value -= 1
    return _shown(round(value * _MS) if name in _TIMES else value)


def _is_usual(field: Field | None) -> bool:
    return field is None or field.value == "classic"
