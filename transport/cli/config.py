"""``penstock config``: what a broker would run with, and who said so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from transport.cli import _written as written
from transport.cli._run import tell
from transport.cli._setting_options import settings_command
from transport.cli._tables import show as show_table
from transport.cli._verbs import EPILOG
from transport.config.settings import ENVIRONMENT_PREFIX, OPTIONS

if TYPE_CHECKING:
    from transport.config.settings_sources import InForce, Resolved

VERB = "config show"

app = typer.Typer(no_args_is_help=True, help="See what a broker would run with.")
LIKELY_SLIP = 0.75
"""As `settings_sources.SLIP`, but for names that need not be meant for us: two letters swapped in a word of four."""

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")]


def _show(settings: Resolved, as_json: bool) -> None:
    """Print every setting in force and where it is from; takes the options of `penstock broker`, and starts nothing."""
    from transport.config.settings_sources import closest  # noqa: PLC0415 - not needed for --help

    if as_json:
        import json  # noqa: PLC0415 - as above

        typer.echo(json.dumps({setting.key: _facts(setting) for setting in settings.in_force}, indent=2))
    else:
        rows = [{"key": one.key, "text": one.text or None, "origin": str(one.origin)} for one in settings.in_force]
        show_table(
            written.counted(len(rows), "setting"), rows, [("key", "setting"), ("text", "value"), ("origin", "from")]
        )
    known = [option.name for option in OPTIONS]
    for name in settings.ignored:
        # Container platforms set variables of this prefix for a service of that name; what is like no setting is theirs.
        if hint := closest(name.removeprefix(ENVIRONMENT_PREFIX).lower(), known, LIKELY_SLIP):
            tell(VERB, f"{name} in the environment is no setting{hint}")


def _facts(setting: InForce) -> dict[str, Any]:
    origin = setting.origin
    facts: dict[str, Any] = {"value": setting.value, "text": setting.text, "source": origin.source}
    if origin.name:
        facts["name"] = origin.name
    if origin.line:
        facts["line"] = origin.line
    return facts


app.command("show", epilog=EPILOG)(settings_command(VERB, _show, as_json=(AsJson, False)))
