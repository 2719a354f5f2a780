"""Where a client's access comes from: what a program or a command line says, over the environment; secrets also from files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from transport.errors import LocalProtocolError
from transport.security.access import NOBODY, Access, Tls

VARIABLES: Final = {
    "user": "PENSTOCK_USER",
    "password": "PENSTOCK_PASSWORD",
    "password_file": "PENSTOCK_PASSWORD_FILE",
    "token": "PENSTOCK_TOKEN",
    "token_file": "PENSTOCK_TOKEN_FILE",
    "tls": "PENSTOCK_TLS",
    "tls_ca": "PENSTOCK_TLS_CA",
    "tls_certificate": "PENSTOCK_TLS_CLIENT_CERTIFICATE",
    "tls_key": "PENSTOCK_TLS_CLIENT_KEY",
    "tls_server_name": "PENSTOCK_TLS_SERVER_NAME",
}
"""The environment's variables, by the names in `GivenAccess`."""
FILES: Final = ("password_file", "token_file", "tls_ca", "tls_certificate", "tls_key")
"""Of these, the files: their names may begin with ``~``, which no shell has made a folder of."""


@dataclass(frozen=True, slots=True)
class GivenAccess:
    """What one source says of a client's access. Files are not read yet: they lie where the client runs.

    Attributes:
        user: the name.
        password: theirs.
        password_file: the file that has it.
        token: in place of both.
        token_file: the file that has it.
        tls: whether TLS is spoken; None where it follows from what else is said of TLS.
        tls_ca: as `Tls.ca`, and so the others.
        tls_certificate: the client's own.
        tls_key: its key.
        tls_server_name: the name that the broker's certificate must have.
        alone: whether it is all there is, and no other source counts: a program has given an `Access`.
    """

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    password_file: str | None = None
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    tls: bool | None = None
    tls_ca: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_server_name: str | None = None
    alone: bool = False

    @classmethod
    def of(cls, access: Access) -> GivenAccess:
        """The same as that."""
        tls = access.tls or Tls()
        return cls(
            user=access.user,
            password=access.password,
            token=access.token,
            tls=access.tls is not None,
            tls_ca=tls.ca,
            tls_certificate=tls.certificate,
            tls_key=tls.key,
            tls_server_name=tls.server_name,
            alone=True,
        )

    @property
    def says_nothing(self) -> bool:
        """Whether everything is left open."""
        return self == _NOTHING

    @property
    def lacks_password(self) -> bool:
        """Whether there is a user, and nothing that proves them."""
        return self.user is not None and self.password is None and self.password_file is None

    def over(self, lower: GivenAccess) -> GivenAccess:
        """What is in force where ``lower`` says something else, or more.

        One way to prove oneself takes the place of another: who gives a token is not the user that the environment names.
        """
        if self.alone:
            return self
        if self.token is not None or self.token_file is not None:
            lower = replace(lower, user=None, password=None, password_file=None, token=None, token_file=None)
        elif self.user is not None or not (self.password is None and self.password_file is None):
            lower = replace(lower, token=None, token_file=None)
            if self.user not in (None, lower.user) or not (self.password is None and self.password_file is None):
                # Another's password is of no use.
                lower = replace(lower, password=None, password_file=None)
        if self.tls is False:
            lower = replace(lower, tls_ca=None, tls_certificate=None, tls_key=None, tls_server_name=None)
        if self.tls_certificate is not None:
            lower = replace(lower, tls_key=None)
        said = {each.name: getattr(self, each.name) for each in fields(self)}
        return replace(lower, **{name: value for name, value in said.items() if value is not None})

    def access(self) -> Access:
        """What that comes to, the files read.

        Raises:
            LocalProtocolError: it says two things at once, or a file cannot be read or is none of that kind.
        """
        password = _one_of("password", self.password, self.password_file)
        token = _one_of("token", self.token, self.token_file)
        return Access(self.user, password, token, self._tls())

    def _tls(self) -> Tls | None:
        files = (self.tls_ca, self.tls_certificate, self.tls_key, self.tls_server_name)
        named = any(each is not None for each in files)
        if self.tls is False and named:
            raise LocalProtocolError(
                "TLS is turned off, but files or a name for it are given: turn it on, or leave them out"
            )
        return Tls(*files) if self.tls or named else None


_NOTHING: Final = GivenAccess()


def from_environment(environment: Mapping[str, str] = os.environ) -> GivenAccess:
    """What the environment says. An empty value counts as not given.

    Raises:
        LocalProtocolError: whether TLS is spoken is said in a way that means neither.
    """
    said: dict[str, Any] = {name: value for name, variable in VARIABLES.items() if (value := environment.get(variable))}
    if not said:
        return _NOTHING
    said |= {name: os.path.expanduser(said[name]) for name in FILES if name in said}
    tls = said.pop("tls", None)
    from transport.wire.truths import parse_flag  # noqa: PLC0415 - most clients have none

    try:
        return GivenAccess(tls=None if tls is None else parse_flag(tls), **said)
    except ValueError:
        raise LocalProtocolError(f"{VARIABLES['tls']} is 1 or 0, not {tls!r:.40}") from None


def access_in_force(access: Access | None, token: str | None = None) -> Access:
    """What a client goes by that was given ``access``: None is what the environment says, nobody where it says nothing.

    Args:
        access: as the program gave it.
        token: the same as an `Access` with nothing else.

    Raises:
        LocalProtocolError: both are given, or what the environment says cannot be.
    """
    if token is not None:
        if access is not None:
            raise LocalProtocolError("give the token within the access, not beside it")
        return GivenAccess(token=token).over(from_environment()).access()
    if access is not None:
        return access
    given = from_environment()
    return NOBODY if given.says_nothing else given.access()


def read_secret(path: str) -> str:
    """The one line of the file at ``path``.

    Raises:
        LocalProtocolError: it cannot be read, or is no such file; what it holds is not shown.
    """
    from transport.security.secret_files import SecretFileError, read_line  # noqa: PLC0415 - most clients have none

    try:
        return read_line(path)
    except OSError as error:
        raise LocalProtocolError(f"{path}: {error.strerror or error}") from None
    except SecretFileError as error:
        raise LocalProtocolError(str(error)) from None


def _one_of(what: str, value: str | None, path: str | None) -> str | None:
    if path is None:
        return value
    if value is not None:
        raise LocalProtocolError(f"give the {what}, or the file that has it, not both")
    return read_secret(path)
