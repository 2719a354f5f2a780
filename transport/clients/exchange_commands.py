"""What administration does about exchanges and bindings: it declares them, lists them, and says where a message would go."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from transport.clients.message_commands import Facts, has_changed
from transport.errors import BrokerError, RemoteProtocolError
from transport.wire.names import check_name


class ExchangeCommands(ABC):
    """These commands, for who can send one. docs/exchanges.md says what exchanges do."""

    @abstractmethod
    async def _command(self, name: str, arguments: Facts | None = None) -> Any:
        """Send one COMMAND and wait for its RESULT's JSON value."""

    @abstractmethod
    async def _list(self, command: str, what: str, arguments: Facts | None = None) -> list[Facts]:
        """All rows of a list."""

    async def exchanges(self) -> list[Facts]:
        """Every exchange: ``name``, ``kind``, ``durable``, ``auto_delete``, ``internal``, ``arguments``, and its figures.

        The figures are ``bindings`` (how many), and since the broker's start ``published`` messages, those of them that are ``unroutable``,
        and of these the ones that were ``returned`` to senders.
        """
        return await self._list("exchange.list", "exchanges")

    async def exchange(self, name: str) -> Facts:
        """The facts of one exchange, as in `exchanges`; an empty name is the default exchange's.

        Raises:
            BrokerError: ``not-found``.
        """
        found = await self._list("exchange.list", "exchanges", {"name": name})
        for exchange in found:
            if exchange.get("name") == name:
                return exchange
        raise BrokerError("not-found", f"there is no exchange {name!r:.255}: declare it first")

    async def declare_exchange(
        self,
        name: str,
        kind: str = "direct",
        *,
        durable: bool = True,
        auto_delete: bool = False,
        internal: bool = False,
        alternate: str | None = None,
        delayed: bool = False,
    ) -> bool:
        """An exchange is to be there; one that is there must be the same. Returns whether it was made.

        Args:
            name: its name.
            kind: ``direct``, ``fanout``, ``topic`` or ``headers``.
            durable: whether it outlives a restart of the broker.
            auto_delete: whether it is deleted with its last binding.
            internal: whether only other exchanges publish to it.
            alternate: the exchange that gets what none of its bindings takes.
            delayed: whether messages wait before it routes them, each for its delay (RabbitMQ's ``x-delayed-message``).

        Raises:
            BrokerError: ``already-exists`` as another, ``protocol-error`` for an unknown kind, ``forbidden``, or a limit.
            InvalidNameError: no exchange can have the name.
        """
        said = {"durable": durable, "auto_delete": auto_delete, "internal": internal}
        arguments: Facts = {"name": check_name(name, "exchange"), "kind": kind, **said}
        table: Facts = {}
        if delayed:
            arguments["kind"], table["x-delayed-type"] = "x-delayed-message", kind
        if alternate is not None:
            table["alternate-exchange"] = check_name(alternate, "exchange")
        if table:
            arguments["arguments"] = json.dumps(table)
        return has_changed(await self._command("exchange.create", arguments))

    async def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Delete an exchange, with the bindings from it and to it.

        Args:
            name: the exchange's.
            if_unused: only where nothing is bound to it.

        Raises:
            BrokerError: ``not-found``, ``in-use``, or ``forbidden`` for one of the broker's own.
        """
        await self._command("exchange.delete", {"name": check_name(name, "exchange"), "if_unused": if_unused})

    async def bind(
        self,
        source: str,
        destination: str,
        key: str = "",
        arguments: Mapping[str, Any] | None = None,
        *,
        to_exchange: bool = False,
    ) -> bool:
        """What matches is to go from an exchange to a queue, or to another exchange. Returns whether that is new.

        Args:
            source: the exchange's name.
            destination: the queue's name, or the other exchange's.
            key: what the routing key has to be; of a topic exchange a pattern, in which ``*`` is one word and ``#`` any number of words.
            arguments: of a headers exchange, what the headers have to be, with ``x-match``: texts, numbers, truths, lists and objects.
            to_exchange: whether ``destination`` is an exchange.

        Raises:
            BrokerError: ``not-found`` where one of the two is not there, ``protocol-error`` for arguments that cannot be, or a limit.
            InvalidNameError: nothing can have the name.
        """
        said = _binding(source, destination, key, arguments, to_exchange=to_exchange)
        return has_changed(await self._command("binding.create", said))

    async def unbind(
        self,
        source: str,
        destination: str,
        key: str = "",
        arguments: Mapping[str, Any] | None = None,
        *,
        to_exchange: bool = False,
    ) -> bool:
        """A binding is to be gone, which is named as `bind` named it. Returns whether there was one."""
        said = _binding(source, destination, key, arguments, to_exchange=to_exchange)
        return has_changed(await self._command("binding.delete", said))

    async def bindings(
        self, source: str | None = None, destination: str | None = None, *, to_exchange: bool = False
    ) -> list[Facts]:
        """Every binding, or those of the exchange ``source``, or of these those that lead to ``destination``.

        Each has ``source``, ``destination``, ``to_exchange``, ``key``, ``arguments`` and ``durable``. The default exchange's are not
        among them: it has every queue by its name.
        """
        asked = {"source": source, "destination": destination, "to_exchange": to_exchange}
        return await self._list("binding.list", "bindings", asked)

    async def route(self, exchange: str, key: str = "", headers: Mapping[str, Any] | None = None) -> list[str]:
        """The queues that a message would go to with this routing key and these headers; nothing is published.

        Raises:
            BrokerError: ``not-found`` where there is no such exchange.
        """
        arguments: Facts = {"name": exchange, "key": key}
        if headers:
            arguments["headers"] = json.dumps(dict(headers))
        answer = await self._command("exchange.route", arguments)
        queues = answer.get("queues") if isinstance(answer, dict) else None
        if not isinstance(queues, list):
            raise RemoteProtocolError(f"the broker's answer about a route is of another shape: {answer!r:.80}")
        return queues


def _binding(
    source: str, destination: str, key: str, arguments: Mapping[str, Any] | None, *, to_exchange: bool
) -> Facts:
    said: Facts = {
        "source": check_name(source, "exchange"),
        "destination": check_name(destination, "exchange" if to_exchange else "queue"),
        "key": key,
        "to_exchange": to_exchange,
    }
    if arguments:
        said["arguments"] = json.dumps(dict(arguments))
    return said
