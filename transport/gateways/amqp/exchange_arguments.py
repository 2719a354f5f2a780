"""Arguments of exchanges and of bindings as RabbitMQ looks at them, with its texts, before the broker does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.exchanges.headers import MATCHES, X_MATCH
from actors.exchanges.vocabulary import ALTERNATE
from transport.gateways.amqp.equivalence import check_argument, check_same
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.field_types import check_text, term_of, type_of
from transport.gateways.amqp.reply_codes import ReplyCode
from transport.gateways.amqp.tables import Field

if TYPE_CHECKING:
    from actors.exchanges.vocabulary import Exchange
    from transport.gateways.amqp.entity_methods import ExchangeDeclare
    from transport.gateways.amqp.names import Names
    from transport.gateways.amqp.tables import Table


def check_alternate(method: ExchangeDeclare, there: Exchange | None, names: Names) -> None:
    """Whether the alternate exchange is named by a text.

    Args:
        method: declares an exchange.
        there: the one of its name; None where there is none.
        names: of the virtual host.

    Raises:
        AmqpError: PRECONDITION_FAILED: it is not. One that is there is compared first.
    """
    field = method.arguments.field(ALTERNATE)
    if field is None or field.kind == "S":
        return
    text = names.exchange_text(method.exchange)
    if there is not None:
        check_same("type", there.kind, method.type, text)
        for name in ("durable", "auto_delete", "internal"):
            check_same(name, getattr(there, name), getattr(method, name), text)
        present = None if there.alternate is None else Field("S", names.shown_name(there.alternate))
        check_argument(ALTERNATE, present, field, text)
    check_text(ALTERNATE, field, text)


def check_match(arguments: Table) -> None:
    """Whether a headers exchange can match by a binding's arguments.

    Raises:
        AmqpError: PRECONDITION_FAILED: ``x-match`` says none of the ways in which it does.
    """
    field = arguments.field(X_MATCH)
    if field is None or (field.kind == "S" and field.value in MATCHES):
        return
    if field.kind == "S":
        known = ", ".join(list(MATCHES)[:-1])
        text = f"Invalid x-match field value {term_of(field.value)}; expected {known}, or {list(MATCHES)[-1]}"
    else:
        text = f"Invalid x-match field type {type_of(field)} (value {term_of(field.value)}); expected longstr"
    raise AmqpError(ReplyCode.PRECONDITION_FAILED, text)
