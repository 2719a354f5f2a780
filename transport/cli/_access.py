"""The options that say who a verb is, and how it knows the broker. No secret is ever an argument: every user of a machine sees those."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from transport.cli._run import explain, tell
from transport.cli.exit_codes import EXIT_USAGE
from transport.errors import LocalProtocolError, TransportError
from transport.wire.address import DEFAULT_RECEIVE_ADDRESS, DEFAULT_SEND_ADDRESS

if TYPE_CHECKING:
    from transport.security.access import Access
    from transport.security.access_sources import GivenAccess

PANEL = "Access"
STDIN = "-"
"""The file that is the standard input."""


def _option(flag: str, metavar: str, text: str, variable: str) -> Any:
    info = typer.Option(flag, metavar=metavar, help=f"{text} [{variable}]", rich_help_panel=PANEL, show_default=False)
    return Annotated[str | None, info], None


CONTEXT = "context"
"""The parameter that names a context; the others are named as in `GivenAccess`."""
ACCESS: dict[str, tuple[Any, Any]] = {
    CONTEXT: _option("--context", "NAME", "The broker, as `penstock context` knows it.", "PENSTOCK_CONTEXT"),
    "user": _option("--user", "NAME", "Who this is; the password is in a file, or asked for.", "PENSTOCK_USER"),
    "password_file": _option(
        "--password-file", "FILE", "The file with their password; - is standard input.", "PENSTOCK_PASSWORD_FILE"
    ),
    "token_file": _option(
        "--token-file", "FILE", "The file with a token, in place of both; or -.", "PENSTOCK_TOKEN_FILE"
    ),
    "tls": (
        Annotated[
            bool | None,
            typer.Option(
                "--tls/--no-tls",
                help="Speak TLS; so does every other option of TLS. [PENSTOCK_TLS]",
                rich_help_panel=PANEL,
                show_default=False,
            ),
        ],
        None,
    ),
    "tls_ca": _option("--tls-ca", "FILE", "Trust those in this file, not the system's.", "PENSTOCK_TLS_CA"),
    "tls_certificate": _option(
        "--tls-certificate", "FILE", "A certificate of one's own.", "PENSTOCK_TLS_CLIENT_CERTIFICATE"
    ),
    "tls_key": _option("--tls-key", "FILE", "Its key, where that is in another file.", "PENSTOCK_TLS_CLIENT_KEY"),
    "tls_server_name": _option(
        "--tls-server-name", "NAME", "The broker's name, if not the address's.", "PENSTOCK_TLS_SERVER_NAME"
    ),
}
"""The parameters of every verb that connects."""


def take_access(verb: str, given: dict[str, Any], *, data_from_stdin: bool = False, receiving: bool = False) -> Access:
    """What ``given`` says of the access, which is taken from it, over the environment, and that over a context.

    A password is asked for where somebody sits. An ``address`` in ``given`` that is None becomes the context's, or the default;
    a ``receive_address`` likewise, or that beside an ``address`` that was said.
    It exits with ``EXIT_USAGE`` where that cannot be.

    Args:
        verb: for messages.
        given: all options, by their names.
        data_from_stdin: whether the verb reads its data from the standard input, so that no secret can come from there.
        receiving: whether the address is the receiving one.
    """
    from transport.security.access_sources import GivenAccess, from_environment  # noqa: PLC0415 - the help needs none

    try:
        context = _context(given.pop(CONTEXT), "address" in given and given["address"] is not None)
        named = GivenAccess(**{name: given.pop(name) for name in ACCESS if name != CONTEXT})
        said = _with_stdin(named, data_from_stdin).over(from_environment())
        if context is not None:
            said = said.over(GivenAccess(**{name: context[name] for name in ACCESS if name in context}))
        if "receive_address" in given and given["receive_address"] is None:
            given["receive_address"] = (
                _receiving_beside(given["address"])
                if given["address"] is not None
                else DEFAULT_RECEIVE_ADDRESS
                if context is None
                else context["receive_address"]
            )
        if "address" in given and given["address"] is None:
            role, default = (
                ("receive_address", DEFAULT_RECEIVE_ADDRESS) if receiving else ("send_address", DEFAULT_SEND_ADDRESS)
            )
            given["address"] = default if context is None else context[role]
        if said.lacks_password and said.token is None and said.token_file is None and _somebody_sits_there():
            said = replace(said, password=typer.prompt(f"password of {said.user}", hide_input=True, err=True))
        if said.lacks_password and said.token is None and said.token_file is None:
            _refuse(verb, _no_password(said))
        access = said.access()
        if access.tls is not None:
            # Its files are looked at before anything is started.
            access.tls.context()
        return access
    except TransportError as error:
        _refuse(verb, explain(error))


def _receiving_beside(sending: str) -> str:
    """The receiving address of a broker of which only the sending one was said: the same host, and the port after."""
    from transport.cli._contexts import both_addresses  # noqa: PLC0415 - as above

    return both_addresses(sending, None)["receive_address"]


def _context(named: str | None, address_given: bool) -> dict[str, Any] | None:
    """What the context in force says: that of the option, of the environment, or the one in use; None where there is none.

    One that is only in use does not count beside an address that is given: that is another broker, which shall not learn its secrets.
    """
    from transport.cli._contexts import CONTEXT_VARIABLE, contexts_file, read_contexts  # noqa: PLC0415

    name = os.environ.get(CONTEXT_VARIABLE) or None if named is None else named
    if name is None and address_given:
        return None
    file = contexts_file()
    if name is None and not os.access(file, os.R_OK):
        # Nobody has said that there is one: a service may have a home that it cannot look into.
        return None
    contexts = read_contexts(file)
    name = contexts.current if name is None else name
    return None if name is None else contexts.get(name)


def _no_password(said: GivenAccess) -> str:
    """What to do about a user who has none, where nobody can be asked."""
    if said.tls_certificate is not None:
        return (
            f"the user {said.user} has no password here: leave --user out (or PENSTOCK_USER), for the certificate says who this is; "
            "or give --password-file FILE"
        )
    return f"the user {said.user} has no password here, and standard input is not a terminal: give --password-file FILE"


def _refuse(verb: str, text: str) -> NoReturn:
    tell(verb, text)
    raise typer.Exit(EXIT_USAGE)


def _with_stdin(named: GivenAccess, data_from_stdin: bool) -> GivenAccess:
    """``named``, with the secret itself where it comes from the standard input."""
    from transport.security.secret_files import SecretFileError, line_of_standard_input  # noqa: PLC0415 - as above

    options = [name for name in ("password_file", "token_file") if getattr(named, name) == STDIN]
    if not options:
        return named
    flags = " and ".join(f"--{name.replace('_', '-')}" for name in options)
    if len(options) > 1:
        raise LocalProtocolError(f"{flags} cannot both be standard input: give a password or a token")
    if data_from_stdin:
        raise LocalProtocolError(f"{flags} cannot be standard input, which is the data: name files for one of both")
    try:
        secret = line_of_standard_input(sys.stdin.buffer)
    except SecretFileError as error:
        raise LocalProtocolError(str(error)) from None
    if options == ["password_file"]:
        return replace(named, password_file=None, password=secret)
    return replace(named, token_file=None, token=secret)


def _somebody_sits_there() -> bool:
    return sys.stdin.isatty()
