"""Options for the settings of a broker and of a queue, made of their one table; few verbs have them, and only those load the table.

They are checked before anything is connected: a wrong one is a usage error (exit code 2).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from actors.queue.vocabulary.settings import ALIASES
from transport.cli._options import Parameter, with_parameters
from transport.cli._run import tell
from transport.cli.exit_codes import EXIT_USAGE
from transport.config.settings import (
    CONFIG_VARIABLE,
    FLAG,
    HTTP,
    MEMORY,
    NONE,
    OPTIONS,
    QUEUE_DEFAULTS,
    QUEUE_FLAG,
    QUEUE_OPTIONS,
    Option,
    check_queue_setting,
    default_text,
)

if TYPE_CHECKING:
    from transport.config.settings_sources import Resolved

ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help=f"The settings file, TOML. [{CONFIG_VARIABLE}]")
]
Queues = Annotated[
    list[str] | None,
    typer.Option(
        QUEUE_FLAG, metavar='"Q [KEY=VALUE ...]"', help="Declare a queue; may be repeated.", rich_help_panel="Queues"
    ),
]


NoHttp = Annotated[
    bool, typer.Option("--no-http", help="Speak no HTTP: the same as --http none.", rich_help_panel="Http")
]


def settings_command(
    verb: str, act: Callable[..., None], *, again: bool = False, **own: Parameter
) -> Callable[..., None]:
    """A typer command with an option for each setting, that calls ``act(resolved, ...)``.

    It exits with ``EXIT_USAGE`` where the settings cannot be.

    Args:
        verb: for messages.
        act: what it does; its docstring is the command's help.
        again: whether ``act`` gets ``again`` too, which resolves the same options anew, or raises `SettingsError`.
        own: annotation and default of further parameters, which ``act`` gets by name.
    """

    def command(**given: Any) -> None:
        arguments = {name: given.pop(name) for name in own}
        _by_one_name(given)
        if given.pop("no_http"):
            if given[HTTP.name] is not None:
                raise typer.BadParameter(f"--no-http and {HTTP.flag} exclude one another")
            given[HTTP.name] = NONE
        if again:
            arguments["again"] = partial(_resolve, **given)
        act(_resolve_or_exit(verb, **given), **arguments)

    parameters: dict[str, Parameter] = {"config": (ConfigFile, None)}
    for option in OPTIONS:
        panel = option.section.replace("_", " ").capitalize()
        parameters[option.name] = (_annotation(option, option.flag, default_text(option), panel), None)
        if option.section == QUEUE_DEFAULTS:
            parameters |= _other_names(option, panel)
        if option is HTTP:
            parameters["no_http"] = (NoHttp, False)
    return with_parameters(command, act, parameters | {"queue": (Queues, None)} | own)


def queue_settings_command(
    act: Callable[..., None],
    own: dict[str, Parameter],
    *,
    unsaid: str = "the broker's",
    without: frozenset[str] = frozenset(),
) -> Callable[..., None]:
    """A typer command with an option for each setting of a queue, that calls ``act(settings, ...)``.

    ``settings`` holds what was given, by its name in `QueueSettings`. A value that cannot be is a usage error.

    Args:
        act: what it does; its docstring is the command's help.
        own: annotation and default of its other parameters, which ``act`` gets by name.
        unsaid: what a setting is that is not given, for the help.
        without: settings that it does not take.
    """

    def command(**given: Any) -> None:
        arguments = {name: given.pop(name) for name in own}
        _by_one_name(given)
        settings = {}
        for key, value in given.items():
            if value is not None:
                settings[key] = _queue_setting(QUEUE_OPTIONS[key], key, value)
        act(settings, **arguments)

    parameters: dict[str, Parameter] = {
        key: (_annotation(option, _flag(key), unsaid, None), None)
        for key, option in QUEUE_OPTIONS.items()
        if key not in without
    }
    for option in QUEUE_OPTIONS.values():
        parameters |= _other_names(option, None)
    return with_parameters(command, act, parameters | own)


def _other_names(option: Option, panel: str | None) -> dict[str, Parameter]:
    """Options for the other names of a setting: each is one of its own, so that it is seen where both are given."""
    return {
        alias: (
            Annotated[
                str | None,
                typer.Option(
                    _flag(alias),
                    metavar=option.kind.metavar,
                    help=f"Another name for {_flag(name)}.",
                    rich_help_panel=panel,
                ),
            ],
            None,
        )
        for alias, name in ALIASES.items()
        if option.key == name
    }


def _by_one_name(given: dict[str, Any]) -> None:
    """Have what is given by another name be given by the setting's own; both are wrong usage."""
    for alias, name in ALIASES.items():
        value = given.pop(alias, None)
        if value is None:
            continue
        if given.get(name) is not None:
            raise typer.BadParameter(f"{_flag(name)} and {_flag(alias)} are two names of one setting: give one of them")
        given[name] = value


def _flag(key: str) -> str:
    return "--" + key.replace("_", "-")


def _queue_setting(option: Option, key: str, value: str | bool) -> Any:
    try:
        parsed = option.kind.parse(_as_text(value))
        check_queue_setting(key, parsed)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=_flag(key)) from None
    return parsed


def _annotation(option: Option, flag: str, default: str, panel: str | None) -> Any:
    is_flag = option.kind is FLAG
    info = typer.Option(
        flag if not is_flag or option is MEMORY else f"{flag}/--no-{flag[2:]}",
        metavar=None if is_flag else option.kind.metavar,
        help=option.help,
        # A text: shown, though the option has no default on the command line itself.
        show_default=default or False,
        rich_help_panel=panel,
    )
    return Annotated[bool | None if is_flag else str | None, info]


def _resolve_or_exit(verb: str, **given: Any) -> Resolved:
    from transport.config.settings_file import SettingsError  # noqa: PLC0415 - not needed for --help

    try:
        return _resolve(**given)
    except SettingsError as error:
        for problem in error.problems:
            tell(verb, problem)
        raise typer.Exit(EXIT_USAGE) from None


def _resolve(config: Path | None, queue: list[str] | None, **given: str | bool | None) -> Resolved:
    from transport.config.settings_file import read_settings_file  # noqa: PLC0415 - not needed for --help
    from transport.config.settings_sources import resolve  # noqa: PLC0415

    if config is None and (named := os.environ.get(CONFIG_VARIABLE)):
        config = Path(named)
    if config is not None:
        config = Path(os.path.expanduser(config))
    command_line = {name: _as_text(value) for name, value in given.items() if value is not None}
    file = None if config is None else read_settings_file(config)
    return resolve(command_line, os.environ, file, queue or ())


def _as_text(value: str | bool) -> str:
    return FLAG.show(value) if isinstance(value, bool) else value
