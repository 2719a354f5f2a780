"""The password of a TLS key: there is to be none, on either side of a connection."""

from __future__ import annotations

from typing import NoReturn


def no_password() -> NoReturn:
    """For `ssl.SSLContext.load_cert_chain`, which would ask at a terminal otherwise, where nobody may sit."""
    raise ValueError("the key has a password; give one that has none, readable by its owner alone")
