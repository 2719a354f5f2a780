"""Arguments of ``queue.declare`` as settings of a queue.

What cannot be is refused; what nobody knows is passed over. Texts are RabbitMQ's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NoReturn

from actors.limits import MAX_DEDUPLICATION_WINDOW_SECONDS, MAX_PRIORITY, MAX_QUEUE_EXPIRY_SECONDS, MAX_TTL_SECONDS
from actors.queue.vocabulary.settings import (
    BLOCK,
    DROP_HEAD,
    MAX_DEDUPLICATION_IDS,
    MAX_RECEIVES_LIMIT,
    REJECT,
    REJECT_DEAD_LETTER,
)
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.field_types import INTEGERS, boolean_of, check_text, integer_of, unacceptable
from transport.gateways.amqp.plain_tables import is_text
from transport.gateways.amqp.reply_codes import ReplyCode
from transport.gateways.amqp.tables import Field, Table

NO_LIMIT_OF_ZERO: Final = "a queue of 0 would take nothing: say 1 or more, or leave it out for no limit"
TYPES: Final = ("classic", "quorum")
"""Both are a journalled queue here."""
VERSIONS: Final = (1, 2)
"""Of RabbitMQ's classic queues: two ways to keep messages on its disk."""
OVERFLOWS: Final = {
    "drop-head": DROP_HEAD,
    "reject-publish": REJECT,
    "reject-publish-dlx": REJECT_DEAD_LETTER,
    "block": BLOCK,
}
"""What a queue at its limit does: the first unless it is told otherwise. ``block`` is this broker's own: it stops the reading of who
publishes there."""
DEDUPLICATES: Final = "x-message-deduplication"
"""The argument of RabbitMQ's plugin by which a queue looks at ids."""
DEFAULT_WINDOW: Final = 300.0
"""Seconds for which it remembers them where ``x-cache-ttl`` says nothing."""
WINDOW, IDS = "deduplication_window", "max_deduplication_ids"
_MS: Final = 1000


def settings_of(arguments: Table, queue: str) -> dict[str, Any]:
    """The settings that arguments ask for, by their names in ``QueueSettings``.

    Args:
        arguments: as they were declared.
        queue: how texts speak of the queue.

    Raises:
        ArgumentRefusedError: PRECONDITION_FAILED: an argument that cannot be.
    """
    settings: dict[str, Any] = {"max_messages": None, "max_bytes": None, "overflow": BLOCK}
    # RabbitMQ looks at this one before all others.
    check_text("x-dead-letter-exchange", arguments.field("x-dead-letter-exchange"), queue)
    for name, setter in _SETTERS.items():
        field = arguments.field(name)
        if field is not None:
            settings.update(setter(field, partial(_refuse, name, queue)))
            if name == "x-dead-letter-routing-key" and "dead_letter_exchange" not in settings:
                _refuse(name, queue, "routing_key_but_no_dlx_defined")
    if settings.get("dead_letter_exchange") == "":
        # The default exchange has one way for a key: to the queue of that name.
        del settings["dead_letter_exchange"]
        settings["dead_letter_queue"] = settings.pop("dead_letter_routing_key", "")
        if not settings["dead_letter_queue"]:
            why = "with the default exchange, say by x-dead-letter-routing-key which queue dead letters go to"
            _refuse("x-dead-letter-exchange", queue, why)
    if not arguments.get(DEDUPLICATES):
        # What says for how long, or how many, is nothing without it.
        settings.pop(WINDOW, None)
        settings.pop(IDS, None)
    if "max_receives" in settings and not ("dead_letter_exchange" in settings or "dead_letter_queue" in settings):
        settings["drop_failed"] = True
    if settings.get("groups") and settings.get("max_priority") is not None:
        _refuse(
            "x-groups", queue, "a queue has its messages in order by group, or by priority: leave out x-max-priority"
        )
    limited = settings["max_messages"] is not None or settings["max_bytes"] is not None
    if limited and "x-overflow" not in arguments:
        settings["overflow"] = DROP_HEAD
    return settings


class ArgumentRefusedError(AmqpError):
    """An argument that cannot be.

    Args:
        argument: its name.
        queue: how texts speak of the queue.
        why: it is refused.

    Attributes:
        argument: as given.
        why: likewise.
    """

    def __init__(self, argument: str, queue: str, why: str) -> None:
        super().__init__(ReplyCode.PRECONDITION_FAILED, f"invalid arg '{argument}' for {queue}: {why}")
        self.argument = argument
        self.why = why


def _refuse(name: str, queue: str, why: str) -> NoReturn:
    raise ArgumentRefusedError(name, queue, why)


Refuse = Callable[[str], NoReturn]


def _integer(field: Field, refuse: Refuse) -> int:
    number = integer_of(field, refuse)
    if number < 0:
        refuse(f"{{value_negative,{number}}}")
    return number


def _text(field: Field, refuse: Refuse) -> str:
    if field.kind != "S" or not isinstance(field.value, str):
        refuse(unacceptable(field))
    if not is_text(field.value):
        refuse("it is no UTF-8")
    return field.value


def _ttl(field: Field, refuse: Refuse) -> dict[str, Any]:
    milliseconds = _integer(field, refuse)
    if milliseconds > MAX_TTL_SECONDS * _MS:
        refuse(f"{{value_too_large,{milliseconds}}}")
    return {"ttl": milliseconds / _MS}


def _expires(field: Field, refuse: Refuse) -> dict[str, Any]:
    milliseconds = _integer(field, refuse)
    if not milliseconds:
        refuse("{value_zero,0}")
    if milliseconds > MAX_QUEUE_EXPIRY_SECONDS * _MS:
        refuse(f"{{value_too_large,{milliseconds}}}")
    return {"expires": milliseconds / _MS}


def _delivery_limit(field: Field, refuse: Refuse) -> dict[str, Any]:
    """What has been delivered again so often, and fails once more, leaves; below 0 there is no limit."""
    if field.kind in INTEGERS and isinstance(field.value, int) and field.value < 0:
        return {}
    limit = _integer(field, refuse)
    if limit >= MAX_RECEIVES_LIMIT:
        refuse(f"{{value_too_large,{limit}}}: say {MAX_RECEIVES_LIMIT - 1} or less, or -1 for none")
    return {"max_receives": limit + 1}


def _limit(setting: str) -> Callable[[Field, Refuse], dict[str, Any]]:
    def limit(field: Field, refuse: Refuse) -> dict[str, Any]:
        number = _integer(field, refuse)
        if not number:
            refuse(NO_LIMIT_OF_ZERO)
        return {setting: number}

    return limit


def _max_priority(field: Field, refuse: Refuse) -> dict[str, Any]:
    highest = _integer(field, refuse)
    if highest > MAX_PRIORITY:
        refuse(f"{{max_value_exceeded,{highest}}}")
    # With none but the lowest there are no levels.
    return {"max_priority": highest or None}


def _overflow(field: Field, refuse: Refuse) -> dict[str, Any]:
    overflow = _text(field, refuse)
    if overflow not in OVERFLOWS:
        refuse("invalid_overflow")
    return {"overflow": OVERFLOWS[overflow]}


def _flag(setting: str) -> Callable[[Field, Refuse], dict[str, Any]]:
    return lambda field, refuse: {setting: boolean_of(field, refuse)}


def _deduplicates(field: Field, refuse: Refuse) -> dict[str, Any]:
    """Whether ids count, for the usual window, unless ``x-cache-ttl`` says another."""
    return {WINDOW: DEFAULT_WINDOW if boolean_of(field, refuse) else None}


def _window(field: Field, refuse: Refuse) -> dict[str, Any]:
    milliseconds = _integer(field, refuse)
    if not milliseconds:
        refuse("{value_zero,0}")
    if milliseconds > MAX_DEDUPLICATION_WINDOW_SECONDS * _MS:
        refuse(f"{{value_too_large,{milliseconds}}}")
    return {WINDOW: milliseconds / _MS}


def _ids(field: Field, refuse: Refuse) -> dict[str, Any]:
    number = _integer(field, refuse)
    if not 1 <= number <= MAX_DEDUPLICATION_IDS:
        refuse(f"{number} is not between 1 and {MAX_DEDUPLICATION_IDS}")
    return {IDS: number}


def _queue_type(field: Field, refuse: Refuse) -> dict[str, Any]:
    kind = _text(field, refuse)
    if kind == "stream":
        refuse("streams are not there: a native subscription reads a queue again and again")
    if kind not in TYPES:
        refuse(f"\"unsupported queue type '{kind}'\"")
    return {}


def _one_of(known: tuple[str, ...], why: str) -> Callable[[Field, Refuse], dict[str, Any]]:
    """An argument that means nothing here, and has to be one of these texts."""

    def check(field: Field, refuse: Refuse) -> dict[str, Any]:
        text = _text(field, refuse)
        if text not in known:
            refuse(why.format(text))
        return {}

    return check


def _number(field: Field, refuse: Refuse) -> dict[str, Any]:
    """One that means nothing here, and has to be 0 or more."""
    _integer(field, refuse)
    return {}


def _group_size(field: Field, refuse: Refuse) -> dict[str, Any]:
    if not _integer(field, refuse):
        refuse("{value_zero,0}")
    return {}


def _queue_version(field: Field, refuse: Refuse) -> dict[str, Any]:
    version = _integer(field, refuse)
    if version not in VERSIONS:
        refuse(f"\"unsupported queue version '{version}'\"")
    return {}


_SETTERS: Final[dict[str, Callable[[Field, Refuse], dict[str, Any]]]] = {
    "x-queue-type": _queue_type,
    "x-expires": _expires,
    "x-message-ttl": _ttl,
    "x-dead-letter-exchange": lambda field, refuse: {"dead_letter_exchange": _text(field, refuse)},
    "x-dead-letter-routing-key": lambda field, refuse: {"dead_letter_routing_key": _text(field, refuse)},
    "x-dead-letter-strategy": _one_of(("at-most-once", "at-least-once"), "invalid_dlx_strategy"),
    "x-max-length": _limit("max_messages"),
    "x-max-length-bytes": _limit("max_bytes"),
    "x-max-in-memory-length": _number,
    "x-max-in-memory-bytes": _number,
    "x-max-priority": _max_priority,
    "x-overflow": _overflow,
    "x-queue-mode": _one_of(("default", "lazy"), "\"unsupported queue mode '{}'\""),
    "x-queue-version": _queue_version,
    "x-single-active-consumer": _flag("single_active_consumer"),
    "x-quorum-initial-group-size": _group_size,
    "x-queue-leader-locator": _one_of(
        ("client-local", "balanced", "random", "least-leaders"), "invalid_queue_locator_arg"
    ),
    "x-delivery-limit": _delivery_limit,
    DEDUPLICATES: _deduplicates,
    "x-cache-ttl": _window,
    "x-cache-size": _ids,
    "x-groups": _flag("groups"),
}
"""In the order in which RabbitMQ looks at them: of two that are wrong it tells of the first."""
