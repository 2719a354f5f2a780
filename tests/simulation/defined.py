"""What a start has of exchanges, bindings, queues, and of what was published: noted before anybody is connected."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from actors.exchanges.vocabulary import ALTERNATE, DELAYED, DELAYED_TYPE
from tests.simulation.history import Defined, Found, History, name_of

if TYPE_CHECKING:
    from actors import QueueDirectory
    from tests.simulation.exchange_plan import ExchangesPlan


async def note_defined(queues: QueueDirectory, plan: ExchangesPlan, history: History, life: int) -> None:
    """Have what a plan begins with be there, in the first life, and note what is there."""
    of, now = queues.exchanges, asyncio.get_running_loop().time()
    if life == 1:
        for each in plan.exchanges:
            arguments: dict[str, Any] = {} if each.alternate is None else {ALTERNATE: each.alternate}
            kind = each.kind
            if each.delayed:
                kind, arguments = DELAYED, {**arguments, DELAYED_TYPE: kind}
            await of.declare(each.name, kind, internal=each.internal, arguments=arguments)
        for bound in plan.bindings:
            arguments = dict(bound.arguments)
            await of.bind(bound.source, bound.destination, bound.key, arguments, to_exchange=bound.to_exchange)
    exchanges = tuple(each.name for each in of.exchanges if each.name in plan.known)
    bindings = tuple(
        (
            each.source,
            each.destination.name,
            each.destination.is_exchange,
            each.key,
            tuple(sorted(each.arguments.items())),
        )
        for each in of.exchanges.bindings()
    )
    names = [*(name for name, _, _ in plan.queues), *plan.briefly]
    history.add(Defined(now, exchanges, bindings, tuple(name for name in names if name in queues)))
    for name, log in queues.logs().items():
        if name in names:
            history.add(Found(now, name, tuple(_names(log))))


def _names(log: Any) -> list[str]:
    """The messages that a queue has, in order."""
    found = []
    for first, stop in log.stored():
        at = first
        while at < stop:
            entry = log.table.at(at)
            end = min(stop, entry.stop)
            found += map(name_of, entry.part(at, end).payloads.tolist())
            at = end
    return found
