"""``penstock user``: keep the users file. Secrets come from a prompt, a file or standard input, and never from an argument."""

from __future__ import annotations

import json
import os.path
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer

from transport.cli import _written as written
from transport.cli._access import STDIN
from transport.cli._run import tell
from transport.cli._tables import show
from transport.cli.exit_codes import EXIT_USAGE

if TYPE_CHECKING:
    from transport.security.principal import Right
    from transport.security.users import User, Users
    from transport.security.verifier import Verifier

T = TypeVar("T")

app = typer.Typer(no_args_is_help=True, help="Keep the users of a broker: a file that only its owner may read.")

DEFAULT_FILE = "penstock-users.toml"
KEY_FILE_SUFFIX = ".key"
TOKEN_DAYS = 365
MAX_TOKEN_DAYS = 3650
TAKEN_IN = "a running broker takes it in at SIGHUP: kill -HUP PID"
"""Said of every change: whoever asks a broker before that is judged by the users of before."""


def _at_home(path: Path | None) -> Path | None:
    """Typer callback: ``~`` is the folder that it is for the broker too, which takes the same name from the same variable."""
    return None if path is None else Path(os.path.expanduser(path))


File = Annotated[
    Path,
    typer.Option(
        "--users-file",
        metavar="FILE",
        help="The users file.",
        envvar="PENSTOCK_USERS_FILE",
        show_default=True,
        callback=_at_home,
    ),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The user.", show_default=False)]
PasswordFile = Annotated[
    str | None,
    typer.Option(
        "--password-file", metavar="FILE", help="Read the password from a file of one line; - is standard input."
    ),
]
Rights = Annotated[
    list[str], typer.Argument(metavar="RIGHT...", help="configure, write, read with --on; monitor, administer without.")
]
On = Annotated[
    str | None, typer.Option("--on", metavar="PATTERN", help="The resources: a name, or the beginning of names and *.")
]
USERS = Path(DEFAULT_FILE)


@app.command("add")
def add(
    name: Name,
    users: File = USERS,
    password_file: PasswordFile = None,
    no_password: Annotated[bool, typer.Option("--no-password", help="Tokens, keys or certificates will do.")] = False,
) -> None:
    """Add a user, who may do nothing yet: `penstock user grant` says what."""
    from transport.security.changes import added  # noqa: PLC0415 - the help needs none of it
    from transport.security.users import User  # noqa: PLC0415 - as above

    verb = "user add"
    password = None if no_password else _new_password(verb, password_file)
    _change(verb, users, lambda them: added(them, User(name, password)), begins=True)
    typer.echo(f"user {name} added to {users}")
    tell(verb, TAKEN_IN)


@app.command("passwd")
def passwd(name: Name, users: File = USERS, password_file: PasswordFile = None) -> None:
    """Change a user's password."""
    from transport.security.changes import user_of, with_password  # noqa: PLC0415 - the help needs none of it

    verb = "user passwd"
    _read(verb, users, lambda them: user_of(them, name))
    password = _new_password(verb, password_file)
    _change(verb, users, lambda them: with_password(them, name, password))
    typer.echo(f"user {name} has a new password")
    tell(verb, TAKEN_IN)


@app.command("remove")
def remove(name: Name, users: File = USERS) -> None:
    """Remove a user with all proofs and rights."""
    from transport.security.changes import removed  # noqa: PLC0415 - the help needs none of it

    verb = "user remove"
    _change(verb, users, lambda them: removed(them, name))
    typer.echo(f"user {name} removed")
    tell(verb, TAKEN_IN)


@app.command("grant")
def grant(name: Name, rights: Rights, on: On = None, users: File = USERS) -> None:
    """Give a user rights, on resources or of the broker."""
    from transport.security.changes import granted  # noqa: PLC0415 - the help needs none of it

    verb = "user grant"
    wanted = _rights(verb, rights, on)
    _change(verb, users, lambda them: granted(them, name, wanted, on))
    typer.echo(f"user {name} may {', '.join(rights)}{_where(on)}")
    tell(verb, TAKEN_IN)


@app.command("revoke")
def revoke(
    name: Name,
    rights: Annotated[list[str] | None, typer.Argument(metavar="[RIGHT...]", help="The rights that go.")] = None,
    on: On = None,
    proof: Annotated[
        str | None, typer.Option("--proof", metavar="ID", help="The token, access key or certificate that goes.")
    ] = None,
    users: File = USERS,
) -> None:
    """Take rights from a user, or one of the proofs."""
    from transport.security.changes import revoked, without_proof  # noqa: PLC0415 - the help needs none of it

    verb = "user revoke"
    if (not rights) == (proof is None):
        _refuse(verb, "name the rights that go, or --proof and what goes")
    if proof is not None:
        _change(verb, users, lambda them: without_proof(them, name, proof))
        typer.echo(f"user {name} has {proof} no more")
        tell(verb, TAKEN_IN)
        return
    gone = _rights(verb, rights or [], on)
    _change(verb, users, lambda them: revoked(them, name, gone, on))
    typer.echo(f"user {name} may {', '.join(rights or [])}{_where(on)} no more")
    tell(verb, TAKEN_IN)


@app.command("token")
def token(
    name: Name,
    users: File = USERS,
    days: Annotated[int, typer.Option("--days", min=1, max=MAX_TOKEN_DAYS, help="How long it is good.")] = TOKEN_DAYS,
    note: Annotated[str, typer.Option("--note", help="What it is for.")] = "",
) -> None:
    """Make a token, and print it: it is shown this once, and kept by nobody."""
    from transport.security.changes import with_token  # noqa: PLC0415 - the help needs none of it
    from transport.security.proofs import TokenRecord, make_token, token_hash  # noqa: PLC0415 - as above

    made = make_token()
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(days=days)
    record = TokenRecord(token_hash(made), until, note)
    verb = "user token"
    _change(verb, users, lambda them: with_token(them, name, record))
    tell(verb, f"{record.name} of {name}, good until {until:%Y-%m-%d}; it is shown this once")
    tell(verb, TAKEN_IN)
    typer.echo(made)


@app.command("key")
def key(
    name: Name,
    users: File = USERS,
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--key-file",
            metavar="FILE",
            help="The broker's secret.",
            show_default="the users file's name and .key",
            callback=_at_home,
        ),
    ] = None,
) -> None:
    """Make an access key for request signatures, and print both its halves: the secret one is shown this once."""
    from transport.security.changes import user_of, with_access_key  # noqa: PLC0415 - the help needs none of it
    from transport.security.key_file import ensure_key_file  # noqa: PLC0415 - as above
    from transport.security.proofs import access_key_secret, make_key_id  # noqa: PLC0415 - as above

    verb = "user key"
    _read(verb, users, lambda them: user_of(them, name))
    made = make_key_id()
    try:
        secret = access_key_secret(made, ensure_key_file(key_file or users.with_name(users.name + KEY_FILE_SUFFIX)))
    except ValueError as error:
        _refuse(verb, str(error))
    _change(verb, users, lambda them: with_access_key(them, name, made))
    tell(verb, "the secret half is shown this once")
    tell(verb, TAKEN_IN)
    typer.echo(f"{made} {secret}")


@app.command("certificate")
def certificate(
    name: Name,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="As RFC 4514 writes it: CN=alice,O=Example.")],
    users: File = USERS,
) -> None:
    """Have client certificates of a subject stand for a user.

    This prints the subject of one: openssl x509 -noout -subject -nameopt RFC2253,utf8,-esc_msb -in FILE
    """
    from transport.security.changes import with_certificate  # noqa: PLC0415 - the help needs none of it
    from transport.security.subject import written_subject  # noqa: PLC0415 - as above

    verb = "user certificate"
    try:
        subject = written_subject(subject)
    except ValueError as error:
        _refuse(verb, str(error))
    _change(verb, users, lambda them: with_certificate(them, name, subject))
    typer.echo(f"certificates of {subject} stand for user {name}")
    tell(verb, TAKEN_IN)


@app.command("list")
def list_users(
    users: File = USERS,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array instead of a table.")] = False,
) -> None:
    """List the users and what they may do; no secret, and nothing that one could be guessed from, is shown."""
    rows = [_facts(user) for user in _read("user list", users, sorted_users)]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    columns = [(key, key) for key in ("name", "rights", "grants", "proofs")]
    show(written.counted(len(rows), "user"), [_row(facts) for facts in rows], columns)


def sorted_users(users: Users) -> list[User]:
    """By name."""
    return sorted(users, key=lambda user: user.name)


def _facts(user: User) -> dict[str, Any]:
    """A user, as ``--json`` has it."""
    from transport.security.principal import BROKER_RIGHTS, RESOURCE_RIGHTS, name_of  # noqa: PLC0415 - the help needs none

    proofs: list[dict[str, Any]] = [] if user.password is None else [{"kind": "password"}]
    proofs += [
        {
            "kind": "token",
            "id": record.name,
            "until": f"{record.until:%Y-%m-%dT%H:%M:%SZ}" if record.until else None,
            "note": record.note,
        }
        for record in user.tokens
    ]
    proofs += [{"kind": "key", "id": each} for each in user.access_keys]
    proofs += [{"kind": "certificate", "subject": each} for each in user.certificates]
    return {
        "name": user.name,
        "proofs": proofs,
        "rights": [name_of(right) for right in BROKER_RIGHTS if right in user.rights],
        "grants": [
            {"rights": [name_of(right) for right in RESOURCE_RIGHTS if right in each.rights], "on": each.pattern}
            for each in user.grants
        ],
    }


def _row(facts: dict[str, Any]) -> dict[str, Any]:
    """The same, as the table has it: a list in a cell is a line for each where the row is too long."""
    return facts | {
        "grants": [f"{'+'.join(each['rights'])} on {each['on']}" for each in facts["grants"]],
        "proofs": [_proof(each) for each in facts["proofs"]],
    }


def _proof(facts: dict[str, Any]) -> str:
    text = " ".join(str(facts[key]) for key in ("kind", "id", "subject") if key in facts)
    if facts.get("until"):
        text += f" until {facts['until'][: len('2026-12-25')]}"
    return f"{text} ({facts['note']})" if facts.get("note") else text


# What every verb does


def _read(verb: str, path: Path, what: Callable[[Users], T]) -> T:
    from transport.security.users_file import read_users  # noqa: PLC0415 - the help needs none of it

    try:
        return what(read_users(path))
    except ValueError as error:
        _refuse(verb, str(error))


def _change(verb: str, path: Path, change: Callable[[Users], Users], *, begins: bool = False) -> None:
    """Change the users file; where there is none only a verb that ``begins`` one makes it, or its lock."""
    from transport.security.users_file import change_users, is_there, read_users  # noqa: PLC0415 - the help needs none of it

    try:
        if not begins and not is_there(path):
            read_users(path)
        change_users(path, change)
    except ValueError as error:
        _refuse(verb, str(error))


def _refuse(verb: str, text: str) -> NoReturn:
    tell(verb, text)
    raise typer.Exit(EXIT_USAGE)


def _rights(verb: str, names: list[str], on: str | None) -> Right:
    from transport.security.principal import BROKER_RIGHTS, RESOURCE_RIGHTS, Right, right_of  # noqa: PLC0415 - as above

    among = BROKER_RIGHTS if on is None else RESOURCE_RIGHTS
    rights = Right.NONE
    for name in names:
        try:
            right = right_of(name)
        except ValueError as error:
            _refuse(verb, str(error))
        if right not in among:
            queues, broker = "on queues: say which with --on PATTERN", "of the broker: say it without --on"
            _refuse(verb, f"{name} is a right {queues if on is None else broker}")
        rights |= right
    return rights


def _where(on: str | None) -> str:
    return "" if on is None else f" on {on}"


def _new_password(verb: str, file: str | None) -> Verifier:
    from transport.security.verifier import Verifier  # noqa: PLC0415 - the help needs none of it

    try:
        return Verifier.of(_password(verb, file))
    except ValueError as error:
        _refuse(verb, str(error))


def _password(verb: str, file: str | None) -> str:
    if file is None:
        if not _has_terminal():
            _refuse(
                verb,
                "no password, and standard input is not a terminal: use --password-file FILE, or - for standard input",
            )
        return str(typer.prompt("password", hide_input=True, confirmation_prompt=True))
    from transport.security.secret_files import SecretFileError, line_of_standard_input, read_line  # noqa: PLC0415 - as above

    try:
        return line_of_standard_input(sys.stdin.buffer) if file == STDIN else read_line(file)
    except SecretFileError as error:
        _refuse(verb, str(error))
    except OSError as error:
        _refuse(verb, f"{file}: {error.strerror or error}")


def _has_terminal() -> bool:
    return sys.stdin.isatty()
