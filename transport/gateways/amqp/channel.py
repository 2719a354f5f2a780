"""One channel of a connection: which of its parts a method is for, and how it ends (AMQP 0-9-1, 1.5).

Publishing, consuming and declaring each have a module; what they have in common is here: names, confirms, and errors.
It knows no socket: it says methods, and writes frames, by its connection.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from actors.errors import QueueError
from transport.errors import TransportError
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp.channel_methods import HANDLERS
from transport.gateways.amqp.channel_port import Waiting
from transport.gateways.amqp.channel_publishing import NoLineError, Publishing
from transport.gateways.amqp.consumer_arguments import priority_of
from transport.gateways.amqp.declaring import Declaring
from transport.gateways.amqp.direct_reply import DirectReply
from transport.gateways.amqp.errors import AmqpError, short_text
from transport.gateways.amqp.events import Published, Settled
from transport.gateways.amqp.postponed import Postponed
from transport.gateways.amqp.publishing_line import Returned
from transport.gateways.amqp.receiving import Receiving
from transport.gateways.amqp.refusals import of_channel, refusal_of
from transport.gateways.amqp.reply_codes import ReplyCode
from transport.gateways.amqp.writing import confirm
from transport.security.principal import Proof
from transport.wire.exchange_named import PublishesTo

if TYPE_CHECKING:
    from actors import LoopActorRef
    from actors.queue.connection_actor import Port
    from actors.queue.vocabulary.settings import QueueSettings
    from transport.gateways.amqp.channel_port import Link
    from transport.gateways.amqp.method import Method
    from transport.gateways.amqp.postponed import Said
    from transport.gateways.amqp.transacting import Transacting

    Ref = LoopActorRef[Any]


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
        consuming: its consumers, and what they hold; None as long as it never had any: most channels publish.
        declaring: what it declares.
        direct_reply: where it hears direct replies.
        transacting: its transactions; None where it has none.
        last_queue: the queue that was declared last, which a method may mean by an empty name.
        counted: what its connection has counted of it.
    """

    def __init__(self, link: Link, number: int) -> None:
        self.number = number
        self.link = link
        self.names = link.names
        self.publishing = Publishing(self, link.operations.has_levels)
        self.consuming: Receiving | None = None
        self.last_queue = ""
        self.declaring = Declaring(self)
        self.direct_reply = DirectReply(self._declare_own)
        self.transacting: Transacting | None = None
        self.counted = _NOTHING
        # What is behind something that is not stored yet; whether anything was published that is not known to be stored; and whether it
        # will be said once it is. Nothing is published while that is awaited.
        self._later = Postponed()
        self._publishes = self._awaits_stored = False
        self._told_soon = False
        self._over = self._runs = self._gone = self._left = False
        # Whether the client has said that it closes, and was not answered.
        self._closes = False

    @property
    def receiving(self) -> Receiving:
        """Its consumers, made when they are first asked for."""
        if self.consuming is None:
            self.consuming = Receiving(self)
        return self.consuming

    # What the client says.

    def method(self, method: Method) -> None:
        """A method has come.

        Raises:
            AmqpError: the channel is to end with it, or the connection.
        """
        if self._closes:
            raise AmqpError(ReplyCode.CHANNEL_ERROR, "the answer to 'channel.close' is not said yet: wait for it")
        if self.busy:
            # What a client publishes it finds with the method that it says next.
            self._closes = type(method) is connection.ChannelClose
            self._wait(method)
        else:
            self._do(method)

    def published(self, event: Published) -> None:
        """Messages have come; errors as of `method`."""
        if self._later.count or self._waits:
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
        """End with an error, once all is stored that was published before what caused it. What is said behind it is passed over."""
        if error.closes_connection or self._gone or not self.busy:
            self.link.channel_failed(self, error)
        else:
            self._wait(error)

    def _do(self, said: Said) -> None:
        if isinstance(said, AmqpError):
            raise said
        if isinstance(said, Settled):
            self._guarded(said.method, self.receiving.settled, said)
            return
        if isinstance(said, Published):
            self._publishes = True
            self._guarded(basic.BasicPublish.INDEX, self.publishing.publish, self.direct_reply.named_in(said))
            return
        if self._left and isinstance(said, basic.BasicConsume | basic.BasicGet):
            return  # nobody would hear of what it gets
        handler = HANDLERS.get(type(said))
        if handler is None:
            raise AmqpError(ReplyCode.COMMAND_INVALID, "unimplemented method", said.INDEX, self.number)
        self._guarded(said.INDEX, handler, self, said)

    def _wait(self, said: Said) -> None:
        """What has come waits until all is stored that was published before."""
        if self._later.fails:
            return
        self._later.put(said)
        if self._later.count == 1:
            self.go_on()
        self.link.waiting_changed(self)

    def _stored(self) -> None:
        """All is stored that was published."""
        self._publishes = self._awaits_stored = False
        self.go_on()

    def _wait_for_line(self, rest: Published) -> None:
        """These wait, and all behind them, until something is stored that was published elsewhere."""
        self._later.put_first(rest)
        self.publishing.when_free(self.go_on)

    def go_on(self) -> None:
        """Do what has waited, up to the next method that has to wait."""
        try:
            while self._later.count and not self._over and not self._waits:
                said = self._later.first
                if self._publishes and self._is_behind(said) and self.publishing.unstored:
                    if self.transacting is not None and type(said) is basic.TxCommit:
                        self.transacting.awaits_room()
                    if not self._awaits_stored:
                        self._awaits_stored = True
                        self.publishing.when_stored(self._stored)
                    return
                self._do(self._later.take())
        except AmqpError as error:
            self._later.clear()
            if self._publishes and self.transacting is None:
                self.end_with(error)
            else:
                self.link.channel_failed(self, error)
        except NoLineError as error:
            self._wait_for_line(error.rest)
        finally:
            self.link.waiting_changed(self)

    def _is_behind(self, said: Said) -> bool:
        """Whether all is to be stored first that was published before: but not what makes an end of that."""
        if isinstance(said, Published | Settled):
            return False
        return self.transacting is None or not isinstance(said, _ENDS)

    def counts(self) -> Waiting:
        """As `channel_port.ChannelPort.counts`."""
        if self._gone:
            return Waiting()
        consumers = 0 if self.consuming is None else self.consuming.consumers
        return Waiting(self._later.bytes + self.publishing.waiting_bytes, consumers)

    def run(self, method: Method, work: Coroutine[None, None, Method | None]) -> None:
        """Have a command carried out. What the client has said behind it waits."""
        self._runs = True
        self.link.run(self, method, work)

    def carried_out(self) -> None:
        """A command is, and was answered."""
        self._runs = False
        (self._let_go if self._gone else self.go_on)()

    @property
    def _waits(self) -> bool:
        """Whether a method is not answered yet."""
        return self._runs or (self.consuming is not None and self.consuming.asks)

    @property
    def busy(self) -> bool:
        """Whether something is not done that the client has said, or not stored that it has published."""
        return self._later.count > 0 or self._waits or self.publishing.unstored

    def settled(self, event: Settled) -> None:
        """Deliveries are acknowledged or rejected, whatever waits: that may be what makes room. Errors as of `method`."""
        if self.transacting is not None and (self._later.count or self._waits):
            # It is of the transaction behind the commit that was said before.
            self._wait(event)
            return
        try:
            self._guarded(event.method, self.receiving.settled, event)
        except AmqpError:
            self._publish_what_waits()
            raise

    def _publish_what_waits(self) -> None:
        """The channel ends at once. Of what waits that counts which was published, up to an error that waits too, and is raised instead."""
        with suppress(NoLineError):
            for said in self._later.clear():
                if isinstance(said, Published | AmqpError):
                    self._do(said)

    def _guarded(self, index: int, work: Callable[..., None], *arguments: Any) -> None:
        """Whatever is refused is told with the method that it is about."""
        try:
            work(*arguments)
        except AmqpError as error:
            raise error.about(index, self.number) from None
        except (QueueError, TransportError) as error:
            raise refusal_of(error, self.names, index, self.number) from None

    def wait_no_more(self) -> None:
        """The broker ends: of what waits nothing is done. Nobody was told that it is."""
        self._later.clear()
        self.publishing.wait_no_more()

    def end(self) -> None:
        """It is over: what its client holds goes back, and what waits to be published is dropped."""
        if self._gone:
            return
        self._end_hearing()
        self.publishing.end()
        if self.transacting is not None:
            self.transacting.end()
        self._gone = True
        if not self._runs:
            self._let_go()

    def _let_go(self) -> None:
        """Each of its parts knows the channel: without a cycle all are free at once. A commit that is under way asks them once more."""
        self.transacting = None
        del self.publishing, self.consuming, self.declaring, self.direct_reply

    def leave_behind(self) -> None:
        """Nobody hears it any more: what its client holds goes back, and its transaction is over."""
        self._left = True
        self._end_consuming()
        if self.transacting is not None:
            self.end()

    def _end_hearing(self) -> None:
        self._over = True
        self._later.clear()
        self._end_consuming()

    def _end_consuming(self) -> None:
        if self.consuming is not None:
            self.consuming.end()

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
        if self._closes:
            self.say(connection.ChannelCloseOk())

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
        """Whether something that its client has said waits, or may not be stored yet; of a transaction nothing is stored for good."""
        return not self._gone and self.transacting is None and (self._later.count > 0 or self.publishing.unstored)

    @property
    def unfinished(self) -> bool:
        """Whether its client is to be told of something yet, when nothing new is said."""
        return not self._gone and (self.busy or self.publishing.owed)

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

    def check_published_to(self, exchange: str) -> None:
        """As `publishing_line.Host.check_published_to`."""
        self.declaring.check_published_to(exchange)

    def publisher(self, exchange: str, port: Port, *, mandatory: bool) -> Ref:
        """As `publishing_line.Host.publisher`."""
        known = self.names.exchange(exchange)
        self.check_published_to(exchange)
        to, stage = PublishesTo(known, "", mandatory), None if self.transacting is None else self.transacting.stage()
        return self.link.operations.exchange_sender(to, port, None, stage, within=self.names.beginning, in_parts=True)

    def _declare_own(self, queue: str, settings: QueueSettings, kept: bytes) -> None:
        operations = self.link.operations
        settings = replace(settings, **operations.staged_limits)
        operations.declare_own(self.names.queue(queue), settings, kept, self.link.own())

    def check_there(self, queue: str) -> None:
        """As `channel_port.ChannelPort.check_there`."""
        self.declaring.found(queue)

    def check_consumed(self, queue: str, asked: basic.BasicConsume) -> tuple[int, int]:
        """As `channel_port.ChannelPort.check_consumed`.

        Raises:
            AmqpError: NOT_FOUND: there is no such queue; or as of `priority_of`.
            InUseError: as of `Claims.check`.
        """
        found = self.declaring.found(queue)
        priority = priority_of(asked.arguments, self.names, queue)
        self.link.claims.check(self.names, queue, found, exclusive=asked.exclusive)
        return found.number, priority

    def answers_due(self) -> None:
        """As `publishing_line.Host.answers_due`."""
        if not self._told_soon:
            self._told_soon = True
            self.link.soon(self._tell)

    def _tell(self) -> None:
        self._told_soon = False
        confirms = None if self._over else self.publishing.confirms
        if confirms is None:
            return
        answers = [confirm(self.number, tag, multiple, stored=stored) for tag, multiple, stored in confirms.answers()]
        if answers:
            self.link.write([b"".join(answers)])
        self.link.waiting_changed(self)

    def returned(self, messages: Sequence[Returned]) -> None:
        """As `publishing_line.Host.returned`."""
        if self.transacting is None:
            self.give_back(messages)
        elif not self._over:
            self.transacting.returned(messages)

    def give_back(self, messages: Sequence[Returned]) -> None:
        """As `transacting.Host.give_back`."""
        if self._over:
            return
        for each in messages:
            self.link.write(each.frames(self.number, self.link.frame_max), len(each.body), returned=True)

    def publishing_failed(self, code: str, text: str) -> None:
        """As `publishing_line.Host.publishing_failed`."""
        self.fail(of_channel(code, self.names.shown(text), basic.BasicPublish.INDEX, self.number))

    def waiting_changed(self) -> None:
        """As `publishing_line.Host.waiting_changed`."""
        self.link.waiting_changed(self)

    def check_waiting(self, more: int, *, counted: bool = False) -> None:
        """As `publishing_line.Host.check_waiting`."""
        self.link.waiting_total.check(more, self.number, counted=counted)

    def explained(self, text: str | None) -> None:
        """As `publishing_line.Host.explained`."""
        self.link.blocked(None if text is None else self.names.shown(text))

    def cancelled(self, tag: str) -> None:
        """As `channel_port.ChannelPort.cancelled`."""
        if "consumer_cancel_notify" in self.link.capabilities:
            self.say(basic.BasicCancel(consumer_tag=tag, nowait=True))

    def fail(self, error: AmqpError) -> None:
        """Have the channel end, or its connection, for what nobody waits for."""
        if not self._over:
            self.link.channel_failed(self, error.about(error.index, self.number))

    def publishing_over(self) -> None:
        """As `transacting.Host.publishing_over`."""
        self.publishing.end()
        self._publishes = self._awaits_stored = False


_NOTHING: Final = Waiting()
_ENDS: Final = (basic.TxRollback, connection.ChannelClose, AmqpError)
"""What of a transaction is not stored need not be stored for these."""


def all_consuming(channels: Iterable[Channel]) -> list[Receiving]:
    """What those of these channels have that have ever had consumers."""
    return [channel.consuming for channel in channels if channel.consuming is not None]


def any_explains(channels: Iterable[Channel]) -> bool:
    """Ask for the reason why something of one of them waits; whether there is one to ask of."""
    return any(channel.publishing.explain() for channel in channels)
