"""In what two settings of a queue differ, in words, and the command that makes one of the other."""

from __future__ import annotations

import shlex

from actors.queue.vocabulary.settings import QUEUE_SETTINGS, UNALTERABLE, QueueSettings, Setting, Unit

WORD = 0
"""What is said, of a setting, where None has a word of its own: never, or none."""


def differences(queue: str, there: QueueSettings, asked: QueueSettings) -> str:
    """In what a queue that is there differs from what is asked for, and what to do about it."""
    differing = [each for each in QUEUE_SETTINGS if getattr(there, each.name) != getattr(asked, each.name)]
    told = ", ".join(
        f"{each.name} is {_words(each, getattr(there, each.name))} there, {_words(each, getattr(asked, each.name))} was asked for"
        for each in differing
    )
    fixed = [each.name for each in differing if each.name in UNALTERABLE]
    if fixed:
        return f"{told}; declare it as it is, or delete it first, for {' and '.join(fixed)} cannot be altered"
    written = [_option(each, getattr(asked, each.name)) for each in differing]
    if None in written:
        return f"{told}; declare it as it is, or delete it first"
    command = " ".join(["penstock queue alter", shlex.quote(queue), *filter(None, written)])
    return f"{told}; declare it as it is, or alter it ({command}, or Administration.alter_queue)"


def _words(setting: Setting, value: object) -> str:
    if value is None:
        return setting.word if setting.none == WORD else "none" if setting.unit is Unit.EXCHANGE else "its own"
    text = _text(value)
    return f"{text} s" if setting.unit is Unit.SECONDS else text


def _option(setting: Setting, value: object) -> str | None:
    """As the command line takes it; None for what cannot be said there."""
    flag = f"--{setting.name.replace('_', '-')}"
    if value is not None:
        return f"{flag} {shlex.quote(_text(value))}"
    if setting.none is None:
        return None
    return f"{flag} {setting.word}" if setting.none == WORD else f"{flag} ''"


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
