"""One channel of a connection: which of its parts a method is for, and how it ends (AMQP 0-9-1, 1.5).

Publishing, consuming and declaring each have a module; what they have in common is here: names, confirms, and errors.
It knows no socket: it says methods, and writes frames, by its connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final

from actors.errors import QueueError
from transport.errors import TransportError
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.carried_properties import properties_of
from transport.gateways.amqp.channel_port import Waiting
from transport.gateways.amqp.channel_publishing import NoLineError, Publishing
from transport.gateways.amqp.confirms import Confirms
from transport.gateways.amqp.declaring import Declaring
from transport.gateways.amqp.direct_reply import DirectReply
from transport.gateways.amqp.errors import AmqpError, short_text
from transport.gateways.amqp.events import Published
from transport.gateways.amqp.publishing_line import Returned
from transport.gateways.amqp.receiving import Receiving
from transport.gateways.amqp.refusals import of_channel
from transport.gateways.amqp.reply_codes import ReplyCode
from transport.gateways.amqp.writing import confirm, content_frames
from transport.security.principal import Proof
from transport.wire.exchange_named import PublishesTo

if TYPE_CHECKING:
    from actors import LoopActorRef
    from actors.queue.connection_actor import Port
    from actors.queue.vocabulary.settings import QueueSettings
    from transport.gateways.amqp.channel_port import Link
    from transport.gateways.amqp.events import Settled
    from transport.gateways.amqp.method import Method

    Ref = LoopActorRef[Any]

METHOD_BYTES: Final = 1_024
"""What a method that waits counts as."""


class Channel:
    """One channel.

    Args:
        link: its connection.
        number: its number there.

    Attributes:
        number: as given.
        link: likewise.
        names: of its connection's virtual host.
        publishing: what it publishes.
        receiving: its consumers, and what they hold.
        declaring: what it declares.
        direct_reply: where it hears direct replies.
        last_queue: the queue that was declared last, which a method may mean by an empty name.
        waiting_bytes: of what waits until something before it is stored.
        counted: what its connection has counted of it.
    """

    def __init__(self, link: Link, number: int) -> None:
        self.number = number
        self.link = link
        self.names = link.names
        self.publishing = Publishing(self)
        self.receiving = Receiving(self)
        self.last_queue = ""
        self.declaring = Declaring(self)
        self.direct_reply = DirectReply(self._declare_own)
        self.waiting_bytes = 0
        self.counted = Waiting()
        # What is behind something that is not stored yet; whether anything was published that is not known to be stored; and whether it
        # will be said once it is. Nothing is published while that is awaited.
        self._later: deque[Method | Published | AmqpError] = deque()
        self._publishes = self._awaits_stored = False
        self._told_soon = False
        self._over = self._runs = False

    # What the client says.

    def method(self, method: Method) -> None:
        """A method has come.

        Raises:
            AmqpError: the channel is to end with it, or the connection.
        """
        if self._later and type(self._later[-1]) is connection.ChannelClose:
            raise AmqpError(ReplyCode.CHANNEL_ERROR, "the answer to 'channel.close' is not said yet: wait for it")
        if self.busy:
            # What a client publishes it finds with the method that it says next.
            self._wait(method)
        else:
            self._do(method)

    def published(self, event: Published) -> None:
        """Messages have come; errors as of `method`."""
        if self._later or self._waits:
            self._wait(event)
            return
        try:
            self._do(event)
        except AmqpError as error:
            if error.closes_connection:
                raise
            self.end_with(error)
        except NoLineError as error:
            self._wait_for_line(error.rest)

    def end_with(self, error: AmqpError) -> None:
        """End with an error, once all is stored that was published before what caused it. What is said meanwhile is passed over."""
        if error.closes_connection or not self.busy:
            self.link.channel_failed(self, error)
        else:
            self._wait(error)

    def _do(self, said: Method | Published | AmqpError) -> None:
        if isinstance(said, AmqpError):
            raise said
        if isinstance(said, Published):
            self._publishes = True
            self._guarded(basic.BasicPublish.INDEX, self.publishing.publish, self.direct_reply.named_in(said))
            return
        handler = _HANDLERS.get(type(said))
        if handler is None:
            raise AmqpError(ReplyCode.COMMAND_INVALID, "unimplemented method", said.INDEX, self.number)
        self._guarded(said.INDEX, handler, self, said)

    def _wait(self, said: Method | Published | AmqpError) -> None:
        """What has come waits until all is stored that was published before."""
        self._later.append(said)
        self.waiting_bytes += said.size if isinstance(said, Published) else METHOD_BYTES
        if len(self._later) == 1:
            self.go_on()
        self.link.waiting_changed(self)

    def _stored(self) -> None:
        """All is stored that was published."""
        self._publishes = self._awaits_stored = False
        self.go_on()

    def _wait_for_line(self, rest: Published) -> None:
        """These wait, and all behind them, until something is stored that was published elsewhere."""
        self._later.appendleft(rest)
        self.waiting_bytes += rest.size
        self.publishing.when_free(self.go_on)

    def go_on(self) -> None:
        """Do what has waited, up to the next method that has to wait."""
        try:
            while self._later and not self._over and not self._waits:
                said = self._later[0]
                if not isinstance(said, Published) and self._publishes and self.publishing.unstored:
                    if not self._awaits_stored:
                        self._awaits_stored = True
                        self.publishing.when_stored(self._stored)
                    return
                self._later.popleft()
                self.waiting_bytes -= said.size if isinstance(said, Published) else METHOD_BYTES
                self._do(said)
        except AmqpError as error:
            self._later.clear()
            self.waiting_bytes = 0
            if self._publishes:
                self.end_with(error)
            else:
                self.link.channel_failed(self, error)
        except NoLineError as error:
            self._wait_for_line(error.rest)
        finally:
            self.link.waiting_changed(self)

    def counts(self) -> Waiting:
        """As `channel_port.ChannelPort.counts`."""
        return Waiting(self.waiting_bytes + self.publishing.waiting_bytes, self.receiving.consumers)

    def run(self, method: Method, work: Coroutine[None, None, Method | None]) -> None:
        """Have a command carried out. What the client has said behind it waits."""
        self._runs = True
        self.link.run(self, method, work)

    def carried_out(self) -> None:
        """A command is, and was answered."""
        self._runs = False
        self.go_on()

    @property
    def _waits(self) -> bool:
        """Whether a method is not answered yet."""
        return self._runs or self.receiving.asks

    @property
    def busy(self) -> bool:
        """Whether something is not done that the client has said, or not stored that it has published."""
        return bool(self._later) or self._waits or self.publishing.unstored

    @property
    def owes(self) -> bool:
        """Whether it is busy, or has not told all that is stored."""
        return self.busy or self.publishing.owed

    def settled(self, event: Settled) -> None:
        """Deliveries are acknowledged or rejected; errors as of `method`."""
        self._guarded(event.method, self.receiving.settled, event)

    def _guarded(self, index: int, work: Callable[..., None], *arguments: Any) -> None:
        """Whatever is refused is told with the method that it is about."""
        try:
            work(*arguments)
        except AmqpError as error:
            raise error.about(index, self.number) from None
        except (QueueError, TransportError) as error:
            raise of_channel(error.code, str(error), index, self.number) from None

    def end(self) -> None:
        """It is over: what its client holds goes back, and what waits to be published is dropped."""
        self._end_hearing()
        self.publishing.end()

    def _end_hearing(self) -> None:
        self._over = True
        self._later.clear()
        self.waiting_bytes = 0
        self.receiving.end()

    def close(self, error: AmqpError) -> None:
        """Tell the client why the channel ends; what it still says there is passed over. What it has published is until `end`."""
        self._end_hearing()
        said = connection.ChannelClose(
            reply_code=error.reply_code,
            reply_text=short_text(str(error)),
            class_id=error.class_id,
            method_id=error.method_id,
        )
        self.say(said)

    def queue_named(self, name: str) -> str:
        """The queue that a method means: the one of a name, or the one declared last.

        Raises:
            AmqpError: NOT_FOUND: it names none, and none was declared.
        """
        if not name and not self.last_queue:
            raise AmqpError(ReplyCode.NOT_FOUND, "no previously declared queue")
        return name or self.last_queue

    @property
    def unstored(self) -> bool:
        """Whether something that its client has said waits, or may not be stored yet."""
        return bool(self._later) or self.publishing.unstored

    # For its parts.

    @property
    def user(self) -> str | None:
        """As `publishing_line.Host.user`."""
        principal = self.link.operations.principal
        return None if principal.proof is Proof.NOT_ASKED else principal.name

    def say(self, method: Method) -> None:
        """Write a method."""
        self.link.say(self.number, method)

    def answer(self, nowait: bool, method: Method) -> None:
        """Write the answer to one that waits for it."""
        if not nowait:
            self.say(method)

    def publisher(self, exchange: str, port: Port, *, mandatory: bool) -> Ref:
        """As `publishing_line.Host.publisher`."""
        known = self.names.exchange(exchange)
        self.declaring.check_published_to(exchange)
        return self.link.operations.exchange_sender(PublishesTo(known, "", mandatory), port, None)

    def _declare_own(self, queue: str, settings: QueueSettings, kept: bytes) -> None:
        self.link.operations.declare_own(self.names.queue(queue), settings, kept, self.link.own())

    def check_consumed(self, queue: str, *, exclusive: bool) -> None:
        """Whether one more may receive from a queue, or have it for itself.

        Raises:
            AmqpError: NOT_FOUND: there is none. ACCESS_REFUSED: another has it for itself, or it shall be for one while others receive.
        """
        found = self.declaring.found(queue)
        known = self.names.queue(queue)
        others = found.receivers - self.link.claims.getters[known]
        if not self.link.claims.may_consume(known) or (exclusive and others > 0):
            raise AmqpError(ReplyCode.ACCESS_REFUSED, f"{self.names.queue_text(queue)} in exclusive use")

    def answers_due(self) -> None:
        """As `publishing_line.Host.answers_due`."""
        if not self._told_soon:
            self._told_soon = True
            self.link.soon(self._tell)

    def _tell(self) -> None:
        self._told_soon = False
        confirms = self.publishing.confirms
        if confirms is None or self._over:
            return
        answers = [confirm(self.number, tag, multiple, stored=stored) for tag, multiple, stored in confirms.answers()]
        if answers:
            self.link.write([b"".join(answers)])
        self.link.waiting_changed(self)

    def returned(self, messages: Sequence[Returned]) -> None:
        """As `publishing_line.Host.returned`."""
        if self._over:
            return
        for exchange, key, headers, body in messages:
            said = basic.BasicReturn(
                reply_code=ReplyCode.NO_ROUTE, reply_text="NO_ROUTE", exchange=exchange, routing_key=key.decode()
            )
            parts = content_frames(self.number, said, properties_of(headers), body, self.link.frame_max)
            self.link.write(parts, len(body))

    def publishing_failed(self, code: str, text: str) -> None:
        """As `publishing_line.Host.publishing_failed`."""
        self.fail(of_channel(code, text, basic.BasicPublish.INDEX, self.number))

    def waiting_changed(self) -> None:
        """As `publishing_line.Host.waiting_changed`."""
        self.link.waiting_changed(self)

    def check_waiting(self, more: int) -> None:
        """As `publishing_line.Host.check_waiting`."""
        self.link.waiting_total.check(more, self.number)

    def explained(self, text: str | None) -> None:
        """As `publishing_line.Host.explained`."""
        self.link.blocked(text)

    def unused(self, queue: str) -> None:
        """As `channel_port.ChannelPort.unused`."""
        self.declaring.unused(queue)

    def cancelled(self, tag: str) -> None:
        """As `channel_port.ChannelPort.cancelled`."""
        if "consumer_cancel_notify" in self.link.capabilities:
            self.say(basic.BasicCancel(consumer_tag=tag, nowait=True))

    def fail(self, error: AmqpError) -> None:
        """Have the channel end, or its connection, for what nobody waits for."""
        if not self._over:
            self.link.channel_failed(self, error)

    # Methods that are its own.

    def _close(self, _: connection.ChannelClose) -> None:
        self.end()
        self.link.channel_closed(self)
        self.say(connection.ChannelCloseOk())

    def _open(self, _: connection.ChannelOpen) -> None:
        raise AmqpError(ReplyCode.CHANNEL_ERROR, "second 'channel.open' seen")

    def _flow(self, method: connection.ChannelFlow) -> None:
        if not method.active:
            raise AmqpError(ReplyCode.NOT_IMPLEMENTED, "active=false")
        self.say(connection.ChannelFlowOk(active=True))

    def _access(self, _: connection.AccessRequest) -> None:
        self.say(connection.AccessRequestOk(ticket=1))

    def _confirm(self, method: basic.ConfirmSelect) -> None:
        if self.publishing.confirms is None:
            self.publishing.confirms = Confirms()
        self.answer(method.nowait, basic.ConfirmSelectOk())

    def _tx(self, method: Method) -> None:
        if isinstance(method, basic.TxSelect):
            raise AmqpError(ReplyCode.NOT_IMPLEMENTED, "transactions are not there yet: use confirm.select")
        raise AmqpError(ReplyCode.PRECONDITION_FAILED, "channel is not transactional")


def _received(name: str) -> Callable[[Channel, Any], None]:
    return lambda channel, method: getattr(channel.receiving, name)(method)


def _declared(name: str) -> Callable[[Channel, Any], None]:
    return lambda channel, method: getattr(channel.declaring, name)(method)


_HANDLERS: Final[dict[type[Any], Callable[[Channel, Any], None]]] = {
    connection.ChannelOpen: Channel._open,
    connection.ChannelClose: Channel._close,
    connection.ChannelFlow: Channel._flow,
    connection.AccessRequest: Channel._access,
    basic.BasicQos: _received("qos"),
    basic.BasicConsume: _received("consume"),
    basic.BasicCancel: _received("cancel"),
    basic.BasicCancelOk: _received("cancel_answered"),
    basic.BasicGet: _received("get"),
    basic.BasicRecover: _received("recover"),
    basic.BasicRecoverAsync: _received("recover_async"),
    basic.ConfirmSelect: Channel._confirm,
    basic.TxSelect: Channel._tx,
    basic.TxCommit: Channel._tx,
    basic.TxRollback: Channel._tx,
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
