"""``penstock broker``: a broker process, until it is told to stop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from transport.cli._run import exit_code, run, tell
from transport.cli._setting_options import settings_command
from transport.cli.exit_codes import EXIT_DONE, EXIT_USAGE
from transport.errors import LocalProtocolError

if TYPE_CHECKING:
    from transport.config.settings_sources import Resolved

VERB = "broker"
CHECKING = f"{VERB} --check"


Check = Annotated[bool, typer.Option("--check", help="Start nothing: say what would be wrong, and exit.")]


def _broker(settings: Resolved, again: Callable[[], Resolved], check: bool) -> None:
    """Run a broker until SIGINT or SIGTERM; SIGHUP has it read its settings again."""
    if check:
        _check(settings)

    def serve() -> Coroutine[Any, Any, int]:
        from transport.cli._serving import Serving  # noqa: PLC0415 - not needed for --help

        return Serving(settings, again).serve()

    run(VERB, serve, uvloop=True)


def _check(settings: Resolved) -> NoReturn:
    """Say what would keep a broker from starting, each thing in a line; exits with the code that the first of them would have."""
    from transport.broker.check import check  # noqa: PLC0415 - not needed for --help
    from transport.cli._default_http import with_http_if_possible  # noqa: PLC0415
    from transport.security.users_file import UsersFileError  # noqa: PLC0415

    config, without = with_http_if_possible(settings)
    problems = check(config)
    if without is not None:
        tell(CHECKING, f"note: {without}")
    for problem in problems:
        tell(CHECKING, problem.text if problem.error is not None else f"note: {problem.text}")
    errors = [problem.error for problem in problems if problem.error is not None]
    if not errors:
        tell(CHECKING, "nothing is wrong")
        raise typer.Exit(EXIT_DONE)
    # What the settings name cannot be used.
    raise typer.Exit(EXIT_USAGE if isinstance(errors[0], UsersFileError | LocalProtocolError) else exit_code(errors[0]))


broker = settings_command(VERB, _broker, again=True, check=(Check, False))
