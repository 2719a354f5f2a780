"""Asking how a cluster stands while another one comes to lead it: once, or until a change of its members is done.

Whoever leads may go under a question. Then the question is asked again, of whoever is there then. Whoever leads knows of a member to whom
it has no connection only that. So the member's own node is asked, which may wait for something.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from transport.cli import _written as written
from transport.clients.backoff import is_transient
from transport.errors import BrokerError, ConnectionLostError, PeerTimeoutError, TransportError, TruncatedFrameError
from transport.wire.messages import NOT_LEADER

if TYPE_CHECKING:
    from transport.clients.administration import Administration, Facts

LOOK_SECONDS: Final = 0.5
TOLD_SECONDS: Final = 5.0
"""What it waits for is told this often, when that is something else."""
AGAIN_SECONDS: Final = 0.2
"""From a question that was not answered to the next."""
GOES: Final = frozenset({NOT_LEADER, "shutting-down"})
"""What a node says that leads no more, or stops."""
LEAST_CONNECTING: Final = 0.1
"""Seconds that a client has at least to find a broker for the next question."""
OWN_SECONDS: Final = 1.0
"""For a node to say itself how it stands; shorter than a client waits before it warns that no broker is there (`UNTOLD`)."""


async def asked(administration: Administration, look: Callable[[Administration], Awaitable[Facts]]) -> Facts:
    """What ``look`` sees. It looks again where the node that was asked ends the connection, for it leads no more or goes.

    Args:
        administration: a client, connected. It looks again for as long as that was given to connect.
        look: how the cluster stands, as some node says.

    Raises:
        TransportError: as of ``look``; when the time is over, what first ended a connection.
    """
    now = asyncio.get_running_loop().time
    deadline = now() + administration.connect_timeout
    client = ended = None
    while True:
        try:
            if client is None:
                return await look(administration)
            async with client:
                return await look(client)
        except TransportError as error:
            if ended is None and not _has_ended(error):
                raise
            # What comes of a later attempt, for which there may be little time, says less.
            ended = ended or error
            if not _has_ended(error) or now() + AGAIN_SECONDS >= deadline:
                raise ended from None
        await _passed(AGAIN_SECONDS)
        client = administration.another(max(LEAST_CONNECTING, round(deadline - now(), 1)))


def _has_ended(error: Exception) -> bool:
    """Whether it says that the connection has ended, and not that a question was refused."""
    if isinstance(error, BrokerError):
        return error.code in GOES
    return isinstance(error, ConnectionLostError | TruncatedFrameError)


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


async def with_own_words(client: Administration, name: str) -> Facts:
    """How the cluster stands; where whoever leads has no connection to a member, its row has as ``itself`` what its node says, or None."""
    facts = await client.cluster()
    member = member_of(facts, name)
    if member is not None and member.get("connected") is False:
        member["itself"] = await _own_words(client, member)
    return facts


async def _own_words(client: Administration, member: Facts) -> Facts | None:
    try:
        async with asyncio.timeout(OWN_SECONDS), client.elsewhere(member["send"], any_node=True) as other:
            return await other.cluster()
    except (TransportError, TimeoutError, KeyError):
        return None


def learning(facts: Facts, name: str) -> str:
    """What it takes until a member has caught up, for a person."""
    member = member_of(facts, name) or {}
    behind = member.get("lag_records")
    if isinstance(behind, int):
        records = f"{written.counted(behind, 'record')} ({written.size(member.get('lag_bytes') or 0)})"
        away = "" if member.get("connected", True) else "is not reached, and "
        return f"{name} {away}is {records} behind"
    if member.get("connected", True):
        return f"{name} has not said yet what it has"
    where = f"{name} is not reached at {member.get('replication')} by {facts.get('node')}, which leads"
    return f"{where}{_by_its_own_words(name, member)}" if "itself" in member else where


def _by_its_own_words(name: str, member: Facts) -> str:
    """What keeps a node from the others."""
    itself, send = member["itself"], member.get("send")
    if itself is None:
        return f", and no node answers at {send} (is it started, and its machine on?)"
    if itself.get("node") != name:
        return f": at {send} there is the node {itself.get('node')}"
    if itself.get("members"):
        return f", and runs as a member ({itself.get('role')})"
    if itself.get("register") != "answers":
        return f": it runs, and its register {itself.get('register')}"
    return (
        ": it runs, and its register holds no document that names its directory. Its log says what it waits for "
        "(is that the register of this cluster?)"
    )


def member_of(facts: Facts, name: str) -> Facts | None:
    """A member's row."""
    return next((each for each in facts["members"] if each.get("name") == name), None)
