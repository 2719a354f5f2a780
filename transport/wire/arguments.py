"""Arguments of administrative commands as they stand in COMMAND, and the settings of a queue among them."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any, Final, TypeVar

from actors.queue.vocabulary.settings import ALIASES, NO_LIMIT, QUEUE_SETTINGS, Setting, Unit, by_own_names
from transport.errors import RemoteProtocolError
from transport.wire.field_checks import MAX_INTEGER
from transport.wire.messages import Options, brief
from transport.wire.names import check_name
from transport.wire.timing import setting_milliseconds

T = TypeVar("T")


def string_of(arguments: Options, name: str) -> str:
    """The string ``name``; raises RemoteProtocolError where it is none."""
    return _argument(arguments, name, str, "a string")


def flag_of(arguments: Options, name: str, default: object = None) -> bool:
    """The truth ``name``; raises RemoteProtocolError where it is none."""
    return _argument(arguments, name, bool, "true or false", default)


def _argument(arguments: Options, name: str, kind: type[T], wanted: str, default: object = None) -> T:
    value = arguments.get(name, default)
    if not isinstance(value, kind):
        raise RemoteProtocolError(f"the argument {name} must be {wanted}, not {brief(value)}")
    return value


def number_of(arguments: Options, name: str, least: int = 1) -> int:
    """The number ``name``; raises RemoteProtocolError where it is none, or less than ``least``, which is 0 or 1."""
    value = arguments.get(name)
    if type(value) is not int or not least <= value <= MAX_INTEGER:
        above = "a whole number above zero" if least else "a whole number of zero or more"
        beyond = f" (at most {MAX_INTEGER})" if type(value) is int and value > 0 else ""
        raise RemoteProtocolError(f"the argument {name} must be {above}, not {brief(value)}{beyond}")
    return value


def check_known(arguments: Options, known: Sequence[str], unsaid: Sequence[str] = ()) -> None:
    """Raise RemoteProtocolError for an argument that is neither ``known`` nor ``unsaid``, which is not told."""
    unknown = sorted(str(key) for key in arguments.keys() - {*known, *unsaid})
    if unknown:
        there = f"there are {', '.join(known)}" if known else "this command takes none"
        raise RemoteProtocolError(f"the argument {unknown[0]!r:.60} is unknown; {there}")


def argument_of(setting: Setting) -> str:
    """What a queue's setting is called in COMMAND: times are milliseconds there."""
    return f"{setting.name}_ms" if setting.unit is Unit.SECONDS else setting.name


SETTING_ARGUMENTS = {argument_of(setting): setting for setting in QUEUE_SETTINGS}


def settings_by_own_names(arguments: Options) -> Options:
    """The same with each setting by its own name; raises RemoteProtocolError where one is said by both of its names."""
    if ALIASES.keys().isdisjoint(arguments):
        return arguments
    try:
        return by_own_names(arguments)
    except ValueError as error:
        raise RemoteProtocolError(str(error)) from None


DECLARED_WITH: Final = "declared_with"
"""Of ``queue.create``: what a queue was declared with in the words of another protocol, in base64."""
CHECK = "check"
"""The argument with which a command judges everything and changes nothing."""

NAMED: Final = {Unit.QUEUE: "dead-letter queue", Unit.EXCHANGE: "dead-letter exchange"}
"""What a setting names, for the error's text; the rules for names are the same."""


def say_settings(given: Mapping[str, Any]) -> Options:
    """The arguments for settings by their names in `QueueSettings`; what is None is the broker's setting, and is not said.

    A limit of infinity is none, and a time to live of `AT_ONCE` is 0.

    Raises:
        ImpossibleTimeError: a time is no number of 0 or more. What is more than 0 and less than 1 ms counts as 1 ms.
        InvalidNameError: the dead-letter queue, or exchange, cannot be named so.
    """
    said: Options = {}
    for argument, setting in SETTING_ARGUMENTS.items():
        value = given[setting.name]
        if value is None:
            continue
        if setting.unit in NAMED and value:
            check_name(value, NAMED[setting.unit])
        if value == setting.zero and value is not None:
            said[argument] = value
            continue
        if value == inf and setting.word == NO_LIMIT:
            value = setting.none
        said[argument] = setting_milliseconds(setting.name, value) if setting.unit is Unit.SECONDS else value
    return said


def bytes_of(arguments: Options, name: str) -> bytes:
    """The bytes that ``name`` has in base64, none where it is left out or null; raises RemoteProtocolError where they are none."""
    text = arguments.get(name)
    if text is None:
        return b""
    try:
        return b64decode(string_of(arguments, name), validate=True)
    except ValueError:
        raise RemoteProtocolError(f"the argument {name} must be base64, not {brief(text)}") from None


def read_settings(arguments: Options, *unsaid: str) -> dict[str, Any]:
    """The settings that ``arguments`` give, by their names in `QueueSettings`. What is left out, or null, is the broker's setting.

    Args:
        arguments: of the command.
        unsaid: others that it takes, and that are no settings.

    Raises:
        RemoteProtocolError: a value of another type, or an argument that is none: it would leave a queue other than it was asked for.
        InvalidNameError: the dead-letter queue, or exchange, cannot be named so.
    """
    arguments = settings_by_own_names(arguments)
    check_known(arguments, ("name", *SETTING_ARGUMENTS), (CHECK, *unsaid))
    given: dict[str, Any] = {}
    for argument, setting in SETTING_ARGUMENTS.items():
        if arguments.get(argument) is None:
            continue
        if setting.zero is not None and arguments[argument] == setting.zero:
            given[setting.name] = 0.0
            continue
        value = _READ[setting.unit](arguments, argument, setting.none == 0)
        # What stands for never, or for the queue's own, is None here.
        given[setting.name] = None if setting.none is not None and value == setting.none else value
        if setting.unit in NAMED and value:
            check_name(value, NAMED[setting.unit])
    return given


def _number(arguments: Options, name: str, or_none: bool) -> int:
    return number_of(arguments, name, least=0 if or_none else 1)


_READ: dict[Unit, Callable[[Options, str, bool], Any]] = {
    Unit.COUNT: _number,
    Unit.BYTES: _number,
    Unit.SECONDS: lambda arguments, name, _: number_of(arguments, name, least=0) / 1000,
    Unit.FLAG: lambda arguments, name, _: flag_of(arguments, name),
    Unit.CHOICE: lambda arguments, name, _: string_of(arguments, name),
    Unit.QUEUE: lambda arguments, name, _: string_of(arguments, name),
    Unit.EXCHANGE: lambda arguments, name, _: string_of(arguments, name),
    Unit.KEY: lambda arguments, name, _: string_of(arguments, name),
}
