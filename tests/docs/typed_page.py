"""Types a whole page of the documents at a broker of its own, and compares what is printed with what the page shows."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.docs.console import KEY, Step, comparable, free_address, steps, terminals

ROOT: Final = Path(__file__).resolve().parents[2]
SEND, RECEIVE, HTTP = "127.0.0.1:9182", "127.0.0.1:9183", "127.0.0.1:9180"
"""The addresses that pages have; others may have these ports while the tests run."""


def as_it_is(step: Step) -> str:
    """The command as the page has it."""
    return step.command


def check_page(
    page: Path,
    folder: Path,
    commands: Path,
    written: Callable[[Step], str] = as_it_is,
    same: Callable[[str], str] = str,
    *,
    context: bool = True,
    speaks_http: bool = True,
) -> None:
    """Type ``page`` in ``folder``, with the commands of ``commands``, and compare what comes with what it shows.

    Args:
        page: its Markdown.
        folder: where it is typed.
        commands: a folder with ``penstock`` and ``python``.
        written: how a step's command is written.
        context: whether a context has the broker's addresses from the start.
        speaks_http: whether a broker there can; one that cannot is not told where.
        same: of what is printed and of what is shown, without what differs from run to run on this page alone.
    """
    send, receive, http = free_address(), free_address(), free_address()
    ours = ("PENSTOCK_", "PYTHON")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)} | {
        "PATH": f"{commands}:{os.environ['PATH']}",
        "PENSTOCK_SEND_ADDRESS": send,
        "PENSTOCK_RECEIVE_ADDRESS": receive,
        "XDG_CONFIG_HOME": str(folder.parent),
    }
    if speaks_http:
        environment["PENSTOCK_HTTP"] = http
    (folder.parent / "penstock").mkdir()
    found = list(steps(page.read_text("utf-8")))
    assert len(found) > 10
    with terminals(folder, environment) as terminal:
        if context:
            setup = terminal["before"]
            setup.type(f"penstock context add start --address {send} --receive-address {receive} --use")
            setup.until_ready()
        for index, step in enumerate(found):
            later = [each for each in found[index + 1 :] if each.terminal == step.terminal]
            goes_on = bool(later) and later[0].command == KEY
            here = terminal[step.terminal]
            here.type(written(step).replace(SEND, send).replace(RECEIVE, receive).replace(HTTP, http))
            printed = here.until_shown(len(step.shown)) if goes_on else here.until_ready()
            if step.command == KEY:
                continue
            printed = printed.replace(send, SEND).replace(receive, RECEIVE).replace(http, HTTP)
            shown = "\n".join(step.shown)
            assert comparable(same(printed)) == comparable(same(shown)), f"{step.command}\n{printed}"
