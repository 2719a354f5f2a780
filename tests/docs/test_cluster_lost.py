"""docs/cluster-lost.md: a broker that has lost the two others goes on alone with what it has, and they come back, empty."""

from __future__ import annotations

import json
import shutil
from contextlib import ExitStack
from typing import Any, Final

from tests.docs.test_cluster import HOSTS, Started, of_node, ours, run
from tests.docs.typed import Shell, block
from tests.transport.cluster.etcds import program

PAGE: Final = "docs/cluster-lost.md"
ANOTHER: Final = "the cluster has no member '{}' yet"
TRIES: Final = 100


EDIT: Final = """
import json
with open("document.json") as file:
    document = json.load(file)
document |= {"members": {"c": document["members"]["c"]}, "leader": "c", "change": None}
with open("document.json", "w") as file:
    json.dump(document, file, indent=1)
"""
"""What the page says in words."""


def until_it_stands(shell: Shell, address: str, *wanted: str) -> None:
    """Until these members are in step, and there is no other; of each its name, or ``name role``."""
    found: list[dict[str, Any]] = []
    for _ in range(TRIES):
        said = run(shell, f"penstock cluster status --json --address {address} --connect-timeout 60")
        found = json.loads(said)["members"] if said else []
        stands = [f"{each['name']} {each['role']}" if " " in wanted[0] else each["name"] for each in found]
        if stands == list(wanted) and all(each["in_step"] for each in found):
            return
    raise AssertionError(f"{found} and not {wanted}")


def until_it_says(shell: Shell, name: str, text: str) -> None:
    """Until there is a text in a node's log."""
    log = ""
    for _ in range(TRIES):
        log = (shell.folder / f"{name}.log").read_text()
        if text in log:
            return
        run(shell, "penstock --version")
    raise AssertionError(log[-2000:])


def until_it_is_awaited(shell: Shell, awaits: str) -> None:
    """Until etcd changes its members: it does not before all have been well for some seconds."""
    said = ""
    for _ in range(TRIES):
        said = run(shell, f"{awaits.strip()} 2>&1")
        if "added to cluster" in said:
            return
        assert "unhealthy cluster" in said
        run(shell, "penstock --version")
    raise AssertionError(said)


def of_other(line: str, name: str) -> str:
    """The page's line about `a`, for another machine."""
    number = "abc".index(name) + 1
    return line.replace(" a ", f" {name} ").replace(" a=", f" {name}=").replace(f"{HOSTS}1", f"{HOSTS}{number}")


def test_who_is_left_goes_on_alone_and_the_two_others_come_back_as_the_page_says(shell: Shell) -> None:
    program()
    shell.run(*block("docs/cluster.md", "openssl").splitlines())
    command = ours(block("docs/cluster.md", "penstock broker --cluster"))
    takes_out, puts_back, awaits, adds = (
        ours(block(PAGE, start)) for start in ("sed", "etcdctl put", "etcdctl --endpoints", "penstock cluster add")
    )
    (shell.folder / "edit.py").write_text(EDIT)
    third = f"{HOSTS}3:9182"
    everywhere = f"{HOSTS}1:9182,{HOSTS}2:9182,{third}"
    with ExitStack() as stack:
        brokers = {name: stack.enter_context(Started(shell, of_node(command, name), name)) for name in "abc"}
        sends = f"seq 1000 | penstock send --queue orders --address {everywhere} --connect-timeout 60 2>&1"
        assert "1,000 messages confirmed" in run(shell, sends)
        until_it_stands(shell, everywhere, "a", "b", "c")
        for broker in brokers.values():
            broker.kill()
        for name in "ab":
            shutil.rmtree(shell.folder / f"data-{name}")
        # A terminal has jobs.
        said = run(shell, f"set -em; {takes_out}python edit.py\n{puts_back}echo done")
        assert said.splitlines()[-1:] == ["done"], (shell.folder / "once.log").read_text()[-2000:]
        stack.enter_context(Started(shell, of_node(command, "c"), "c"))
        until_it_stands(shell, third, "c leader")
        for name in "ab":
            until_it_is_awaited(shell, of_other(awaits, name))
            stack.enter_context(Started(shell, of_node(command, name), name))
            until_it_says(shell, name, ANOTHER.format(name))
            added = run(shell, f"{of_other(adds, name).strip()} --connect-timeout 60 2>&1")
            assert f"node {name} is a member and counts" in added
        until_it_stands(shell, third, "a follower", "b follower", "c leader")
        receives = f"penstock receive --queue orders --count 1000 --address {HOSTS}3:9183 --connect-timeout 60"
        assert run(shell, receives).split() == [str(number) for number in range(1, 1001)]
