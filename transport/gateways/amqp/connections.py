"""Connections of AMQP, between their wire and the door: the handshake, channels, and when a client is read no more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from actors import LoopActorRef
from transport.broker.listener import Host
from transport.broker.served import SHUTTING_DOWN, Facts, Served
from transport.config.listener_names import AMQP
from transport.errors import AuthenticationError
from transport.gateways.amqp import connection_methods as methods
from transport.gateways.amqp.admission import SHRUNK, Admission
from transport.gateways.amqp.blocked import BlockedWord
from transport.gateways.amqp.channel import Channel, all_consuming, any_explains
from transport.gateways.amqp.connection_limits import (
    ANSWER_SECONDS,
    LEAVE_SECONDS,
    MOST_WAITING_BYTES,
    MOST_WAITING_CONSUMING,
    ROOM_SECONDS,
    WINDOW_BYTES,
)
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.events import Event, MethodReceived, ProtocolHeader, Published, Refused, Settled
from transport.gateways.amqp.facts import facts_of
from transport.gateways.amqp.gateway import Gateway, Owner
from transport.gateways.amqp.leaving import Behind, Unfinished
from transport.gateways.amqp.names import Names
from transport.gateways.amqp.negotiation import Agreed, Negotiation, Password, State
from transport.gateways.amqp.outgoing import LARGE_BYTES, Outgoing
from transport.gateways.amqp.protocol import AmqpProtocol, Said, Written
from transport.gateways.amqp.receivers import Receivers
from transport.gateways.amqp.refusals import TROUBLES, refusal_of
from transport.gateways.amqp.reply_codes import ReplyCode
from transport.gateways.amqp.virtual_hosts import entered
from transport.gateways.amqp.writing import method_frame
from transport.security.principal import Principal

if TYPE_CHECKING:
    from transport.broker.operations import Operations
    from transport.gateways.amqp.channel_port import ChannelPort
    from transport.gateways.amqp.method import Method
    from transport.wire.receiving import Part

logger = logging.getLogger("penstock.amqp")


class AmqpConnection(Served[Any]):
    """One connection.

    Args:
        gateway: what all have in common.
        host: what the broker gives.
        protocol: its protocol.

    Attributes:
        claims: as of the gateway, and so are ``departures``, ``pace`` and ``waiting_total``.
        held_back, lines: as of `channel_port.Link`; ``owner``: what its own queues go with, None where it has none.
        names: of what is in its virtual host, once it is open.
        frame_max: as agreed.
        capabilities: what its client says it can do.
    """

    opens_at_once = False
    operations: Operations
    receivers: Receivers

    def __init__(self, gateway: Gateway, host: Host, protocol: AmqpProtocol) -> None:
        super().__init__(host.connections, host.loop.time(), AMQP)
        self._gateway, self._host, self._protocol = gateway, host, protocol
        self._negotiation, self._agreed = Negotiation(gateway.version), Agreed(0, 0, 0)
        self._channels: dict[int, Channel] = {}
        # Told to close, and not answered yet.
        self._closing: set[int] = set()
        self._gone = self._holds = self._draining = self._leaving = self.broker_ends = False
        self._blocked_word = BlockedWord(partial(self._say, 0), lambda: any_explains(self._channels.values()))
        # The client has said that it closes, or the broker ends; in so long it does, be all stored or not.
        self._leaves: asyncio.TimerHandle | None = None
        self._admission = Admission(host)
        self._behind = Behind(gateway.leaving, host.loop)
        self._unfinished = Unfinished(lambda channel: channel.unfinished)
        self._outgoing = Outgoing(self._send, self.soon, self._tell_writable)
        # What is under way; and of all channels, as each has told last.
        self._working = self._waiting = self._consumers = self.lines = 0
        self.names, self.receivers, self.held_back = Names(), Receivers(), gateway.held_back.of_connection()
        self.claims, self.departures, self.waiting_total = gateway.claims, gateway.departures, gateway.waiting
        self.pace = gateway.pace
        self.owner: LoopActorRef[Any] | None = None
        self.frame_max = 0
        self.capabilities: frozenset[str] = frozenset()

    # ConnectionHandler

    def event_received(self, event: Event, work: int) -> None:  # noqa: ARG002 - as `Served` has it
        """What the client says; errors end the connection, as of `Served.event_received`."""
        try:
            self._heard(event)
        except AmqpError as error:
            # Last words are told by the protocol, which has more to say than a code and a text.
            self._protocol.error = error
            raise

    def _heard(self, event: Event) -> None:
        if type(event) is Published or type(event) is Settled:
            channel = self._channels[event.channel]
            self._guarded(channel, channel.published if type(event) is Published else channel.settled, event)
        elif type(event) is MethodReceived:
            self._method(event.channel, event.method)
        elif type(event) is Refused:
            self._channels[event.channel].end_with(event.error)
        elif type(event) is ProtocolHeader:
            certificate = None if self.connection is None else self.connection.certificate
            self._say(0, self._negotiation.start(external=bool(certificate)))

    async def facts(self) -> Facts:
        """As `Served.facts`."""
        running = self._negotiation.state is State.RUNNING
        return await facts_of(self._negotiation.client, self.names if running else None, self._channels)

    def writable_changed(self, writable: bool) -> None:
        """Back-pressure from the socket reaches the consumers, and what is written in slices."""
        self._outgoing.writable_changed(writable)
        self._tell_writable()

    def _tell_writable(self) -> None:
        for receiving in all_consuming(self._channels.values()):
            receiving.writable_changed(self._outgoing.is_free)
        if self._draining or self._leaving:
            self.soon(self._settle)

    def drain(self) -> None:
        """Take nothing more; end when all that was published is stored and told."""
        if self._negotiation.state is not State.RUNNING:
            super().drain()
            return
        self._draining = self.broker_ends = True
        for receiving in all_consuming(self._channels.values()):
            receiving.stop()
        if self._leaves is not None:
            self._leaves.cancel()
        self._leaves = self._host.loop.call_later(ROOM_SECONDS, self._wait_no_more)
        self._settle()

    def _wait_no_more(self) -> None:
        """The broker ends, and a queue is full: what waits for its room is not stored, and nobody was told that it is."""
        for channel in list(self._channels.values()):
            channel.wait_no_more()
        self._settle()

    def connection_ending(self, error: Exception | None) -> None:
        """What its channels hold goes back at once."""
        super().connection_ending(error)
        self.broker_ends = self.broker_ends or self._connections.ending
        self._admission.stop()
        if self._leaves is not None:
            self._leaves.cancel()
        self._outgoing.end()
        self._blocked_word.end()
        if not self._gone:
            self._gone = True
            self.waiting_total.bytes -= self._waiting
            self._leave_behind(*self._channels.values())
            self._channels.clear()
            self._unfinished.forget()
        if self._connections.ending:
            self.departures.hurry()
        if self.owner is not None:
            self.owner.stop_nowait()

    def connection_closed(self, error: Exception | None) -> None:
        """Forget the connection; the log says why where the client broke a rule."""
        if self.connection is not None and self.is_news(error):
            logger.warning("the connection of AMQP from %s ends: %s", self.connection.peer, error)
        super().connection_closed(error)

    # Link: what channels ask for

    def own(self) -> LoopActorRef[Any]:
        """As `channel_port.Link.own`."""
        if self.owner is None:
            self.owner = Owner.of(gone=self._gone)
        return self.owner

    def say(self, channel: int, method: Method) -> None:
        """As `channel_port.Link.say`."""
        self._say(channel, method)

    def write(self, parts: Sequence[Part], size: int = 0, *, returned: bool = False) -> None:
        """As `channel_port.Link.write`."""
        if returned:
            self._protocol.gave_back()
        if size > LARGE_BYTES or self._outgoing.waiting:
            self._outgoing.put(parts)
        elif self.connection is not None:
            self.connection.send(Written(parts))

    def window(self) -> int:
        """As `channel.Link.window`: less for each one more, so that all together have little more than the first."""
        return max(1, WINDOW_BYTES // (self._consumers + 1))

    def soon(self, work: Callable[[], None]) -> None:
        """As `channel_port.Link.soon`."""
        self._host.loop.call_soon(work)

    def run(self, channel: ChannelPort, method: Method, work: Coroutine[None, None, Method | None]) -> None:
        """As `channel_port.Link.run`."""
        self.begin_work()
        self.operations.tasks.start(self._carried_out(channel, method.INDEX, work), f"amqp {method.NAME}")

    def channel_failed(self, channel: ChannelPort, error: AmqpError) -> None:
        """As `channel_port.Link.channel_failed`."""
        if self._channels.get(channel.number) is not channel:
            return
        if error.closes_connection:
            self.end(error)
        else:
            self._close_channel(self._channels[channel.number], error)

    def channel_closed(self, channel: ChannelPort) -> None:
        """As `channel_port.Link.channel_closed`."""
        self._channels.pop(channel.number, None)
        self.waiting_changed(channel)

    def waiting_changed(self, channel: ChannelPort) -> None:
        """As `channel_port.Link.waiting_changed`. There may be thousands of channels: nobody looks at all of them for one."""
        before, now = channel.counted, channel.counts()
        if now == before and not (self._holds or self._leaving or self._behind.remains):
            return  # It is read on. Of one that is not, a queue may have a reason by now.
        channel.counted = now
        self._waiting += now.bytes - before.bytes
        self.waiting_total.bytes += 0 if self._gone else now.bytes - before.bytes
        self._consumers += now.consumers - before.consumers
        self._behind.look(channel)
        self._settle()

    def _settle(self) -> None:
        """Read on or not, as much as waits; and say whether the client is blocked."""
        if self._gone:
            return
        most = MOST_WAITING_CONSUMING if self._consumers else MOST_WAITING_BYTES
        # Of who leaves nothing more is heard, but that it is gone.
        full = self._waiting > most
        self._hold(not self._leaving and (full or self._working > 0 or self._draining))
        self._blocked_word.settle(full, wanted="connection.blocked" in self.capabilities)
        if self._draining or self._leaving:
            self._settle_end()

    def blocked(self, reason: str | None) -> None:
        """As `channel_port.Link.blocked`."""
        self._blocked_word.explained(reason)

    # Inside

    def _method(self, number: int, method: Method) -> None:
        if number == 0:
            self._of_connection(method)
            return
        self._negotiation.expect(State.RUNNING, method.INDEX)
        channel = self._channels.get(number)
        if channel is not None:
            self._guarded(channel, channel.method, method)
        elif number in self._closing:
            self._of_closing(number, method)
        elif isinstance(method, methods.ChannelOpen):
            self._open_channel(number, method)
        else:
            raise AmqpError(ReplyCode.CHANNEL_ERROR, "expected 'channel.open'", method.INDEX, number)

    def _guarded(self, channel: Channel, work: Callable[[Any], None], argument: Any) -> None:
        """Have a channel do something; what it raises ends it, or the connection."""
        try:
            work(argument)
        except AmqpError as error:
            if error.closes_connection:
                raise
            self._close_channel(channel, error)

    def _open_channel(self, number: int, method: methods.ChannelOpen) -> None:
        most = self._agreed.channel_max
        if len(self._channels) + len(self._closing) >= most or number > most:
            text = f"number of channels opened ({len(self._channels)}) has reached the negotiated channel_max ({most})"
            raise AmqpError(ReplyCode.NOT_ALLOWED, text, method.INDEX)
        self._channels[number] = Channel(self, number)
        self._say(number, methods.ChannelOpenOk())

    def _close_channel(self, channel: Channel, error: AmqpError) -> None:
        del self._channels[channel.number]
        self._closing.add(channel.number)
        self._protocol.frames.discard_channel(channel.number)
        channel.close(error)
        self._leave_behind(channel)
        self.waiting_changed(channel)

    def _leave_behind(self, *channels: Channel) -> None:
        """What these have published is stored all the same, and they end."""
        self._behind.leave(channels, sum(channel.counts().bytes for channel in channels))

    def _of_closing(self, number: int, method: Method) -> None:
        """Of a channel that was told to close only its own close and the answer to ours are looked at."""
        if isinstance(method, methods.ChannelClose):
            self._say(number, methods.ChannelCloseOk())
        elif isinstance(method, methods.ChannelCloseOk):
            self._closing.discard(number)

    def _of_connection(self, method: Method) -> None:
        """A method of the connection itself."""
        if isinstance(method, methods.ConnectionClose):
            self._leave()
        elif isinstance(method, methods.ConnectionStartOk):
            self._prove(method)
        elif isinstance(method, methods.ConnectionTuneOk):
            self._agreed = self._negotiation.tuned(method)
        elif isinstance(method, methods.ConnectionOpen):
            self._open(method)
        elif isinstance(method, methods.ConnectionUpdateSecret):
            self._negotiation.expect(State.RUNNING, method.INDEX)
            self._renew(method)
        else:
            text = f"unexpected method in connection state {self._negotiation.state.value}"
            raise AmqpError(ReplyCode.CHANNEL_ERROR, text, method.INDEX)

    def _leave(self) -> None:
        """The client has no more to say: what it has published is stored before it hears that it may go."""
        if self._leaving:
            return
        self._leaving = True
        self._protocol.frames.discard_all()
        for receiving in all_consuming(self._channels.values()):
            receiving.stop()
        self._leaves = self._host.loop.call_later(LEAVE_SECONDS, self._left)
        self._settle()

    def _left(self) -> None:
        if self.connection is not None:
            self._say(0, methods.ConnectionCloseOk())
            self.connection.close()

    def _prove(self, method: methods.ConnectionStartOk) -> None:
        proof = self._negotiation.proof(method)
        self.capabilities = self._negotiation.client.capabilities
        self.client_id = self._negotiation.client.name or None
        self._admission.judge(self, proof, self._let_in, self._turn_away)

    def _turn_away(self) -> None:
        """Who wants to be told why is told; others see the end of the connection, as with RabbitMQ."""
        error = self._negotiation.refused()
        if "authentication_failure_close" in self.capabilities:
            self.end(error)
        elif self.connection is not None:
            self.connection.abort(AuthenticationError(str(error)))

    def _let_in(self, principal: Principal) -> None:
        if self.connection is None:
            return
        self.opened()
        self.operations = self._host.operations(principal)
        self.operations.peer = self.connection.peer
        self.operations.number = self.number
        self._say(0, self._negotiation.tune())

    def _open(self, method: methods.ConnectionOpen) -> None:
        self._negotiation.expect(State.OPENING, method.INDEX)
        if self._host.entrance.bars(self):
            return
        self.names = entered(self._gateway.virtual_hosts, method.virtual_host, self.operations)
        self._negotiation.state = State.RUNNING
        self.frame_max = self._agreed.frame_max
        self._protocol.opened(self._agreed.frame_max, self._agreed.heartbeat)
        self._say(0, methods.ConnectionOpenOk())

    def _renew(self, method: methods.ConnectionUpdateSecret) -> None:
        """A new password of the same user, who has its rights by that from then on."""
        proof = Password(self.operations.principal.name, method.new_secret.decode("utf-8", "replace"))
        self._admission.judge(self, proof, self._renewed, self._not_renewed)

    def _renewed(self, principal: Principal) -> None:
        if self.operations.renew(principal):
            self._say(0, methods.ConnectionUpdateSecretOk())
        else:
            self.end(AmqpError(ReplyCode.ACCESS_REFUSED, SHRUNK))

    def _not_renewed(self) -> None:
        text = "New secret was refused by one of the backends"
        self.end(AmqpError(ReplyCode.NOT_ALLOWED, text, methods.ConnectionUpdateSecret.INDEX))

    async def _carried_out(self, channel: ChannelPort, index: int, work: Coroutine[None, None, Method | None]) -> None:
        error: AmqpError | None = None
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await work
            if answer is not None and self._channels.get(channel.number) is channel:
                channel.say(answer)
        except AmqpError as refused:
            error = refused.about(index, channel.number)
        except TROUBLES as refused:
            error = refusal_of(refused, self.names, index, channel.number)
        except Exception as defect:  # noqa: BLE001 - a defect of ours ends this connection only
            if self.connection is not None:
                self.connection.fail(defect)
        if error is not None:
            self.channel_failed(channel, error)
        channel.carried_out()
        self.end_work()

    def begin_work(self) -> None:
        """As `admission.Applicant.begin_work`."""
        self._working += 1
        self._settle()

    def end_work(self) -> None:
        """As `admission.Applicant.end_work`."""
        self._working -= 1
        self._settle()

    def _hold(self, holds: bool) -> None:
        if holds is self._holds or self.connection is None:
            return
        self._holds = holds
        (self.connection.pause_reading if holds else self.connection.resume_reading)()

    def _settle_end(self) -> None:
        """End, as the client or the broker wants it, once all is done that was said, and stored and told."""
        if self._working or self._outgoing.waiting or self._unfinished.among(self._channels.values()):
            return
        if self._leaving:
            self._left()
        else:
            self.refused(*SHUTTING_DOWN)

    def end(self, error: AmqpError) -> None:
        """End the connection, and tell why."""
        self._protocol.error = error
        if self.connection is not None:
            self.connection.fail(error)

    def _say(self, channel: int, method: Method) -> None:
        if channel and self._outgoing.waiting:
            # Of the connection itself nothing waits: that may stand between any two frames.
            self._outgoing.put([method_frame(channel, method)])
        elif self.connection is not None:
            self.connection.send(Said(channel, method))

    def _send(self, parts: Sequence[Part]) -> None:
        if self.connection is not None:
            self.connection.send(Written(parts))
