"""docs/cluster-try.md and docs/cluster-loss.md: three brokers on one machine, typed as they stand, from their start to the loss of two."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Final

import pytest

from tests.docs.typed import BLOCK, Shell, block
from tests.streams.pages import ROOT
from tests.transport.cluster.etcds import program

TRY: Final = "docs/cluster-try.md"
LOSS: Final = "docs/cluster-loss.md"
SECONDS: Final = 100.0
HOSTS: Final = f"127.{os.getpid() // 250 % 100 + 130}.{os.getpid() % 250 + 1}."
"""In the place of the pages': addresses of this machine that nobody else takes."""
WAITS: Final = """
trap 'kill $(jobs -p)' EXIT
all_in_step() { until [ "$(penstock cluster status 2>&1 | grep -cE '^[abc] +(leader|follower) +yes ')" = 3 ]; do :; done; }
says() { until grep -q "$2" $1; do :; done; }
"""


def typed(page: str) -> list[str]:
    """The blocks of a page, at addresses of this test."""
    text = (ROOT / page).read_text("utf-8")
    return [each["text"].replace("10.0.0.", HOSTS).replace("127.0.0.", HOSTS) for each in BLOCK.finditer(text)]


def test_what_is_typed_on_one_machine_goes_as_the_page_says_to_the_loss_of_two_nodes_of_three(shell: Shell) -> None:
    program()
    if shutil.which("etcdctl") is None:
        pytest.skip("there is no etcdctl (Debian, Ubuntu: sudo apt-get install etcd-client)")
    begun, killed, again, disk, moved, forgotten, two, _ = typed(TRY)
    (move,) = typed(LOSS)
    assert move.startswith("penstock cluster move b --context")
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
    ]
    done = subprocess.run(
        ["bash", "-c", WAITS + "\n".join(script)],
        cwd=shell.folder,
        env=shell.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    lines = done.stdout.splitlines()
    assert lines.count("1000") == 1, done.stdout + done.stderr
    assert "node c has moved" in done.stdout
    assert "no leader" in done.stdout, "of three, two have to be there"
