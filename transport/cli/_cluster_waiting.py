"""Waiting until a change of a cluster's members is done: whoever leads may be another one meanwhile, and is found."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from transport.cli import _written as written
from transport.clients.backoff import is_transient
from transport.errors import PeerTimeoutError, TransportError

if TYPE_CHECKING:
    from transport.clients.administration import Administration, Facts

LOOK_SECONDS: Final = 0.5
TOLD_SECONDS: Final = 5.0
"""What it waits for is told this often, when that is something else."""


async def until(
    administration: Administration,
    look: Callable[[Administration], Awaitable[Facts]],
    wait: float,
    done: Callable[[Facts], bool],
    state: Callable[[Facts], str],
    say: Callable[[str], None],
) -> None:
    """Look again and again, until what is seen says that it is ``done``.

    Args:
        administration: the connection over which the change was begun.
        look: how the cluster stands, as the leader says.
        wait: seconds.
        done: whether it is.
        state: what it waits for, for a person.
        say: told that now and then.

    Raises:
        PeerTimeoutError: it was not done in time; it goes on all the same.
    """
    now = asyncio.get_running_loop().time
    deadline, told, before = now() + wait, now(), ""
    client, mine = administration, False
    last = "nothing was heard of it"
    try:
        while True:
            try:
                facts = await look(client)
            except TransportError as error:
                if not is_transient(error) or now() >= deadline:
                    raise
                if mine:
                    await client.close()
                client, mine = await _again(administration, deadline), True
                continue
            if done(facts):
                return
            last = state(facts)
            if now() >= deadline:
                raise PeerTimeoutError(
                    f"the change was begun, and is not done within {written.duration(wait)}: {last}. It goes on; "
                    "penstock cluster status shows it, and penstock cluster give-up ends one that is under way"
                )
            if last != before and now() - told >= TOLD_SECONDS:
                say(last)
                told, before = now(), last
            await _passed(LOOK_SECONDS)
    finally:
        if mine:
            await client.close()


async def _again(administration: Administration, deadline: float) -> Administration:
    """A client of whoever leads now."""
    now = asyncio.get_running_loop().time
    while True:
        client = administration.another()
        try:
            return await client.__aenter__()
        except TransportError as error:
            if not is_transient(error) or now() >= deadline:
                raise
            await _passed(LOOK_SECONDS)


async def _passed(seconds: float) -> None:
    passed = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, passed.set)
    await passed.wait()
