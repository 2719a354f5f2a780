"""What a running broker reads anew when it is told to: a list of things, each with what it does; and what takes a restart.

Whoever keeps such a thing registers it (`Reloads.add`). All of them are tried, whatever fails: one that fails goes on as it was, and
the log says so. Nothing else of the broker is touched, so nobody is disturbed whom a change does not concern.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from transport.broker import audit
from transport.errors import TransportError

if TYPE_CHECKING:
    from transport.config.config import BrokerConfig
    from transport.config.settings_sources import Resolved

Reload = Callable[["BrokerConfig"], Awaitable[None] | None]
"""Takes in what the settings, as they are now, lead to: a level, or what a file has by now. Raises where that cannot be.

What takes long is awaited: the loop serves everybody meanwhile."""

logger = logging.getLogger("penstock.broker")


class Reloadable(NamedTuple):
    """One thing that is read anew.

    Attributes:
        name: what it is called in the log.
        reload: reads it; raises ``TransportError``, ``OSError`` or ``ValueError`` where it stays as it was.
        settings: the settings that it follows, as in the file: ``broker.log_level``.
    """

    name: str
    reload: Reload
    settings: frozenset[str]


class Reloads:
    """What a broker can read anew."""

    def __init__(self) -> None:
        self._things: list[Reloadable] = []

    def add(self, name: str, reload: Reload, *settings: str) -> None:
        """Have ``reload`` called from now on; as of `Reloadable`."""
        self._things.append(Reloadable(name, reload, frozenset(settings)))

    def has(self, name: str) -> bool:
        """Whether there is a thing of that name."""
        return any(thing.name == name for thing in self._things)

    async def reload(self, in_force: Mapping[str, str], now: Resolved) -> dict[str, str]:
        """Read everything anew, and log what came of it.

        Args:
            in_force: the text of each setting as the broker has it, by key.
            now: the settings as their sources say by now.

        Returns:
            what is in force from now on.
        """
        wanted = texts(now)
        taken_in: dict[str, str] = {}
        done: list[str] = []
        for thing in self._things:
            try:
                reading = thing.reload(now.config)
                if reading is not None:
                    await reading
            except (TransportError, OSError, ValueError) as error:
                audit.not_read(thing.name, error)
            except Exception as error:
                logger.exception("reading the %s again fails on a defect of ours", thing.name)
                audit.not_read(thing.name, error)
            else:
                done.append(thing.name)
                taken_in |= {key: wanted[key] for key in thing.settings if key in wanted}
        after = dict(in_force) | taken_in
        audit.logger.info("read again: %s", ", ".join(done) or "nothing", extra={"what": "reload"})
        own = frozenset[str]().union(*(thing.settings for thing in self._things))
        for key in sorted((after.keys() | wanted.keys()) - own):
            before, after_restart = after.get(key), wanted.get(key)
            if before != after_restart:
                logger.warning(
                    "%s is %s now and %s after a restart: it cannot be changed while the broker runs",
                    key,
                    _shown(before),
                    _shown(after_restart),
                )
        return after


def texts(settings: Resolved) -> dict[str, str]:
    """The text of each setting, by key."""
    return {setting.key: setting.text for setting in settings.in_force}


def _shown(text: str | None) -> str:
    return "not there" if text is None else text or "empty"
