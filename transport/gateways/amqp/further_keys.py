"""The headers CC and BCC: more routing keys of a message than its own (RabbitMQ's extension, "Sender-selected Distribution").

Each is an array of texts; what is in it and is no text is passed over. BCC is no header any more once its keys are read. The texts of
errors are RabbitMQ's, but for the limits, which it has none of.
"""

from __future__ import annotations

from typing import Final

from actors.exchanges.copies import SEEN, UNSEEN, addressed
from actors.exchanges.limits import MAX_ROUTING_KEY_BYTES, MAX_ROUTING_KEYS
from transport.gateways.amqp.basic_methods import BasicPublish
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.field_types import type_of
from transport.gateways.amqp.plain_tables import is_text
from transport.gateways.amqp.properties import FLAGS_BYTES, HEADERS_FLAG, Properties
from transport.gateways.amqp.reply_codes import ReplyCode
from transport.gateways.amqp.tables import Field, Table

Keys = tuple[str, ...]

_SEEN: Final = bytes((len(SEEN),)) + SEEN.encode()
_UNSEEN: Final = bytes((len(UNSEEN),)) + UNSEEN.encode()
FLAGGED: Final = HEADERS_FLAG >> 8 * (FLAGS_BYTES - 1)
"""The flag of headers in the first octet of properties: without it they name no more routing keys;"""
IN_BOTH: Final = b"CC"
"""nor without this, for which every message with headers is searched, once."""


def may_name_more(raw: bytes) -> bool:
    """Whether properties that have headers may name more routing keys."""
    return _SEEN in raw or _UNSEEN in raw


def further_keys(key: str, raw: bytes) -> tuple[Keys, bytes]:
    """The routing keys that properties name beside the message's own, each once, and the properties that receivers see.

    Raises:
        AmqpError: PRECONDITION_FAILED: CC or BCC is no array, or has a key that cannot be, or too many.
    """
    properties = Properties(raw)
    table = properties.headers or Table()
    named = {name: _texts(name, field) for name in (SEEN, UNSEEN) if (field := table.field(name)) is not None}
    keys, _ = addressed(key, named)
    if len(keys) > MAX_ROUTING_KEYS:
        raise _invalid(f"{len(keys)} routing keys exceed {MAX_ROUTING_KEYS}: publish it several times")
    if UNSEEN in table:
        raw = properties.replaced(headers=table.without(UNSEEN)).raw
    return keys[1:], raw


def _texts(name: str, field: Field) -> list[str]:
    if not isinstance(field.value, tuple):
        raise _invalid(f'{{unacceptable_type_in_header,"{name}",{type_of(field)}}}')
    found = [each.value for each in field.value if each.kind == "S" and isinstance(each.value, str)]
    for text in found:
        if not is_text(text):
            raise _invalid(f"the header {name} has a routing key that is no UTF-8")
        if len(text.encode()) > MAX_ROUTING_KEY_BYTES:
            size = f"a routing key of {len(text.encode())} bytes in the header {name} exceeds {MAX_ROUTING_KEY_BYTES}"
            raise _invalid(f"{size}: use a shorter one")
    return found


def _invalid(why: str) -> AmqpError:
    return AmqpError(ReplyCode.PRECONDITION_FAILED, f"invalid message: {why}", BasicPublish.INDEX)
