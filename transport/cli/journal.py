"""``penstock journal``: look a broker's directory over, and mend it, while no broker uses it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from transport.cli._run import fail, failures, tell
from transport.cli.exit_codes import EXIT_FAILED

T = TypeVar("T")

app = typer.Typer(no_args_is_help=True, help="Look a stopped broker's journal over, and mend it.")

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


def _attempt(verb: str, act: Callable[[], T]) -> T:
    try:
        return act()
    except failures() as error:
        fail(verb, error)
