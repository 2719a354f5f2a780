"""Declarations of queues as a file: TOML or JSON, in the words of the settings file, so that a broker can take them in at its start.

``[queues.orders]`` and below it the settings, as docs/configuration.md has them; in JSON the same, as ``{"queues": {"orders": {...}}}``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from actors.queue.vocabulary.settings import QUEUE_SETTINGS, Setting, Unit
from transport.config.settings import NEVER, QUEUE_OPTIONS, QUEUES, as_setting
from transport.config.settings_file import FileValue, Keys, SettingsError, SettingsFile, parse_settings, quoted
from transport.config.settings_sources import declared_in

TOML: Final = "toml"
JSON: Final = "json"
FORMATS: Final = (TOML, JSON)
MAX_FILE_BYTES: Final = 16 * 2**20
"""Of a file that is imported: what 10,000 queues with long names need, three times over."""
EXPLICIT_NONE: dict[str, Any] = {setting.name: setting.none for setting in QUEUE_SETTINGS if setting.none is not None}
"""What the protocol has for never and for the queue's own."""
EXPLICIT_ZERO: dict[str, int] = {setting.name: setting.zero for setting in QUEUE_SETTINGS if setting.zero is not None}
"""What it has for 0, where 0 is never."""

Declarations = dict[str, dict[str, Any]]
"""Settings by queue and by their names in `QueueSettings`."""


def explicit(settings: Mapping[str, Any]) -> dict[str, Any]:
    """``settings`` as a command says them: None means never or none, where a command takes None for what is not said, and 0 for never."""
    said = {key: EXPLICIT_NONE.get(key) if value is None else value for key, value in settings.items()}
    return said | {key: zero for key, zero in EXPLICIT_ZERO.items() if settings.get(key) == 0}


def format_of(file: str, asked: str | None) -> str:
    """The format of a file: what was asked for, else what its name ends in, else TOML."""
    return asked or (JSON if file.lower().endswith(".json") else TOML)


def declarations_of(queues: Sequence[Mapping[str, Any]]) -> Declarations:
    """What the rows of ``queue.list`` say that is to be declared, by name."""
    rows = sorted(queues, key=lambda queue: str(queue["name"]))
    return {str(row["name"]): {each.name: row[each.name] for each in QUEUE_SETTINGS if _has(row, each)} for row in rows}


def _has(row: Mapping[str, Any], setting: Setting) -> bool:
    """Whether there is a value to write: None is one where it can be said."""
    return setting.name in row and (row[setting.name] is not None or setting.none is not None)


def dump(declarations: Declarations, form: str) -> str:
    """The text of a file."""
    said = {
        name: {key: _value(key, value) for key, value in settings.items()} for name, settings in declarations.items()
    }
    if form == JSON:
        return json.dumps({QUEUES: said}, indent=2, ensure_ascii=False) + "\n"
    tables = []
    for name, settings in said.items():
        lines = [f"[{quoted((QUEUES, name))}]"]
        # A text, a number or a truth is the same in JSON and in TOML, as long as it is printable.
        lines += [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in settings.items()]
        tables.append("\n".join(lines) + "\n")
    return "\n".join(tables)


def _value(key: str, value: Any) -> str | int | bool:
    option = QUEUE_OPTIONS[key]
    if isinstance(value, bool):
        return value
    text = option.kind.show(value)
    # What was written by a rule of numbers is a number in the file too.
    return int(text) if text.isascii() and text.isdigit() and int in option.kind.types else text


def load(data: bytes, name: str, form: str) -> Declarations:
    """What a file declares.

    Args:
        data: its bytes.
        name: what it is called, for messages.
        form: one of ``FORMATS``.

    Raises:
        SettingsError: it is too large, is no such file, or says what cannot be; each problem with its place.
    """
    if len(data) > MAX_FILE_BYTES:
        raise SettingsError([f"{name}: is larger than {MAX_FILE_BYTES} bytes; is it a file of declarations?"])
    values = parse_settings(data, name) if form == TOML else list(_json_values(data, name))
    problems = [
        f"{name}{f':{each.line}' if each.line else ''}: {quoted(each.keys)} is no declaration of a queue: "
        f"[{QUEUES}.NAME] is imported and nothing else"
        for each in values
        if each.keys[0] != QUEUES and len(each.keys) == 1
    ]
    if problems:
        raise SettingsError(problems)
    return declared_in(SettingsFile(Path(name), tuple(values)))


def _json_values(data: bytes, name: str) -> Iterator[FileValue]:
    try:
        document = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise SettingsError([f"{name}: is no JSON: {error}"]) from error
    if not isinstance(document, dict):
        raise SettingsError([f'{name}: is no JSON object: write {{"{QUEUES}": {{"NAME": {{...}}}}}}'])
    try:
        yield from _flattened(document, (), name)
    except RecursionError as error:
        raise SettingsError([f"{name}: its brackets are nested too deeply"]) from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise ValueError(f"{twice!r:.60} stands twice in one object")
    return found


def _flattened(table: dict[str, Any], keys: Keys, name: str) -> Iterator[FileValue]:
    for key, value in table.items():
        path = (*keys, key)
        if value is None:
            raise SettingsError([f'{name}: {quoted(path)}: null is no value: leave it out, or write "{NEVER}"'])
        if isinstance(value, dict):
            yield FileValue(path, None, 0)
            yield from _flattened(value, path, name)
        else:
            yield FileValue(path, value, 0)


def differences(said: Mapping[str, Any], there: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """What ``said`` has otherwise than the queue that is there: as it is, and as it is said, by setting."""
    found = {}
    for setting in QUEUE_SETTINGS:
        if setting.name not in said:
            continue
        is_now, wanted = there.get(setting.name), as_setting(said[setting.name])
        if _comparable(setting, is_now) != _comparable(setting, wanted):
            show = QUEUE_OPTIONS[setting.name].kind.show
            texts = (show(is_now) if setting.name in there else "not told", show(wanted))
            found[setting.name] = (texts[0] or '""', texts[1] or '""')
    return found


def _comparable(setting: Setting, value: Any) -> Any:
    """A value as the protocol has it: times in whole milliseconds."""
    if setting.unit is Unit.SECONDS and isinstance(value, int | float):
        return max(1, round(value * 1000)) if value else 0
    return value
