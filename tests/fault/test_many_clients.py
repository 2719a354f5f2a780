"""Hundreds of honest clients of each role meet in one turn; ``python -m tests.fault.many_clients`` has thousands."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from tests.fault.many_clients import MOST, Scenario, generated, run
from tests.fault.raw_clients import SPARE_FILES, CutError
from tests.preconditions import enough_open_files
from transport import Broker, BrokerConfig

FREE = "127.0.0.1:0"


def meet(scenario: Scenario, directory: Path, again: Scenario | None = None, **options: object) -> set[str]:
    """Run a scenario, which raises where a client is cut; returns the phases in which clients met."""

    async def main() -> set[str]:
        met: set[str] = set()
        config = BrokerConfig(**{"send_address": FREE, "receive_address": FREE, "directory": str(directory)} | options)  # type: ignore[arg-type]
        async with Broker(config) as broker:
            for one in (scenario, again):
                if one is not None:
                    took = await run(one, broker.send_address, broker.receive_address)
                    met |= {name for name, seconds in took.items() if seconds > 0.001}
        return met

    enough_open_files(2 * scenario.most_at_once + SPARE_FILES)
    return asyncio.run(main())


def test_hundreds_of_senders_with_the_longest_names_meet_and_none_is_cut(tmp_path: Path) -> None:
    """From 250 such names on, one record of all of them was too large."""
    assert meet(Scenario(senders=350, library_senders=50), tmp_path / "data") == {"senders"}


def test_clients_of_all_roles_meet_and_each_gets_its_answer(tmp_path: Path) -> None:
    scenario = Scenario(
        senders=40,
        library_senders=10,
        stagers=40,
        receivers=60,
        library_receivers=10,
        subscribers=40,
        administrators=80,
    )
    met = meet(scenario, tmp_path / "data")
    assert met == {"senders", "receivers", "feeders", "subscribers", "administrators"}


def test_a_client_that_is_refused_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(CutError, match="limit-exceeded"):
        meet(Scenario(senders=12), tmp_path / "data", max_connections=10)


def test_messages_that_nobody_of_the_scenario_sent_are_noticed(tmp_path: Path) -> None:
    with pytest.raises(CutError, match="total_in"):
        meet(Scenario(library_senders=1), tmp_path / "data", again=Scenario(senders=3))


def test_generated_scenarios_have_one_client_of_a_role_and_thousands() -> None:
    scenarios = [generated(Random(seed)) for seed in range(300)]
    for role in ("senders", "library_senders", "stagers", "receivers", "subscribers", "administrators"):
        counts = [getattr(one, role) for one in scenarios]
        assert min(counts) <= 3
        assert max(counts) > MOST * 0.6
    assert all(one.receivers + one.library_receivers <= one.messages for one in scenarios)
