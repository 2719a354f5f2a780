"""``penstock cluster``: how a cluster stands, and changes of its members while it runs. docs/cluster.md."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from transport.cli import _written as written
from transport.cli._administering import admin_command
from transport.cli._looking import AsJson, Watch, Wide, present
from transport.cli._options import time_option
from transport.cli._run import tell
from transport.cli._tables import Column, cell, table

if TYPE_CHECKING:
    from transport.clients.administration import Administration, Facts

app = typer.Typer(no_args_is_help=True, help="See how a cluster stands, and change its members.")

MEMBERS: tuple[Column, ...] = (
    ("name", "name"),
    ("role", "role"),
    ("in_step", "in step"),
    ("lag_records", "records behind", written.count),
    ("lag_bytes", "bytes", written.size),
    ("lag_s", "time", written.duration),
    ("connected", "connected"),
    ("heard_s", "heard", written.ago),
)
PLACES: tuple[Column, ...] = (
    ("name", "name"),
    ("send", "senders"),
    ("receive", "receivers"),
    ("replication", "nodes"),
    ("http", "http"),
    ("amqp", "amqp"),
    ("amqps", "amqps"),
    ("directory", "directory"),
)
OPTIONAL = ("amqp", "amqps")
"""Columns that are there where some member has such an address."""
LEADER, AWAY, WAITING = "leader", "away", "waiting"
ELSEWHERE_SECONDS = 2.0
"""For others to say how the cluster stands, where the node that has answered is of none yet."""
DEFAULT_WAIT = 600.0
MAX_WAIT = 7 * 86_400.0
Name = Annotated[str, typer.Argument(metavar="NODE", help="The node's name.", show_default=False)]
Node = Annotated[
    str, typer.Argument(metavar="NODE=HOST[:PORT]", help="Its name, and where the others reach it.", show_default=False)
]
MovedNode = Annotated[
    str,
    typer.Argument(
        metavar="NODE[=HOST[:PORT]]", help="Its name, and where the others reach it if elsewhere.", show_default=False
    ),
]
Wait = Annotated[
    float, time_option("--wait", "How long until it must be done.", default=DEFAULT_WAIT, least=0.0, most=MAX_WAIT)
]


@app.command("status")
@admin_command("cluster status", any_node=True)
async def status(
    administration: Administration, wide: Wide = False, as_json: AsJson = False, watch: Watch = None
) -> None:
    """Show who leads, and of each member how far behind it is. Any node answers; only the leader knows all of it."""
    from transport.cli._cluster_waiting import asked  # noqa: PLC0415 - not needed for --help

    async def seen(client: Administration) -> Facts:
        # Who watches looks again anyway, and is shown that there was nothing to see.
        return await (asked(client, look) if watch is None else look(client))

    await present(administration, seen, status_lines, verb="cluster status", as_json=as_json, wide=wide, watch=watch)


@app.command("add")
@admin_command("cluster add")
async def add(administration: Administration, node: Node, wait: Wait = DEFAULT_WAIT) -> None:
    """Take a node in that was started and waits. It learns first, and counts once it has caught up; this waits for that."""
    name, address = _named(node)
    if address is None:
        raise typer.BadParameter(f"where is the node? write {name}=HOST, or {name}=HOST:PORT")
    begun = await administration.add_member(name, address)

    def done(facts: Facts) -> bool:
        member = _member(facts, name)
        if member is None or member.get("directory") != begun.get("directory"):
            _fail(f"the node {name} was taken out again before it had caught up")
        return bool(member.get("counts")) and not _changing(facts, name)

    await _until(administration, "cluster add", wait, done, _learning(name), of=name)
    typer.echo(f"node {name} is a member and counts, says {administration.address}")


@app.command("remove")
@admin_command("cluster remove")
async def remove(administration: Administration, name: Name, wait: Wait = DEFAULT_WAIT) -> None:
    """Let a member go, for good; one that leads has to be restarted first, so that another one leads."""
    await administration.remove_member(name)
    await _until(
        administration,
        "cluster remove",
        wait,
        lambda facts: _member(facts, name) is None,
        lambda _: f"{name} is about to go",
    )
    typer.echo(f"node {name} is no member any more, says {administration.address}; stop its process")


@app.command("move")
@admin_command("cluster move")
async def move(administration: Administration, node: MovedNode, wait: Wait = DEFAULT_WAIT) -> None:
    """Have a member live in the directory that its node has now, wiped or restored, or at another address."""
    name, address = _named(node)
    begun = await administration.move_member(name, address)

    def done(facts: Facts) -> bool:
        member = _member(facts, name)
        return member is not None and member.get("directory") == begun.get("directory") and not _changing(facts, name)

    # Where clients reach it elsewhere is known to nobody else yet.
    await _until(administration, "cluster move", wait, done, _learning(name), of=name if address is None else None)
    typer.echo(f"node {name} has moved, says {administration.address}")


@app.command("heal")
@admin_command("cluster heal")
async def heal(administration: Administration, name: Name, wait: Wait = DEFAULT_WAIT) -> None:
    """Fill a member anew that has met damage. What it has is put aside in its directory, as damaged-..., and nothing is deleted."""
    begun = await administration.heal_member(name)

    def done(facts: Facts) -> bool:
        member = _member(facts, name)
        return member is not None and member.get("directory") == begun.get("directory") and not _changing(facts, name)

    await _until(administration, "cluster heal", wait, done, _learning(name), of=name)
    typer.echo(
        f"node {name} is filled anew, says {administration.address}; what it had lies in its directory as damaged-..."
    )


@app.command("give-up")
@admin_command("cluster give-up")
async def give_up(administration: Administration) -> None:
    """Leave the members as they were before the change that is under way, and cannot be done."""
    given = await administration.give_up_change()
    typer.echo(f"the change to {given.get('kind')} {given.get('name')} is given up, says {administration.address}")


async def look(client: Administration) -> Facts:
    """How the cluster stands: as its leader says, or, where that cannot be asked, as this node does."""
    from transport.errors import TransportError  # noqa: PLC0415 - not needed for --help

    async def of(member: Facts) -> Facts | None:
        try:
            async with client.elsewhere(member["send"]) as other:
                return await other.cluster()
        except (TransportError, KeyError):
            return None

    facts = await client.cluster()
    if not facts["members"]:
        facts = await _known_elsewhere(client) or facts
    leader = next((each for each in facts["members"] if each.get("name") == facts.get("leader")), None)
    if facts.get("role") != LEADER and leader is not None:
        said = await of(leader)
        facts = said if said is not None and said.get("role") == LEADER else facts
    for member in facts["members"]:
        # What keeps somebody who is there from being in step only they know.
        if member.get("in_step") is False and member.get("role") != AWAY and (said := await of(member)) is not None:
            own = _member(said, str(member.get("name")))
            same = own is not None and own.get("moves_to") == member.get("moves_to")
            member["full"] = own.get("full") if own is not None and same else None
    return facts


async def _known_elsewhere(client: Administration) -> Facts | None:
    """How the cluster stands, as somebody says who is of it."""
    import asyncio  # noqa: PLC0415 - not needed for --help

    from transport.errors import TransportError  # noqa: PLC0415 - likewise

    async def of(address: str) -> Facts | None:
        try:
            async with asyncio.timeout(ELSEWHERE_SECONDS), client.elsewhere(address) as other:
                return await other.cluster()
        except (TransportError, TimeoutError):
            return None

    said = await asyncio.gather(*(of(each) for each in client.addresses if each != str(client.address)))
    return next((each for each in said if each is not None and each["members"]), None)


def status_lines(facts: Facts, width: int | None) -> list[str]:
    """What ``cluster.status`` answers, as tables."""
    members = facts["members"]
    leader = facts.get("leader")
    if not members and facts.get("role") == WAITING:
        return [
            f"node {cell(facts.get('node'))} is of no cluster yet",
            f"  register {cell(facts.get('register'))}",
            "  it waits, and its log says for what: a cluster begins when all of its nodes are there, and a new one is added",
        ]
    about = [
        f"epoch {cell(str(facts.get('epoch')))}",
        f"mode {cell(facts.get('mode'))}",
        f"leader {cell(leader)}" if leader else "no leader",
        f"register {cell(facts.get('register'))}",
    ]
    lines = [f"cluster {cell(facts.get('cluster'))}", "  " + ", ".join(about)]
    if facts.get("role") == LEADER:
        lines.append(f"  records to {_last(facts.get('end'))}, committed to {_last(facts.get('committed'))}")
    else:
        who = f"node {cell(facts.get('node'))} ({cell(facts.get('role'))})"
        lines.append(f"  as {who} sees it: only the leader knows how far behind each is")
    if change := facts.get("change"):
        moves_to = next((each["moves_to"] for each in members if each.get("moves_to")), None)
        where = f", and its figures are those of the directory that it moves to, {cell(moves_to)}" if moves_to else ""
        lines.append(f"  under way: {cell(change.get('kind'))} {cell(change.get('name'))}{where}")
    lines += _held_back(facts)
    if facts.get("whole") is False:
        lines.append(
            "  messages that were confirmed before this leader may be missing: their senders are told (data-loss)"
        )
    lines += [line for each in members for line in _kept(each)] + _too_few_whole(members)
    lines += _too_few_certain(facts)
    lines += [f"  {cell(each.get('name'))} has no room: {cell(full)}" for each in members if (full := each.get("full"))]
    rows = [_row(each) for each in members]
    lines += ["", written.counted(len(rows), "member"), *table(rows, MEMBERS, width), ""]
    places = [column for column in PLACES if column[0] not in OPTIONAL or any(row.get(column[0]) for row in rows)]
    return [*lines, *table(rows, places, width), ""]


def summary(facts: Facts) -> list[str]:
    """What ``stats`` says of it, in two lines."""
    others = [each for each in facts.get("members") or [] if each.get("name") != facts.get("node")]
    first = (
        f"  node {cell(facts.get('node'))} of a cluster: {cell(facts.get('role'))}, epoch {cell(str(facts.get('epoch')))}, "
        f"committed to record {_last(facts.get('committed'))} of {_last(facts.get('end'))}"
    )
    kept = [line for each in facts.get("members") or [] for line in _kept(each)]
    kept += _too_few_whole(facts.get("members") or []) + _too_few_certain(facts)
    return [first, *(f"  {_behind(each)}" for each in others), *_held_back(facts), *kept]


def _too_few_whole(members: list[Facts]) -> list[str]:
    """That nobody can lead, where that is because of damage: then nobody can have a member filled anew either."""
    counted = [each for each in members if each.get("counts")]
    damaged = sum(bool(each.get("damage")) for each in counted)
    if not damaged or len(counted) - damaged > len(counted) // 2:
        return []
    said = f"  {damaged} of {written.counted(len(counted), 'member')} have met damage, so nobody can lead"
    return [f"{said}, and nobody can be filled anew: that is the loss of as many machines (docs/cluster-loss.md)"]


def _too_few_certain(facts: Facts) -> list[str]:
    """That nobody leads, where members are in doubt: it takes more of them then."""
    if facts.get("leader") or not any(each.get("doubt") for each in facts.get("members") or []):
        return []
    return [
        "  for one to lead, half and one of the members have to be there, and at least half of all without such a doubt; or all",
        "  of them (docs/cluster-damage.md)",
    ]


def _held_back(facts: Facts) -> list[str]:
    """For whom senders wait, or do so no more."""
    lines = []
    if share := facts.get("held_back"):
        who = cell(facts.get("held_back_for"))
        lines.append(f"  senders are held back for {who}, which lags: {round(share * 100)} % of the time")
    lines += [
        f"  {cell(each)} lags, and senders are held back for it no more: it is slower than the others"
        for each in facts.get("given_up") or []
    ]
    return lines


def _behind(member: Facts) -> str:
    """How far behind a member is, in words."""
    what = f"{cell(member.get('name'))} ({cell(member.get('role'))})"
    records = member.get("lag_records")
    if not isinstance(records, int):
        return f"{what}: nothing is known of its records"
    size, time = written.size(member.get("lag_bytes") or 0), written.duration(member.get("lag_s") or 0)
    return f"{what}: {written.counted(records, 'record')}, {size}, {time} behind"


def _kept(member: Facts) -> list[str]:
    """What there is to tell of a member's directory, if anything."""
    name, lines = cell(member.get("name")), []
    if damage := member.get("damage"):
        lines.append(f"  {name} has met damage, and has left (penstock cluster heal {name}): {cell(damage)}")
    if member.get("doubt"):
        lines.append(
            f"  {name} cut a write at the end of its log that was damaged or not finished: it is unknown whether it was confirmed"
        )
    if records := member.get("cut_records"):
        messages = written.counted(member.get("cut_messages") or 0, "message")
        lines.append(
            f"  {name} has cut {written.counted(records, 'record')} with {messages} off its log: the cluster has others"
        )
    if files := member.get("kept_files"):
        size = written.size(member.get("kept_bytes") or 0)
        lines.append(f"  {name} keeps what was cut off, {size} in {written.counted(files, 'file')} (diverged-...)")
    if folders := member.get("kept_damaged"):
        lines.append(f"  {name} keeps {written.counted(folders, 'damaged journal')} (damaged-...)")
    return lines


def _last(end: object) -> str:
    """The number of the last record, of one more than that."""
    return cell(end - 1) if isinstance(end, int) else cell(None)


def _row(member: Facts) -> Facts:
    """What the table shows of a member."""
    role = member.get("role")
    if member.get("filling"):
        role = f"{role}, filling"
    return member | {"role": role}


def _named(node: str) -> tuple[str, str | None]:
    """The name and the address of NODE=HOST:PORT."""
    name, equals, address = node.partition("=")
    if not name or (equals and not address):
        raise typer.BadParameter(f"{node!r} is not NODE=HOST or NODE=HOST:PORT")
    return name, address or None


def _member(facts: Facts, name: str) -> Facts | None:
    return next((each for each in facts["members"] if each.get("name") == name), None)


def _changing(facts: Facts, name: str) -> bool:
    change = facts.get("change")
    return isinstance(change, dict) and change.get("name") == name


def _learning(name: str) -> Callable[[Facts], str]:
    """What a member's catching up takes, by how the cluster stands."""
    from transport.cli._cluster_waiting import learning  # noqa: PLC0415 - not needed for --help

    return lambda facts: learning(facts, name)


def _fail(text: str) -> NoReturn:
    from transport.errors import TransportError  # noqa: PLC0415 - for an error alone

    raise TransportError(text)


async def _until(
    administration: Administration,
    verb: str,
    wait: float,
    done: Callable[[Facts], bool],
    state: Callable[[Facts], str],
    of: str | None = None,
) -> None:
    """Wait until the change is done, whoever leads meanwhile; say what it waits for, also by what the node ``of`` that name says itself.

    Raises:
        TransportError: it is not in time; the change goes on all the same.
    """
    from transport.cli._cluster_waiting import until, with_own_words  # noqa: PLC0415 - not needed for --help

    async def seen(client: Administration) -> Facts:
        return await client.cluster() if of is None else await with_own_words(client, of)

    asked: Callable[[Administration], Awaitable[Facts]] = seen
    await until(administration, asked, wait, done, state, lambda text: tell(verb, text))
