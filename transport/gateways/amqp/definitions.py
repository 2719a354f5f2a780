"""What a file of RabbitMQ's definitions comes to here: exchanges, queues and bindings to be made, and what of it is left, and why.

Queues and exchanges are made as a client of AMQP would have made them, so whoever declares them as before finds them. A policy becomes
settings of the queues that it matches; its clients know nothing of it, so what their queues were declared with is kept beside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from actors.exchanges.kinds import KINDS
from actors.exchanges.vocabulary import ALTERNATE, DELAYED, DELAYED_TYPE
from actors.queue.vocabulary.settings import QueueSettings
from transport.errors import TransportError
from transport.gateways.amqp.definitions_file import (
    DefinedBinding,
    DefinedExchange,
    DefinedPermission,
    DefinedQueue,
    Definitions,
)
from transport.gateways.amqp.definitions_policies import Policies
from transport.gateways.amqp.equivalence import DeclaredWith
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.names import RESERVED, Names
from transport.gateways.amqp.queue_arguments import ArgumentRefusedError, settings_of
from transport.gateways.amqp.tables import Table
from transport.wire.names import check_name

SETTINGS: Final = (
    "max_messages",
    "max_bytes",
    "overflow",
    "max_receives",
    "dead_letter_queue",
    "delay",
    "ttl",
    "exclusive",
    "durable",
    "dead_letter_exchange",
    "dead_letter_routing_key",
    "expires",
    "single_active_consumer",
    "drop_failed",
    "max_priority",
    "deduplication_window",
    "max_deduplication_ids",
    "groups",
)
"""Settings of a queue that its definition decides; the others are the broker's."""
MOST_NAMED: Final = 3
"""Things that are left for one reason which are named; of the others their number is told."""
EVERYTHING: Final = (".*", "^.*$", ".*$", "^.*")
"""Patterns of permissions that mean every name."""


class WantedExchange(NamedTuple):
    """An exchange that is to be there; ``alternate`` is its alternate exchange, if any, and ``delayed`` whether messages wait there."""

    name: str
    kind: str
    durable: bool
    auto_delete: bool
    internal: bool
    alternate: str | None
    delayed: bool = False


class WantedQueue(NamedTuple):
    """A queue that is to be there.

    Attributes:
        name: the broker's.
        settings: `SETTINGS`, by their names in ``QueueSettings``.
        declared_with: what is kept of its declaration.
        policies: those that have a part in its settings, in words.
    """

    name: str
    settings: dict[str, Any]
    declared_with: bytes
    policies: tuple[str, ...]


class WantedBinding(NamedTuple):
    """A binding that is to be there."""

    source: str
    destination: str
    to_exchange: bool
    key: str
    arguments: dict[str, Any]


class Plan(NamedTuple):
    """What is to be made, in this order, and what is left, a sentence each.

    Attributes:
        virtual_hosts: those that the file has, each with the beginning that the broker's names in it have.
    """

    exchanges: tuple[WantedExchange, ...]
    queues: tuple[WantedQueue, ...]
    bindings: tuple[WantedBinding, ...]
    left: tuple[str, ...]
    virtual_hosts: Mapping[str, str]


def plan_of(definitions: Definitions, virtual_hosts: Mapping[str, str]) -> Plan:
    """What a file comes to.

    Args:
        definitions: the file's.
        virtual_hosts: of virtual hosts, how the broker's names in them begin; of one that is not here it is its name and ``/``.
    """
    return _Planning(definitions, virtual_hosts).plan()


class _Planning:
    """One file."""

    def __init__(self, definitions: Definitions, virtual_hosts: Mapping[str, str]) -> None:
        self._definitions = definitions
        self._beginnings = {"/": "", **virtual_hosts}
        # Of each reason what it is one for.
        self._left: dict[str, list[str]] = {}
        self._policies = Policies(definitions.policies)

    def plan(self) -> Plan:
        definitions = self._definitions
        exchanges = tuple(self._made(definitions.exchanges, self._exchange))
        queues = tuple(self._made(definitions.defined_queues, self._queue))
        kept = {each.name for each in exchanges}, {each.name for each in queues}
        missing = self._gone(definitions.exchanges, kept[0]), self._gone(definitions.defined_queues, kept[1])
        bindings = tuple(self._bindings(missing))
        for policy, why in self._policies.left:
            self._leave(policy, why)
        if any(each.policies for each in queues):
            self._leave(
                "policies", "they are settings of the queues that they match now, and of none that is declared later"
            )
        self._leave_the_rest()
        left = tuple(f"{_some(what)}: {why}" for why, what in self._left.items())
        hosts = dict.fromkeys(definitions.virtual_hosts)
        for defined in (definitions.exchanges, definitions.defined_queues, definitions.bindings):
            hosts |= dict.fromkeys(each.virtual_host for each in defined)
        return Plan(exchanges, queues, bindings, left, {host: self.names(host).beginning for host in hosts})

    def names(self, virtual_host: str) -> Names:
        """The names of a virtual host."""
        beginning = self._beginnings.get(virtual_host)
        return Names(virtual_host, f"{virtual_host}/" if beginning is None else beginning)

    # Inside

    def _made(self, found: Any, make: Any) -> Iterator[Any]:
        for each in found:
            wanted = make(each, self.names(each.virtual_host))
            if wanted is not None:
                yield wanted

    def _gone(self, found: Any, made: set[str]) -> set[str]:
        """The broker's names of what the file has and is not made."""
        return {name for each in found if (name := self.names(each.virtual_host).queue(each.name)) not in made}

    def _exchange(self, defined: DefinedExchange, names: Names) -> WantedExchange | None:
        text = names.exchange_text(defined.name)
        if not defined.name or defined.name.startswith(RESERVED):
            # They are there from the start.
            return None
        if not self._can_be_called(text, names.exchange(defined.name)):
            return None
        delayed = defined.kind == DELAYED
        kind = defined.arguments.get(DELAYED_TYPE) if delayed else defined.kind
        if kind not in KINDS:
            self._leave(text, f"there is no kind {kind!r:.60} here: there are {', '.join(KINDS)}")
            return None
        alternate = defined.arguments.get(ALTERNATE)
        known = (ALTERNATE, DELAYED_TYPE) if delayed else (ALTERNATE,)
        others = [name for name in defined.arguments if name not in known]
        if others:
            self._leave(text, f"the arguments {', '.join(others)} are left out: they mean nothing here")
        if alternate is not None and not isinstance(alternate, str):
            self._leave(text, f"the argument {ALTERNATE} is left out: it is no name")
            alternate = None
        return WantedExchange(
            names.exchange(defined.name),
            str(kind),
            defined.durable,
            defined.auto_delete,
            defined.internal,
            names.exchange(alternate) if alternate else None,
            delayed,
        )

    def _queue(self, defined: DefinedQueue, names: Names) -> WantedQueue | None:
        text = names.queue_text(defined.name)
        if not defined.durable:
            self._leave(text, "it is not durable: whoever uses it declares it")
            return None
        if not self._can_be_called(text, names.queue(defined.name)):
            return None
        if defined.kind == "stream":
            self._leave(text, "it is a stream: a native subscription reads a queue again and again (docs/queue.md)")
            return None
        try:
            kept = self._supported(defined.arguments, text, "")
            effective, policies = self._policies.applied(defined._replace(arguments=kept))
            said = settings_of(Table.of(self._supported(effective, text, " of its policies")), text)
            settings = QueueSettings(**_named(said, names), durable=True)
            declared_with = DeclaredWith(defined.auto_delete, Table.of(kept)).kept()
        except (TransportError, ValueError) as error:
            self._leave(text, error.explanation if isinstance(error, AmqpError) else str(error))
            return None
        wanted = {name: getattr(settings, name) for name in SETTINGS}
        return WantedQueue(names.queue(defined.name), wanted, declared_with, policies)

    def _supported(self, arguments: dict[str, Any], text: str, whose: str) -> dict[str, Any]:
        """Those that a queue can have here; of the others it is told why it has none."""
        kept = dict(arguments)
        while True:
            try:
                settings_of(Table.of(kept), text)
            except ArgumentRefusedError as error:
                self._leave(text, f"the argument {error.argument}{whose} is left out: {error.why}")
                del kept[error.argument]
            else:
                return kept

    def _bindings(self, missing: tuple[set[str], set[str]]) -> Iterator[WantedBinding]:
        for defined in self._definitions.bindings:
            names = self.names(defined.virtual_host)
            if not defined.source:
                # Every queue is bound to the default exchange by its name.
                continue
            source = names.exchange(defined.source)
            destination = names.queue(defined.destination)
            lost = source in missing[0] or destination in missing[0 if defined.to_exchange else 1]
            if lost:
                self._leave(binding_text(defined, names), "one of its ends is left")
                continue
            yield WantedBinding(source, destination, defined.to_exchange, defined.key, defined.arguments)

    def _can_be_called(self, text: str, name: str) -> bool:
        try:
            check_name(name)
        except TransportError as error:
            self._leave(text, str(error))
            return False
        return True

    def _leave(self, what: str, why: str) -> None:
        self._left.setdefault(why, []).append(what)

    def _leave_the_rest(self) -> None:
        definitions = self._definitions
        for host, kind in definitions.default_types.items():
            if kind != "classic":
                self._leave(
                    f"virtual host {host}", f"queues are {kind} by default: here clients say x-queue-type themselves"
                )
        if definitions.users:
            names = ", ".join(definitions.users)
            self._leave(
                f"users {names}" if len(definitions.users) > 1 else f"user {names}",
                "only a hash of a password is there, which is of no use here: penstock user add NAME",
            )
        for permission in definitions.permissions:
            user = f"permission of user {permission.user} in virtual host {permission.virtual_host}"
            self._leave(user, self._grant(permission))
        if count := definitions.topic_permissions:
            self._leave(_counted(count, "topic permission"), "rights are on names, and not on routing keys")
        for component, count in definitions.parameters.items():
            self._leave(_counted(count, f"{component} parameter"), "there is nothing like it here")

    def _grant(self, permission: DefinedPermission) -> str:
        """What to do for a permission, as far as its patterns are those of every name."""
        said = {"configure": permission.configure, "write": permission.write, "read": permission.read}
        everything = [right for right, pattern in said.items() if pattern in EVERYTHING]
        some = [f"{right} {pattern}" for right, pattern in said.items() if pattern not in (*EVERYTHING, "", "^$")]
        where = f"{self.names(permission.virtual_host).beginning}*"
        told = [f"penstock user grant {permission.user} {' '.join(everything)} --on '{where}'"] if everything else []
        if some:
            told.append(
                f"{', '.join(some)} {'is a pattern' if len(some) == 1 else 'are patterns'}: grant names, or beginnings of names"
            )
        return "; ".join(told) or "it allows nothing"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _some(what: list[str]) -> str:
    """The first of some, and how many more there are."""
    more = f" and {len(what) - MOST_NAMED:,} more" if len(what) > MOST_NAMED else ""
    return ", ".join(what[:MOST_NAMED]) + more


def binding_text(binding: DefinedBinding, names: Names) -> str:
    """How a binding is spoken of."""
    what = names.exchange_text if binding.to_exchange else names.queue_text
    by = f" by {binding.key!r}" if binding.key else ""
    return f"binding from exchange '{binding.source}' to {what(binding.destination)}{by}"


def _named(said: dict[str, Any], names: Names) -> dict[str, Any]:
    """Settings with the names of the broker."""
    found = dict(said)
    if found.get("dead_letter_exchange"):
        found["dead_letter_exchange"] = names.exchange(found["dead_letter_exchange"])
    if found.get("dead_letter_queue"):
        found["dead_letter_queue"] = names.queue(found["dead_letter_queue"])
    return found
