"""The shell blocks of the pages are typed as they stand, and what is shown beneath is what comes."""

from __future__ import annotations

import os
import re
import signal
import socket
import struct

from tests.docs.console import BLOCK as CONSOLE
from tests.docs.console import free_address
from tests.docs.typed import END, UP, Shell, alike, block, end
from tests.streams.pages import DOCS


def test_the_readmes_shell_sends_and_receives_and_durabilitys_reads_what_is_left(shell: Shell) -> None:
    printed, errors = shell.run(
        block("README.md", "penstock broker &"),
        "kill %1; wait %1",
        block("docs/durability.md", "penstock journal verify"),
    )
    assert printed[:3] == ["1", "2", "3"]
    assert any("3 messages confirmed in queue numbers" in line for line in errors)
    assert (shell.folder / "penstock-data").is_dir()


def test_a_backup_is_made_restored_and_opened_as_the_page_shows(shell: Shell) -> None:
    made, restored, opened = block("docs/backups.md", "penstock journal backup backup-").splitlines()
    printed, errors = shell.run(
        "penstock broker &", "seq 3 | penstock send --queue orders", made, restored, "kill %1; wait %1",
        f"{opened} &", "penstock receive --queue orders --count 3", END,
    )  # fmt: skip
    assert printed[-3:] == ["1", "2", "3"]
    shown = block("docs/backups.md", "penstock journal backup: ")
    said = [line for line in printed + errors if line.startswith("penstock journal ")]
    assert counted(said) == counted(shown.splitlines())


def counted(lines: list[str]) -> list[str]:
    """Without the figures of one backup."""
    return [re.sub(r"\b\d+(?= files)|(?<=record )\d+", "N", line) for line in alike("\n".join(lines))]


def test_a_broker_takes_the_pages_settings_file_and_config_show_says_where_each_value_is_from(shell: Shell) -> None:
    text = block("docs/configuration.md", "[broker]")
    (shell.folder / "penstock.toml").write_text(text.replace('"5GiB"', '"0B"'))
    started, shown = block("docs/configuration.md", "penstock broker --config").splitlines()
    printed, _ = shell.run(f"{started} &", UP, "cat up.txt", shown, END)
    text = "\n".join(printed)
    assert re.search(r"^orders ", text, re.MULTILINE)
    assert re.search(r"^orders\.eu ", text, re.MULTILINE)
    assert re.search(r"sync_interval +20 ?ms +penstock\.toml:\d+", text)


def test_a_check_beside_a_broker_says_what_the_page_shows(shell: Shell) -> None:
    check = block("docs/operations.md", "penstock broker --check --data")
    _, errors = shell.run("penstock broker --data ./penstock-data 2>log.txt &", UP, f"{check.strip()} || true", END)
    shown = block(
        "docs/operations.md", "penstock broker --check: the data directory penstock-data cannot be opened: pen"
    )
    assert errors == shown.splitlines()


def test_the_consumers_shell_prints_what_the_page_shows(shell: Shell) -> None:
    script = block("docs/consumer.md", "penstock broker &")
    receive = shell.addresses["127.0.0.1:9183"]
    with shell.start(script.replace("examples/consumer.py", f"examples/consumer.py --address {receive}")) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            order, warning = block("docs/consumer.md", "2 x tea").splitlines()
            # What the other commands say stands before it.
            assert any(line.rstrip("\n") == order for line in process.stdout)
            assert any(line.rstrip("\n") == warning for line in process.stderr)
            os.killpg(process.pid, signal.SIGTERM)
        finally:
            end(process)


def test_a_broker_with_the_ports_of_the_simple_queue_says_what_the_page_shows(shell: Shell) -> None:
    source, sink = free_address(), free_address()
    shell.addresses |= {"127.0.0.1:6211": source, "127.0.0.1:6212": sink}
    host, _, port = source.partition(":")
    with shell.start(
        block("docs/smq.md", "penstock broker --smq-source").rstrip() + " & " + UP + "; echo up; wait"
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            started = shell.documented(process.stderr.readline())
            assert "127.0.0.1:6211" in started
            assert "127.0.0.1:6212" in started
            assert process.stdout.readline() == "up\n"
            with socket.create_connection((host, int(port))) as peer:
                peer.sendall(b"M" + struct.pack(">i", 9_000_000))
                said = process.stderr.readline()
        finally:
            end(process)
    shown = block("docs/smq.md", "WARNING penstock.broker")
    assert alike(said)[0].partition(" ")[2] == alike(shown)[0]


def test_the_command_lines_page_shows_what_a_bad_line_and_an_unknown_option_bring(shell: Shell) -> None:
    (page,) = [
        found["text"] for found in CONSOLE.finditer((DOCS / "cli.md").read_text("utf-8")) if "$ printf" in found["text"]
    ]
    command, *shown = page.splitlines()
    _, errors = shell.run("penstock broker 2>log.txt &", UP, f"{command.removeprefix('$ ')} || true", END)
    assert alike("\n".join(errors)) == alike("\n".join(shown))
    _, errors = shell.run("penstock send --quue orders", status=2)
    assert errors == block("docs/cli.md", "penstock send: no such option").splitlines()


def test_a_send_to_a_full_queue_says_what_the_page_shows(shell: Shell) -> None:
    waiting, going_on = block("docs/cli.md", "penstock send: queue orders is full").splitlines()
    with shell.start(
        "penstock broker 2>log.txt &",
        "penstock queue create orders --max-messages 5",
        "seq 6 | penstock send --queue orders",
    ) as process:
        try:
            assert process.stderr is not None
            assert process.stderr.readline().rstrip("\n") == waiting
            shell.run("penstock receive --queue orders --count 6")
            assert process.stderr.readline().rstrip("\n") == going_on
        finally:
            end(process)
