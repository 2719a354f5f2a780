"""Which part of a channel a method is for, and the few methods that are the channel's own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from actors.queue.directory_errors import QueueNotFoundError
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.confirms import Confirms
from transport.gateways.amqp.errors import AmqpError, InUseError
from transport.gateways.amqp.reply_codes import ReplyCode
from transport.gateways.amqp.transacting import commit, roll_back, select

if TYPE_CHECKING:
    from transport.gateways.amqp.channel import Channel
    from transport.gateways.amqp.departures import Departing


def _close(channel: Channel, method: connection.ChannelClose) -> None:
    departing = None if channel.consuming is None else channel.consuming.end()
    if departing is None or departing.is_over:
        _closed(channel)
    else:
        # With the answer the client knows that its queues are free, and that what it held is back.
        channel.run(method, _closed_behind(channel, departing))


async def _closed_behind(channel: Channel, departing: Departing) -> None:
    await departing.over()
    _closed(channel)


def _closed(channel: Channel) -> None:
    channel.end()
    channel.link.channel_closed(channel)
    channel.say(connection.ChannelCloseOk())


def _open(_channel: Channel, _: connection.ChannelOpen) -> None:
    raise AmqpError(ReplyCode.CHANNEL_ERROR, "second 'channel.open' seen")


def _flow(channel: Channel, method: connection.ChannelFlow) -> None:
    if not method.active:
        raise AmqpError(ReplyCode.NOT_IMPLEMENTED, "active=false")
    channel.say(connection.ChannelFlowOk(active=True))


def _access(channel: Channel, _: connection.AccessRequest) -> None:
    channel.say(connection.AccessRequestOk(ticket=1))


def _confirm(channel: Channel, method: basic.ConfirmSelect) -> None:
    if channel.transacting is not None:
        raise AmqpError(ReplyCode.PRECONDITION_FAILED, "cannot switch from tx to confirm mode")
    if channel.publishing.confirms is None:
        channel.publishing.confirms = Confirms()
    channel.answer(method.nowait, basic.ConfirmSelectOk())


def _consume(channel: Channel, method: basic.BasicConsume) -> None:
    try:
        channel.receiving.consume(method)
    except InUseError as error:
        if not error.perhaps_left:
            raise
        channel.run(method, _consume_behind(channel, method))


async def _consume_behind(channel: Channel, method: basic.BasicConsume) -> None:
    """Consume once the queue has heard of those that have left: whoever has it for itself is alone with it then, or is refused."""
    with suppress(QueueNotFoundError):
        await channel.link.operations.figures(channel.names.queue(channel.queue_named(method.queue)))
    if channel.receiving.departing is None:
        channel.receiving.consume(method)


def _received(name: str) -> Callable[[Channel, Any], None]:
    return lambda channel, method: getattr(channel.receiving, name)(method)


def _declared(name: str) -> Callable[[Channel, Any], None]:
    return lambda channel, method: getattr(channel.declaring, name)(method)


HANDLERS: Final[dict[type[Any], Callable[[Channel, Any], None]]] = {
    connection.ChannelOpen: _open,
    connection.ChannelClose: _close,
    connection.ChannelFlow: _flow,
    connection.AccessRequest: _access,
    basic.BasicQos: _received("qos"),
    basic.BasicConsume: _consume,
    basic.BasicCancel: _received("cancel"),
    basic.BasicCancelOk: _received("cancel_answered"),
    basic.BasicGet: _received("get"),
    basic.BasicRecover: _received("recover"),
    basic.BasicRecoverAsync: _received("recover_async"),
    basic.ConfirmSelect: _confirm,
    basic.TxSelect: select,
    basic.TxCommit: commit,
    basic.TxRollback: roll_back,
    entity.ExchangeDeclare: _declared("declare_exchange"),
    entity.ExchangeDelete: _declared("delete_exchange"),
    entity.ExchangeBind: _declared("bind_exchange"),
    entity.ExchangeUnbind: _declared("unbind_exchange"),
    entity.QueueDeclare: _declared("declare_queue"),
    entity.QueueBind: _declared("bind_queue"),
    entity.QueueUnbind: _declared("unbind_queue"),
    entity.QueuePurge: _declared("purge_queue"),
    entity.QueueDelete: _declared("delete_queue"),
}
"""What each method has done."""
