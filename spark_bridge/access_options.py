"""The options of source and sink that say who a query is, and how it knows its brokers.

Files are read where connections are made: on the machine of the driver, and on those of the tasks.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from spark_bridge.errors import OptionError
from spark_bridge.option_values import Option, flag, nonempty
from transport import Access, LocalProtocolError
from transport.security.access_sources import GivenAccess, from_environment


def _token(text: str) -> str:
    try:
        Access(token=text)
    except LocalProtocolError as error:
        raise ValueError(str(error)) from None
    return text


ACCESS_OPTIONS = (
    Option("user", ("user",), nonempty),
    Option("password", ("password",), nonempty, secret=True),
    Option("password_file", ("passwordFile",), nonempty),
    Option("token", ("token",), _token, secret=True),
    Option("token_file", ("tokenFile",), nonempty),
    Option("tls", ("tls",), flag),
    Option("tls_ca", ("tlsCa",), nonempty),
    Option("tls_certificate", ("tlsCertificate",), nonempty),
    Option("tls_key", ("tlsKey",), nonempty),
    Option("tls_server_name", ("tlsServerName",), nonempty),
)
"""By the names in `GivenAccess`."""
NAMES = frozenset(each.name for each in fields(GivenAccess))
EXCLUDE = (
    ("password", "password_file"),
    ("token", "token_file"),
    *((proof, other) for proof in ("token", "token_file") for other in ("user", "password", "password_file")),
)
"""Of which one is given at most. Whether something is missing is known where connections are made: the environment may have it."""


def with_access(values: dict[str, Any]) -> dict[str, Any]:
    """``values`` with those of the access as one, ``access``.

    Raises:
        OptionError: two of them say two things at once.
    """
    given = {name: value for name, value in values.items() if name in NAMES}
    names = {option.attribute: option.names[0] for option in ACCESS_OPTIONS}
    for one, other in EXCLUDE:
        if one in given and other in given:
            raise OptionError(f"options {names[one]} and {names[other]} exclude one another; give one")
    return {name: value for name, value in values.items() if name not in NAMES} | {"access": GivenAccess(**given)}


def access_here(given: GivenAccess) -> Access:
    """What a connection of this process goes by: the options over the environment.

    Raises:
        LocalProtocolError: they contradict one another, or a file cannot be read here.
    """
    return given.over(from_environment()).access()
