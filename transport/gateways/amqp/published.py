"""What is looked at in a message that is published: how long it is of use, who says that they wrote it. The texts are RabbitMQ's."""

from __future__ import annotations

import re
from typing import Final

from actors.limits import MAX_TTL_SECONDS
from transport.gateways.amqp.basic_methods import BasicPublish
from transport.gateways.amqp.direct_reply import REPLY_TO, REPLY_TO_FLAG
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.properties import EXPIRATION_FLAG, FLAGS, Properties, flags_of
from transport.gateways.amqp.reply_codes import ReplyCode

LOOKED_AT: Final = EXPIRATION_FLAG | FLAGS["user_id"] | REPLY_TO_FLAG
"""Properties for which a message is looked at by itself; most have none of them."""
PRIORITY_BIT: Final = FLAGS["priority"] >> 8
"""Of the first octet of the properties of a message that has a priority."""
_DIRECT: Final = REPLY_TO.encode()
_MS: Final = 1000
_MOST: Final = int(MAX_TTL_SECONDS * _MS)
_NUMBER: Final = re.compile("[+-]?[0-9]+")


def ttl_of(method: BasicPublish, raw: bytes, user: str | None) -> float | None:
    """The time to live that a message asks for, seconds; None where it asks for none.

    Args:
        method: what it came with.
        raw: its properties.
        user: who publishes; None where nobody has said who they are.

    Raises:
        AmqpError: NOT_IMPLEMENTED: it is to be delivered immediately. PRECONDITION_FAILED: its expiration is no time,
            its user is another, or it asks for direct replies that nobody would hear.
    """
    if method.immediate:
        raise AmqpError(ReplyCode.NOT_IMPLEMENTED, "immediate=true", BasicPublish.INDEX)
    looked_at = flags_of(raw) & LOOKED_AT
    # Nearly all that asks for an answer says a queue of its own, and need not be taken apart for that.
    if not looked_at or (looked_at == REPLY_TO_FLAG and _DIRECT not in raw):
        return None
    properties = Properties(raw)
    if properties.reply_to == REPLY_TO:
        # Where somebody consumes them, it says their queue by now.
        raise AmqpError(ReplyCode.PRECONDITION_FAILED, "fast reply consumer does not exist", BasicPublish.INDEX)
    seconds = None if properties.expiration is None else _seconds(properties.expiration)
    said = properties.user_id
    if said is not None and user is not None and said != user:
        text = f"user_id property set to '{said}' but authenticated user was '{user}'"
        raise AmqpError(ReplyCode.PRECONDITION_FAILED, text, BasicPublish.INDEX)
    return seconds


def priority_of(raw: bytes) -> int:
    """The priority that a message has by its properties; 0 where they say none."""
    return Properties(raw).priority or 0


def _seconds(expiration: str) -> float:
    """An expiration is a number of milliseconds, as text."""
    begins = _NUMBER.match(expiration)
    if begins is None:
        raise _invalid(expiration, "no_integer")
    number, rest = begins[0], expiration[begins.end() :]
    if rest:
        raise _invalid(expiration, f'{{leftover_string,"{rest:.40}"}}')
    digits = number.lstrip("+-").lstrip("0")
    if digits and number.startswith("-"):
        raise _invalid(expiration, f"{{value_negative,-{digits:.40}}}")
    # No number is made of very many digits.
    milliseconds = int(digits or "0") if len(digits) <= len(str(_MOST)) else _MOST + 1
    if milliseconds > _MOST:
        raise _invalid(expiration, f"{{value_too_large,{digits:.40}}}")
    return milliseconds / _MS


def _invalid(expiration: str, why: str) -> AmqpError:
    text = f"invalid expiration '{expiration:.80}': {why}"
    return AmqpError(ReplyCode.PRECONDITION_FAILED, text, BasicPublish.INDEX)
