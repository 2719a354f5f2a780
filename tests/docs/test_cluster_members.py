"""docs/cluster-members.md, typed as it stands: a node is added and removed, and another one moves to another address."""

from __future__ import annotations

import re
import shutil
from typing import Final

import pytest

from tests.docs.test_cluster_tried import HOSTS, MARK, TRY, alike, ran, typed
from tests.docs.typed import Shell
from tests.transport.cluster.etcds import program

PAGE: Final = "docs/cluster-members.md"
SECONDS: Final = 280.0
"""Alone it takes 35; the machine may be busy with others."""
LEADER: Final = re.compile(rf"says {re.escape(HOSTS)}[1-4]:")
"""Any of them may lead."""


def started(command: str, name: str) -> str:
    """The page's broker, which goes on beside what is typed next."""
    return f"{command.rstrip()} > {name}.log 2>&1 &\necho $! > {name}.pid"


def same(text: str) -> list[str]:
    return [LEADER.sub("says LEADER:", line) for line in alike(text)]


@pytest.mark.timeout(300)
def test_a_node_is_added_and_removed_and_another_one_moves_as_the_page_says(shell: Shell) -> None:
    program()
    if shutil.which("etcdctl") is None:
        pytest.skip("there is no etcdctl (Debian, Ubuntu: sudo apt-get install etcd-client)")
    fourth, adds, added, removes, removed, elsewhere, moves, moved, forgotten, _ = typed(PAGE)
    script = [
        typed(TRY)[0],
        "all_in_step",
        started(fourth, "d"),
        "says d.log 'the cluster has no member .d. yet'",
        f"echo {MARK}",
        adds,
        f"echo {MARK}",
        removes,
        "says d.log 'no member of its cluster any more'",
        "kill $(cat d.pid c.pid); wait $(cat d.pid c.pid)",
        "mv data-c former",
        started(elsewhere, "c"),
        "says c.log 'the member .c. of the cluster has another directory than this one'",
        f"echo {MARK}",
        moves,
        f"echo {MARK}",
        forgotten,
        "until etcdctl member list | grep -q '7:2380, http'; do :; done",
        f"penstock context add trio --address {HOSTS}1,{HOSTS}2,{HOSTS}7 --use",
        "all_in_step",
        "etcdctl member list",
        "echo three again",
    ]
    printed, failed = ran(shell, script, SECONDS)
    found = printed.split(f"{MARK}\n")[1:]
    for shown, each in zip((added, removed, moved), found[:3], strict=True):
        assert same(each)[: len(same(shown))] == same(shown), printed + failed
    lines = printed.splitlines()
    assert lines[-1] == "three again", printed + failed
    etcds = lines[-4:-1]
    assert [any(f"{HOSTS}{number}:" in line for line in etcds) for number in (1, 2, 7, 3)] == [
        True,
        True,
        True,
        False,
    ], "the etcd at the old address counts no more"
