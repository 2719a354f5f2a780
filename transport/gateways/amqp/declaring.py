"""What one channel declares, binds and deletes: classes exchange and queue of AMQP 0-9-1. The texts of errors are RabbitMQ's.

Each method is a command of the broker, with its rights. What is there already is compared with what is declared: a queue,
or an exchange, is never made another by being declared again.
"""

from __future__ import annotations

import json
from collections.abc import Coroutine
from contextlib import suppress
from functools import partial
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any, Final

from actors.exchanges.delayed import is_waiting_queue
from actors.exchanges.errors import (
    BoundQueueNotFoundError,
    ExchangeExistsError,
    ExchangeInUseError,
    ExchangeNotFoundError,
)
from actors.exchanges.kinds import ALL_KINDS
from actors.exchanges.vocabulary import ALTERNATE
from actors.queue.directory_errors import QueueNotFoundError
from actors.queue.vocabulary.settings import QueueSettings
from transport.errors import ForbiddenError, TransportError
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.direct_reply import REPLY_TO, is_place
from transport.gateways.amqp.equivalence import DeclaredWith, check_queue, check_same, check_same_text
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.exchange_arguments import check_alternate, check_match
from transport.gateways.amqp.names import check_new, on_one_line
from transport.gateways.amqp.plain_tables import plain
from transport.gateways.amqp.queue_arguments import settings_of
from transport.gateways.amqp.redeclared import Redeclared, figures_at_once
from transport.gateways.amqp.reply_codes import ReplyCode

if TYPE_CHECKING:
    from actors.exchanges.vocabulary import Exchange
    from actors.queue.queue_figures import FoundQueue
    from transport.broker.operations import Operations
    from transport.gateways.amqp.channel_port import ChannelPort
    from transport.gateways.amqp.method import Method
    from transport.gateways.amqp.names import Names

    Binding = entity.QueueBind | entity.QueueUnbind | entity.ExchangeBind | entity.ExchangeUnbind

SERVER_NAMED: Final = "amq.gen-"
"""The beginning of names that the broker gives to queues that are declared without one."""


class Declaring:
    """One channel's.

    Args:
        channel: whose it is.
    """

    def __init__(self, channel: ChannelPort) -> None:
        self._channel = channel
        self._redeclared = Redeclared()

    @property
    def _operations(self) -> Operations:
        return self._channel.link.operations

    @property
    def _names(self) -> Names:
        return self._channel.names

    def check_published_to(self, exchange: str) -> None:
        """Whether messages can be published to an exchange.

        Raises:
            AmqpError: NOT_FOUND: there is none. ACCESS_REFUSED: it is internal.
        """
        if exchange and self._exchange(exchange).internal:
            text = f"cannot publish to internal {self._names.exchange_text(exchange)}"
            raise AmqpError(ReplyCode.ACCESS_REFUSED, text)

    def found(self, queue: str) -> FoundQueue:
        """A queue that is there, and is not another connection's.

        Raises:
            AmqpError: NOT_FOUND, or RESOURCE_LOCKED.
        """
        if not queue:
            raise self._no_queue(queue)
        try:
            found = self._operations.find_queue(self._names.queue(queue))
        except QueueNotFoundError:
            raise self._no_queue(queue) from None
        if found.owner is not None and found.owner is not self._channel.link.owner:
            raise self._locked(queue)
        return found

    # Queues.

    def declare_queue(self, method: entity.QueueDeclare) -> None:
        """A queue is to be there, or, passive, is looked for."""
        name = on_one_line(method.queue)
        if name.startswith(REPLY_TO):
            self._looked_for_replies(name, method)
            return
        if method.passive:
            self.found(name)
            self._operations.queue_used(self._names.queue(name))
            self._channel.last_queue = name
            if not self._answered_at_once(name, method):
                self._run(method, self._looked_for(name, method.nowait))
            return
        if not name:
            name = SERVER_NAMED + token_urlsafe(16)
        elif self._is_there(name, method):
            if self._answered_at_once(name, method):
                self._operations.queue_used(self._names.queue(name))
                self._channel.last_queue = name
                return
        else:
            check_new("queue", name)
            self._settings(name, method)
        self._channel.last_queue = name
        self._run(method, self._declared(name, method))

    def _answered_at_once(self, name: str, method: entity.QueueDeclare) -> bool:
        """Answer where the queue, which is there, has nothing to do: it would say what can be read. False where it is to be asked."""
        figures = figures_at_once(self._channel.link, self._names.queue(name))
        if figures is None:
            return False
        if not method.nowait:
            self._channel.say(entity.QueueDeclareOk(queue=name, message_count=figures[0], consumer_count=figures[1]))
        return True

    def _settings(self, name: str, method: entity.QueueDeclare) -> tuple[QueueSettings, dict[str, Any]]:
        """The settings that a declaration comes to, and those that it says; raises AmqpError, PRECONDITION_FAILED, where they cannot be."""
        said = settings_of(method.arguments, self._names.queue_text(name))
        if exchange := said.get("dead_letter_exchange"):
            said["dead_letter_exchange"] = self._names.exchange(exchange)
        if queue := said.get("dead_letter_queue"):
            if is_waiting_queue(queue):
                text = f"{self._names.queue_text(name)}: the queue '{queue}' is the broker's own, and takes no dead letters"
                raise AmqpError(ReplyCode.PRECONDITION_FAILED, text)
            said["dead_letter_queue"] = self._names.queue(queue)
        try:
            # Nothing is said of these in AMQP.
            said_or_not = self._operations.staged_limits | said
            return QueueSettings(**said_or_not, durable=method.durable and not method.exclusive), said
        except ValueError as error:
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, f"{self._names.queue_text(name)}: {error}") from None

    def _looked_for_replies(self, name: str, method: entity.QueueDeclare) -> None:
        """Whoever answers may look whether direct replies are still heard: if they are, it is by one consumer.

        The name that stands for all of them is always there: clients look for it to know whether a broker has them.
        """
        try:
            if name != REPLY_TO:
                self._operations.find_queue(self._names.queue(name))
        except QueueNotFoundError:
            raise self._no_queue(name) from None
        self._channel.last_queue = name
        answer = entity.QueueDeclareOk(queue=name, message_count=0, consumer_count=1)
        self._channel.answer(method.nowait, answer)

    def _is_there(self, name: str, method: entity.QueueDeclare) -> bool:
        """Whether there is such a queue; raises AmqpError where it is another, or another connection's."""
        try:
            there = self._operations.find_queue(self._names.queue(name))
        except QueueNotFoundError:
            return False
        owner = self._channel.link.owner if method.exclusive else None
        if there.owner is not owner or (method.exclusive and there.owner is None):
            raise self._locked(name)
        if self._redeclared.knows(name, method, there):
            return True
        declared = DeclaredWith(method.auto_delete, method.arguments)
        durable = method.durable and not method.exclusive
        wanted = partial(self._settings, name, method)
        check_queue(there, declared, durable, wanted, self._names.queue_text(name), self._names.shown_name)
        self._redeclared.remember(name, method, there)
        return True

    async def _declared(self, name: str, method: entity.QueueDeclare) -> Method | None:
        known = self._names.queue(name)
        if self._is_there(name, method):
            self._operations.queue_used(known)
        else:
            settings, _ = self._settings(name, method)
            kept = DeclaredWith(method.auto_delete, method.arguments).kept()
            if method.exclusive:
                self._operations.declare_own(known, settings, kept, self._channel.link.own())
            else:
                await self._operations.declare_queue(known, settings, kept)
        return await self._looked_for(name, method.nowait)

    async def _looked_for(self, name: str, nowait: bool) -> Method | None:
        if nowait:
            return None
        ready, consumers = await self._figures(name)
        return entity.QueueDeclareOk(queue=name, message_count=ready, consumer_count=consumers)

    async def _figures(self, name: str) -> tuple[int, int]:
        """Messages that are ready and consumers, behind all that the queue was told before."""
        known = self._names.queue(name)
        try:
            ready, receivers = await self._operations.figures(known)
        except QueueNotFoundError:
            raise self._no_queue(name) from None
        return ready, max(0, receivers - self._channel.link.claims.getters[known])

    def purge_queue(self, method: entity.QueuePurge) -> None:
        """Drop the messages that are ready."""
        name = self._channel.queue_named(on_one_line(method.queue))
        self.found(name)
        self._run(method, self._purged(name))

    async def _purged(self, name: str) -> Method:
        return entity.QueuePurgeOk(
            message_count=(await self._do("queue.purge", {"name": self._names.queue(name)}))["purged"]
        )

    def delete_queue(self, method: entity.QueueDelete) -> None:
        """A queue is to be gone; one that is not there is, as RabbitMQ has it."""
        name = self._channel.queue_named(on_one_line(method.queue))
        try:
            self.found(name)
        except AmqpError as error:
            if error.reply_code is not ReplyCode.NOT_FOUND:
                raise
            self._channel.answer(method.nowait, entity.QueueDeleteOk(message_count=0))
            return
        self._run(method, self._deleted(name, method))

    async def _deleted(self, name: str, method: entity.QueueDelete) -> Method | None:
        ready, consumers = await self._figures(name)
        if method.if_unused and consumers:
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, f"{self._names.queue_text(name)} in use")
        if method.if_empty and ready:
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, f"{self._names.queue_text(name)} not empty")
        with suppress(QueueNotFoundError):
            await self._do("queue.delete", {"name": self._names.queue(name)})
        return None if method.nowait else entity.QueueDeleteOk(message_count=ready)

    # Exchanges.

    def declare_exchange(self, method: entity.ExchangeDeclare) -> None:
        """An exchange is to be there, or, passive, is looked for."""
        name = on_one_line(method.exchange)
        self._check_not_default(name)
        if method.passive:
            self._exchange(name)
            self._channel.answer(method.nowait, entity.ExchangeDeclareOk())
            return
        if method.type not in ALL_KINDS:
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, f"unknown exchange type '{method.type}'")
        there = self._operations.exchange(self._names.exchange(name))
        if there is None:
            check_new("exchange", name)
        check_alternate(method, there, self._names)
        arguments = plain(method.arguments)
        alternate = arguments.get(ALTERNATE)
        if isinstance(alternate, str):
            arguments[ALTERNATE] = self._names.exchange(alternate)
        said = {
            "name": self._names.exchange(name),
            "kind": method.type,
            "durable": method.durable,
            "auto_delete": method.auto_delete,
            "internal": method.internal,
            "arguments": json.dumps(arguments),
        }
        self._run(method, self._exchange_declared(name, said))

    async def _exchange_declared(self, name: str, said: dict[str, Any]) -> Method:
        try:
            await self._do("exchange.create", said)
        except ExchangeExistsError as error:
            field = {"kind": "type"}.get(error.field, error.field)
            text = self._names.exchange_text(name)
            if field == ALTERNATE:
                check_same_text(field, self._shown(error.present), self._shown(error.declared), text)
            check_same(field, error.present, error.declared, text)
            raise
        return entity.ExchangeDeclareOk()

    def delete_exchange(self, method: entity.ExchangeDelete) -> None:
        """An exchange is to be gone; one that is not there is, as RabbitMQ has it."""
        name = on_one_line(method.exchange)
        self._check_not_default(name)
        if name.startswith("amq."):
            text = f"deletion of system {self._names.exchange_text(name)} not allowed"
            raise AmqpError(ReplyCode.ACCESS_REFUSED, text)
        if self._operations.exchange(self._names.exchange(name)) is None:
            self._channel.answer(method.nowait, entity.ExchangeDeleteOk())
            return
        said = {"name": self._names.exchange(name), "if_unused": method.if_unused}
        self._run(method, self._exchange_deleted(name, said))

    async def _exchange_deleted(self, name: str, said: dict[str, Any]) -> Method:
        try:
            with suppress(ExchangeNotFoundError):
                await self._do("exchange.delete", said)
        except ExchangeInUseError:
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, f"{self._names.exchange_text(name)} in use") from None
        return entity.ExchangeDeleteOk()

    # Bindings.

    def bind_queue(self, method: entity.QueueBind) -> None:
        """What matches is to go from an exchange to a queue."""
        self._bind_queue(method, "binding.create", entity.QueueBindOk())

    def unbind_queue(self, method: entity.QueueUnbind) -> None:
        """It is to go there no more."""
        self._bind_queue(method, "binding.delete", entity.QueueUnbindOk())

    def _bind_queue(self, method: entity.QueueBind | entity.QueueUnbind, command: str, answer: Method) -> None:
        name = self._channel.queue_named(on_one_line(method.queue))
        if is_place(name):
            text = "cannot bind or unbind to a volatile (direct reply-to) queue"
            raise AmqpError(ReplyCode.ACCESS_REFUSED, text)
        key = method.routing_key or (name if not method.queue else "")
        self._check_not_default(method.exchange)
        try:
            self._find_ends(method.exchange, name)
        except AmqpError as error:
            self._not_bound(method, answer, error)
            return
        self._check_match(method.exchange, method)
        said = {
            "source": self._names.exchange(method.exchange),
            "destination": self._names.queue(name),
            "key": key,
            "arguments": json.dumps(plain(method.arguments)),
        }
        self._run(method, self._bound(method.exchange, name, command, said, answer))

    def _find_ends(self, exchange: str, queue: str) -> None:
        """Both are there. As RabbitMQ has it rights on the queue come first, then the exchange, then the queue itself."""
        missing: AmqpError | TransportError | None = None
        try:
            self.found(queue)
        except ForbiddenError:
            raise
        except (AmqpError, TransportError) as error:
            missing = error
        try:
            self._exchange(exchange)
        except ForbiddenError as error:
            # Of a binding it is the right to read from the exchange.
            error.right = error.right or "read"
            raise
        if missing is not None:
            raise missing

    def _check_match(self, source: str, method: Binding) -> None:
        binds = isinstance(method, entity.QueueBind | entity.ExchangeBind)
        if binds and method.arguments.entries and self._exchange(source).inner_kind == "headers":
            check_match(method.arguments)

    def _not_bound(self, method: Binding, answer: Method, error: AmqpError) -> None:
        """One end of a binding is not there: what is to be unbound is, and the rest is an error."""
        if error.reply_code is not ReplyCode.NOT_FOUND or not isinstance(
            method, entity.QueueUnbind | entity.ExchangeUnbind
        ):
            raise error
        self._channel.answer(getattr(method, "nowait", False), answer)

    def bind_exchange(self, method: entity.ExchangeBind) -> None:
        """What matches is to go from one exchange to another."""
        self._bind_exchange(method, "binding.create", entity.ExchangeBindOk())

    def unbind_exchange(self, method: entity.ExchangeUnbind) -> None:
        """It is to go there no more."""
        self._bind_exchange(method, "binding.delete", entity.ExchangeUnbindOk())

    def _bind_exchange(self, method: entity.ExchangeBind | entity.ExchangeUnbind, command: str, answer: Method) -> None:
        for name in (method.source, method.destination):
            self._check_not_default(name)
        try:
            self._exchange(method.source)
            self._exchange(method.destination)
        except AmqpError as error:
            self._not_bound(method, answer, error)
            return
        self._check_match(method.source, method)
        said = {
            "source": self._names.exchange(method.source),
            "destination": self._names.exchange(method.destination),
            "key": method.routing_key,
            "arguments": json.dumps(plain(method.arguments)),
            "to_exchange": True,
        }
        self._run(method, self._bound(method.source, method.destination, command, said, answer))

    async def _bound(self, source: str, destination: str, command: str, said: dict[str, Any], answer: Method) -> Method:
        try:
            await self._do(command, said)
        except ExchangeNotFoundError as error:
            known = self._names.exchange(destination) if "to_exchange" in said else None
            raise self._no_exchange(destination if error.exchange == known else source) from None
        except BoundQueueNotFoundError:
            raise self._no_queue(destination) from None
        return answer

    # Inside

    def _run(self, method: Method, work: Coroutine[None, None, Method | None]) -> None:
        """Have a command carried out; its answer is written where the client waits for one."""
        self._channel.run(method, _said(work, getattr(method, "nowait", False)))

    async def _do(self, command: str, arguments: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(await self._operations.command(command, arguments))
        return answer

    def _exchange(self, name: str) -> Exchange:
        found = self._operations.exchange(self._names.exchange(name))
        if found is None:
            raise self._no_exchange(name)
        return found

    def _shown(self, alternate: object) -> str | None:
        """What an alternate exchange is called here; None for none."""
        return self._names.shown_name(alternate) if isinstance(alternate, str) else None

    def _check_not_default(self, name: str) -> None:
        if not name:
            raise AmqpError(ReplyCode.ACCESS_REFUSED, "operation not permitted on the default exchange")

    def _locked(self, queue: str) -> AmqpError:
        text = (
            f"cannot obtain exclusive access to locked {self._names.queue_text(queue)}. It could be originally declared on another "
            "connection or the exclusive property value does not match that of the original declaration."
        )
        return AmqpError(ReplyCode.RESOURCE_LOCKED, text)

    def _no_exchange(self, name: str) -> AmqpError:
        return AmqpError(ReplyCode.NOT_FOUND, f"no {self._names.exchange_text(name)}")

    def _no_queue(self, name: str) -> AmqpError:
        return AmqpError(ReplyCode.NOT_FOUND, f"no {self._names.queue_text(name)}")


async def _said(work: Coroutine[None, None, Method | None], nowait: bool) -> Method | None:
    answer = await work
    return None if nowait else answer
