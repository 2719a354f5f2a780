"""The verbs by name: each is loaded, and made what the parser wants, when it is named; a help of all of them needs a line of each.

The command has two dozen options files behind it. To load all of them for the help of one took most of the time of a start.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import Any, Final, NamedTuple

import typer

ROOM: Final = "transport.cli"

EPILOG = (
    "Every option can also stand in the settings file or the environment, as PENSTOCK_ and its name in capitals: "
    "docs/configuration.md. The command line goes before the environment, and that before the file."
)


class Row(NamedTuple):
    """A verb of the command: the line that its list has of it, whether it is a group of verbs, and what its help ends with."""

    line: str
    is_group: bool = False
    epilog: str | None = None


VERBS: Final = {
    "broker": Row("Run a broker until SIGINT or SIGTERM; SIGHUP has it read its settings again.", epilog=EPILOG),
    "send": Row(
        "Send lines, one message a line, or messages of another format. "
        "Exits with 0 only when every one is confirmed by the broker."
    ),
    "receive": Row(
        "Print messages as lines, or in another format. In a pipe, acknowledged means that the pipe has it, not that its reader is done. "
        "Without --count or --idle-exit it goes on until it is stopped. Where the reader may fail, keep the messages: have it read a "
        "file, or handle them in a program with a Receiver; what a queue has put aside goes back with `queue move`. "
        "With --exchange it begins with what is published from then on."
    ),
    "stats": Row("Show per queue what is ready, in flight and moved, and per connection its demand."),
    "top": Row(
        "Watch queues by pressure, rate or backlog, and who holds back whom. On a terminal it has keys; h shows them. "
        "Into a pipe it writes a line for each queue that has changed, or with --json an object a look."
    ),
    "bench": Row(
        "Measure a broker: what it confirms and gives a second, and how long a message takes. The queue is its own, and is deleted. "
        "It takes as much of the broker as it can get: others feel it. "
        "Its user needs `configure`, `write` and `read` on `penstock-bench-*`."
    ),
    "queue": Row("Declare, alter, list, empty and delete queues.", is_group=True),
    "binding": Row("List, create and delete what leads from exchanges to queues.", is_group=True),
    "cluster": Row("See how a cluster stands, and change its members.", is_group=True),
    "completion": Row(
        "Print what makes a shell complete verbs, options, files and names of queues and exchanges.", is_group=True
    ),
    "config": Row("See what a broker would run with.", is_group=True),
    "connection": Row("See and end connections.", is_group=True),
    "context": Row("Name brokers, with how they are reached: `--context NAME` then says it all.", is_group=True),
    "definitions": Row("Take over what RabbitMQ has exported.", is_group=True),
    "exchange": Row("Declare, list and delete exchanges, and see where a message would go.", is_group=True),
    "journal": Row("Back a broker's journal up and restore it; look a stopped one's over, and mend it.", is_group=True),
    "schedule": Row(
        "Have messages stored at times: declare, list, pause and remove schedules.",
        is_group=True,
    ),
    "subscription": Row("See, release and forget named consumers.", is_group=True),
    "transaction": Row("See and discard what writers have staged.", is_group=True),
    "user": Row("Keep the users of a broker: a file that only its owner may read.", is_group=True),
}
"""In the order of the help. A module of the same name has the verb as a function of that name, or the group as ``app``.

The lines are those that the verbs say of themselves, as a test holds.
"""


class Part(NamedTuple):
    """A verb that is made when it is needed: its line, and whether it is left out of lists."""

    line: str
    hidden: bool
    make: Callable[[], Any]


class Parts(Mapping[str, Any]):
    """Verbs by name, as the parser has them. Each is made once, when it is looked up."""

    def __init__(self, parts: Mapping[str, Part]) -> None:
        self._parts = parts
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = self._parts[name].make()
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._parts

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def lines(self) -> dict[str, str]:
        """Those that are shown, with the line of each; none is made for it."""
        return {name: part.line for name, part in self._parts.items() if not part.hidden}


def all_verbs(verb: type[Any], group: type[Any]) -> Parts:
    """The verbs of the command, as classes of the parser's: ``verb``, and ``group`` for one that has parts."""
    return Parts({name: Part(row.line, False, partial(_load, name, row, verb, group)) for name, row in VERBS.items()})


def _load(name: str, row: Row, verb: type[Any], group: type[Any]) -> Any:
    module = import_module(f"{ROOM}.{name}")
    if row.is_group:
        return _group(name, module.app, verb, group)
    one = typer.Typer(add_completion=False)
    one.command(name, cls=verb, epilog=row.epilog)(getattr(module, name))
    return typer.main.get_command(one)


def _group(name: str, app: typer.Typer, verb: type[Any], group: type[Any]) -> Any:
    """A group, whose verbs are made when they are needed."""
    parts = {}
    for info in app.registered_commands:
        line = " ".join((info.help or inspect.getdoc(info.callback) or "").split())
        parts[str(info.name)] = Part(line, info.hidden, partial(_made, info, verb))
    return group(name=name, commands=Parts(parts), help=app.info.help)


def _made(info: Any, verb: type[Any]) -> Any:
    one = typer.Typer(add_completion=False)
    info.cls = verb
    one.registered_commands.append(info)
    return typer.main.get_command(one)
