"""Types what a page of the documents shows, on a terminal of 80 columns, and gives what was printed.

A block ```` ```console ```` is what a person sees: `$ ` and a command, and beneath it what that prints. Blocks with a title
are a terminal each, which stays open from block to block. A line `^C` is that key.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import socket
import struct
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

COLUMNS: Final = 80
LINES: Final = 50
SECONDS: Final = 60.0
"""The longest that a command may take."""
PROMPT: Final = "\x02READY\x03"
"""What the shell prints when it is ready for a command; no program prints it."""
KEY: Final = "^C"
END_OF_INPUT: Final = "^D"
KEYS: Final = {KEY: b"\x03", END_OF_INPUT: b"\x04"}
BLOCK: Final = re.compile(r"^```console(?: title=\"(?P<title>[^\"]*)\")?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
FIGURES: Final = (
    (re.compile(r"\b[\d.,]+ (?:ms|s|min|h|d)\b(?: \d+ (?:s|min|h)\b)?"), "TIME"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "ID"),
    (re.compile(r"\b[\d.,]+ (?=(?:messages|MiB|KiB|MB|B)/s)"), "N "),
    (re.compile(r"\b[\d.,]+ (?=(?:GiB|MiB|KiB|MB|B)\b)"), "N "),
    (re.compile(r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*"), "TIME"),
    (re.compile(r" {2,}"), "  "),
    (re.compile("[─━]+"), "─"),
)
"""What differs from run to run: times, rates, sizes and ids, and the room that they take in a table."""


@dataclass
class Step:
    """A command of a page: in which terminal, and what is shown beneath it."""

    terminal: str
    command: str
    shown: list[str] = field(default_factory=list)


def steps(page: str) -> Iterator[Step]:
    """What is typed on a page, in its order."""
    for block in BLOCK.finditer(page):
        step: Step | None = None
        for line in block["text"].splitlines():
            if line.startswith("$ ") or line == KEY:
                if step is not None:
                    yield step
                step = Step(block["title"] or "", line.removeprefix("$ "))
            elif step is None:
                raise AssertionError(f"a block shows {line!r} before any command")
            elif not step.shown and (line.startswith("> ") or step.command.endswith("\\")):
                step.command += "\n" + line.removeprefix("> ")
            else:
                step.shown.append(line)
        if step is not None:
            yield step


def comparable(text: str) -> list[str]:
    """The lines of what was printed or is shown, without what differs from run to run."""
    text = "\n".join(map(overwritten, text.split("\n")))
    for pattern, placeholder in FIGURES:
        text = pattern.sub(placeholder, text)
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def overwritten(line: str) -> str:
    """What a terminal shows of a line that was begun again, as progress is."""
    shown = ""
    for part in line.split("\r"):
        shown = part + shown[len(part) :]
    return shown.rstrip()


def free_address() -> str:
    """An address of this machine that nobody has now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{found.getsockname()[1]}"


class Terminal:
    """A shell on a terminal of its own."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._buffer = ""
        self.pid, self._fd = pty.fork()
        if self.pid == 0:  # the child
            os.chdir(folder)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"], environment)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        modes = termios.tcgetattr(self._fd)
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(self._fd, termios.TCSANOW, modes)
        self.until_ready()

    def type(self, text: str) -> None:
        """Type a line, or a key."""
        os.write(self._fd, KEYS.get(text) or text.encode() + b"\n")

    def until_ready(self) -> str:
        """What is printed until the shell takes the next command."""
        return self._until(lambda text: PROMPT in text).split(PROMPT)[0]

    def until_shown(self, lines: int) -> str:
        """What is printed by a command that goes on, when there is as much of it as is shown."""
        return self._until(lambda text: text.count("\n") >= lines)

    def until_says(self, text: str) -> str:
        """What is printed until a program asks with this text.

        Of a question for a password the blank behind it is a part: what is typed before that is thrown away.
        """
        return self._until(lambda printed: text in printed)

    def close(self) -> None:
        """End the shell and what it runs."""
        with suppress(OSError):
            os.killpg(os.tcgetpgrp(self._fd), signal.SIGTERM)
        os.close(self._fd)
        os.kill(self.pid, signal.SIGHUP)
        os.waitpid(self.pid, 0)

    def _until(self, done: Callable[[str], bool]) -> str:
        deadline = time.monotonic() + SECONDS
        while not done(self._buffer):
            ready, _, _ = select.select([self._fd], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise AssertionError(f"after {SECONDS:g} s there is no more than {self._buffer!r}")
            self._buffer += os.read(self._fd, 65_536).decode("utf-8", "replace").replace("\r\n", "\n")
        text, self._buffer = self._buffer, ""
        return text


@contextmanager
def terminals(folder: Path, environment: dict[str, str]) -> Iterator[dict[str, Terminal]]:
    """Terminals by name, made when they are asked for."""
    given = environment | {
        "PS1": PROMPT,
        "PS2": "",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "BASH_SILENCE_DEPRECATION_WARNING": "1",
    }

    class Made(dict[str, Terminal]):
        def __missing__(self, name: str) -> Terminal:
            terminal = self[name] = Terminal(folder, given)
            return terminal

    made = Made()
    try:
        yield made
    finally:
        for terminal in reversed(made.values()):
            terminal.close()
