"""A queue's settings as they are stored, and what it was declared with among them."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from actors.queue.vocabulary.settings import MAX_RECEIVES_LIMIT, QueueSettings

ARGUMENTS = "arguments"
"""Among stored settings: what the queue was declared with, in bytes."""
WITHOUT_LIMIT = "without_limit"
"""Among stored settings: the names of the limits that a queue has none of."""
LIMITED = "limited"
"""Among stored settings of a queue that was declared with arguments: that a limit of `MAX_RECEIVES_LIMIT` failures is one. Older programs
gave it that limit for having a place for dead letters, and counted nothing towards it."""

_USUAL = QueueSettings()
_LATER = (
    "subscription_expiry",
    "dead_letter_exchange",
    "dead_letter_routing_key",
    "expires",
    "max_priority",
    "deduplication_window",
    "durable",
    "single_active_consumer",
    "retry_delay",
    "retry_max_delay",
    "drop_failed",
    "groups",
    "max_deduplication_ids",
)
"""What older versions do not know, and so refuse."""


def settings_as_stored(settings: QueueSettings, arguments: bytes = b"") -> dict[str, Any]:
    """Settings to be stored, and what the queue was declared with.

    What older versions refuse, because they do not know it, is only there where it says something.
    """
    fields = asdict(settings)
    if arguments:
        fields[ARGUMENTS] = arguments
    for name in _LATER:
        if fields[name] == getattr(_USUAL, name):
            del fields[name]
    if arguments and settings.dead_letters_named and settings.max_receives in (None, MAX_RECEIVES_LIMIT):
        fields["max_receives"] = MAX_RECEIVES_LIMIT
        if settings.max_receives is not None:
            fields[LIMITED] = True
    if endless := [name for name in ("max_messages", "max_bytes") if fields[name] is None]:
        # Older versions would take None and fail on it later.
        fields[WITHOUT_LIMIT] = endless
        for name in endless:
            del fields[name]
    return fields


def settings_from(fields: dict[str, Any]) -> QueueSettings:
    """Settings as they were stored; what a newer version added and this one does not know is refused, not dropped."""
    endless = fields.get(WITHOUT_LIMIT, ())
    if any(name not in ("max_messages", "max_bytes") for name in endless):
        raise ValueError("it says more than this program knows: this directory was written by a newer version")
    known = {name: value for name, value in fields.items() if name not in (WITHOUT_LIMIT, ARGUMENTS, LIMITED)}
    settings = QueueSettings(**known | dict.fromkeys(endless))
    has_place = ARGUMENTS in fields and LIMITED not in fields and settings.dead_letters_named
    return (
        replace(settings, max_receives=None) if has_place and settings.max_receives == MAX_RECEIVES_LIMIT else settings
    )


def arguments_from(fields: dict[str, Any]) -> bytes:
    """What a queue was declared with, among its settings as they were stored."""
    arguments: bytes = fields.get(ARGUMENTS, b"")
    if not isinstance(arguments, bytes):
        raise ValueError("its arguments are no bytes: this directory was written by a newer version")
    return arguments
