"""What the commands on exchanges and bindings do; docs/protocol.md, section "Administration"."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from actors.exchanges.delayed import DELAY
from actors.exchanges.errors import ExchangeNotFoundError
from actors.exchanges.vocabulary import ALTERNATE, Destination
from transport.broker.exchange_listings import binding_rows, exchange_rows
from transport.broker.listings import ANSWER_TIMEOUT
from transport.errors import RemoteProtocolError
from transport.wire.arguments import flag_of, string_of
from transport.wire.messages import Options, brief

if TYPE_CHECKING:
    from actors.exchanges.vocabulary import Binding
    from actors.queue.exchange_directory import ExchangeDirectory
    from transport.broker.commands import Commands

CREATES: Final = ("name", "kind", "durable", "auto_delete", "internal", "arguments")
"""The arguments of ``exchange.create``."""
BINDS: Final = ("source", "destination", "key", "arguments", "to_exchange")
"""Those of ``binding.create`` and ``binding.delete``."""


async def exchange_list(commands: Commands, arguments: Options) -> bytes:
    """Every exchange, or the one of a name."""
    only = None if arguments.get("name") is None else string_of(arguments, "name")
    return await commands.list_rows(partial(exchange_rows, only=only), (str,), arguments)


async def exchange_create(commands: Commands, arguments: Options) -> Any:
    """An exchange is to be there."""
    name = string_of(arguments, "name")
    kind = "direct" if arguments.get("kind") is None else string_of(arguments, "kind")
    flags = {
        "durable": flag_of(arguments, "durable", True),
        "auto_delete": flag_of(arguments, "auto_delete", False),
        "internal": flag_of(arguments, "internal", False),
    }
    table = table_of(arguments)
    changed = await _done(commands.exchanges.declare(name, kind, arguments=table, **flags))
    return {"name": name, "kind": kind, **flags, "arguments": table or {}, "changed": changed}


async def exchange_delete(commands: Commands, arguments: Options) -> Any:
    """An exchange is to be gone, with the bindings at both its ends."""
    name = string_of(arguments, "name")
    directory = commands.exchanges
    if directory.exchanges.get(name) is None:
        raise ExchangeNotFoundError(name)
    await _done(directory.delete(name, if_unused=flag_of(arguments, "if_unused", False)))
    return {"name": name}


async def exchange_route(commands: Commands, arguments: Options) -> Any:
    """Where a message would go that is published with this key and these headers; nothing is published."""
    name = string_of(arguments, "name")
    key = "" if arguments.get("key") is None else string_of(arguments, "key")
    headers = {each: value for each, value in (table_of(arguments, "headers") or {}).items() if each != DELAY}
    queues = commands.exchanges.exchanges.route(name, (key,), headers, outside=False)
    return {"name": name, "key": key, "queues": list(queues)}


async def binding_list(commands: Commands, arguments: Options) -> bytes:
    """Every binding, or those of an exchange, or those that lead to a queue or an exchange."""
    source = None if arguments.get("source") is None else string_of(arguments, "source")
    destination = None
    if arguments.get("destination") is not None:
        destination = Destination(string_of(arguments, "destination"), flag_of(arguments, "to_exchange", False))
    rows = partial(binding_rows, source=source, destination=destination)
    return await commands.list_rows(rows, (int,), arguments)


async def binding_create(commands: Commands, arguments: Options) -> Any:
    """What matches is to go from an exchange to a queue, or to another exchange."""
    return await _bind(commands.exchanges, arguments, made=True)


async def binding_delete(commands: Commands, arguments: Options) -> Any:
    """A binding is to be gone; ``changed`` says whether there was one."""
    return await _bind(commands.exchanges, arguments, made=False)


async def _bind(directory: ExchangeDirectory, arguments: Options, *, made: bool) -> Any:
    source, destination = string_of(arguments, "source"), string_of(arguments, "destination")
    key = "" if arguments.get("key") is None else string_of(arguments, "key")
    to_exchange = flag_of(arguments, "to_exchange", False)
    table = table_of(arguments)
    work = directory.bind if made else directory.unbind
    changed = await _done(work(source, destination, key, table, to_exchange=to_exchange))
    answer = {"source": source, "destination": destination, "key": key, "to_exchange": to_exchange}
    return answer | {"arguments": table or {}, "changed": changed}


async def bind_only(
    commands: Commands, queue: str, bindings: Collection[tuple[str, str, dict[str, Any] | None]]
) -> list[Binding]:
    """A queue is to have these bindings (source, key and arguments), and no others of the same exchanges; those that are gone."""
    async with asyncio.timeout(ANSWER_TIMEOUT):
        return await commands.exchanges.bind_only(queue, bindings)


def table_of(arguments: Options, name: str = "arguments") -> dict[str, Any] | None:
    """The table that an argument has as JSON; None where there is none.

    Raises:
        RemoteProtocolError: it is no text, or no JSON object.
    """
    text = arguments.get(name)
    if text is None:
        return None
    try:
        table = json.loads(text, parse_constant=_no_number, parse_float=_float) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        table = None
    if not isinstance(table, dict):
        raise RemoteProtocolError(f"the argument {name} must be a JSON object as text, not {brief(text)}")
    return table


def alternate_of(arguments: Options) -> str | None:
    """The alternate exchange that ``exchange.create`` is to have; None where there is none."""
    alternate = (table_of(arguments) or {}).get(ALTERNATE)
    return alternate if isinstance(alternate, str) else None


def _no_number(text: str) -> NoReturn:
    """NaN and the infinities are no JSON, and equal to nothing."""
    raise ValueError(text)


def _float(text: str) -> float:
    """What is too large for a float is an infinity."""
    value = float(text)
    return value if math.isfinite(value) else _no_number(text)


async def _done(work: Awaitable[bool]) -> bool:
    """What has changed is durable when it is answered."""
    async with asyncio.timeout(ANSWER_TIMEOUT):
        return await work
