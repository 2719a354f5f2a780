"""The broker's own secret, from which those of the access keys are made: a file of random bytes that only its owner may read."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from transport.security.proofs import KEY_FILE_BYTES
from transport.security.secret_files import MODE, SecretFileError, read_own, sync_folder, write_synced


class KeyFileError(ValueError):
    """The file cannot be read or made, or is none; the text names it and what to do."""


def read_key_file(path: Path) -> bytes:
    """The secret in the file at ``path``.

    Raises:
        KeyFileError: there is none, it is another's, others may read it, or it is no key file.
    """
    try:
        content = read_own(path, KEY_FILE_BYTES)
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror or error}: `penstock user key NAME` makes a key file") from None
    except SecretFileError as error:
        raise KeyFileError(str(error)) from None
    if len(content) != KEY_FILE_BYTES:
        raise KeyFileError(f"{path} is no key file: it is not of {KEY_FILE_BYTES} bytes")
    return content


def ensure_key_file(path: Path) -> bytes:
    """The secret in the file at ``path``, which is made where there is none: it is there whole, or not at all.

    Raises:
        KeyFileError: it cannot be made, or what is there is none.
    """
    try:
        if not os.path.lexists(path):
            _make(path)
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror or error}") from None
    return read_key_file(path)


def _make(path: Path) -> None:
    # A name that nobody has had: in a container every program has the same number, and one that was killed leaves its file behind.
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    file = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE)
    try:
        os.fchmod(file, MODE)
        write_synced(file, secrets.token_bytes(KEY_FILE_BYTES))
        # A link is refused where another program was quicker: its secret is then the one.
        os.link(aside, path)
    except FileExistsError:
        pass
    finally:
        os.close(file)
        aside.unlink()
    sync_folder(path.parent)
