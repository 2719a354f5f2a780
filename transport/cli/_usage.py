"""How wrong usage is told: one line that says what is wrong, what was likely meant, and where the help is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher, get_close_matches
from typing import Any, Final

import typer

from transport.cli._run import tell

PROGRAM: Final = "penstock"
UsageError: Final[Any] = typer.BadParameter.__mro__[1]
"""What the parser raises: click's, of the click that typer has within, or beside it."""
HELP_FLAGS: Final = ("-h", "--help")
SYNONYMS: Final = {
    "publish": "send",
    "produce": "send",
    "pub": "send",
    "put": "send",
    "push": "send",
    "write": "send",
    "consume": "receive",
    "subscribe": "receive",
    "sub": "receive",
    "get": "receive",
    "read": "receive",
    "serve": "broker",
    "server": "broker",
    "start": "broker",
    "run": "broker",
    "status": "stats",
    "info": "stats",
    "ls": "list",
    "rm": "delete",
    "add": "create",
    "new": "create",
    "declare": "create",
    "remove": "delete",
    "bind": f"{PROGRAM} binding create",
    "unbind": f"{PROGRAM} binding delete",
    "benchmark": "bench",
    "version": "--version",
}
"""What other programs call it: said where nothing of ours is near."""
OTHERWISE: Final = {"create": "add", "delete": "remove"}
"""What these are called where there is no such verb: schedules, users and contexts are added and removed."""
MOST_NEAR: Final = 3
"""Names that are suggested, at most."""
AS_NEAR: Final = 0.1
"""What is less like the word than the nearest by this or more, of 1, is not suggested."""


def tell_usage(error: Any, program: str = PROGRAM) -> None:
    """Tell a usage error of the parser, or of a check of ours, in one line on stderr."""
    context = getattr(error, "ctx", None)
    path = program if context is None else context.command_path
    text = _text(error, context)
    words = path.split()[1:]
    tell(" ".join(words), f"{text}{'' if text.endswith('?') else '.'} See {' '.join([program, *words])} -h")


def did_you_mean(names: Sequence[str]) -> str:
    """The question with which an error ends, or nothing."""
    return f"; did you mean {' or '.join(names[:MOST_NEAR])}?" if names else ""


def near(word: str, names: Iterable[str]) -> list[str]:
    """Those of ``names`` that ``word`` may have been meant for, the nearest first."""
    known = list(names)
    begun = [name for name in known if len(word.lstrip("-")) > 1 and name.startswith(word)]
    close = get_close_matches(word, known)
    likeness = {name: SequenceMatcher(None, name, word).ratio() for name in close}
    nearest = max(likeness.values(), default=0.0)
    return list(dict.fromkeys([*(name for name in close if likeness[name] > nearest - AS_NEAR), *begun]))[:MOST_NEAR]


def _text(error: Any, context: Any) -> str:
    kind = type(error).__name__
    parameter = getattr(error, "param", None)
    if kind == "NoSuchOption":
        return _no_such_option(error, context)
    if kind == "MissingParameter" and parameter is not None:
        return f"{names_of(parameter)} is missing"
    if kind == "BadOptionUsage":
        return _misused_option(error, context)
    if isinstance(error, typer.BadParameter):
        where = getattr(error, "param_hint", None) or (None if parameter is None else names_of(parameter, value=False))
        said = str(error.message).rstrip(".")
        return said if not where or said.startswith(str(where)) else f"{where}: {said}"
    said = str(error.format_message()).rstrip(".")
    # A sentence of the parser's; what begins with a name in capitals is ours.
    return said[:1].lower() + said[1:] if said[1:2].islower() else said


def names_of(parameter: Any, *, value: bool = True) -> str:
    """A parameter as it is written: ``--queue Q``, or ``QUEUE``; without ``value``, ``--queue``."""
    metavar = str(parameter.metavar or parameter.name.upper())
    if parameter.param_type_name == "argument":
        return metavar if value else re.split(r"[ .|]", metavar.strip("[]"), maxsplit=1)[0]
    names = "/".join([*parameter.opts, *parameter.secondary_opts])
    return f"{names} {metavar}" if value and not parameter.is_flag else names


def _no_such_option(error: Any, context: Any) -> str:
    parameters = [] if context is None else context.command.get_params(context)
    flags = [flag for each in parameters if not getattr(each, "hidden", False) for flag in _long(each)]
    return f"no such option {error.option_name}{did_you_mean(near(error.option_name, flags))}"


def _misused_option(error: Any, context: Any) -> str:
    """An option without its value, or a flag with one; the parser's words tell which only in a language that may be any."""
    parameters = [] if context is None else context.command.get_params(context)
    for each in parameters:
        if error.option_name in (*each.opts, *each.secondary_opts):
            if each.is_flag:
                return f"{error.option_name} takes no value"
            return f"{error.option_name} needs a value: {names_of(each)}"
    return str(error.format_message()).rstrip(".")


def _long(parameter: Any) -> list[str]:
    return [] if parameter.param_type_name == "argument" else [*parameter.opts, *parameter.secondary_opts]
