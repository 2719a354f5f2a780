"""Files that hold secrets: how they are opened, whose they may be, and how they are put in their place.

There are two kinds. What `penstock user` keeps, the users file and the key file, is one user's own, and refused where others might read it
(`read_own`). A password or a token of a client is one line, in a file or a pipe (`read_line`). Where others may read it, a warning says so
and no more: secrets that a container platform mounts are often readable for all, in a folder that nobody else has.

No open waits: a pipe that nobody writes to, in the place of a file of one's own, is refused at once.
"""

from __future__ import annotations

import logging
import os
import select
import stat
import time
from pathlib import Path
from typing import BinaryIO, Final

from transport.security.access import MAX_SECRET_BYTES

MODE: Final = 0o600
"""Of a file of one's own."""
OWNERS_ALONE: Final = 0o077
"""Bits of a mode that let others at a file. Where root has it, its group may read it: a service's secrets are given so."""
ROOTS_GROUP: Final = 0o040
_BLOCK: Final = 4096
PIPE_SECONDS: Final = 60.0
"""For a pipe's other end to write the line: somebody may have to type it."""

logger = logging.getLogger("penstock.access")


class SecretFileError(ValueError):
    """A file that is not of one's own, or holds no secret; the text names it, says what to do, and shows nothing of what it holds."""


def _opened(path: str | Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)


# Of one's own


def open_own(path: Path) -> BinaryIO:
    """The file at ``path``, to be read, which is a regular one that only its owner may read: this user, or root.

    Raises:
        OSError: it cannot be opened.
        SecretFileError: it is another's, others might read it, or it is no file.
    """
    file = _opened(path)
    try:
        _check_own(path, os.fstat(file))
        return os.fdopen(file, "rb")
    except BaseException:
        os.close(file)
        raise


def read_own(path: Path, most: int) -> bytes:
    """What the file at ``path`` holds, or the first ``most`` bytes and one more; as of `open_own`."""
    with open_own(path) as opened:
        return opened.read(most + 1)


def _check_own(path: Path, facts: os.stat_result) -> None:
    if not stat.S_ISREG(facts.st_mode):
        raise SecretFileError(f"{path} is no regular file")
    mode = stat.S_IMODE(facts.st_mode)
    if mode & ~MODE:
        raise SecretFileError(f"{path} has mode {mode:04o}, and others might read it: chmod 600 {path}")
    if facts.st_uid not in {0, os.geteuid()}:
        raise SecretFileError(
            f"{path} belongs to the user with number {facts.st_uid}, not to this one ({os.geteuid()}): "
            f"run this as its owner, as in `{_as_user(facts.st_uid)} penstock user ...`"
        )


def _as_user(user: int) -> str:
    """What runs a command as them. sudo knows no user that this machine has no name for, as for a container's; there root says a number."""
    import pwd  # noqa: PLC0415 - for this error alone

    try:
        return f"sudo -u {pwd.getpwuid(user).pw_name}"
    except KeyError:
        return f"sudo setpriv --reuid {user} --regid {user} --clear-groups"


# One line


def read_line(path: str) -> str:
    """The one line of the file, or the pipe, at ``path``. A pipe is waited for, `PIPE_SECONDS`.

    Raises:
        OSError: it cannot be read.
        SecretFileError: it holds something else.
    """
    return one_line(_read(path, 1), path)


def read_one_or_two_lines(path: str) -> tuple[str, ...]:
    """The one line of a file or a pipe, or the two, each a secret; as of `read_line`. While a secret is changed there are two."""
    content = _read(path, 2)
    first, end, second = content.partition(b"\n")
    if not end or not second:
        return (one_line(content, path),)
    return one_line(first + end, path), one_line(second, path)


def _read(path: str, lines: int) -> bytes:
    file = _opened(path)
    try:
        facts = os.fstat(file)
        _warn_of_readers(path, facts)
        return _beginning(file, path, lines, wait=not stat.S_ISREG(facts.st_mode))
    finally:
        os.close(file)


def line_of_standard_input(opened: BinaryIO) -> str:
    """The one line of ``opened``, the standard input; as of `read_line`."""
    return one_line(opened.read(MAX_SECRET_BYTES + len(b"\r\n") + 1), "standard input")


def one_line(content: bytes, name: str) -> str:
    """The secret in ``content``, what stands at the beginning of the file called ``name``.

    Raises:
        SecretFileError: it is not one line of up to `MAX_SECRET_BYTES`.
    """
    line = content.removesuffix(b"\n").removesuffix(b"\r")
    if len(line) > MAX_SECRET_BYTES:
        raise SecretFileError(f"{name} holds more than the {MAX_SECRET_BYTES} bytes of a password or a token")
    if not line or b"\n" in line:
        raise SecretFileError(
            f"{name} is to hold one line, a password or a token, and {'has more' if line else 'is empty'}"
        )
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise SecretFileError(f"{name} is not UTF-8") from None


def _beginning(file: int, path: str, lines: int, *, wait: bool) -> bytes:
    """What is there up to the end, or to one byte more than so many secrets and the ends of their lines can have."""
    most = lines * (MAX_SECRET_BYTES + len(b"\r\n")) + 1
    poll = select.poll()
    poll.register(file, select.POLLIN)
    content = b""
    until = time.monotonic() + PIPE_SECONDS
    while len(content) < most:
        # Of a pipe that nobody has opened yet to write, a read would say that it is at its end.
        if wait and not poll.poll(max(0.0, until - time.monotonic()) * 1000):
            raise SecretFileError(
                f"{path} is a pipe, and nobody has written a line into it within {PIPE_SECONDS:.0f} s"
            )
        try:
            block = os.read(file, min(_BLOCK, most - len(content)))
        except BlockingIOError:
            continue
        if not block:
            break
        content += block
    return content


def _warn_of_readers(path: str, facts: os.stat_result) -> None:
    allowed = ROOTS_GROUP if facts.st_uid == 0 else 0
    mode = stat.S_IMODE(facts.st_mode)
    if stat.S_ISREG(facts.st_mode) and mode & OWNERS_ALONE & ~allowed:
        logger.warning("%s holds a secret and has mode %04o, so others may read it: chmod 600 %s", path, mode, path)


# Put in their place


def write_synced(file: int, content: bytes) -> None:
    """All of ``content``, which is on the disk when this returns."""
    view = memoryview(content)
    while view:
        view = view[os.write(file, view) :]
    os.fsync(file)


def sync_folder(path: Path) -> None:
    """Have what its names stand for on the disk."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def replace_file(path: Path, content: bytes) -> None:
    """A new file, for its owner's eyes, in the place of the old one: whoever looks finds the one or the other, whole.

    Nobody else may change it meanwhile: both would write the same file beside it.
    """
    aside = path.with_name(f".{path.name}.new")
    file = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, MODE)
    try:
        os.fchmod(file, MODE)
        write_synced(file, content)
    finally:
        os.close(file)
    aside.replace(path)
    sync_folder(path.parent)
