"""The files of TLS, for brokers and clients: read, and where that fails it is said which of them is to blame, and for what."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from transport.errors import LocalProtocolError

if TYPE_CHECKING:
    import ssl

MAX_PEM_BYTES: Final = 1 << 20
"""Of a file that cannot be used, and is looked through for why: the authorities of a system take a quarter of it."""
_CERTIFICATE: Final = b"CERTIFICATE-----"
_KEY: Final = b"PRIVATE KEY-----"
"""What the first line of such a thing ends with in PEM, of whatever kind it is (RFC 7468)."""


def check_there(*files: str | None) -> None:
    """Look at all of a broker's files, which it reads again and again, before one is read.

    Of a pipe it would wait for a writer, and for ever where the pipe is gone meanwhile.

    Raises:
        LocalProtocolError: some are not there, or are neither files nor folders; each is told.
    """
    wrong = {file: why for file in files if file is not None and (why := _not_there(file)) is not None}
    if wrong:
        raise _cannot(", ".join(wrong), "; ".join(wrong.values()))


def _not_there(file: str) -> str | None:
    try:
        mode = Path(file).stat().st_mode
    except OSError as error:
        return f"{file}: {error.strerror or error}"
    return None if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else f"{file}: it is no regular file"


def load_own(context: ssl.SSLContext, certificate: str, key: str | None, key_setting: str) -> None:
    """Have ``context`` show a certificate.

    Args:
        context: a broker's or a client's.
        certificate: its file, PEM, with its chain.
        key: the key's; None where the certificate's file has it too.
        key_setting: what names the key's file, for errors.

    Raises:
        LocalProtocolError: a file cannot be read, or holds something else.
    """
    try:
        # Never ask at a terminal for the password of a key: nobody may sit there.
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:
        files = certificate if key is None else f"{certificate}, {key}"
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            raise _cannot(files, "the key is not the certificate's: name the two that were made together") from error
        raise _cannot(files, _wrong_with_own(certificate, key, key_setting) or str(error)) from error


def trusting(file: str | None) -> ssl.SSLContext:
    """A client's context that trusts the certificates of a file, PEM; None is those that the system trusts. Raises as `load_own`."""
    import ssl  # noqa: PLC0415 - a client without TLS does not load it

    try:
        return ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=file)
    except (OSError, ValueError) as error:
        raise authorities_failed(file, error) from error


def authorities_failed(file: str | None, error: Exception) -> LocalProtocolError:
    """What to raise where the certificates that are trusted could not be loaded."""
    if file is None:
        return _cannot("the authorities of this system", str(error))
    return _cannot(file, _wrong_with(file, _CERTIFICATE, "certificate") or str(error))


def _wrong_with_own(certificate: str, key: str | None, key_setting: str) -> str | None:
    """What is wrong with which of the two, as far as one sees without TLS."""
    if (wrong := _wrong_with(certificate, _CERTIFICATE, "certificate")) is not None:
        return wrong
    if key is not None:
        return _wrong_with(key, _KEY, "key")
    wrong = _wrong_with(certificate, _KEY, "key")
    return None if wrong is None else f"{wrong}: give {key_setting}, the file that has it"


def _wrong_with(file: str, mark: bytes, what: str) -> str | None:
    path = Path(file)
    try:
        if not path.is_dir() and not stat.S_ISREG(path.stat().st_mode):
            # It cannot be read a second time.
            return None
        with path.open("rb") as opened:
            content = opened.read(MAX_PEM_BYTES + 1)
    except OSError as error:
        return f"{file}: {error.strerror or error}"
    if len(content) > MAX_PEM_BYTES:
        return f"{file} has more than {MAX_PEM_BYTES} bytes: it is no file of a {what}"
    return None if mark in content else f"{file} has no {what} in it"


def _cannot(files: str, why: str) -> LocalProtocolError:
    return LocalProtocolError(f"TLS cannot be set up with {files}: {why}")


def _no_password() -> str:
    raise ValueError("the key has a password; give one that has none, readable by its owner alone")
