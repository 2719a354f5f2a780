"""Facts of a run that have to do with exchanges, bindings and what queues there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Published:
    """A program gave messages to its sender, for an exchange; ``number`` is the publisher's of the first."""

    time: float
    producer: str
    exchange: str
    number: int
    messages: tuple[str, ...]
    keys: tuple[str, ...]
    headers: tuple[tuple[tuple[str, str], ...], ...]
    mandatory: bool


@dataclass(frozen=True, slots=True)
class PublishConfirmed:
    """A program was told that what it published is stored wherever it went."""

    time: float
    producer: str
    messages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CameBack:
    """A program was told that no queue takes a message."""

    time: float
    producer: str
    message: str


@dataclass(frozen=True, slots=True)
class CommandHeard:
    """The broker was given a command about exchanges, bindings or queues; its arguments are sorted."""

    time: float
    connection: int
    request: int
    name: str
    arguments: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class CommandAnswered:
    """The broker wrote the answer to a command: ``code`` is None where it was carried out."""

    time: float
    connection: int
    request: int
    code: str | None


@dataclass(frozen=True, slots=True)
class Defined:
    """What a start found of exchanges, bindings and queues, before anybody was connected."""

    time: float
    exchanges: tuple[str, ...]
    bindings: tuple[tuple[Any, ...], ...]
    queues: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """The messages that a start found in a queue, in order."""

    time: float
    queue: str
    messages: tuple[str, ...]
