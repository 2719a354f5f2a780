"""Judges what a history says of the broker's map beside its queues: what was confirmed is there after each start, and it is never a mix."""

from __future__ import annotations

from collections.abc import Sequence

from tests.simulation.checker import LOST, PHANTOM, Finding
from tests.simulation.history import Event, Put, PutConfirmed, Remembered

MIXED = "mixed"


def check_map(events: Sequence[Event]) -> list[Finding]:
    """What is wrong with the map of a history; nothing, if the broker kept its promises.

    What a start finds must be the map after some first part of the changes, with all that were confirmed in it.
    """
    findings: list[Finding] = []
    changes: list[Put] = []
    confirmed = 0
    for event in events:
        match event:
            case Put():
                changes.append(event)
            case PutConfirmed():
                confirmed = max(confirmed, event.changes)
            case Remembered(time, number, entries):
                if number < confirmed:
                    text = f"{confirmed} changes of the map were confirmed, {number} are remembered"
                    findings.append(Finding(LOST, time, text))
                if number > len(changes):
                    text = f"{number} changes of the map are remembered, {len(changes)} were made"
                    findings.append(Finding(PHANTOM, time, text))
                if entries != fold(changes[:number]):
                    findings.append(Finding(MIXED, time, f"the map is not what the first {number} changes make of it"))
                del changes[number:]
                confirmed = len(changes)
            case _:
                pass
    return findings


def fold(changes: Sequence[Put]) -> tuple[tuple[str, str, bytes], ...]:
    """The map after these changes."""
    entries: dict[tuple[str, str], bytes] = {}
    for change in changes:
        if change.value is None:
            entries.pop((change.section, change.key), None)
        else:
            entries[change.section, change.key] = change.value
    return tuple(sorted((section, key, value) for (section, key), value in entries.items()))
