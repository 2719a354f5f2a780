"""The users file: TOML that only its owner may read, changed by a new file in the place of the old one.

It is read whole and refused whole: a broker whose file is wrong starts not at all, or goes on with the users that it has.
"""

from __future__ import annotations

import fcntl
import os
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from transport.security.principal import BROKER_RIGHTS, RESOURCE_RIGHTS, Grant, Right, name_of, right_of
from transport.security.proofs import HASH_BYTES, TokenRecord, is_key_id
from transport.security.secret_files import MODE, SecretFileError, open_own, read_own, replace_file
from transport.security.users import DECOY_KEY_BYTES, User, Users, UsersError
from transport.security.verifier import Verifier

T = TypeVar("T")

FORMAT: Final = 1
MAX_FILE_BYTES: Final = 32 << 20
"""More than `MAX_USERS` of the usual kind need."""
MAX_NOTE: Final = 255

_USER_KEYS: Final = {"password", "rights", "grants", "tokens", "access_keys", "certificates"}
_HEAD: Final = f"""# The users of a Penstock broker: `penstock user` keeps this file, and only its owner may read it.
version = {FORMAT}
"""


class UsersFileError(UsersError):
    """The file cannot be read or written, or does not say what it must; the text names the file and what to do."""


def read_users(path: Path) -> Users:
    """The users of the file at ``path``.

    Raises:
        UsersFileError: there is none, others may read it, or it is wrong.
    """
    with _errors_of(path):
        content = read_own(path, MAX_FILE_BYTES)
    if len(content) > MAX_FILE_BYTES:
        raise UsersFileError(f"{path} has more than {MAX_FILE_BYTES} bytes: it is no users file")
    return parse_users(content, str(path))


@contextmanager
def _errors_of(path: Path) -> Iterator[None]:
    """What goes wrong with the file itself is said as a `UsersFileError`."""
    try:
        yield
    except FileNotFoundError as error:
        raise UsersFileError(
            f"{path}: {error.strerror or error}: `penstock user add NAME --users-file FILE` makes a users file"
        ) from None
    except PermissionError as error:
        raise UsersFileError(
            f"{path}: {error.strerror or error}: it is to belong to the user that the broker runs as, "
            "as what `sudo -u NAME penstock user ...` makes does"
        ) from None
    except OSError as error:
        raise UsersFileError(f"{path}: {error.strerror or error}") from None
    except SecretFileError as error:
        raise UsersFileError(str(error)) from None


def parse_users(content: bytes, name: str = "users file") -> Users:
    """The users that ``content`` tells of.

    Args:
        content: the file.
        name: what errors call it.

    Raises:
        UsersFileError: it is no TOML, or says something that is not known: an unknown word may be a misspelled restriction.
    """
    try:
        told = tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsersFileError(f"{name}: {error}") from None
    except RecursionError:
        raise UsersFileError(f"{name}: its brackets are nested too deeply") from None
    except ValueError:
        # The one thing that `tomllib` leaves to Python: a number of more digits than `int` takes.
        raise UsersFileError(f"{name}: a number in it has too many digits") from None
    try:
        version = told.pop("version", None)
        # To Python a truth is a number too.
        if type(version) is not int or version != FORMAT:
            raise UsersError(f"`version = {FORMAT}` is missing: this program reads no other")
        users = _taken(told, "users", dict, {})
        decoy = _taken(told, "decoy", str, "")
        _nothing_left(told, "the file")
        return Users([_user(each, facts) for each, facts in users.items()], _decoy_key(decoy))
    except (ValueError, TypeError) as error:
        raise UsersFileError(f"{name}: {error}") from None


def _decoy_key(text: str) -> bytes | None:
    if not text:
        return None
    key = bytes.fromhex(text)
    if len(key) != DECOY_KEY_BYTES:
        raise UsersError(
            f"`decoy` has {len(key)} bytes, not {DECOY_KEY_BYTES}: leave it out, and the next change makes another"
        )
    return key


def _user(name: str, facts: Any) -> User:
    try:
        if not isinstance(facts, dict):
            raise UsersError("is no table")
        _nothing_left({key: value for key, value in facts.items() if key not in _USER_KEYS}, "it")
        password = _taken(facts, "password", str, "")
        return User(
            name,
            Verifier.from_text(password) if password else None,
            _rights(_taken(facts, "rights", list, []), BROKER_RIGHTS),
            tuple(map(_grant, _taken(facts, "grants", list, []))),
            tuple(map(_token, _taken(facts, "tokens", list, []))),
            tuple(map(_key, _taken(facts, "access_keys", list, []))),
            tuple(_each(_taken(facts, "certificates", list, []), str, "a certificate's subject")),
        )
    except ValueError as error:
        raise UsersError(f"the user {name!r:.80}: {error}") from None


def _taken(facts: dict[str, Any], key: str, kind: type[T], missing: T) -> T:
    value = facts.pop(key, missing)
    if type(value) is not kind:
        raise UsersError(f"`{key}` is to be of TOML's kind {kind.__name__}, not {type(value).__name__}")
    return value


def _nothing_left(facts: dict[str, Any], where: str) -> None:
    if facts:
        raise UsersError(
            f"{where} has {', '.join(f'`{key:.40}`' for key in sorted(facts)[:5])}, which this program does not know"
        )


def _each(values: list[Any], kind: type[T], what: str) -> Iterator[T]:
    for value in values:
        if type(value) is not kind:
            raise UsersError(f"{what} is to be of TOML's kind {kind.__name__}, not {type(value).__name__}")
        yield value


def _rights(names: list[Any], among: tuple[Right, ...]) -> Right:
    rights = Right.NONE
    for name in _each(names, str, "a right"):
        right = right_of(name)
        if right not in among:
            raise UsersError(f"the right {name} is none of {', '.join(map(name_of, among))}, which can stand here")
        rights |= right
    return rights


def _grant(facts: Any) -> Grant:
    (table,) = _each([facts], dict, "a grant")
    left: dict[str, Any] = dict(table)
    pattern = _taken(left, "names", str, "")
    rights = _taken(left, "rights", list, [])
    _nothing_left(left, "a grant")
    return Grant(pattern, _rights(rights, RESOURCE_RIGHTS))


def _token(facts: Any) -> TokenRecord:
    (table,) = _each([facts], dict, "a token")
    left: dict[str, Any] = dict(table)
    digest = _taken(left, "hash", str, "")
    until = left.pop("until", None)
    note = _taken(left, "note", str, "")
    _nothing_left(left, "a token")
    if until is not None and (type(until) is not datetime or until.tzinfo is None):
        raise UsersError("a token's `until` is to be a moment with its zone, as 2027-01-31T00:00:00Z")
    if until is not None:
        try:
            until = until.astimezone(UTC)
        except OverflowError:
            raise UsersError(
                f"a token's `until` is {until.isoformat()}, and no moment of the years 1 to 9999 in UTC"
            ) from None
    if len(note) > MAX_NOTE:
        raise UsersError(f"a token's note has {len(note)} characters, {MAX_NOTE} is the most")
    try:
        binary = bytes.fromhex(digest)
    except ValueError:
        binary = b""
    if len(binary) != HASH_BYTES:
        raise UsersError(f"a token's hash is to be of {HASH_BYTES} bytes, in hexadecimal")
    return TokenRecord(binary, until, note)


def _key(value: Any) -> str:
    (key,) = _each([value], str, "an access key")
    if not is_key_id(key):
        raise UsersError("an access key is not as `penstock user key` makes them")
    return key


# Writing


def users_text(users: Users) -> str:
    """The file's text."""
    return f"{_HEAD}decoy = {_quoted(users.decoy_key.hex())}\n" + "".join(map(_user_text, users))


def _user_text(user: User) -> str:
    lines = [f"\n[users.{_quoted(user.name)}]"]
    if user.password is not None:
        lines.append(f"password = {_quoted(user.password.text)}")
    lines.append(f"rights = {_rights_text(user.rights, BROKER_RIGHTS)}")
    lines += _list_text(
        "grants",
        [
            f"{{ names = {_quoted(grant.pattern)}, rights = {_rights_text(grant.rights, RESOURCE_RIGHTS)} }}"
            for grant in user.grants
        ],
    )
    lines += _list_text("tokens", list(map(_token_text, user.tokens)))
    lines += _list_text("access_keys", list(map(_quoted, user.access_keys)))
    lines += _list_text("certificates", list(map(_quoted, user.certificates)))
    return "\n".join(lines) + "\n"


def _list_text(key: str, values: list[str]) -> list[str]:
    return [f"{key} = [", *(f"    {value}," for value in values), "]"] if values else []


def _rights_text(rights: Right, among: tuple[Right, ...]) -> str:
    return f"[{', '.join(_quoted(name_of(right)) for right in among if right in rights)}]"


def _token_text(record: TokenRecord) -> str:
    until = "" if record.until is None else f", until = {_moment_text(record.until)}"
    note = f", note = {_quoted(record.note)}" if record.note else ""
    return f"{{ hash = {_quoted(record.hash.hex())}{until}{note} }}"


def _moment_text(moment: datetime) -> str:
    try:
        return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except OverflowError:
        raise UsersFileError(f"{moment.isoformat()} is no moment of the years 1 to 9999 in UTC") from None


def _quoted(text: str) -> str:
    """A basic string of TOML (TOML 1.0.0, "String")."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(each if each.isprintable() else _escape(each) for each in escaped) + '"'


def _escape(each: str) -> str:
    code = ord(each)
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"


def is_there(path: Path) -> bool:
    """Whether there is a users file; raises UsersFileError where it is another's, or one cannot even look."""
    with _errors_of(path):
        try:
            open_own(path).close()
        except FileNotFoundError:
            return False
        return True


def change_users(path: Path, change: Callable[[Users], Users]) -> Users:
    """Read the file, or begin one, and put ``change`` of its users in its place: the old file or the new one is there at any moment.

    Raises:
        UsersFileError: the file is wrong, cannot be written, or is being changed by another program.
    """
    # What is another's is refused before a lock is left beside it that its owner could not open.
    is_there(path)
    try:
        with _alone(path):
            old = read_users(path) if is_there(path) else Users()
            new = change(old)
            content = users_text(new).encode()
            parse_users(content, f"{path} as it would be")
            _replace(path, content)
            return new
    except OSError as error:
        raise UsersFileError(f"{path}: {error.strerror or error}") from None


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the lock of the file's changes; it is a file of its own, for the file itself is replaced."""
    beside = path.with_name(f".{path.name}.lock")
    try:
        lock = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW, MODE)
    except PermissionError as error:
        if not beside.exists():
            raise
        raise UsersFileError(f"{beside}: {error.strerror}: another user has left it there; remove it") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsersFileError(f"{path} is being changed by another program: try again") from None
        yield
    finally:
        os.close(lock)


def _replace(path: Path, content: bytes) -> None:
    if len(content) > MAX_FILE_BYTES:
        raise UsersFileError(
            f"{path} would have {len(content)} bytes, {MAX_FILE_BYTES} is the most: use fewer users or grants"
        )
    replace_file(path, content)
