"""What a broker's process does at SIGHUP: it reads its settings again, and has everything read anew that can be."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from transport.broker.reload import texts
from transport.broker.unhurried import Unhurried
from transport.cli._logs import set_level
from transport.config.settings_file import SettingsError

if TYPE_CHECKING:
    from transport.broker.reload import Reloads
    from transport.cli._supervisor import Supervisor
    from transport.config.settings_sources import Resolved

LOG_LEVEL: Final = "log level"

logger = logging.getLogger("penstock.broker")


class Reloading:
    """Of one process.

    Args:
        settings: of its start.
        again: the same, as their sources say by now.
        supervisor: is told.
    """

    def __init__(self, settings: Resolved, again: Callable[[], Resolved], supervisor: Supervisor) -> None:
        self._settings = settings
        self._again = again
        self._supervisor = supervisor
        self._asked = asyncio.Event()

    def ask(self) -> None:
        """Have it done, soon."""
        self._asked.set()

    async def whenever_asked(self, reloads: Callable[[], Awaitable[Reloads]]) -> None:
        """Read everything again that can be; one mistake in the settings leaves all of it as it is.

        Who asks while it is being read has it read once more. ``reloads`` are those of the broker that stands by then.
        """
        in_force = texts(self._settings)
        settings = Unhurried(self._again, lambda why: SettingsError([f"the settings file: {why}"]))
        while True:
            await self._asked.wait()
            self._asked.clear()
            self._supervisor.reloading()
            try:
                there, now = await reloads(), await settings.later()
                if not there.has(LOG_LEVEL):
                    there.add(LOG_LEVEL, lambda config: set_level(config.log_level), "broker.log_level")
                in_force = await there.reload(in_force, now)
            except SettingsError as error:
                for problem in error.problems:
                    logger.error("nothing is read again, for the settings cannot be: %s", problem)
            except Exception:
                # Whatever it is: the next time is read again all the same.
                logger.exception(
                    "what was to be read again was not read whole, for a reason that nobody has thought of"
                )
            finally:
                self._supervisor.ready()
