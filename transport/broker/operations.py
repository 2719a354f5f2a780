"""The door: everything that anybody may have a broker do, for whoever asks, over whatever protocol.

A connection has an `Operations` of the one who asks, and sees nothing else of the broker. It starts the actors that send and receive, and
runs the commands; each is a row of `OPERATIONS`, which says what right it takes. The right of a role is looked at when it attaches and
that of a command when it runs; a message asks for none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from actors import (
    LoopActorRef,
    QueueError,
    QueueSettings,
    ReceiveFromQueuePublisher,
    SendToQueueSubscriber,
    StageKey,
    SubscriptionOptions,
    SubscriptionPublisher,
)
from actors.limits import NO_DEADLINE
from actors.queue.exchange_sender import ExchangeSender
from actors.storage import MemoryMap
from transport.broker import audit, exchange_commands
from transport.broker.declarations import EXCHANGE, MADE_BY, Declarations
from transport.broker.operation_rows import DEFAULT_EXCHANGE_RESOURCE as DEFAULT_EXCHANGE_RESOURCE  # noqa: PLC0414 - the door gives it
from transport.broker.operation_rows import OPERATIONS as OPERATIONS  # noqa: PLC0414 - as above
from transport.broker.operation_rows import exchange_resource
from transport.broker.port import Tasks
from transport.broker.publishers import Publisher
from transport.broker.services import Receiving as Receiving  # noqa: PLC0414 - the door gives it
from transport.broker.services import Services as Services  # noqa: PLC0414 - as above
from transport.broker.services import Subscribing as Subscribing  # noqa: PLC0414 - as above
from transport.broker.takers import Taker
from transport.broker.transaction import Transaction
from transport.errors import RemoteProtocolError
from transport.security.principal import Principal, Proof, Right
from transport.wire.arguments import CHECK, check_known, string_of
from transport.wire.exchange_named import PublishesTo
from transport.wire.messages import Options
from transport.wire.names import check_name

if TYPE_CHECKING:
    from actors.queue.connection_actor import Port
    from actors.queue.passing_transactions import PassingTransaction
    from actors.queue.subscription_publisher import SubscriptionPort
    from actors.queue.vocabulary.needed import Needed
    from transport.broker.asked_to_publish import Piece
    from transport.broker.exchange_requests import Outcome
    from transport.picture.metrics import Metrics
    from transport.picture.view import View
    from transport.wire.receiver_bindings import Binding

Ref = LoopActorRef[Any]


WRITER: Final = "the writer "
MAKES: Final = "makes, as {}, the queue"
"""What it is in the log that a queue is made by being used: the operation, and in words."""
BINDS: Final = "binding.create"
UNBINDS: Final = "binding.delete"
COMMANDS: Final = tuple(sorted(name for name, operation in OPERATIONS.items() if operation.handler is not None))


class Operations(Declarations):
    """What one principal may have the broker do.

    Every method raises ForbiddenError where the right is missing. The answer is the same whether the queue is there or not.
    """

    __slots__ = ("_moves", "number")

    def __init__(self, services: Services, principal: Principal) -> None:
        super().__init__(services, principal)
        # On which connection, if on one.
        self.number: int | None = None
        # The move that was told of last: what goes on with it is told no more.
        self._moves: tuple[str | None, str] | None = None

    @property
    def arrival(self) -> int:
        """The connection's number, in the order in which the broker accepted them; 0 for none."""
        return self.number or 0

    @property
    def durable(self) -> bool:
        """Whether the broker has a journal: what it was told outlives its end, but for transient queues."""
        return not isinstance(self._services.memory, MemoryMap)

    @property
    def tasks(self) -> Tasks:
        """Work that outlives the connection that asked for it."""
        return self._services.tasks

    def sender(
        self,
        queue: str,
        port: Port,
        producer: str | None,
        stage: StageKey | None = None,
        *,
        temporary: bool = False,
        settings: QueueSettings | None = None,
        make: bool = True,
    ) -> Ref:
        """Attach what sends to ``queue``; ``port`` is told the queue's replies.

        Args:
            queue: its name; it is made where there is none.
            port: the way back.
            producer: who sends, where the queue is to remember what it has of them.
            stage: under which it is stored until a transaction's end, if any; that takes the right to write as its writer too.
            temporary: whether the producer is forgotten with the connection.
            settings: what it is made with; the broker's for queues that are not declared otherwise by default.
            make: whether one is made where there is none.

        Raises:
            QueueNotFoundError: there is no such queue, and none is to be made.
        """
        if stage is not None:
            self._attach(Right.WRITE, stage.writer, "sender", WRITER)
        found = self._queue("sender", queue, make=make, settings=settings)
        return SendToQueueSubscriber.start(found, producer, port, stage, temporary, self.arrival)

    def exchange_sender(
        self,
        to: PublishesTo,
        port: Port,
        producer: str | None,
        stage: StageKey | None = None,
        *,
        temporary: bool = False,
        needed: Needed | None = None,
        within: str = "",
        in_parts: bool = False,
    ) -> Ref:
        """Attach what publishes to an exchange; ``port``, ``producer``, ``stage`` and ``temporary`` are as of `sender`.

        That the exchange is not there, or takes nothing from outside, its port is told. With ``needed`` it has room for that alone. The
        default exchange leads to the queue whose name is ``within`` and the routing key, and with ``within`` it is a resource for itself.
        A stage of a `passing_transaction` takes no right of its own. With
        ``in_parts`` its client sends again in parts what a queue rejects.
        """
        if stage is not None and not stage.passing:
            self._attach(Right.WRITE, stage.writer, "sender", WRITER)
        resource = to.exchange or within + DEFAULT_EXCHANGE_RESOURCE
        self._attach(Right.WRITE, resource, "sender", EXCHANGE)
        return ExchangeSender.start(
            self._services.queues.exchanges.publishing,
            to.exchange,
            to.routing_key,
            producer,
            port,
            stage=stage,
            temporary=temporary,
            mandatory=to.mandatory,
            needed=needed,
            within=within,
            in_parts=in_parts,
            arrival=self.arrival,
        )

    def has_levels(self) -> bool:
        """Whether some queue has levels, or had: if none, priorities make no difference."""
        return self._services.queues.has_levels

    def receiver(
        self,
        queue: str,
        port: Port,
        *,
        settings: QueueSettings | None = None,
        make: bool = True,
        deadline: bool = True,
        priority: int = 0,
    ) -> Receiving:
        """Attach what receives from ``queue``, with ``settings`` and ``make`` as of `sender`, and its error.

        Without ``deadline`` it has no visibility timeout: what it gets it holds until it answers, or ends. It has messages before those of
        a lower ``priority``.
        """
        found = self._queue("receiver", queue, make=make, settings=settings)
        # Of the queue that is there now: when it answers, another may have its name, or none.
        visibility_timeout = self._services.queues.settings_of(queue).visibility_timeout if deadline else NO_DEADLINE
        id_prefix = self._services.id_prefix(queue)
        actor = ReceiveFromQueuePublisher.start(found, port, visibility_timeout, priority)
        return Receiving(actor, visibility_timeout, id_prefix, self._services.queues.number_of(queue))

    def own_receiver(self, port: Port, bindings: Iterable[Binding], *, deadline: bool = True) -> tuple[str, Receiving]:
        """Attach what receives from a queue of its own, which is gone with it; its name, and as of `receiver`.

        It is to be bound to these exchanges, by `bind`: to read them is all the right that it takes.
        """
        for exchange, _, _ in bindings:
            self._attach(Right.READ, exchange_resource(exchange), "receiver", EXCHANGE)
        queues = self._services.queues
        name = queues.owned.declare(queues.settings)
        timeout = queues.settings_of(name).visibility_timeout if deadline else NO_DEADLINE
        prefix = self._services.id_prefix(name)
        try:
            actor = ReceiveFromQueuePublisher.start(queues.get(name), port, timeout)
            queues.owned.give(name, actor)
        except BaseException:
            queues.delete(name)
            raise
        return name, Receiving(actor, timeout, prefix, queues.number_of(name))

    async def bind(self, queue: str, bindings: Iterable[Binding]) -> None:
        """Bind the queue of a receiver to exchanges, with the rights and the errors of ``binding.create``; returns when it is durable.

        A queue of the receiver's own takes no right.
        """
        own = self._services.queues.owned.owner_of(queue) is not None
        for exchange, key, arguments in bindings:
            said: Options = {"source": exchange, "destination": queue, "key": key}
            if arguments:
                said["arguments"] = json.dumps(dict(arguments))
            if own:
                await self._services.commands.run(exchange_commands.binding_create, said, long=False)
            else:
                # Each time a receiver comes again it asks for what is there.
                await self.command("binding.create", said, changes=not self._is_bound(exchange, queue, key, arguments))

    async def bind_only(self, queue: str, bindings: Sequence[Binding]) -> None:
        """`bind`, and the queue has no other bindings of these exchanges from then on."""
        for exchange, _, _ in bindings:
            self._check(BINDS, exchange)
            self._need(Right.WRITE, exchange_resource(queue), BINDS)
        said = [(source, key, dict(arguments) if arguments else None) for source, key, arguments in bindings]
        new = [each for each in bindings if not self._is_bound(each.exchange, queue, each.key, each.arguments)]
        try:
            gone = await exchange_commands.bind_only(self._services.commands, queue, said)
        except Exception as error:
            audit.not_done(self.principal.name, BINDS, bindings[0].exchange, self.peer, f"{BINDS} {queue} of", error)
            raise
        done = [(BINDS, each.exchange, each.key) for each in new]
        done += [(UNBINDS, each.source, each.key) for each in gone]
        for what, exchange, key in done:
            audit.allowed(self.principal.name, what, exchange, self.peer, f"{what} {queue} {key} of")

    def taker(self, gateway: str, queue: str) -> Taker:
        """What takes messages of ``queue`` by request, for the clients of a gateway together. To be asked at once, and not kept.

        Raises:
            QueueNotFoundError: there is no such queue, and none is made.
        """
        self._attach(Right.READ, check_name(queue), "receiver")
        self._check_not_owned(queue)
        services = self._services
        return services.takers.of(gateway, services.queues.get(queue), queue, services.id_prefix(queue))

    def publisher(self, gateway: str, queue: str, *, make: bool = True) -> Publisher:
        """What sends to ``queue`` by request, for the clients of a gateway together; ``make`` as of `sender`. As `taker`, not to be kept.

        Raises:
            QueueNotFoundError: there is no such queue, and none is to be made.
        """
        self._attach(Right.WRITE, check_name(queue), "sender")
        return self._services.publishers.of(gateway, self._made("sender", queue, make, None), queue)

    def may_publish(self, queue: str) -> None:
        """Refuse who may not write to ``queue``, before anything is made for them."""
        self._need(Right.WRITE, check_name(queue), "sender")

    async def publish(self, to: PublishesTo, pieces: Sequence[Piece], wait: float) -> Outcome:
        """Publish to an exchange by request, for a client of a gateway: `ExchangeRequests.publish`, with its errors."""
        services = self._services
        by_headers = services.queues.exchanges.exchanges.reached(to.exchange).by_headers
        return await services.publishers.to_exchanges.publish(
            lambda port, needed: self.exchange_sender(to, port, None, needed=needed),
            pieces,
            to.routing_key or "",
            wait,
            by_headers=by_headers,
        )

    def may_publish_to(self, exchange: str) -> None:
        """Refuse who may not publish to an exchange, before anything is read of what they publish."""
        self._need(Right.WRITE, exchange_resource(exchange), "sender", EXCHANGE)

    def subscription(self, queue: str, options: SubscriptionOptions, port: SubscriptionPort) -> Subscribing:
        """Attach a subscription to ``queue``, which is made where there is none and ``options`` let it.

        Raises:
            QueueNotFoundError: there is no such queue, and none is to be made.
        """
        created = queue not in self._services.queues
        found = self._queue("subscription", queue, make=options.may_make_queue)
        actor = SubscriptionPublisher.start(found, options, port, self.arrival)
        return Subscribing(actor, self._services.id_prefix(queue), created)

    def transaction(self, writer: str, version: int) -> Transaction:
        """The transaction of a writer and a version. A writer's name is a resource, as a queue's is."""
        self._attach(Right.WRITE, check_name(writer, "writer"), "transaction", WRITER)
        services = self._services
        return Transaction(
            services.queues.transactions,
            services.enlisted,
            writer,
            version,
            attach=lambda queue: self._attach(Right.WRITE, queue, "transaction"),
            release=lambda queues: self._attached.difference_update([(Right.WRITE, queue) for queue in queues]),
        )

    def passing_transaction(self) -> PassingTransaction:
        """A transaction that goes with the connection, which ends it.

        Who publishes in it, and who receives what it settles, has been let in for that: the commit takes no more rights.
        """
        return self._services.queues.passing.begin()

    def view(self) -> View:
        """What goes on in the broker, seen over and over: the command ``picture`` that goes on; to be closed.

        Raises:
            LimitExceededError: as many look as may.
        """
        # Whoever loses the right looks no more: the connection ends.
        self._attach(Right.MONITOR, None, "picture")
        return self._services.commands.view()

    def metrics(self) -> Metrics:
        """All figures as text, for whoever may run ``stats``. To be asked at once, and not kept."""
        self._check("stats")
        return self._services.commands.metrics

    def unready(self) -> tuple[str, str] | None:
        """Code and text of why the broker is not ready, which anybody may know; None while it is."""
        return self._services.commands.unready()

    async def command(self, name: str, arguments: Options, *, changes: bool = True) -> bytes:
        """Run a command; its answer, as JSON.

        Args:
            name: the command's.
            arguments: as they were said.
            changes: False where it will find all as it shall be: then the log of who did what is not told.

        Raises:
            RemoteProtocolError: an unknown command, or arguments of the wrong type.
            LimitExceededError: the answer does not fit a frame.
            QueueError: the queue's refusal.
        """
        operation = OPERATIONS.get(name)
        if operation is None or operation.handler is None:
            raise RemoteProtocolError(f"the command {name!r:.60} is unknown; there are {', '.join(COMMANDS)}")
        resource = None if operation.resource is None else string_of(arguments, operation.resource)
        self._check(name, resource)
        if operation.locked:
            self._check_not_owned(resource or "")
        if operation.takes is not None:
            check_known(arguments, operation.takes)
        for right, of in operation.also(self._services.queues, arguments):
            self._need(right, of, name)
            if right is Right.CONFIGURE and operation.right is not Right.CONFIGURE:
                audit.allowed(self.principal.name, MADE_BY, of, self.peer, MAKES.format(name))
        about = " ".join(str(arguments[each]) for each in operation.about if arguments.get(each) is not None)
        said = f"{name} {about}" + (" of" if resource else "") if about else name
        # What is only judged changes nothing, and a move that goes on was told of; a refusal is logged all the same.
        goes_on = arguments.get("after") is not None and self._moves == (resource, said)
        told = changes and operation.changes and arguments.get(CHECK) is not True and not goes_on
        if told:
            self._moves = (resource, said)
            audit.allowed(self.principal.name, name, resource, self.peer, said)
        handler = partial(operation.handler, asker=self) if operation.of_asker else operation.handler
        try:
            return await self._services.commands.run(handler, arguments, operation.long)
        except Exception as error:
            if told:
                audit.not_done(self.principal.name, name, resource, self.peer, said, error)
            raise

    def ended(self) -> None:
        """The connection is over: nothing is kept for whoever asked."""
        self._services.commands.backups.gone(self)

    def __str__(self) -> str:
        return f"{self.principal} from {self.peer}"

    # Inside

    def _queue(self, role: str, name: str, *, make: bool = True, settings: QueueSettings | None = None) -> Any:
        """The queue of that name, for a role that uses it; one that is not there takes the right to make it too."""
        right = OPERATIONS[role].right
        assert right is not None, "a role that uses a queue takes a right on it"
        if right is Right.READ:
            self._check_not_owned(name)
        self._attach(right, check_name(name), role)
        return self._made(role, name, make, settings)

    def _made(self, role: str, name: str, make: bool, settings: QueueSettings | None) -> Any:
        """The queue of that name, made if need be."""
        queues = self._services.queues
        if name in queues or not make:
            return queues.get(name)
        self._need(Right.CONFIGURE, name, role)
        made = queues.get_or_create(name) if settings is None else queues.declare(name, settings)
        if self.principal.proof is not Proof.NOT_ASKED:
            # Where nobody says who they are, a queue that is used for the first time is no news.
            audit.allowed(self.principal.name, MADE_BY, name, self.peer, MAKES.format(role))
        return made

    def _is_bound(self, exchange: str, queue: str, key: str, arguments: Mapping[str, Any] | None) -> bool:
        """Whether a queue is bound so already."""
        try:
            return not self._services.queues.exchanges.exchanges.decide.bind(exchange, queue, key, arguments)
        except QueueError:
            return False
