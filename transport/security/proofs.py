"""Proofs that programs carry in place of a password: tokens, and the keys that sign requests."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from base64 import b64encode
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

TOKEN_PREFIX: Final = "penstock_"  # noqa: S105 - so that whoever finds one in a file knows what it is
TOKEN_BYTES: Final = 32
HASH_BYTES: Final = 32
KEY_ID_PREFIX: Final = "PK"
KEY_ID_BYTES: Final = 9
KEY_FILE_BYTES: Final = 32
"""Of the broker's own secret, from which those of the access keys are made."""

_TOKEN: Final = re.compile(rf"{TOKEN_PREFIX}[A-Za-z0-9_-]{{43}}")
_KEY_ID: Final = re.compile(rf"{KEY_ID_PREFIX}[A-F0-9]{{{2 * KEY_ID_BYTES}}}")


def make_token() -> str:
    """256 random bits as text; shown once, kept by nobody here."""
    return TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)


def looks_like_token(text: str) -> bool:
    """Whether it has the form of one; anything else is nobody's token."""
    return _TOKEN.fullmatch(text) is not None


def token_hash(token: str) -> bytes:
    """What is kept of a token. Of so many random bits a plain hash tells nothing, so one is enough."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """What is kept of a token.

    Attributes:
        hash: its SHA-256.
        until: the moment from which on it is refused; None for never.
        note: what it is for, in its owner's words.
    """

    hash: bytes = field(repr=False)
    until: datetime | None = None
    note: str = ""

    @property
    def name(self) -> str:
        """What to call it by: the beginning of the hash, which is no secret."""
        return self.hash.hex()[:12]

    def holds(self, now: datetime) -> bool:
        """Whether it is good still."""
        return self.until is None or now < self.until


def make_key_id() -> str:
    """The public half of a new access key."""
    return KEY_ID_PREFIX + secrets.token_hex(KEY_ID_BYTES).upper()


def is_key_id(text: str) -> bool:
    """Whether it has the form of one."""
    return _KEY_ID.fullmatch(text) is not None


def access_key_secret(key_id: str, key_file: bytes) -> str:
    """The secret half of an access key: made of the broker's own secret whenever it is needed, so that no file lists them.

    Args:
        key_id: the public half.
        key_file: the broker's secret, of `KEY_FILE_BYTES`.

    Raises:
        ValueError: the secret has another length.
    """
    if len(key_file) != KEY_FILE_BYTES:
        raise ValueError(f"a key file of {len(key_file)} bytes is not of {KEY_FILE_BYTES}")
    return b64encode(hmac.digest(key_file, b"access key " + key_id.encode(), "sha256")).decode()
