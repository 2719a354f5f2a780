"""Contexts: what one name says of a broker, kept in a TOML file of the user's own. Secrets are not in it, only names of files with them.

::

    current = "prod"                      # the one that counts where none is named; may be left out

    [contexts.prod]
    send_address = "broker.example:9182"
    receive_address = "broker.example:9183"
    user = "ann"                          # this and all that follows as in `GivenAccess`
    password_file = "/srv/ann/penstock-password"
    tls = true

A change is made under a lock, by a new file in the place of the old one. Two programs that change it lose nothing, and whoever reads it
sees one or the other. What a later version has written and this one does not know is kept as it is.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from transport.errors import LocalProtocolError, TransportError
from transport.wire.address import DEFAULT_SEND_ADDRESS, MAX_PORT, RECEIVE_PORT, SEND_PORT, Address
from transport.wire.contact_points import parse_contact_points, written

CONTEXT_VARIABLE: Final = "PENSTOCK_CONTEXT"
FILE_NAME: Final = "contexts.toml"
MAX_FILE_BYTES: Final = 256 * 1024
MAX_CONTEXTS: Final = 256
MAX_VALUE_CHARACTERS: Final = 4096
"""Of one value: as long as Linux has names of files."""
LOCK_SECONDS: Final = 5.0
"""To wait for another program that changes the file: a change takes milliseconds."""
FIELDS: Final = (
    "user",
    "password_file",
    "token_file",
    "tls",
    "tls_ca",
    "tls_certificate",
    "tls_key",
    "tls_server_name",
)
"""What a context may say of the access, by the names in `GivenAccess`."""
PATHS: Final = ("password_file", "token_file", "tls_ca", "tls_certificate", "tls_key")
"""Of these, the files."""
ADDRESSES: Final = ("send_address", "receive_address")
SECRETS: Final = ("password", "token")
NEXT_PORT: Final = RECEIVE_PORT - SEND_PORT
"""Receivers are served behind the senders' port, unless something else is said."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


class ContextError(LocalProtocolError):
    """A context, or the file of contexts, that cannot be used."""


@dataclass
class Contexts:
    """What the file says.

    Attributes:
        current: the name of the one that counts where none is named; None for none.
        by_name: what each says, by its keys.
        others: what else stands in the file.
    """

    current: str | None = None
    by_name: dict[str, dict[str, Any]] = field(default_factory=dict)
    others: dict[str, Any] = field(default_factory=dict)

    def get(self, name: str) -> dict[str, Any]:
        """The context of this name; ContextError where there is none, with the names that there are."""
        if name not in self.by_name:
            there = ", ".join(sorted(self.by_name))
            known = f"there are {there}" if there else "there are none yet; `penstock context add` makes one"
            raise ContextError(f"there is no context {name}: {known}")
        return self.by_name[name]


def contexts_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the file is: in ``$XDG_CONFIG_HOME``, or ``~/.config``. A relative one does not count, as the XDG specification has it."""
    base = environment.get("XDG_CONFIG_HOME", "")
    folder = Path(base) if os.path.isabs(base) else Path(os.path.expanduser("~/.config"))
    return folder / "penstock" / FILE_NAME


def check_context_name(name: str) -> str:
    """``name`` if it can be a context's; ContextError otherwise."""
    if _NAME.fullmatch(name) is None:
        raise ContextError(
            f"the context name {name!r:.80} is not 1-64 letters, digits, dots, dashes and underscores that begin with a letter or digit"
        )
    return name


def both_addresses(address: str | None, receive_address: str | None) -> dict[str, str]:
    """Both, of what was said of them: a host is enough, and the receiving port follows the sending one."""
    sending = parse_contact_points(address or DEFAULT_SEND_ADDRESS, "--address", SEND_PORT)
    if receive_address is not None:
        receiving = parse_contact_points(receive_address, "--receive-address", RECEIVE_PORT)
    elif (last := max(each.port for each in sending)) + NEXT_PORT > MAX_PORT:
        raise LocalProtocolError(f"there is no port after {last}: give --receive-address")
    else:
        receiving = tuple(Address(each.host, each.port + NEXT_PORT) for each in sending)
    return {"send_address": written(sending), "receive_address": written(receiving)}


def read_contexts(path: Path) -> Contexts:
    """What the file at ``path`` says; nothing where there is none.

    Raises:
        ContextError: it cannot be read, is too large, is no such file, or others may write it.
    """
    try:
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (FileNotFoundError, NotADirectoryError):
        return Contexts()
    except OSError as error:
        raise ContextError(f"{path}: {error.strerror or error}") from None
    facts = os.fstat(opened)
    if not stat.S_ISREG(facts.st_mode):
        os.close(opened)
        raise ContextError(f"{path} is no file: move it away")
    with os.fdopen(opened, "rb") as file:
        if facts.st_mode & 0o022 or facts.st_uid not in {0, os.geteuid()}:
            raise ContextError(f"{path} can be changed by others, who could name another broker: chmod 600 {path}")
        try:
            content = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise ContextError(f"{path}: {error.strerror or error}") from None
    return _parsed(content, path)


def change_contexts(path: Path, change: Callable[[Contexts], None]) -> None:
    """Read the file anew, have ``change`` change what it says, and put that in its place; nobody else changes it meanwhile.

    Raises:
        ContextError: as of `read_contexts`; or what it would say is too much, or cannot be written.
    """
    from transport.security.secret_files import replace_file  # noqa: PLC0415 - for changes alone

    try:
        # Where it is a link, as to files that are kept together, what it leads to is changed, and the link stays.
        path = Path(os.path.realpath(path))
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone(path):
            contexts = read_contexts(path)
            change(contexts)
            content = _encoded(_text(contexts), path)
            # What cannot be read again shall not be written.
            _parsed(content, path)
            replace_file(path, content)
    except OSError as error:
        raise ContextError(f"{path}: {error.strerror or error}") from None


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the lock of the file's changes: a file of its own, for the file itself is replaced."""
    import fcntl  # noqa: PLC0415 - for changes alone
    import threading  # noqa: PLC0415 - as above

    lock = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    # flock has no deadline, so a thread waits for it; one that waits in vain ends with the program, and has the lock file till then.
    waiting = threading.Thread(target=fcntl.flock, args=(lock, fcntl.LOCK_EX), daemon=True)
    waiting.start()
    waiting.join(LOCK_SECONDS)
    if waiting.is_alive():
        raise ContextError(f"{path} is being changed by another program: try again")
    try:
        yield
    finally:
        os.close(lock)


def _parsed(content: bytes, path: Path) -> Contexts:
    import tomllib  # noqa: PLC0415 - where there is such a file

    if len(content) > MAX_FILE_BYTES:
        raise ContextError(f"{path} has more than {MAX_FILE_BYTES} bytes: remove contexts that nobody needs")
    try:
        facts = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise ContextError(f"{path}: {error or 'it is nested too deeply'}") from None
    current = facts.pop("current", None)
    if current is not None and not isinstance(current, str):
        raise ContextError(f"{path}: current is the name of a context, not {current!r:.40}")
    by_name = facts.pop("contexts", {})
    if not isinstance(by_name, dict) or not all(isinstance(each, dict) for each in by_name.values()):
        raise ContextError(f"{path}: contexts are tables, as [contexts.prod]")
    if len(by_name) > MAX_CONTEXTS:
        raise ContextError(f"{path} has {len(by_name)} contexts, {MAX_CONTEXTS} are the most: remove some")
    for name, context in by_name.items():
        _check(name, context, path)
    return Contexts(current, by_name, facts)


def _check(name: str, context: dict[str, Any], path: Path) -> None:
    """Raise where ``context`` says what cannot be."""
    try:
        check_context_name(name)
        for key in SECRETS:
            if key in context:
                raise ContextError(f"{key} is a secret, and has no place here: name a file that has it, as {key}_file")
        for key in (*ADDRESSES, *FIELDS):
            value = context.get(key)
            if value is not None and not isinstance(value, bool if key == "tls" else str):
                raise ContextError(f"{key} is {value!r:.40}, not {'true or false' if key == 'tls' else 'a text'}")
            if isinstance(value, str) and not 1 <= len(value) <= MAX_VALUE_CHARACTERS:
                raise ContextError(f"{key} has {len(value)} characters; 1-{MAX_VALUE_CHARACTERS} are possible")
        for key in ADDRESSES:
            if key not in context:
                raise ContextError(f"{key} is missing")
            parse_contact_points(context[key], key)
    except TransportError as error:
        raise ContextError(f"{path}: context {name!r:.80}: {error}") from None


def _text(contexts: Contexts) -> str:
    """The file's content."""
    top = {} if contexts.current is None else {"current": contexts.current}
    tables = {f"contexts.{_key(name)}": context for name, context in contexts.by_name.items()}
    lines = ["# Kept by `penstock context`. There are no secrets in it, only names of files that have them."]
    for key, value in contexts.others.items():
        if isinstance(value, dict):
            tables[_key(key)] = value
        else:
            top[key] = value
    lines += [f"{_key(key)} = {_value(value)}" for key, value in top.items()]
    for title, facts in tables.items():
        lines += ["", f"[{title}]", *(f"{_key(key)} = {_value(value)}" for key, value in facts.items())]
    return "\n".join(lines) + "\n"


def _encoded(text: str, path: Path) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        wrong = next(line for line in text.splitlines() if not line.isascii() and _is_no_text(line))
        raise ContextError(f"{path} takes texts in UTF-8, and this is none: {wrong!r:.80}") from error


def _is_no_text(line: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in line)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _value(name)


def _value(value: Any) -> str:
    """A value as TOML has it."""
    import json  # noqa: PLC0415 - for changes alone

    if isinstance(value, str):
        # A string of JSON is one of TOML, but for one control character.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool | int | float):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_key(key)} = {_value(each)}' for key, each in value.items())}}}"
    # Dates and times.
    return str(value.isoformat())
