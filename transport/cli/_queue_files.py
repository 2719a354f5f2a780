"""``penstock queue export`` and ``penstock queue import``: declarations of queues, from a broker and to one."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from actors.queue.vocabulary.settings import UNALTERABLE
from transport.cli import _written as written
from transport.cli._access import STDIN
from transport.cli._administering import admin_command, administer
from transport.cli._options import CONNECTING, REQUIRED, with_parameters
from transport.cli._run import fail, tell
from transport.cli._tables import put
from transport.cli.exit_codes import EXIT_FAILED, EXIT_USAGE
from transport.errors import BrokerError

if TYPE_CHECKING:
    from transport.cli._declarations import Declarations
    from transport.clients.administration import Administration, Facts

EXPORT, IMPORT = "queue export", "queue import"
PARTIAL = ".partial"
"""Behind a file's name while it is being written."""
SAID_IN_ERRORS = 4
"""Settings that differ, of one queue, that a line names; the others are counted."""


def _format(text: str | None) -> str | None:
    """Typer callback: a format that there is."""
    from transport.cli._declarations import FORMATS  # noqa: PLC0415 - not needed for --help

    if text is not None and text not in FORMATS:
        raise typer.BadParameter(f"{text!r:.40} is not {' or '.join(FORMATS)}")
    return text


Form = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="toml|json",
        help="How it is written; what the file's name ends in, else TOML.",
        callback=_format,
    ),
]
Patterns = Annotated[
    list[str] | None,
    typer.Option(
        "--queue", metavar="PATTERN", help="Only this queue, or those that begin as 'orders*'; may be repeated."
    ),
]


@admin_command(EXPORT)
async def export_queues(
    administration: Administration,
    file: Annotated[str, typer.Argument(metavar="[FILE]", help="Where to; standard output by default.")] = STDIN,
    queue: Patterns = None,
    everything: Annotated[bool, typer.Option("--all", help="Those too that nobody declared, as they are now.")] = False,
    form: Form = None,
) -> None:
    """Write the declarations of queues to a file that `penstock queue import` and a broker's settings take in."""
    from transport.cli._declarations import declarations_of, dump, format_of  # noqa: PLC0415 - not needed for --help

    # What goes with a receiver is nothing that another broker could have.
    there = [each for each in await administration.queues() if not each.get("owned")]
    found = [each for each in there if not queue or _matches(str(each.get("name")), queue)]
    if queue and not found:
        tell(EXPORT, f"no queue is called {' or '.join(queue)}; `penstock queue list` shows what there is")
        raise typer.Exit(EXIT_FAILED)
    # A broker of before does not tell which are declared.
    taken = [each for each in found if everything or each.get("declared", True)]
    text = dump(declarations_of(taken), format_of(file, form))
    _write(file, text.encode())
    left = len(found) - len(taken)
    besides = f"; {left} left out that nobody declared (--all takes them too)" if left else ""
    tell(EXPORT, f"{written.counted(len(taken), 'queue')} exported{besides}")


def _write(file: str, data: bytes) -> None:
    if file == STDIN:
        # Bytes: a file is UTF-8, whatever the output is set to.
        typer.echo(data, nl=False)
        return
    path = Path(os.path.realpath(file))
    if path.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), file)
    if path.exists() and not path.is_file():
        path.write_bytes(data)  # a pipe, a terminal
        return
    # Beside it, and then in its place: who is ended in between, or finds the disk full, keeps the file of before.
    # Each program has one of its own, or the second of two would put half of the first's there.
    import secrets  # noqa: PLC0415 - not needed for --help

    aside = path.with_name(f"{path.name}.{secrets.token_hex(4)}{PARTIAL}")
    try:
        aside.write_bytes(data)
        if path.exists():
            shutil.copymode(path, aside)
        aside.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        # The name that was given, not that of the file beside it.
        raise OSError(error.errno, error.strerror, file) from error


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(name.startswith(each[:-1]) if each.endswith("*") else name == each for each in patterns)


class Step(NamedTuple):
    """What an import does about one queue.

    Attributes:
        name: the queue's.
        settings: those to give it, as a command says them; none where nothing is to be done.
        creates: whether it is made.
        done, planned: what was, or would be, done, in words.
    """

    name: str
    settings: dict[str, Any]
    creates: bool
    done: str
    planned: str


def import_queues(file: str, dry_run: bool, alter: bool, form: str | None, **where: Any) -> None:
    """Declare the queues of a file. What is missing is created, what is equal is left, and what differs is refused without --alter."""
    declared = _read(file, form)

    async def talk(administration: Administration) -> None:
        there = {str(each.get("name")): each for each in await administration.queues()}
        problems: list[str] = []
        steps = [_step(name, said, there.get(name), alter, problems) for name, said in declared.items()]
        await _check(administration, steps, problems)
        if problems:
            for problem in problems:
                tell(IMPORT, problem)
            tell(IMPORT, f"nothing is changed, for {written.counted(len(problems), 'problem')}")
            raise typer.Exit(EXIT_FAILED)
        for step in steps:
            if (step.settings or step.creates) and not dry_run:
                await _do(administration, step)
            put([f"queue {step.name} {step.planned if dry_run else step.done}"])
        if dry_run:
            tell(IMPORT, "nothing is changed: a dry run")

    administer(IMPORT, where, talk, data_from_stdin=file == STDIN)


def _read(file: str, form: str | None) -> Declarations:
    """What the file declares; it exits with ``EXIT_USAGE`` where that cannot be."""
    from transport.cli._declarations import MAX_FILE_BYTES, format_of, load  # noqa: PLC0415 - not needed for --help
    from transport.config.settings_file import SettingsError  # noqa: PLC0415

    try:
        if file == STDIN:
            data = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
        else:
            with Path(file).open("rb") as opened:
                data = opened.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        tell(IMPORT, f"{file}: cannot be read: {error.strerror or error}")
        raise typer.Exit(EXIT_USAGE) from None
    try:
        return load(data, "standard input" if file == STDIN else file, format_of(file, form))
    except SettingsError as error:
        for problem in error.problems:
            tell(IMPORT, problem)
        raise typer.Exit(EXIT_USAGE) from None


def _step(name: str, said: dict[str, Any], there: Facts | None, alter: bool, problems: list[str]) -> Step:
    """What is to be done about the queue ``name``, of which the file has said something."""
    from transport.cli._declarations import differences, explicit  # noqa: PLC0415 - not needed for --help

    if there is None:
        return Step(name, explicit(said), True, "created", "would be created")
    different = differences(said, there)
    texts = [f"{key} is {was}, the file has {wanted}" for key, (was, wanted) in different.items()]
    fixed = next((key for key in different if key in UNALTERABLE), None)
    if fixed is not None:
        problems.append(
            f"queue {name}: {texts[list(different).index(fixed)]}, and it cannot be altered: delete the queue first"
        )
    elif different and not alter:
        more = f", and {len(texts) - SAID_IN_ERRORS} more" if len(texts) > SAID_IN_ERRORS else ""
        problems.append(f"queue {name} differs: {'; '.join(texts[:SAID_IN_ERRORS])}{more}; --alter alters it")
    if different:
        changes = "; ".join(f"{key} from {was} to {wanted}" for key, (was, wanted) in different.items())
        settings = explicit({key: said[key] for key in different})
        return Step(name, settings, False, f"altered: {changes}", f"would be altered: {changes}")
    settings = {key: value for key, value in explicit(said).items() if key not in UNALTERABLE}
    if not there.get("declared", True) and settings:
        # It has the broker's settings, which are the same today; declared, it keeps them when the broker has others.
        return Step(name, settings, False, "declared as it is", "would be declared as it is")
    return Step(name, {}, False, "unchanged", "unchanged")


async def _check(administration: Administration, steps: Sequence[Step], problems: list[str]) -> None:
    """Have the broker judge everything before anything is changed. One of before cannot, and judges each as it comes."""
    creates = sum(step.creates for step in steps)
    for step in steps:
        if not (step.settings or step.creates) or (UNALTERABLE.keys() & step.settings and not step.creates):
            continue
        try:
            answer = await administration.check_queue(step.name, step.settings, alter=not step.creates)
        except BrokerError as error:
            if "'check' is unknown" in error.text:
                return
            problems.append(f"queue {step.name}: {error.text}")
            continue
        room = answer.get("room")
        if step.creates and isinstance(room, int) and room < creates:
            problems.append(
                f"the file has {creates} queues that are missing, and the broker takes {room} more: raise max_queues"
            )
            return


async def _do(administration: Administration, step: Step) -> None:
    act = administration.create_queue if step.creates else administration.alter_queue
    try:
        await act(step.name, **step.settings)
    except BrokerError as error:
        tell(IMPORT, f"queue {step.name}: what stands above is done, this and the rest is not")
        fail(IMPORT, error)


IMPORT_PARAMETERS = {
    "file": (Annotated[str, typer.Argument(metavar="FILE|-", help="What to read; - is standard input.")], REQUIRED),
    "dry_run": (
        Annotated[bool, typer.Option("--dry-run", help="Check everything, say what would be done, and do nothing.")],
        False,
    ),
    "alter": (
        Annotated[bool, typer.Option("--alter", help="Give queues that differ the settings of the file.")],
        False,
    ),
    "form": (Form, None),
    **CONNECTING,
}


def import_command(**given: Any) -> None:
    """What typer calls."""
    import_queues(**given)


with_parameters(import_command, import_queues, IMPORT_PARAMETERS)
