"""What is kept of a password: enough to check it, and not enough to be somebody (RFC 5802, section 3; RFC 7677).

The text form is the one that PostgreSQL has, ``SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>``, binary parts in base64.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import re
import secrets
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import Final

from transport.security.saslprep import PreparationError, saslprep
from transport.wire.protocol import SCRAM

ITERATIONS: Final = 600_000
"""Of PBKDF2 for a new password: OWASP's word for HMAC-SHA-256 (Password Storage Cheat Sheet, 2023); 0.17 s of a processor."""
LEAST_ITERATIONS: Final = 4096
"""RFC 7677, section 4: a client does not answer whoever asks for fewer."""
MOST_ITERATIONS: Final = 10_000_000
"""A client that was told more would be kept busy for seconds by whoever poses as its broker."""
SALT_BYTES: Final = 16
KEY_BYTES: Final = 32
MOST_SALT_BYTES: Final = 64

_TEXT: Final = re.compile(
    rf"{SCRAM}\$(?P<iterations>[0-9]{{1,9}}):(?P<salt>[A-Za-z0-9+/=]+)\$(?P<stored>[A-Za-z0-9+/=]+):(?P<server>[A-Za-z0-9+/=]+)"
)


@dataclass(frozen=True, slots=True)
class Keys:
    """What a client makes of a password: the secret that a proof needs, and the key that the broker proves itself with."""

    client: bytes = field(repr=False)
    server: bytes = field(repr=False)

    @property
    def stored(self) -> bytes:
        """What the broker keeps of the client's key: it can check a proof with it and make none."""
        return hashlib.sha256(self.client).digest()


def derive(password: str, salt: bytes, iterations: int) -> Keys:
    """The keys of a password. It takes a processor a fifth of a second at `ITERATIONS`: not for an event loop.

    Raises:
        PreparationError: no password can be so.
    """
    salted = hashlib.pbkdf2_hmac("sha256", saslprep(password).encode(), salt, iterations)
    return Keys(hmac.digest(salted, b"Client Key", "sha256"), hmac.digest(salted, b"Server Key", "sha256"))


@dataclass(frozen=True, slots=True)
class Verifier:
    """A password's record.

    Attributes:
        salt: random, so that equal passwords have different records.
        iterations: how much work one guess is.
        stored: SHA-256 of the client's key.
        server: the server's key, with which the broker shows that it has the record.
    """

    salt: bytes
    iterations: int
    stored: bytes = field(repr=False)
    server: bytes = field(repr=False)

    @classmethod
    def of(cls, password: str, iterations: int = ITERATIONS, salt: bytes | None = None) -> Verifier:
        """A new record of ``password``.

        Raises:
            PreparationError: no password can be so.
        """
        salt = secrets.token_bytes(SALT_BYTES) if salt is None else salt
        keys = derive(password, salt, iterations)
        return cls(salt, iterations, keys.stored, keys.server)

    @classmethod
    def of_nobody(cls, name: str, key: bytes) -> Verifier:
        """A record that no password fits, for a name that nobody has: always the same one, so that asking twice tells nothing.

        Args:
            name: the name that was asked for.
            key: a secret of this process.
        """
        salt = hmac.digest(key, b"salt " + name.encode("utf-8", "surrogatepass"), "sha256")[:SALT_BYTES]
        stored = hmac.digest(key, b"stored " + salt, "sha256")
        return cls(salt, ITERATIONS, stored, hmac.digest(key, b"server " + salt, "sha256"))

    def fits(self, password: str) -> bool:
        """Whether it is the password: the work of one guess, so for a thread of its own."""
        try:
            keys = derive(password, self.salt, self.iterations)
        except PreparationError:
            return False
        return hmac.compare_digest(keys.stored, self.stored)

    @property
    def text(self) -> str:
        """As the users file has it."""
        salt, stored, server = (b64encode(part).decode() for part in (self.salt, self.stored, self.server))
        return f"{SCRAM}${self.iterations}:{salt}${stored}:{server}"

    @classmethod
    def from_text(cls, text: str) -> Verifier:
        """The record of `text`.

        Raises:
            ValueError: it is none; the text is not shown.
        """
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"no verifier of {SCRAM}: make one with `penstock user passwd NAME`")
        iterations = int(match["iterations"])
        if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
            raise ValueError(f"a verifier with {iterations} iterations is outside {LEAST_ITERATIONS}-{MOST_ITERATIONS}")
        try:
            salt, stored, server = (b64decode(match[part], validate=True) for part in ("salt", "stored", "server"))
        except binascii.Error:
            raise ValueError("a verifier whose parts are no base64") from None
        if not 1 <= len(salt) <= MOST_SALT_BYTES or len(stored) != KEY_BYTES or len(server) != KEY_BYTES:
            raise ValueError(f"a verifier whose salt is not of 1-{MOST_SALT_BYTES} bytes, or a key not of {KEY_BYTES}")
        return cls(salt, iterations, stored, server)
