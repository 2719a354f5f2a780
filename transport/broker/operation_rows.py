"""What there is to be done at a broker: what a connection attaches as, and the commands, each with the right that it takes.

The door (``operations.py``) asks for these rights, and nobody else does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, NamedTuple

from actors import QueueDirectory
from actors.queue.vocabulary.settings import QueueSettings, dead_letter_name
from transport.broker import cluster_commands, exchange_commands, schedule_commands
from transport.broker.commands import Commands, lists
from transport.broker.exchange_commands import alternate_of
from transport.broker.listings import connection_rows, subscription_rows, transaction_rows, user_rows
from transport.security.principal import Right
from transport.wire.arguments import flag_of, settings_by_own_names, string_of
from transport.wire.messages import Options
from transport.wire.names import check_name

DEFAULT_EXCHANGE_RESOURCE: Final = "amq.default"
"""The default exchange, whose name is empty, where rights are given."""
Handler = Callable[..., Awaitable[Any]]
"""Of the commands, and the arguments; see `Operation.of_asker`."""


class Operation(NamedTuple):
    """A row of `OPERATIONS`.

    Attributes:
        right: what whoever asks must have; None where it depends on what is said later.
        resource: the argument that names the resource; None where the right is one of the broker.
        handler: what a command does; None for what a connection attaches as.
        long: whether a command's answer grows with what the broker has, up to a frame.
        also: further rights that the arguments ask for, each with its resource.
        of_asker: whether the handler is told who asks.
        told: whether the log of who did what is told, where it changes something.
        takes: the arguments of a command that changes something: another one is refused, for what it asks would not be done. None where
            the handler judges them, and where a command only looks: what a later version asks besides is passed over.
        about: the arguments that name what it is about within the resource, for the log of who did what.
        locked: whether it is refused of a queue that goes with another connection, which alone has what is in it.
    """

    right: Right | None
    resource: str | None = None
    handler: Handler | None = None
    long: bool = False
    also: Callable[[QueueDirectory, Options], Iterator[tuple[Right, str]]] = lambda _queues, _arguments: iter(())
    of_asker: bool = False
    told: bool = True
    takes: tuple[str, ...] | None = None
    about: tuple[str, ...] = ()
    locked: bool = False

    @property
    def changes(self) -> bool:
        """Whether the log of who did what is told: it changes something, whatever right that takes."""
        return self.told and (self.takes is not None or self.right in (Right.CONFIGURE, Right.ADMINISTER))


def _dead_letters(queues: QueueDirectory, arguments: Options) -> Iterator[tuple[Right, str]]:
    """Dead letters are taken out of one queue and written to another: whoever has them go there might have done it.

    It is asked for where a call says that there are to be any, or where they go; the queue's own is a queue like any other. What
    expires goes to a queue or an exchange that is named, and else nowhere.
    """
    arguments = settings_by_own_names(arguments)
    name, target, exchange = (arguments.get(each) for each in ("name", "dead_letter_queue", "dead_letter_exchange"))
    receives, ttl, key = (arguments.get(each) for each in ("max_receives", "ttl_ms", "dead_letter_routing_key"))
    said, drops = any(isinstance(each, str) for each in (target, exchange, key)), arguments.get("drop_failed")
    if not isinstance(name, str) or not (said or receives or ttl or drops is False):
        return
    there = queues.settings_of(name)
    drops, receives = there.drop_failed if drops is None else drops, receives or (drops is False and there.max_receives)
    target = target if isinstance(target, str) else there.dead_letter_queue
    exchange = exchange if isinstance(exchange, str) else there.dead_letter_exchange
    if not (said or target or exchange or (receives and not drops)):
        return
    yield Right.READ, name
    if exchange:
        # Exchanges and queues share their names, as far as rights go.
        yield Right.WRITE, exchange
    if exchange and not target and queues.exchanges.exchanges.get(exchange) is not None:
        return
    # Where the exchange is not there, they go to the queue's own.
    target = target or dead_letter_name(name)
    yield Right.WRITE, target
    if target not in queues:
        yield Right.CONFIGURE, target


def dead_letters_said(name: str, settings: QueueSettings) -> Options:
    """What a command that declares a queue so would say of its dead letters."""
    said: Options = {"name": name, "max_receives": settings.max_receives, "ttl_ms": settings.ttl is not None}
    said["drop_failed"] = settings.drop_failed or None
    places = ("dead_letter_queue", "dead_letter_exchange", "dead_letter_routing_key")
    return said | {each: getattr(settings, each) for each in places}


def exchange_resource(name: str) -> str:
    """What an exchange is called where rights are given: they share their names with queues, as RabbitMQ has it."""
    return name or DEFAULT_EXCHANGE_RESOURCE


def _exchange_made(_queues: QueueDirectory, arguments: Options) -> Iterator[tuple[Right, str]]:
    """What an exchange has no binding for goes to its alternate: whoever declares that might have published it there."""
    alternate = alternate_of(arguments)
    if alternate is not None:
        yield Right.READ, exchange_resource(string_of(arguments, "name"))
        yield Right.WRITE, exchange_resource(alternate)


def _bound(_queues: QueueDirectory, arguments: Options) -> Iterator[tuple[Right, str]]:
    """What a binding takes out of an exchange is written to the queue, or to the other exchange."""
    yield Right.WRITE, exchange_resource(string_of(arguments, "destination"))


def _scheduled(_queues: QueueDirectory, arguments: Options) -> Iterator[tuple[Right, str]]:
    """A schedule writes to the queue, or the exchange, long after whoever declares it has gone: that is to configure it, too."""
    destination = schedule_commands.destination_of(arguments)
    if destination is not None:
        yield Right.WRITE, exchange_resource(destination)
        yield Right.CONFIGURE, exchange_resource(destination)


def _move(queues: QueueDirectory, arguments: Options) -> Iterator[tuple[Right, str]]:
    """What is moved is written to the other queue, which may have to be made."""
    target = check_name(string_of(arguments, "to"))
    yield Right.WRITE, target
    if flag_of(arguments, "create", False) and target not in queues:
        yield Right.CONFIGURE, target


OPERATIONS: Final[dict[str, Operation]] = {
    "sender": Operation(Right.WRITE, "queue"),
    "receiver": Operation(Right.READ, "queue"),
    "subscription": Operation(Right.READ, "queue"),
    # A commit discards what the writer has staged and did not enlist, wherever it is. Each stage takes the right on its queue too.
    "transaction": Operation(Right.WRITE, "writer"),
    # Each command takes its own.
    "admin": Operation(None),
    "queue.list": Operation(Right.MONITOR, None, Commands.queue_list, long=True),
    "queue.create": Operation(Right.CONFIGURE, "name", Commands.queue_create, also=_dead_letters),
    "queue.alter": Operation(Right.CONFIGURE, "name", Commands.queue_alter, also=_dead_letters, locked=True),
    "queue.delete": Operation(Right.CONFIGURE, "name", Commands.queue_delete, takes=("name",)),
    "queue.purge": Operation(Right.READ, "name", Commands.queue_purge, takes=("name",), locked=True),
    "queue.move": Operation(
        Right.READ,
        "from",
        Commands.queue_move,
        also=_move,
        takes=("from", "to", "count", "create", "after", "keep_history"),
        locked=True,
    ),
    "queue.peek": Operation(Right.READ, "name", Commands.queue_peek, long=True, locked=True),
    "exchange.list": Operation(Right.MONITOR, None, exchange_commands.exchange_list, long=True),
    "exchange.create": Operation(
        Right.CONFIGURE, "name", exchange_commands.exchange_create, also=_exchange_made, takes=exchange_commands.CREATES
    ),
    "exchange.delete": Operation(
        Right.CONFIGURE, "name", exchange_commands.exchange_delete, takes=("name", "if_unused")
    ),
    "exchange.route": Operation(Right.MONITOR, None, exchange_commands.exchange_route),
    "binding.list": Operation(Right.MONITOR, None, exchange_commands.binding_list, long=True),
    "binding.create": Operation(
        Right.READ,
        "source",
        exchange_commands.binding_create,
        also=_bound,
        takes=exchange_commands.BINDS,
        about=("destination", "key"),
    ),
    "binding.delete": Operation(
        Right.READ,
        "source",
        exchange_commands.binding_delete,
        also=_bound,
        takes=exchange_commands.BINDS,
        about=("destination", "key"),
    ),
    "schedule.list": Operation(Right.MONITOR, None, schedule_commands.schedule_list, long=True),
    # It shows what is sent, which to list it does not.
    "schedule.show": Operation(Right.CONFIGURE, "name", schedule_commands.schedule_show, told=False, takes=("name",)),
    "schedule.create": Operation(
        Right.CONFIGURE, "name", schedule_commands.schedule_create, also=_scheduled, takes=schedule_commands.CREATES
    ),
    "schedule.delete": Operation(Right.CONFIGURE, "name", schedule_commands.schedule_delete, takes=("name",)),
    "schedule.pause": Operation(Right.CONFIGURE, "name", schedule_commands.schedule_pause, takes=("name",)),
    "schedule.resume": Operation(Right.CONFIGURE, "name", schedule_commands.schedule_resume, takes=("name",)),
    "subscription.list": Operation(Right.MONITOR, None, lists(subscription_rows, str, str), long=True),
    "subscription.release": Operation(
        Right.READ, "queue", Commands.subscription_release, takes=("queue", "name", "force"), about=("name",)
    ),
    "subscription.delete": Operation(
        Right.CONFIGURE, "queue", Commands.subscription_delete, takes=("queue", "name"), about=("name",)
    ),
    "transaction.list": Operation(Right.MONITOR, None, lists(transaction_rows, str, int), long=True),
    # It discards what others have written, to whatever queue.
    "transaction.abort": Operation(
        Right.ADMINISTER, None, Commands.transaction_abort, takes=("writer", "version"), about=("writer", "version")
    ),
    "connection.list": Operation(Right.MONITOR, None, lists(connection_rows, int), long=True),
    "connection.close": Operation(
        Right.ADMINISTER,
        None,
        Commands.connection_close,
        of_asker=True,
        takes=("id", "user", "reason"),
        about=("id", "user"),
    ),
    "cluster.status": Operation(Right.MONITOR, None, cluster_commands.cluster_status),
    "cluster.add": Operation(
        Right.ADMINISTER, None, cluster_commands.cluster_add, takes=cluster_commands.MEETS, about=cluster_commands.MEETS
    ),
    "cluster.remove": Operation(
        Right.ADMINISTER,
        None,
        cluster_commands.cluster_remove,
        takes=cluster_commands.NAMES,
        about=cluster_commands.NAMES,
    ),
    "cluster.move": Operation(
        Right.ADMINISTER,
        None,
        cluster_commands.cluster_move,
        takes=cluster_commands.MEETS,
        about=cluster_commands.MEETS,
    ),
    "cluster.heal": Operation(
        Right.ADMINISTER,
        None,
        cluster_commands.cluster_heal,
        takes=cluster_commands.NAMES,
        about=cluster_commands.NAMES,
    ),
    "cluster.give_up": Operation(Right.ADMINISTER, None, cluster_commands.cluster_give_up, takes=()),
    # A copy of everything that is stored: what it takes to begin one, it takes to go on.
    "journal.backup": Operation(Right.ADMINISTER, None, Commands.journal_backup, of_asker=True, takes=()),
    "journal.read": Operation(Right.ADMINISTER, None, Commands.journal_read, of_asker=True, told=False),
    "journal.release": Operation(Right.ADMINISTER, None, Commands.journal_release, of_asker=True, told=False, takes=()),
    "picture": Operation(Right.MONITOR, None, Commands.picture, long=True),
    "stats": Operation(Right.MONITOR, None, Commands.stats, long=True),
    "user.list": Operation(Right.ADMINISTER, None, lists(user_rows, str), long=True),
}
"""What there is to be done: what a connection attaches as, and the commands of docs/protocol.md, section "Administration"."""
