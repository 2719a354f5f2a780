"""Where one of three is gone for good and another one in doubt the rest waits, says for what, and goes on by command."""

from __future__ import annotations

import asyncio
import re
import subprocess
from pathlib import Path
from typing import Any

from actors.replication.document import decode_document, encode_document
from journal import OsFiles
from journal.names import LOCK
from journal.replica_file import ReplicaFile
from tests.transport.node.nodes import Nodes, cluster
from tests.transport.node.test_administered import member
from tests.transport.node.test_damage import fill, in_step, numbers
from transport.cli.cluster import status_lines, summary

DOCS = Path(__file__).resolve().parents[3] / "docs"


def doubt(folder: Path) -> None:
    """Note what a start does that cuts a write off the log."""
    files = OsFiles()
    held = files.lock(folder / LOCK)
    try:
        ReplicaFile.open(files, folder, held, lambda _: None).doubts()
    finally:
        files.close(held)


def block(page: str, holding: str) -> str:
    found = re.findall(r"^```\w*\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    (text,) = [each for each in found if holding in each]
    return str(text)


def in_doubt(name: str) -> Any:
    return lambda facts: member(facts, name).get("doubt") and facts["leader"] is None


def without_the_lost(nodes: Nodes, folder: Path, lost: str, left: str) -> None:
    """What docs/cluster-loss.md types, over the register of the test in the place of etcd."""
    assert nodes.register.document is not None
    (folder / "before.json").write_bytes(encode_document(nodes.register.document))
    lines = block("cluster-loss.md", "export ETCDCTL_API")
    program = lines[lines.index("python3 -c") : lines.index("etcdctl put")]
    program = program.replace('["c"]', f'["{lost}"]').replace('leader="a"', f'leader="{left}"')
    subprocess.run(["bash", "-c", program], cwd=folder, check=True, timeout=30)
    nodes.register.document = decode_document((folder / "after.json").read_bytes())
    nodes.register.version += 1


def test_two_that_are_left_go_on_by_command_though_one_is_in_doubt(tmp_path: Path) -> None:
    async def body() -> None:
        async with cluster(tmp_path) as nodes:
            await fill(nodes, 0, 10)
            lost = await nodes.leader()
            await nodes.stands(in_step(*"abc"), lost)
            left, doubted = sorted(set("abc") - {lost})
            for name in (left, doubted, lost):
                await nodes.stop(name)
            doubt(tmp_path / doubted)
            for name in (left, doubted):
                await nodes.start(name)
            for name in (left, doubted):
                facts = await nodes.stands(in_doubt(doubted), name)
                assert member(facts, left)["doubt"] is False
                said = block("cluster-damage.md", "half and one").replace("  c cut", f"  {doubted} cut").splitlines()
                assert set(said) <= set(status_lines(facts, 200))
                assert set(said) <= set(summary(facts))
            await asyncio.to_thread(without_the_lost, nodes, tmp_path, lost, left)
            leads = await nodes.leader()
            facts = await nodes.stands(
                lambda facts: [row["doubt"] for row in facts["members"]] == [False, False], leads
            )
            assert sorted(row["name"] for row in facts["members"]) == [left, doubted]
            assert await numbers(nodes, 10) == list(range(10))

    asyncio.run(body())
