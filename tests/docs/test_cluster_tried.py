"""docs/cluster-try.md and docs/cluster-lost.md, typed as they stand: three brokers on one machine, the loss of two, and the way back."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from contextlib import suppress
from typing import Final

import pytest

from tests.docs.typed import BLOCK, Shell, block
from tests.streams.pages import ROOT
from tests.transport.cluster.etcds import program

TRY: Final = "docs/cluster-try.md"
LOST: Final = "docs/cluster-lost.md"
SECONDS: Final = 100.0
HOSTS: Final = f"127.{os.getpid() // 250 % 100 + 130}.{os.getpid() % 250 + 1}."
"""In the place of the pages': addresses of this machine that nobody else takes."""
WAITS: Final = """
trap 'kill $(jobs -p)' EXIT
all_in_step() { until [ "$(penstock cluster status 2>&1 | grep -cE '^[abc] +(leader|follower) +yes ')" = 3 ]; do :; done; }
leads() { until penstock cluster status --address $1 2>&1 | grep -q 'leader c, register answers'; do :; done; }
says() { until grep -q "$2" $1; do :; done; }
"""
MARK: Final = "shown beneath:"
FIGURES: Final = (
    # etcd fills its ids up with blanks.
    (re.compile(r" +"), " "),
    (re.compile(r"\b[0-9a-f]{32}\b|\b(?=[a-f]*[0-9])[0-9a-f]{10,16}\b"), "ID"),
    (re.compile(r"\b(epoch|records to|committed to) \d+"), r"\1 N"),
    (re.compile(r"\b127\.0\.0\.|\b10\.0\.0\."), HOSTS),
)


def typed(page: str) -> list[str]:
    """The blocks of a page, at addresses of this test."""
    text = (ROOT / page).read_text("utf-8")
    return [each["text"].replace("10.0.0.", HOSTS).replace("127.0.0.", HOSTS) for each in BLOCK.finditer(text)]


def alike(text: str) -> list[str]:
    """Lines, without what differs from run to run."""
    for pattern, placeholder in FIGURES:
        text = pattern.sub(placeholder, text)
    return text.strip().splitlines()


def ran(shell: Shell, script: list[str], seconds: float) -> tuple[str, str]:
    """What a shell says, and what it says of failures, in which all of this is typed; no node of it goes on then."""
    # Not into a pipe: whatever goes on behind a test that has failed would hold that open.
    said, failed = shell.folder / "said.txt", shell.folder / "failed.txt"
    try:
        with said.open("w") as out, failed.open("w") as err:
            subprocess.run(
                ["bash", "-c", WAITS + "\n".join(script)],
                cwd=shell.folder,
                env=shell.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                check=False,
                timeout=seconds,
            )
    except subprocess.TimeoutExpired:
        # The shell was killed, its brokers go on, and the end of the commands' folder waits for them.
        for file in shell.folder.glob("*.pid"):
            with suppress(ProcessLookupError, ValueError):
                os.kill(int(file.read_text()), signal.SIGKILL)
        raise
    finally:
        subprocess.run(["pkill", "-f", f"{shell.folder}/data-[abcd]"], check=False, timeout=seconds)
    return said.read_text(), failed.read_text()


def test_what_is_typed_on_one_machine_loses_nothing_though_two_nodes_of_three_are_lost(shell: Shell) -> None:
    program()
    if shutil.which("etcdctl") is None:
        pytest.skip("there is no etcdctl (Debian, Ubuntu: sudo apt-get install etcd-client)")
    begun, killed, again, disk, moved, forgotten, two, _ = typed(TRY)
    restored, document, put, status, stands, awaits_a, awaited, adds_a, added_a, awaits_b, adds_b, added_b = typed(LOST)
    assert "127.0.0." in block(TRY, "openssl")
    script = [
        begun,
        "all_in_step",
        killed,
        again,
        "all_in_step",
        "seq 1001 1100 | penstock send --queue orders",
        disk,
        "says c.log 'has another directory'",
        moved,
        "all_in_step",
        forgotten,
        "until etcdctl member list | grep -q '3:2380, http'; do :; done",
        "unset ETCDCTL_ENDPOINTS",
        two,
        "kill $(cat c.pid); wait $(cat c.pid)",
        restored,
        f"echo {MARK}",
        document,
        f"start c {HOSTS}3",
        f"leads {HOSTS}3",
        f"echo {MARK}",
        status,
        f"penstock receive --queue orders --count 100 --address {HOSTS}3:9183 | tail -n 1",
        f"echo {MARK}",
        awaits_a,
        f"start a {HOSTS}1",
        "says a.log 'cluster has no member .a. yet'",
        f"echo {MARK}",
        adds_a,
        awaits_b,
        f"start b {HOSTS}2",
        "says b.log 'cluster has no member .b. yet'",
        f"echo {MARK}",
        adds_b,
        "all_in_step",
        "echo three again",
    ]
    printed, failed = ran(shell, script, SECONDS)
    lines = printed.splitlines()
    assert lines.count("1000") == 1, printed + failed
    perhaps = "1,000 perhaps again, for the broker was restarted"
    assert perhaps in (ROOT / TRY).read_text("utf-8")
    assert f"; {perhaps}\n" in failed
    assert "node c has moved" in printed
    assert "no leader" in printed, "of three, two have to be there"
    assert "restored snapshot" in failed
    assert lines[-1] == "three again"
    assert lines.count("1100") == 1, "what was confirmed before the two were lost is there"
    for shown, found in zip((put, stands, awaited, added_a, added_b), printed.split(f"{MARK}\n")[1:], strict=True):
        assert alike(found)[: len(alike(shown))] == alike(shown)
