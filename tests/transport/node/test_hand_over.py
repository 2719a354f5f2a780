"""A leader that is told to end hands over, and does not let others wait for a client that gives no sign."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from actors.replication.limits import SILENT_SECONDS
from tests.transport.node.nodes import cluster

DRAIN = 60.0


def test_a_client_that_gives_no_sign_holds_a_hand_over_up_for_a_moment_and_not_for_the_whole_drain(
    tmp_path: Path, peers: Any
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with cluster(tmp_path, drain=DRAIN) as nodes, peers() as opened:
            leader = await nodes.leader()
            await nodes.stands(lambda facts: all(each["in_step"] for each in facts["members"]), leader)
            deaf = await opened.open(nodes.running[leader].config.send_address, "sender")
            deaf.answers_pings = False
            began = loop.time()
            await nodes.stop(leader)
            assert loop.time() - began < DRAIN / 4
            assert await nodes.leader() != leader

    asyncio.run(main())


@pytest.mark.parametrize("leads", [True, False], ids=["the leader", "a follower"])
def test_in_mode_all_nobody_waits_until_a_node_that_ends_in_good_order_is_silent_for_long(
    tmp_path: Path, leads: bool
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with cluster(tmp_path, cluster_mode="all") as nodes:
            leader = await nodes.leader()
            await nodes.stands(lambda facts: all(each["listed"] for each in facts["members"]), leader)
            ends = leader if leads else next(name for name in nodes.running if name != leader)
            began = loop.time()
            await nodes.stop(ends)

            def left(facts: dict[str, Any]) -> bool:
                return [each["name"] for each in facts["members"] if not each["listed"]] == [ends]

            await nodes.stands(left, await nodes.leader())
            assert loop.time() - began < SILENT_SECONDS
            await nodes.start(ends)
            await nodes.stands(lambda facts: all(each["listed"] for each in facts["members"]), await nodes.leader())

    asyncio.run(main())
