"""``penstock journal``: look a broker's directory over, and mend it, while no broker uses it; back it up, also while one does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from transport.cli import _written as written
from transport.cli._access import take_access
from transport.cli._options import CONNECTING, REQUIRED, with_parameters
from transport.cli._run import fail, failures, run, tell
from transport.cli.exit_codes import EXIT_FAILED, EXIT_USAGE
from transport.config.units import parse_size

if TYPE_CHECKING:
    from actors.storage.backups import Backup

T = TypeVar("T")

app = typer.Typer(
    no_args_is_help=True, help="Back a broker's journal up and restore it; look a stopped one's over, and mend it."
)

Directory = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="The broker's --data directory."),
]


@app.command("verify")
def verify(directory: Directory) -> None:
    """Read every record and say what is damaged. Changes nothing; exits with 1 when damage is found."""
    import actors  # noqa: PLC0415 - not needed for --help

    findings = _attempt("journal verify", lambda: actors.verify_storage(directory))
    for finding in findings:
        kind = "damaged" if finding.fatal else "note"
        typer.echo(f"{finding.file}:{finding.offset}: {kind}: {finding.text}")
    fatal = sum(finding.fatal for finding in findings)
    if fatal:
        places = "1 place in {} is" if fatal == 1 else f"{fatal} places in {{}} are"
        repair = f"`penstock journal repair {directory}` keeps what is whole"
        tell("journal verify", f"{places.format(directory)} damaged; {repair}")
        raise typer.Exit(EXIT_FAILED)
    tell("journal verify", f"no damage in {directory}")


@app.command("repair")
def repair(directory: Directory) -> None:
    """Make a damaged journal usable again: what is whole stays, the damaged files are kept aside, and what is lost is said."""
    import actors  # noqa: PLC0415 - not needed for --help

    done = _attempt("journal repair", lambda: actors.repair_storage(directory))
    for line in done:
        typer.echo(line)
    tell("journal repair", f"{directory} can be opened again" if done else f"nothing to mend in {directory}")


def _size(text: str) -> str:
    """Typer callback: ``text`` when it is a size."""
    try:
        if parse_size(text) > 0:
            return text
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    raise typer.BadParameter("it must be more than 0")


Target = Annotated[Path, typer.Argument(metavar="TARGET", help="The backup's directory, which is not there yet.")]
Stopped = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Back up this directory of a stopped broker, and ask none."),
]
Rate = Annotated[
    str,
    typer.Option("--rate", metavar="SIZE", help="Bytes a second at most; more disturbs others more.", callback=_size),
]
RATE = "64MiB"
BACKUP = {"target": (Target, REQUIRED), "data": (Stopped, None), "rate": (Rate, RATE), **CONNECTING}


def _backup(target: Path, data: Path | None, rate: str, **where: Any) -> None:
    """Copy the journal of a running broker into a directory on this machine; nobody waits for it.

    It holds every message that was confirmed before it began. `penstock journal restore` makes a data directory of it.
    """
    verb = "journal backup"
    if data is not None:
        if said := [name for name, (_, default) in CONNECTING.items() if where[name] != default]:
            tell(verb, f"--data backs up without asking a broker: leave out --{said[0].replace('_', '-')}, or --data")
            raise typer.Exit(EXIT_USAGE)
        import actors  # noqa: PLC0415 - not needed for --help

        directory = data
        _say(verb, _attempt(verb, lambda: actors.backup_storage(directory, target)))
        return
    access = take_access(verb, where)

    async def main() -> int:
        from transport.cli._bar import bar  # noqa: PLC0415 - not needed for --help
        from transport.clients.administration import Administration  # noqa: PLC0415 - not needed for --help

        async with Administration(**where, access=access) as administration:
            with bar(None) as show:

                def progress(done: int, total: int) -> None:
                    show(done, total, "")

                found = await administration.backup(target, rate=parse_size(rate), on_progress=progress)
        _say(verb, found)
        return 0

    run(verb, main)


def _say(verb: str, found: Backup) -> None:
    many = f"{written.counted(found.files, 'file')}, {written.size(found.size)}"
    tell(
        verb, f"{found.path}: {many}, read again and whole; everything before record {found.lsn} of epoch {found.epoch}"
    )


app.command("backup")(with_parameters(_backup, _backup, BACKUP))


@app.command("restore")
def restore(
    backup: Annotated[Path, typer.Argument(metavar="BACKUP", help="The backup's directory.")],
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The data directory to make: not there yet, or empty.")
    ],
    same_broker: Annotated[
        bool,
        typer.Option(
            "--same-broker", help="Keep the messages' ids: the broker was stopped before the backup, and is only moved."
        ),
    ] = False,
) -> None:
    """Make a data directory of a backup. `penstock broker --data DIR` opens it then.

    What was confirmed after the backup began is not in it. Messages get new ids, unless it is the same broker that is moved.
    """
    import actors  # noqa: PLC0415 - not needed for --help

    verb = "journal restore"
    found = _attempt(verb, lambda: actors.restore_storage(backup, directory, same_broker=same_broker))
    opens = f"`penstock broker --data {directory}` opens it: give it the users file and certificates too"
    tell(verb, f"{directory}: as it was on {found.taken}; {opens}")


def _attempt(verb: str, act: Callable[[], T]) -> T:
    try:
        return act()
    except failures() as error:
        fail(verb, error)
