"""docs/cluster.md: its cluster starts, is shown as it shows, and goes on without one of its brokers; its table is the modes'."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from actors.replication.document import MODES
from tests.docs.typed import Shell, block
from tests.streams.pages import ROOT
from tests.transport.cluster.etcds import program
from tests.transport.test_commands_documented import check
from transport.cluster.addresses import parse_cluster

PAGE: Final = (ROOT / "docs" / "cluster.md").read_text("utf-8")
SECONDS: Final = 60.0
HOSTS: Final = f"127.{os.getpid() // 250 % 250 + 1}.{os.getpid() % 250 + 1}."
"""In the place of the page's: addresses of this machine that nobody else takes."""


def ours(text: str) -> str:
    return text.replace("10.0.0.", HOSTS)


def plain(text: str) -> list[str]:
    """What is shown, without ids, widths and who of the three leads."""
    text = re.sub(r"\b[0-9a-f]{32}\b", "ID", text.replace(HOSTS, "10.0.0."))
    text = re.sub(r"\b(epoch|records to|committed to) \d+", r"\1 N", re.sub(r"\bleader [abc]\b", "leader X", text))
    text = re.sub(r"^([abc]) +(leader|follower) ", r"\1 ROLE ", re.sub("─+", "-", text), flags=re.MULTILINE)
    # Where two came to lead at nearly the same time, one has cut off that it did, and keeps it.
    text = re.sub(
        r"^ +[abc] (has cut \d+ records? with 0 messages|keeps what was cut off,).*\n", "", text, flags=re.MULTILINE
    )
    return [re.sub(" +", " ", line) for line in text.strip().splitlines()]


def of_node(command: str, name: str) -> str:
    """The page's command, as another machine has it."""
    there = str("abc".index(name) + 1)
    command = command.replace("--node a", f"--node {name}").replace("data-a", f"data-{name}")
    return re.sub(r"(--(?:send-address|receive-address|http) \S+\.)1:", rf"\g<1>{there}:", command)


def test_three_brokers_start_are_shown_and_outlive_one_of_them_as_the_page_says(shell: Shell) -> None:
    program()
    shell.run(*block("docs/cluster.md", "openssl").splitlines())
    command = ours(block("docs/cluster.md", "penstock broker --cluster a"))
    shown, _, printed = block("docs/cluster.md", "$ penstock cluster status").partition("\n")
    status = ours(shown.removeprefix("$ "))
    sends, killed, receives = ours(block("docs/cluster.md", "seq 1000")).splitlines()
    with ExitStack() as stack:
        brokers = {name: stack.enter_context(Started(shell, of_node(command, name), name)) for name in "abc"}
        said = ""
        for _ in range(200):
            said = run(shell, f"{status} --connect-timeout 60")
            if plain(said) == plain(printed):
                break
        assert plain(said) == plain(printed)
        assert "1,000 messages confirmed" in run(shell, f"{sends} 2>&1")
        assert killed == "kill -9 PID"
        brokers["a"].kill()
        got = run(shell, f"{receives} 2>error").split()
        assert got == [str(number) for number in range(1, 1001)]


class Started:
    """A broker, in a session of its own; its etcd ends with it."""

    def __init__(self, shell: Shell, command: str, name: str) -> None:
        with (shell.folder / f"{name}.log").open("wb") as log:
            self.process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=shell.folder,
                env=shell.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )

    def __enter__(self) -> Started:  # noqa: PYI034 - nobody derives from it
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(SECONDS)


def run(shell: Shell, command: str) -> str:
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=shell.folder,
        env=shell.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    return done.stdout


def test_each_command_that_changes_members_is_one_with_the_words_that_it_takes() -> None:
    named = [
        *(
            block("docs/cluster-members.md", f"penstock cluster {each}")
            for each in ("add", "remove", "move", "give-up")
        ),
        block("docs/cluster-loss.md", "penstock cluster move b").replace(" --context prod", ""),
        block("docs/cluster-damage.md", "penstock cluster heal b"),
    ]
    lines = "".join(named).splitlines()
    assert [line.split()[2] for line in lines] == ["add", "remove", "move", "give-up", "move", "heal"]
    for line in lines:
        check(line)
        assert run_here(line) == "no broker"


def run_here(line: str) -> str:
    """What comes of a command that is whole, where nobody listens."""
    words = [*line.split()[1:], "--address", f"{HOSTS}9:1", "--connect-timeout", "0.1"]
    done = subprocess.run(
        [sys.executable, "-m", "transport.cli", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60.0,
    )
    return "no broker" if done.returncode == 1 and "no connection to the broker" in done.stderr else done.stderr


def test_the_start_with_users_and_tls_takes_the_options_that_it_shows() -> None:
    """Three that start so are in tests/transport/cluster: one certificate for clients, links and etcd."""
    command = block("docs/cluster.md", "penstock broker --cluster 'a")
    check(command.replace("\\\n", " "))
    where = shlex.split(command.replace("\\\n", " "))[3]
    assert parse_cluster(where, "a") != parse_cluster(where.partition("?")[0], "a"), "what is behind the ? is for etcd"


def test_the_table_of_promises_has_each_mode() -> None:
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == list(MODES)


def test_the_page_is_short_enough_to_be_read() -> None:
    assert len(PAGE.split()) <= 2000


def test_what_the_page_names_is_there() -> None:
    for name in re.findall(r"\]\(([\w-]+\.md)", PAGE):
        assert Path(ROOT / "docs" / name).is_file(), name
