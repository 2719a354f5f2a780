"""The broker's own secret, from which those of the access keys are made: a file of random bytes that only its owner may read."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Final

from transport.security.proofs import KEY_FILE_BYTES

MODE: Final = 0o600


class KeyFileError(ValueError):
    """The file cannot be read or made, or is none; the text names it and what to do."""


def read_key_file(path: Path) -> bytes:
    """The secret in the file at ``path``.

    Raises:
        KeyFileError: there is none, others may read it, or it is no key file.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror or error}: `penstock user key NAME` makes a key file") from None
    with os.fdopen(file, "rb") as opened:
        facts = os.fstat(file)
        mode = stat.S_IMODE(facts.st_mode)
        if not stat.S_ISREG(facts.st_mode):
            raise KeyFileError(f"{path} is no regular file")
        if mode & ~MODE:
            raise KeyFileError(f"{path} has mode {mode:04o}, and others might read it: chmod 600 {path}")
        content = opened.read(KEY_FILE_BYTES + 1)
    if len(content) != KEY_FILE_BYTES:
        raise KeyFileError(f"{path} is no key file: it is not of {KEY_FILE_BYTES} bytes")
    return content


def ensure_key_file(path: Path) -> bytes:
    """The secret in the file at ``path``, which is made where there is none: it is there whole, or not at all.

    Raises:
        KeyFileError: it cannot be made, or what is there is none.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        if not os.path.lexists(path):
            file = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE)
            try:
                os.write(file, secrets.token_bytes(KEY_FILE_BYTES))
                os.fsync(file)
                # A link is refused where another program was quicker: its secret is then the one.
                os.link(aside, path)
            except FileExistsError:
                pass
            finally:
                os.close(file)
                aside.unlink()
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror or error}") from None
    return read_key_file(path)
