"""Runs the programs of a page, as somebody does who copies them, and gives what each prints.

A program is a block of Python with a block `text` right behind it, which is what it prints. They are run in the order of the page, at
one broker, which stands at the addresses that the page has.
"""

from __future__ import annotations

import contextlib
import io
import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from transport import DEFAULT_RECEIVE_ADDRESS, DEFAULT_SEND_ADDRESS
from transport.testing import HostedBroker

PROGRAM: Final = re.compile(
    r"^```python\n(?P<text>(?:(?!```).*\n)*)```\n\n?```text\n(?P<shown>(?:(?!```).*\n)*)```$", re.MULTILINE
)
PYTHON: Final = re.compile(r"^```python$", re.MULTILINE)
SHOWN: Final = re.compile(r"^```text$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Program:
    """A program of a page.

    Attributes:
        text: the program.
        shown: what the page says that it prints.
    """

    text: str
    shown: str


def programs(page: Path) -> list[Program]:
    """The programs of a page.

    Raises:
        AssertionError: a block of Python has no output, or an output no program.
    """
    text = page.read_text("utf-8")
    found = [Program(each["text"], each["shown"]) for each in PROGRAM.finditer(text)]
    assert len(found) == len(PYTHON.findall(text)), f"{page.name} has a program without what it prints"
    assert len(found) == len(SHOWN.findall(text)), f"{page.name} shows what no program prints"
    return found


def printed(program: str, broker: HostedBroker) -> str:
    """What a program prints at a broker."""
    addresses = {DEFAULT_SEND_ADDRESS: broker.send_address, DEFAULT_RECEIVE_ADDRESS: broker.receive_address}
    for documented, actual in addresses.items():
        program = program.replace(documented, actual)
    output = io.StringIO()
    failures: list[BaseException] = []

    def work() -> None:
        names: dict[str, Any] = {"__name__": "__main__"}
        try:
            with contextlib.redirect_stdout(output):
                exec(compile(program, "program", "exec", dont_inherit=True), names)
        except BaseException as error:  # noqa: BLE001 - told in the thread of the test
            failures.append(error)

    # A thread of its own: some of them run an event loop.
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    for failure in failures:
        raise failure
    text = output.getvalue()
    for documented, actual in addresses.items():
        text = text.replace(actual, documented)
    return text
