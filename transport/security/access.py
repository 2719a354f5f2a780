"""How a client proves to a broker who it is, and how it knows the broker: what every client takes as ``access``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from transport.errors import LocalProtocolError
from transport.wire.names import check_name

if TYPE_CHECKING:
    import ssl

MAX_SECRET_BYTES: Final = 1024
"""Of a password, a token or a user's name, however it comes in: what is longer is a file that was given by mistake."""


@dataclass(frozen=True, slots=True)
class Tls:
    """How a client speaks TLS (1.2 or later). The broker's certificate and its host name are always verified.

    Attributes:
        ca: file of the certificates that are trusted, PEM; None for those that the system trusts.
        certificate: file of the client's own certificate with its chain, PEM; None where it has none.
        key: file of its key, PEM; None where the certificate's file has it too.
        server_name: the name that the broker's certificate must have; None for the host of the address.
    """

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    server_name: str | None = None

    def __post_init__(self) -> None:
        if self.key is not None and self.certificate is None:
            raise LocalProtocolError("a TLS key is of no use without its certificate: give both files")

    def context(self) -> ssl.SSLContext:
        """What the connections are made with.

        Raises:
            LocalProtocolError: a file that cannot be read, or holds something else.
        """
        import ssl  # noqa: PLC0415 - a client without TLS does not load it

        from transport.security.tls_files import load_own, trusting  # noqa: PLC0415 - as above

        context = trusting(self.ca)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.certificate is not None:
            load_own(context, self.certificate, self.key, "tls_key")
        return context


@dataclass(frozen=True, slots=True)
class Access:
    """Who a client is, and how the broker is known. A password is never sent; a token is, so it is for TLS or one's own machine.

    Attributes:
        user: the name, where there is a password.
        password: theirs.
        token: in place of both.
        tls: None for connections without.
    """

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    tls: Tls | None = None

    def __post_init__(self) -> None:
        if (self.user is None) != (self.password is None):
            raise LocalProtocolError("a user and a password go together; give both, or a token")
        if self.token is not None and self.user is not None:
            raise LocalProtocolError("give a user with a password, or a token, not both")
        if self.user is not None:
            check_name(self.user, "user's")
        if (
            self.password is not None
            and not 1 <= len(self.password.encode("utf-8", "surrogatepass")) <= MAX_SECRET_BYTES
        ):
            raise LocalProtocolError(f"a password has 1 to {MAX_SECRET_BYTES} bytes")
        if self.token is not None:
            from transport.security.proofs import looks_like_token  # noqa: PLC0415 - most clients have none

            if not looks_like_token(self.token):
                raise LocalProtocolError(
                    "this is no token of a broker's; penstock user token has shown it, from penstock_ on"
                )


NOBODY: Final = Access()
"""Proves nothing, and speaks plainly."""
