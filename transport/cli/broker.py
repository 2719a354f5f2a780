"""``penstock broker``: a broker process, until it is told to stop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from transport.cli._options import settings_command
from transport.cli._run import run

if TYPE_CHECKING:
    from transport.config.settings_sources import Resolved

VERB = "broker"


def _broker(settings: Resolved, again: Callable[[], Resolved]) -> None:
    """Run a broker until SIGINT or SIGTERM; SIGHUP has it read its settings again."""

    def serve() -> Coroutine[Any, Any, int]:
        from transport.cli._serving import Serving  # noqa: PLC0415 - not needed for --help

        return Serving(settings, again).serve()

    run(VERB, serve, uvloop=True)


broker = settings_command(VERB, _broker, again=True)
