"""Runs the shell blocks of a page in a folder of their own, with the commands of this checkout and at addresses that are free."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.docs.console import comparable, free_address
from tests.streams.pages import ROOT
from transport import DEFAULT_RECEIVE_ADDRESS, DEFAULT_SEND_ADDRESS

SECONDS: Final = 60.0
BLOCK: Final = re.compile(r"^```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
UP: Final = "penstock queue list >up.txt"
"""Returns when the broker is there."""
END: Final = "kill -- $(jobs -p); wait"
"""Ends what goes on."""
FIGURES: Final = (
    (re.compile(r"\b[\d.,]+ (?:GiB|MiB|KiB|MB|B)\b|\bN (?:GiB|MiB|KiB|MB|B)\b"), "SIZE"),
    (re.compile(r"\b20\d\d-\d\d-\d\d\b"), "DAY"),
    (re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}:\d{4,5}\b"), "PEER"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{12}\b"), "ID"),
)
"""What differs too where whole commands are shown."""


def block(page: str, start: str) -> str:
    """The one block of a page that begins so."""
    (found,) = [
        each["text"] for each in BLOCK.finditer((ROOT / page).read_text("utf-8")) if each["text"].startswith(start)
    ]
    return found


def alike(text: str) -> list[str]:
    """The lines of what was printed or is shown, without what differs from run to run."""
    lines = "\n".join(comparable(text))
    for pattern, placeholder in FIGURES:
        lines = pattern.sub(placeholder, lines)
    return lines.splitlines()


@dataclass
class Shell:
    """Where the blocks of a page are typed.

    Attributes:
        folder: where it is.
        environment: of the commands: a context names the addresses, so that none has to be said.
        addresses: those of the broker, by what the page has.
    """

    folder: Path
    commands: Path
    addresses: dict[str, str] = field(init=False)
    environment: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.addresses = {DEFAULT_SEND_ADDRESS: free_address(), DEFAULT_RECEIVE_ADDRESS: free_address()}
        send, receive = self.addresses.values()
        contexts = self.folder / f"config-{send}" / "penstock"
        contexts.mkdir(parents=True)
        ours = ("PENSTOCK_", "PYTHON")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)} | {
            "PATH": f"{self.commands}:{os.environ['PATH']}",
            "PENSTOCK_SEND_ADDRESS": send,
            "PENSTOCK_RECEIVE_ADDRESS": receive,
            # Several run side by side, and the usual address is one; who speaks HTTP is told where.
            "PENSTOCK_HTTP": "none",
            "XDG_CONFIG_HOME": str(contexts.parent),
            "HOME": str(self.folder),
        }
        (contexts / "contexts.toml").write_text(
            f'current = "page"\n[contexts.page]\nsend_address = "{send}"\nreceive_address = "{receive}"\n'
        )

    def placed(self, text: str) -> str:
        """A text of the page, with the addresses that are there."""
        for documented, actual in self.addresses.items():
            text = text.replace(documented, actual)
        return text

    def documented(self, text: str) -> str:
        """What was printed, with the addresses that the page has."""
        for documented, actual in self.addresses.items():
            text = text.replace(actual, documented)
        return text

    def start(self, *script: str) -> subprocess.Popen[str]:
        """Run lines in a shell, as a group of processes of its own; the first command that fails ends it."""
        pipe = subprocess.PIPE
        return subprocess.Popen(
            ["bash", "-e", "-c", self.placed("\n".join(script))],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            text=True,
            start_new_session=True,
        )

    def run(self, *script: str, status: int = 0) -> tuple[list[str], list[str]]:
        """Run lines in a shell and give what they print on standard output and standard error."""
        with self.start(*script) as process:
            try:
                printed, errors = process.communicate(timeout=SECONDS)
            finally:
                end(process)
        assert process.returncode == status, errors
        return self.documented(printed).splitlines(), self.documented(errors).splitlines()


def end(process: subprocess.Popen[str]) -> None:
    """End a shell with all that it has started, if anything of it is there."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
