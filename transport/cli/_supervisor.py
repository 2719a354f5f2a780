"""What systemd is told of a service (``Type=notify``): that it is ready, reloads, stops, and is alive. sd_notify(3) has the protocol.

Datagrams of ``KEY=VALUE`` lines to the socket that ``NOTIFY_SOCKET`` names; without it nothing is told to anybody. Errors are passed
over: a broker does not end because its supervisor does not listen.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

SOCKET: Final = "NOTIFY_SOCKET"
WATCHDOG: Final = "WATCHDOG_USEC"
WATCHDOG_PROCESS: Final = "WATCHDOG_PID"
SIGNS_IN_A_TIMEOUT: Final = 2
"""Signs of life in the time after which the service counts as hung: one may be late."""


class Supervisor:
    """Whoever started this process and wants to hear of it, if anybody; ``environment`` says who."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        name = environment.get(SOCKET, "")
        # An @ stands for the zero byte with which an abstract name begins. Other kinds of address are for virtual machines.
        self._address = "\0" + name[1:] if name.startswith("@") else name
        self._interval = 0.0
        if environment.get(WATCHDOG_PROCESS, str(os.getpid())) == str(os.getpid()):
            with suppress(ValueError):
                self._interval = int(environment.get(WATCHDOG, "0")) / 1_000_000 / SIGNS_IN_A_TIMEOUT
        self._timer: asyncio.TimerHandle | None = None

    def ready(self) -> None:
        """The service serves, at first or again."""
        self._tell("READY=1")

    def reloading(self) -> None:
        """It reads its configuration again; `ready` follows."""
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """It is about to end."""
        self._tell("STOPPING=1")

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give signs of life from now on, as long as ``loop`` comes to its timers."""
        if self._address and self._interval > 0:
            self._tell("WATCHDOG=1")
            self._timer = loop.call_later(self._interval, self.watch, loop)

    def leave(self) -> None:
        """No more signs of life."""
        if self._timer is not None:
            self._timer.cancel()

    def _tell(self, message: str) -> None:
        if not self._address.startswith(("/", "\0")):
            return
        # A name that is too long, or holds what no path can, is a ValueError.
        with suppress(OSError, ValueError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
            sending.setblocking(False)
            sending.sendto(message.encode(), self._address)
