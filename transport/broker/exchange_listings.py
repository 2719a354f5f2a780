"""What administration lists of exchanges and bindings, row by row, as ``listings.py`` has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from actors.exchanges.vocabulary import Binding, Destination
    from actors.queue.exchange_directory import ExchangeDirectory
    from transport.broker.listings import Key, Listed, Rows


async def exchange_rows(of: Listed, after: Key | None, only: str | None = None) -> Rows:
    """Every exchange, by name; the default exchange, whose name is empty, comes first. Or the one called ``only``."""
    directory = of.exchanges
    one = None if only is None else directory.exchanges.get(only)
    found = list(directory.exchanges) if only is None else [] if one is None else [one]
    for exchange in found:
        if after is not None and exchange.name <= after[0]:
            continue
        count = directory.publishing.counts.read(exchange.name)
        yield (
            (exchange.name,),
            {
                "name": exchange.name,
                "kind": exchange.kind,
                "durable": exchange.durable,
                "auto_delete": exchange.auto_delete,
                "internal": exchange.internal,
                "arguments": shown_table(exchange.arguments),
                "bindings": directory.exchanges.binding_count_from(exchange.name),
                "published": count.published,
                "unroutable": count.unroutable,
                "returned": count.returned,
                "waiting": directory.waiting.messages(exchange),
            },
        )


def exchange_sums(directory: ExchangeDirectory) -> dict[str, int]:
    """What ``stats`` says of all exchanges together; how many there are is beside those of every broker."""
    there, count = directory.exchanges.statistics(), directory.publishing.counts.total()
    waiting = {"waiting": directory.waiting.all_messages()}
    return {"exchanges": there.exchanges, "bindings": there.bindings} | asdict(count) | waiting


async def binding_rows(
    of: Listed, after: Key | None, source: str | None = None, destination: Destination | None = None
) -> Rows:
    """Every binding in the order in which they were made, or those of an exchange, or those that lead to ``destination``."""
    last = 0 if after is None else after[0]
    for number, binding in of.exchanges.exchanges.bindings_made_after(last, source, destination):
        if destination is None or binding.destination == destination:
            yield (number,), _row(binding)


def _row(binding: Binding) -> dict[str, Any]:
    return {
        "source": binding.source,
        "destination": binding.destination.name,
        "to_exchange": binding.destination.is_exchange,
        "key": binding.key,
        "arguments": shown_table(binding.arguments),
        "durable": binding.durable,
    }


def shown_table(table: Any) -> Any:
    """A table of arguments as JSON can have it: what JSON has no type for is text there, and bytes are hexadecimal."""
    if isinstance(table, Mapping):
        return {name: shown_table(value) for name, value in table.items()}
    if isinstance(table, list | tuple):
        return [shown_table(value) for value in table]
    if isinstance(table, bytes):
        return table.hex()
    if table is None or isinstance(table, str | bool | int | float):
        return table
    return str(table)
