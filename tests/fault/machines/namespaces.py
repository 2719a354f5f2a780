"""Network namespaces by name: made, entered and removed through ``ip``; nothing here knows what they stand for."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from select import POLLIN, poll
from typing import Final

FOLDER: Final = Path("/run/netns")
"""Where ``ip`` keeps the names of namespaces."""
NEEDED: Final = ("ip", "tc", "setpriv")
"""Programs without which there are no machines: of iproute2 and util-linux."""
CLONE_NEWNET: Final = 0x40000000
COMMAND_SECONDS: Final = 20.0
"""For one ``ip`` or ``tc``, which take milliseconds."""
MOST_ROUNDS: Final = 10
"""Of killing what was started while others were killed."""
END_SECONDS: Final = 10.0
"""In which a process that was sent SIGKILL is gone; one that waits for a disk takes its time."""


class CommandFailedError(Exception):
    """``ip``, ``tc`` or ``mount`` refused what it was told; the text has what it said."""


@cache
def why_none() -> str | None:
    """Why no namespace can be made here, or None; asked once, by making one."""
    if os.geteuid() != 0:
        return "machines are network namespaces, and only root makes them"
    if missing := [name for name in NEEDED if shutil.which(name) is None]:
        return f"machines need {' and '.join(missing)} (Debian: iproute2, util-linux)"
    name = f"pm-try-{os.getpid()}"
    try:
        run("ip", "netns", "add", name)
        try:
            run("ip", "-n", name, "link", "add", "name", "one", "type", "veth", "peer", "name", "two")
            run("ip", "-n", name, "link", "add", "name", "hub", "type", "bridge")
        finally:
            run("ip", "netns", "del", name)
    except (CommandFailedError, OSError) as error:
        return f"no network namespaces here: {error}"
    return None


def run(*words: str, text: str | None = None) -> str:
    """What a command prints.

    Raises:
        CommandFailedError: it failed, or took too long.
    """
    try:
        done = subprocess.run(
            words, input=text or "", capture_output=True, text=True, check=False, timeout=COMMAND_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise CommandFailedError(f"{' '.join(words)}: not done within {COMMAND_SECONDS:.0f} s") from error
    if done.returncode != 0:
        raise CommandFailedError(f"{' '.join(words)}: {done.stderr.strip() or f'status {done.returncode}'}")
    return done.stdout


def batch(lines: Sequence[str], namespace: str | None = None) -> None:
    """Have ``ip`` carry out ``lines`` in one process."""
    where = ("-n", namespace) if namespace is not None else ()
    run("ip", *where, "-batch", "-", text="\n".join(lines) + "\n")


def enter(namespace: str | Path) -> None:
    """Move the calling thread into a namespace: what it opens and starts from then on is there."""
    path = FOLDER / namespace
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(file, CLONE_NEWNET) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(path))
    finally:
        os.close(file)


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """The calling thread is in ``namespace`` for as long as the context lasts.

    A socket belongs to where it was made, for good. So a whole event loop may run in here, and threads that it starts are here too.
    """
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter(namespace)
        try:
            yield
        finally:
            enter(Path(f"/proc/self/fd/{own}"))
    finally:
        os.close(own)


def processes_in(*found_in: str) -> list[int]:
    """The ids of all processes that live in these namespaces, other than this one; none where they are gone."""
    wanted = places_of(found_in)
    numbers = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()] if wanted else []
    return [number for number in numbers if number != os.getpid() and place_of(number) in wanted]


def places_of(names: Sequence[str]) -> set[tuple[int, int]]:
    """What tells namespaces apart, of those that are there."""
    found = set()
    for name in names:
        with suppress(FileNotFoundError):
            facts = (FOLDER / name).stat()
            found.add((facts.st_dev, facts.st_ino))
    return found


def place_of(process: int) -> tuple[int, int] | None:
    """What tells the namespace of a process from others; None where it has ended."""
    with suppress(OSError):
        facts = os.stat(f"/proc/{process}/ns/net")
        return facts.st_dev, facts.st_ino
    return None


def kill_all_in(*names: str) -> None:
    """SIGKILL for every process of these namespaces, and for those that they start meanwhile; returns when all are gone.

    Raises:
        CommandFailedError: some cannot be killed.
    """
    wanted = places_of(names)
    for _ in range(MOST_ROUNDS):
        found = processes_in(*names)
        if not found:
            return
        files = []
        try:
            for process in found:
                with suppress(ProcessLookupError):
                    files.append(os.pidfd_open(process))
                    # Asked again now that its number cannot become another's: what ended meanwhile is nobody that lives there.
                    if place_of(process) in wanted:
                        signal.pidfd_send_signal(files[-1], signal.SIGKILL)
            for file in files:
                ended(file, END_SECONDS)
        finally:
            for file in files:
                os.close(file)
    raise CommandFailedError(f"processes of {', '.join(names)} outlive SIGKILL: {processes_in(*names)}")


def ended(file: int, seconds: float) -> bool:
    """Wait until the process behind a descriptor of ``pidfd_open`` is gone."""
    waiting = poll()
    waiting.register(file, POLLIN)
    return bool(waiting.poll(seconds * 1000))


def named(prefix: str) -> list[str]:
    """The namespaces whose names begin so."""
    return sorted(entry.name for entry in FOLDER.iterdir() if entry.name.startswith(prefix)) if FOLDER.is_dir() else []


def remove(namespaces: Sequence[str]) -> None:
    """Kill what lives in them, and take their names away; with the last process the kernel removes their links."""
    kill_all_in(*namespaces)
    for name in namespaces:
        with suppress(CommandFailedError):
            run("ip", "netns", "del", name)
