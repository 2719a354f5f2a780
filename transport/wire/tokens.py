"""The option ``token`` of HELLO: reserved for authentication, which no broker does yet; whoever gives one is told so."""

from __future__ import annotations

import warnings

from transport.wire.messages import Options

TOKEN = "token"  # noqa: S105 - the option's name


class TokenNotCheckedWarning(UserWarning):
    """A token was given, and no broker checks one yet."""


def token_option(token: str | None, stacklevel: int = 3) -> Options:
    """The option, if there is one; a warning points ``stacklevel`` callers up."""
    if token is None:
        return {}
    warnings.warn(
        "a token protects nothing yet: it is reserved for authentication, and brokers do not check it. Whoever reaches a broker's "
        "addresses may read and write; let only those reach them whom you trust",
        TokenNotCheckedWarning,
        stacklevel=stacklevel,
    )
    return {TOKEN: token}
