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
leads() { until penstock cluster status --address $1 2>&1 | grep -q 'leader c, register answers'; do :; done; }
says() { until grep -q "$2" $1; do :; done; }
"""


def typed(page: str) -> list[str]:
    """The blocks of a page, at addresses of this test."""
    text = (ROOT / page).read_text("utf-8")
    return [each["text"].replace("10.0.0.", HOSTS).replace("127.0.0.", HOSTS) for each in BLOCK.finditer(text)]


def test_what_is_typed_on_one_machine_loses_nothing_though_two_nodes_of_three_are_lost(shell: Shell) -> None:
    program()
    if shutil.which("etcdctl") is None:
        pytest.skip("there is no etcdctl (Debian, Ubuntu: sudo apt-get install etcd-client)")
    begun, killed, again, disk, moved, forgotten, two, _ = typed(TRY)
    move, alone, document, third, added = typed(LOSS)
    assert move.startswith("penstock cluster move b --context")
    assert "127.0.0." in block(TRY, "openssl")
    empty = [
        third.replace("--node c", f"--node {name}")
        .replace("data-c", f"data-{name}")
        .replace(f"{HOSTS}3:9", f"{HOSTS}{at}:9")
        for name, at in (("a", 1), ("b", 2))
    ]
    empty = [
        each.replace(f"--advertise {HOSTS}3", f"--advertise {HOSTS}{at}").replace("&", f"2> {name}.log &")
        for each, name, at in zip(empty, "ab", (1, 2), strict=True)
    ]
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
        alone,
        "says etcd.log 'ready to serve client requests'",
        document,
        third,
        f"leads {HOSTS}3:9182",
        f"penstock receive --queue orders --count 100 --address {HOSTS}3:9183 | tail -n 1",
        *empty,
        "says a.log 'cluster add a='",
        "says b.log 'cluster add b='",
        added,
        "all_in_step",
        "echo three again",
    ]
    # Not into a pipe: who is killed leaves its etcd, which would hold that open.
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
                timeout=SECONDS,
            )
    finally:
        subprocess.run(["pkill", "-f", f"{shell.folder}/data-[abc]"], check=False, timeout=SECONDS)
    printed = said.read_text()
    lines = printed.splitlines()
    assert lines.count("1000") == 1, printed + failed.read_text()
    assert "node c has moved" in printed
    assert "no leader" in printed, "of three, two have to be there"
    assert lines.count("1100") == 1, "what was confirmed before the two were lost is there"
    assert [line.partition(",")[0] for line in lines if "is a member" in line] == [
        f"node {name} is a member and counts" for name in "ab"
    ]
    assert lines[-1] == "three again"
