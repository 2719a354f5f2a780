"""Which settings are in force, and from where: command line over environment over settings file over default.

Pure: texts and a file that was read go in, a `BrokerConfig` and the origin of each setting come out. Every problem is collected before any
is reported, so that a file with three slips is mended at once.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from actors import QueueSettings
from actors.queue.vocabulary.settings import ALIASES, dead_letter_settings
from transport.config.config import DEFAULT_DIRECTORY, DEFAULT_HTTP_ADDRESS, BrokerConfig
from transport.config.exposure import problems_together
from transport.config.settings import (
    CONFIG_VARIABLE,
    DATA,
    ENVIRONMENT_PREFIX,
    FILE,
    HTTP,
    MEMORY,
    OPTIONS,
    QUEUE_DEFAULTS,
    QUEUE_FLAG,
    QUEUE_OPTIONS,
    QUEUES,
    QUEUES_VARIABLE,
    SECTIONS,
    Option,
    as_setting,
    check_queue_setting,
)
from transport.config.settings_file import FileValue, Keys, SettingsError, SettingsFile, quoted
from transport.errors import TransportError
from transport.security.access_sources import VARIABLES
from transport.wire.names import check_name


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value is from.

    Attributes:
        source: ``default``, ``file``, ``environment`` or ``command line``.
        name: of the file, the variable or the option.
        line: in the file, counted from 1.
    """

    source: str
    name: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.name}:{self.line}" if self.line else self.name or self.source


DEFAULT = Origin("default")


@dataclass(frozen=True, slots=True)
class Given:
    """A value that somebody gave, or the default."""

    value: Any
    origin: Origin


@dataclass(frozen=True, slots=True)
class InForce:
    """One setting as it is.

    Attributes:
        key: as in the file: ``journal.sync``.
        value: as the broker has it: numbers are bytes and seconds, None is never or none.
        text: as it would be written.
        origin: who said so.
    """

    key: str
    value: Any
    text: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Resolved:
    """The outcome.

    Attributes:
        config: what the broker gets.
        in_force: every setting, in the file's order, then those of each declared queue.
        ignored: environment variables with the prefix that name no setting. They are no error: a container platform sets such for a
            service of that name.
    """

    config: BrokerConfig
    in_force: tuple[InForce, ...]
    ignored: tuple[str, ...]


def resolve(
    command_line: Mapping[str, str],
    environment: Mapping[str, str],
    file: SettingsFile | None = None,
    queues: Sequence[str] = (),
) -> Resolved:
    """What is in force.

    Args:
        command_line: texts by `Option.name`, of those that were given.
        environment: of the process, whole. An empty value counts as not given.
        file: the settings file, where there is one.
        queues: ``NAME [KEY=VALUE ...]`` for each queue declared on the command line.

    Raises:
        SettingsError: one or more values that cannot be, each with its origin.
    """
    problems: list[str] = []
    layers = [
        _file_layer(file, problems),
        _text_layer("environment", lambda o: _from_environment(environment, o), problems),
        _text_layer("command line", lambda o: (o.flag, command_line.get(o.name)), problems),
    ]
    given = {name: value for layer in layers for name, value in layer.items()}
    given |= _storage(layers, problems)
    given.setdefault(HTTP.name, Given(DEFAULT_HTTP_ADDRESS, DEFAULT))
    declared = _Declared(problems)
    declared.take_file(file)
    declared.take_texts(environment.get(QUEUES_VARIABLE, "").splitlines(), Origin("environment", QUEUES_VARIABLE))
    declared.take_texts(queues, Origin("command line", QUEUE_FLAG))
    config = _build(given, declared, problems)
    if config is None or problems:
        raise SettingsError(problems)
    # Those of a client are none of the broker's, but where they lie side by side nobody is to take them for a slip.
    known = {name for option in OPTIONS for name in _variables(option)} | {
        CONFIG_VARIABLE,
        QUEUES_VARIABLE,
        *VARIABLES.values(),
    }
    ignored = tuple(sorted(name for name in environment if name.startswith(ENVIRONMENT_PREFIX) and name not in known))
    return Resolved(config, tuple(_in_force(config, given, declared)), ignored)


SLIP = 0.6
"""How alike two names must be, from 0 to 1, for one to be taken for a slip of the other: one letter wrong in a word of three."""


def closest(word: str, known: Iterable[str], alike: float = SLIP) -> str:
    """``; did you mean X?`` where one of ``known`` is much like ``word``, else nothing."""
    import difflib  # noqa: PLC0415 - only for a slip

    found = difflib.get_close_matches(word, list(known), 1, alike)
    return f"; did you mean {found[0]}?" if found else ""


# One layer: what one source says, by option


def _also(option: Option) -> str | None:
    """What a setting of queues may be called as well."""
    return next(
        (alias for alias, name in ALIASES.items() if option.section == QUEUE_DEFAULTS and option.key == name), None
    )


def _variables(option: Option) -> tuple[str, ...]:
    """Of the environment, that say it."""
    also = _also(option)
    return (option.variable,) if also is None else (option.variable, ENVIRONMENT_PREFIX + also.upper())


def _from_environment(environment: Mapping[str, str], option: Option) -> tuple[str, str | None]:
    """The variable that says a setting, and its text."""
    said = [name for name in _variables(option) if environment.get(name)]
    return (said[-1], environment[said[-1]]) if said else (option.variable, None)


def _text_layer(source: str, said: Callable[[Option], tuple[str, str | None]], problems: list[str]) -> dict[str, Given]:
    layer = {}
    for option in OPTIONS:
        name, text = said(option)
        if text is None:
            continue
        value = _judged(option, option.kind.parse, text, Origin(source, name), problems)
        if value is not None:
            layer[option.name] = value
    return layer


def _file_layer(file: SettingsFile | None, problems: list[str]) -> dict[str, Given]:
    layer: dict[str, Given] = {}
    by_keys: dict[Keys, Option] = {(option.section, option.key): option for option in OPTIONS}
    by_keys |= {(option.section, also): option for option in OPTIONS if (also := _also(option)) is not None}
    for item, origin in _items(file):
        if item.keys[0] == QUEUES or (item.is_table and len(item.keys) == 1 and item.keys[0] in SECTIONS):
            continue
        option = by_keys.get(item.keys)
        if option is None:
            _unknown(item, origin, problems)
            continue
        if item.is_table:
            problems.append(f"{origin}: {option.path} is a setting, not a section")
            continue
        value = _judged(option, option.kind.convert, item.value, origin, problems)
        if value is not None:
            if option.name in layer:
                problems.append(f"{origin}: {option.path} is said already, as {layer[option.name].origin}")
            if option is DATA or (option.kind is FILE and value.value):
                # Beside the file, wherever the broker is started from.
                value = Given(os.path.join(os.path.dirname(origin.name), os.path.expanduser(value.value)), origin)
            layer[option.name] = value
    return layer


def _items(file: SettingsFile | None) -> Iterator[tuple[FileValue, Origin]]:
    if file is not None:
        for item in file.values:
            yield item, Origin("file", str(file.path), item.line)


def _judged(
    option: Option, read: Callable[[Any], Any], raw: object, origin: Origin, problems: list[str], queue: str = ""
) -> Given | None:
    """The value that ``read`` makes of ``raw``, if it can be in force by itself; of one ``queue`` where that is named."""
    try:
        value = read(raw)
        if queue or option.section == QUEUE_DEFAULTS:
            check_queue_setting(option.key, value)
        elif option is not MEMORY:
            BrokerConfig(**{option.field: value})
    except (TransportError, ValueError) as error:
        # A variable's or an option's name says which setting it is; a line of a file, or a queue's text, does not.
        path = queue or (option.path if origin.line else "")
        problems.append(f"{origin}: {path}: {error}" if path else f"{origin}: {error}")
        return None
    return Given(value, origin)


def _unknown(item: FileValue, origin: Origin, problems: list[str]) -> None:
    """Complain of what stands where nothing of its name does."""
    if len(item.keys) > 1 and (item.keys[0] not in SECTIONS or len(item.keys) > 2):
        return  # the table around it is complained of
    name = item.keys[-1]
    if len(item.keys) == 1 and name in SECTIONS:
        problems.append(f"{origin}: {name} is a section: write [{name}] and its settings below it")
        return
    hint = ""
    if elsewhere := [option.section for option in OPTIONS if option.key == name]:
        hint = f"; it belongs in [{elsewhere[0]}]"
    elif item.is_table and len(item.keys) == 1:
        hint = closest(name, (*SECTIONS, QUEUES)) or f"; there are {', '.join((*SECTIONS, QUEUES))}"
    else:
        hint = closest(name, [option.key for option in OPTIONS if option.section == item.keys[0]])
    what = "section" if item.is_table else "key"
    problems.append(f"{origin}: unknown {what} {quoted(item.keys)}{hint}")


def _storage(layers: Sequence[Mapping[str, Given]], problems: list[str]) -> dict[str, Given]:
    """What ``data`` and ``memory`` come to: the last layer that says either decides."""
    found = {DATA.name: Given(DEFAULT_DIRECTORY, DEFAULT), MEMORY.name: Given(False, DEFAULT)}
    for layer in layers:
        data, memory = layer.get(DATA.name), layer.get(MEMORY.name)
        if memory is not None and memory.value:
            if data is not None:
                problems.append(f"{memory.origin}: {MEMORY.path} and {DATA.path} ({data.origin}) exclude one another")
            found = {DATA.name: Given(None, memory.origin), MEMORY.name: memory}
        elif data is not None:
            found = {
                DATA.name: Given(os.path.expanduser(data.value), data.origin),
                MEMORY.name: Given(False, data.origin),
            }
        elif memory is not None and found[MEMORY.name].value:
            found = {DATA.name: Given(DEFAULT_DIRECTORY, DEFAULT), MEMORY.name: memory}
    return found


# Queues declared one by one


class _Declared:
    """Queues as the sources declare them; what a later one says of a setting replaces what an earlier one said.

    Attributes:
        queues: by name, the settings given, by key.
        origins: where each queue is named last.
    """

    def __init__(self, problems: list[str]) -> None:
        self.queues: dict[str, dict[str, Given]] = {}
        self.origins: dict[str, Origin] = {}
        self._problems = problems

    def take_file(self, file: SettingsFile | None) -> None:
        """Every ``[queues.NAME]``."""
        for item, origin in _items(file):
            match item.keys:
                case ("queues",) if not item.is_table:
                    self._problems.append(f"{origin}: queues is a section: write [queues.NAME] for each queue")
                case ("queues", name) if item.is_table:
                    self._declare(name, origin)
                case ("queues", name):
                    self._problems.append(f"{origin}: queues.{name} is no setting: write [queues.NAME] for each queue")
                case ("queues", name, key) if item.is_table:
                    dotted = quoted(("queues", f"{name}.{key}"))
                    self._problems.append(
                        f"{origin}: unknown section {quoted(item.keys)}; a queue's name with a dot goes in quotes: [{dotted}]"
                    )
                case ("queues", name, key):
                    self._set(name, key, item.value, origin, from_file=True)

    def take_texts(self, texts: Iterable[str], origin: Origin) -> None:
        """``NAME [KEY=VALUE ...]`` each; names have no spaces, so spaces divide."""
        for text in texts:
            name, *settings = text.split() or [""]
            if not name:
                continue
            self._declare(name, origin)
            for setting in settings:
                key, equals, value = setting.partition("=")
                if not equals:
                    self._problems.append(f"{origin}: {setting!r:.60} is not KEY=VALUE")
                    continue
                self._set(name, key, value, origin, from_file=False)

    def _declare(self, name: str, origin: Origin) -> None:
        try:
            check_name(name)
        except ValueError as error:
            self._problems.append(f"{origin}: {error}")
        self.queues.setdefault(name, {})
        self.origins[name] = origin

    def _set(self, name: str, key: str, raw: Any, origin: Origin, *, from_file: bool) -> None:
        path = quoted((QUEUES, name, key))
        key = ALIASES.get(key, key)
        option = QUEUE_OPTIONS.get(key)
        if option is None:
            hint = closest(key, QUEUE_OPTIONS) or f"; there are {', '.join(QUEUE_OPTIONS)}"
            self._problems.append(f"{origin}: unknown key {path}{hint}")
            return
        read = option.kind.convert if from_file else option.kind.parse
        if (value := _judged(option, read, raw, origin, self._problems, path)) is not None:
            if from_file and key in self.queues[name]:
                self._problems.append(f"{origin}: {path} is said already, as {self.queues[name][key].origin}")
            self.queues[name][key] = value


def declared_in(file: SettingsFile) -> dict[str, dict[str, Any]]:
    """The queues of ``[queues.NAME]``, each with the settings that are said, by their names in `QueueSettings`.

    Raises:
        SettingsError: one or more that cannot be by themselves.
    """
    problems: list[str] = []
    declared = _Declared(problems)
    declared.take_file(file)
    if problems:
        raise SettingsError(problems)
    return {name: {key: one.value for key, one in given.items()} for name, given in declared.queues.items()}


# Together


def _build(given: Mapping[str, Given], declared: _Declared, problems: list[str]) -> BrokerConfig | None:
    """The configuration, if what stands by itself also stands together."""
    fields = {
        option.field: given[option.name].value for option in OPTIONS if option.name in given and option is not MEMORY
    }
    try:
        base = BrokerConfig(**fields)
    except (TransportError, ValueError) as error:
        # Each value was judged by itself, so what remains is the one that needs another.
        letter = given.get("dead_letter_queue", Given(None, DEFAULT))
        problems.append(f"{letter.origin}: {error}")
        return None
    by_field = {option.field: given.get(option.name, Given(None, DEFAULT)) for option in OPTIONS}
    problems += [f"{by_field[field].origin}: {problem}" for field, problem in problems_together(base)]
    defaults = base.queue_settings()
    queues: dict[str, QueueSettings] = {}
    for name, settings in declared.queues.items():
        # The queue for everybody's dead letters has none of its own by default.
        plain = dead_letter_settings(defaults) if name == defaults.dead_letter_queue else defaults
        try:
            queues[name] = replace(plain, **{key: as_setting(one.value) for key, one in settings.items()})
            if queues[name].dead_letter_queue == name:
                raise ValueError("it cannot be its own dead-letter queue: name another")
        except ValueError as error:
            letter = settings.get("dead_letter_queue", Given(None, declared.origins[name]))
            problems.append(f"{letter.origin}: {quoted((QUEUES, name))}: {error}")
    try:
        return None if problems else BrokerConfig(**(fields | {"queues": queues}))
    except (TransportError, ValueError) as error:
        problems.append(str(error))
        return None


def _in_force(config: BrokerConfig, given: Mapping[str, Given], declared: _Declared) -> Iterable[InForce]:
    defaults = config.queue_settings()
    for option in OPTIONS:
        said = given.get(option.name)
        if said is not None:
            value = as_setting(said.value) if option.section == QUEUE_DEFAULTS else said.value
        elif option.section == QUEUE_DEFAULTS:
            value = getattr(defaults, option.key)
        else:
            value = getattr(config, option.field)
        text = "" if value is None and option is DATA else option.kind.show(value)
        yield InForce(option.path, value, text, said.origin if said else DEFAULT)
    for name, settings in config.declared_queues().items():
        for key, option in QUEUE_OPTIONS.items():
            value = getattr(settings, key)
            said = declared.queues.get(name, {}).get(key) or given.get(option.name)
            origin = said.origin if said and as_setting(said.value) == value else DEFAULT
            yield InForce(quoted((QUEUES, name, key)), value, option.kind.show(value), origin)
