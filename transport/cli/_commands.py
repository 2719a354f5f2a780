"""Verbs and groups of verbs as the parser has them: their help, their errors in one line, and their values without heavy imports."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from transport.cli._optional_value import say_values
from transport.cli._run import drop_unwritten, explain, tell
from transport.cli._usage import (
    HELP_FLAGS,
    OTHERWISE,
    PROGRAM,
    SYNONYMS,
    UsageError,
    did_you_mean,
    names_of,
    near,
    tell_usage,
)
from transport.cli.exit_codes import EXIT_DONE, EXIT_FAILED, EXIT_USAGE

PLAIN: Final = (str, int, float, bool, Path)
"""Types whose values are made of texts here. Typer's own way loads pydantic for it, which takes longer than the rest of a start."""


class _Helpful:
    """What verbs and groups share."""

    context_settings: Any
    params: list[Any]

    def _prepare(self) -> None:
        self.context_settings = {**(self.context_settings or {}), "help_option_names": list(HELP_FLAGS)}
        for parameter in self.params:
            _make_light(parameter)

    def get_help_option(self, ctx: Any) -> Any:
        """The parser's own, with its names in order."""
        option: Any = super().get_help_option(ctx)  # type: ignore[misc] # of the command beside this class
        if option is not None:
            option.opts = sorted(option.opts, key=len)
            option.help = "Show this help."
            # Left open it would be a value to convert.
            option.default = False
        return option

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write it."""
        from transport.cli._help import help_text  # noqa: PLC0415 - for the help alone

        formatter.write(help_text(self, ctx))

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """As the parser does; each of its errors says of which verb it is."""
        try:
            return super().make_context(info_name, args, parent, **extra)  # type: ignore[misc] # as above
        except UsageError as error:
            if getattr(error, "ctx", None) is None:
                error.ctx = typer.Context(self, info_name=info_name, parent=parent)  # type: ignore[arg-type] # a command
            raise


class Verb(_Helpful, TyperCommand):
    """A verb."""

    def __init__(self, name: str | None, **facts: Any) -> None:
        super().__init__(name, **facts)
        self._prepare()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As the parser does; words too many are named."""
        wanted, ctx.allow_extra_args = ctx.allow_extra_args, True
        rest: list[str] = super().parse_args(ctx, say_values(args))
        ctx.allow_extra_args = wanted
        if rest and not wanted and not ctx.resilient_parsing:
            raise UsageError(f"unexpected argument{'s' if len(rest) > 1 else ''} {' '.join(rest)}", ctx)
        return rest

    def invoke(self, ctx: Any) -> Any:
        """Run it. What a library of ours warns of is told as all else is, where no log is set up."""
        import logging  # noqa: PLC0415 - not needed for --help

        logging.lastResort = _told_warnings(" ".join(ctx.command_path.split()[1:]))
        return super().invoke(ctx)


class Group(_Helpful, TyperGroup):
    """A verb that has parts, or the whole command."""

    def __init__(self, **facts: Any) -> None:
        super().__init__(**facts)
        self.subcommand_metavar = "VERB ..."
        self._prepare()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As the parser does; where nothing is said, the help goes to stderr, for that is no wish for help."""
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help(), err=True)
            raise typer.Exit(EXIT_USAGE)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The verb that is named, or an error that says which may have been meant."""
        name = args[0]
        if name in self.commands or ctx.resilient_parsing or name.startswith("-"):
            return super().resolve_command(ctx, args)
        raise UsageError(f"no such verb {name}{did_you_mean(self._meant(name))}", ctx)

    def _meant(self, name: str) -> list[str]:
        shown = self.lines()
        synonym = SYNONYMS.get(name, name)
        if synonym not in shown and OTHERWISE.get(synonym) in shown:
            synonym = OTHERWISE[synonym]
        # What is called so elsewhere is meant, however near another is: to declare is not to delete.
        if synonym in shown or synonym.startswith((f"{PROGRAM} ", "-")):
            return [synonym]
        if found := near(name, shown):
            return found
        return [f"{each} {synonym}" for each in shown if synonym in getattr(self.commands[each], "commands", {})]

    def lines(self) -> dict[str, str]:
        """The verbs that are shown, with the line of each."""
        parts: Any = self.commands
        return dict(parts.lines())

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run it all; wrong usage is told in one line."""
        try:
            code = super().main(
                args, prog_name, complete_var, standalone_mode=False, windows_expand_args=windows_expand_args, **extra
            )
        except UsageError as error:
            if not standalone_mode:
                raise
            tell_usage(error)
            code = EXIT_USAGE
        except OSError as error:
            # The output takes nothing more, or what a verb needs of the machine cannot be had.
            if not standalone_mode:
                raise
            tell("", explain(error))
            drop_unwritten()
            code = EXIT_FAILED
        except typer.Abort:
            # A prompt was left with Ctrl-C, or at the end of the input.
            if not standalone_mode:
                raise
            typer.echo("penstock: nothing was entered", err=True)
            code = EXIT_FAILED
        if not standalone_mode:
            return code
        sys.exit(code if isinstance(code, int) else EXIT_DONE)


def _told_warnings(verb: str) -> Any:
    """What tells warnings of a log that nobody has set up, a line each."""
    import logging  # noqa: PLC0415 - not needed for --help
    import traceback  # noqa: PLC0415 - as above

    class Told(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            tell(verb, record.getMessage())
            if record.exc_info:
                sys.stderr.write("".join(traceback.format_exception(*record.exc_info)))

    return Told(logging.WARNING)


def _make_light(parameter: Any) -> None:
    """Have ``parameter`` make its value itself, where that is plain and typer does it by a type of its own."""
    annotation = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    several = annotation == list[str]
    if annotation not in PLAIN and not several:
        return
    if annotation is Path and not _is_any_path(parameter):
        return

    def process_value(ctx: Any, value: Any) -> Any:
        if value is None and (parameter.multiple or parameter.nargs != 1):
            value = ()
        if several:
            value = None if not value and parameter.default is None else [str(each) for each in value]
        elif value is not None:
            value = _converted(annotation, value, parameter, ctx)
        if parameter.required and parameter.value_is_missing(value):
            raise UsageError(f"{names_of(parameter)} is missing", ctx)
        return value if parameter.callback is None else parameter.callback(ctx, parameter, value)

    parameter.process_value = process_value


def _is_any_path(parameter: Any) -> bool:
    """Whether nothing is asked of the path but that it is one."""
    info = parameter.type_descriptor.parameter_info
    return not any(getattr(info, name, False) for name in ("exists", "resolve_path", "allow_dash", "path_type"))


def _converted(kind: Any, value: Any, parameter: Any, ctx: Any) -> Any:
    """``value`` as ``kind``, within the limits that its parameter has."""
    if not isinstance(value, str) or kind is str:
        return value if kind is not Path or isinstance(value, Path) else Path(value)
    if kind is Path:
        return Path(value)
    if (parser := parameter.type_descriptor.parameter_info.parser) is not None:
        try:
            return parser(value)
        except ValueError as error:
            raise typer.BadParameter(str(error), ctx, parameter) from None
    if kind is bool:
        from transport.wire.truths import parse_flag  # noqa: PLC0415 - flags of the environment alone

        try:
            return parse_flag(value)
        except ValueError as error:
            raise typer.BadParameter(str(error), ctx, parameter) from None
    what = "whole number" if kind is int else "number"
    try:
        number = kind(value)
    except ValueError:
        raise typer.BadParameter(f"{value!r:.60} is no {what}", ctx, parameter) from None
    if isinstance(number, float) and not math.isfinite(number):
        raise typer.BadParameter(f"{value} is no {what} that can be used", ctx, parameter)
    if parameter.min is not None and number < parameter.min:
        raise typer.BadParameter(f"{value:.60} is less than {parameter.min}, the least there can be", ctx, parameter)
    if parameter.max is not None and number > parameter.max:
        raise typer.BadParameter(f"{value:.60} is more than {parameter.max}, the most there can be", ctx, parameter)
    return number
