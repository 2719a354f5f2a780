"""An etcd that waits for others to say how they know it, and one that the others have removed: it joins them again by what its log says."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from pathlib import Path

import pytest

from tests.transport.cluster import etcds
from tests.transport.cluster.test_etcd_child import (
    QUICK,
    READY,
    fake,
    listening,
    logged,
    own,
)
from transport.cluster import etcd_child
from transport.cluster.addresses import OwnEtcd
from transport.cluster.etcd_child import EtcdChild
from transport.cluster.etcd_membership import Known, Others, Standing
from transport.cluster.etcd_settings import SETTINGS_FILE
from transport.cluster.gateway import Gateway

__all__ = ["logged"]

THREE = "a=127.0.0.1,b=127.0.0.2,c=127.0.0.3"
PEERS = frozenset(f"http://127.0.0.{number}:2380" for number in (1, 2, 3))
RUNS = "exec cat /dev/zero >/dev/null"
WORDS = '{"level":"warn","msg":"server error","error":"the member has been permanently removed from the cluster"}'
"""Of etcd, before it ends with status 0."""


class Scripted(Others):
    """Others that say one thing after the other, and then the last one again and again."""

    def __init__(self, machine: OwnEtcd, *said: Known) -> None:
        super().__init__(machine, Gateway(None))
        self.said = list(said)
        self.asked = 0

    async def known(self) -> Known:
        self.asked += 1
        return self.said.pop(0) if len(self.said) > 1 else self.said[0]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd_child, "BACKOFF", QUICK)


def state(folder: Path) -> object:
    return json.loads((folder / SETTINGS_FILE).read_text())["initial-cluster-state"]


def test_it_says_once_for_whom_it_waits_and_begins_when_they_are_heard(
    tmp_path: Path, logged: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(etcd_child, "AGAIN_SECONDS", 0.01)
    machine = own(THREE, "c")
    silent = Known(Standing.UNHEARD, why="127.0.0.1:2380: no answer within 1 s")
    others = Scripted(machine, *[silent] * 5, Known(Standing.AWAITED, PEERS))
    program = fake(tmp_path, f"echo begun; {RUNS}")

    async def main() -> None:
        child = EtcdChild(machine, tmp_path / "etcd", program=program, others=others)
        async with listening(logged) as said:
            await child.start()
            try:
                assert child.starts == 0
                text = await said.until("is not started yet", "127.0.0.1:2380: no answer within 1 s")
                assert text.startswith("this machine's etcd is not started yet, for others may know it: ")
                assert "runs as process" in await said.until("")
                await said.until("begun")
            finally:
                await child.stop()
        assert (others.asked, child.starts) == (6, 1)

    asyncio.run(main())
    assert state(tmp_path / "etcd") == "existing"


JOINS = "awaits this one by now: it joins them, and nothing is left to be typed"


def said_until_it_runs(machine: OwnEtcd, others: Scripted, folder: Path, logged: logging.Logger) -> list[str]:
    """Each line that is logged of an etcd, until it has begun."""
    program = fake(folder, f"echo begun; {RUNS}")
    lines: list[str] = []

    async def main() -> None:
        child = EtcdChild(machine, folder / "etcd", program=program, others=others)
        async with listening(logged) as said:
            await child.start()
            try:
                while not lines or "begun" not in lines[-1]:
                    lines.append(await said.until(""))
            finally:
                await child.stop()

    asyncio.run(main())
    return lines


@pytest.mark.parametrize("standing", [Standing.LOST, Standing.UNKNOWN])
def test_one_that_is_held_back_says_once_what_to_type_and_says_when_that_is_done(
    tmp_path: Path, logged: logging.Logger, monkeypatch: pytest.MonkeyPatch, standing: Standing
) -> None:
    monkeypatch.setattr(etcd_child, "HELP_SECONDS", 3600.0)
    machine = own(THREE, "c")
    others = Scripted(machine, *[Known(standing)] * 5, Known(Standing.AWAITED, PEERS))
    lines = said_until_it_runs(machine, others, tmp_path, logged)
    assert others.asked == 6
    helps = [each for each in lines if "member add c " in each]
    assert [each.endswith("; it is tried again until then") for each in helps] == [True]
    assert lines[0] == helps[0]
    # Behind what there was to do.
    assert [JOINS in each for each in lines].count(True) == 1


def test_what_to_type_is_said_again_after_a_while_and_at_once_where_it_is_something_else(
    tmp_path: Path, logged: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(etcd_child, "HELP_SECONDS", 0.0)
    machine = own(THREE, "c")
    others = Scripted(machine, Known(Standing.LOST))

    async def main() -> None:
        child = EtcdChild(machine, tmp_path / "etcd", program=fake(tmp_path, RUNS), others=others)
        async with listening(logged) as said:
            await child.start()
            try:
                for _ in range(3):
                    await said.until("must not vote as who it was")
                monkeypatch.setattr(etcd_child, "HELP_SECONDS", 3600.0)
                others.said = [Known(Standing.UNKNOWN)]
                await said.until("does not know this one")
            finally:
                await child.stop()
        assert child.starts == 0

    asyncio.run(main())


def test_one_that_is_awaited_from_its_first_start_on_has_nothing_to_say_of_commands(
    tmp_path: Path, logged: logging.Logger
) -> None:
    machine = own(THREE, "c")
    others = Scripted(machine, Known(Standing.AWAITED, PEERS))
    lines = said_until_it_runs(machine, others, tmp_path, logged)
    assert [each for each in lines if "typed" in each] == []


def begun(folder: Path) -> Path:
    """Have a folder be as of an etcd that has run; where its log is."""
    wal = folder / "data" / "member" / "wal"
    wal.mkdir(parents=True)
    (wal / "0.wal").touch()
    return wal


def test_one_that_was_removed_is_started_no_more_until_it_is_awaited_and_joins_with_what_it_had_put_aside(
    tmp_path: Path, logged: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(etcd_child, "HELP_SECONDS", 0.0)
    machine, folder = own(THREE, "c"), tmp_path / "etcd"
    begun(folder)
    (folder / "removed-1").mkdir()
    (tmp_path / "words").write_text(f"{WORDS}\n")
    program = fake(
        tmp_path, f"if [ -e data/member/wal/0.wal ]; then cat {tmp_path}/words; exit 0; fi; echo joined; {RUNS}"
    )
    others = Scripted(machine, Known(Standing.UNHEARD), Known(Standing.LOST, PEERS), Known(Standing.UNKNOWN))

    async def main() -> None:
        child = EtcdChild(machine, folder, program=program, others=others)
        async with listening(logged) as said:
            await child.start()
            try:
                for _ in range(3):
                    # As long as it is not certain how they know it, it is the one that finds out.
                    await said.until(
                        "has ended with status 0: the other machines' etcd has removed this one",
                        "member remove ID",
                        "member add c --peer-urls=http://127.0.0.3:2380`. A command may fail for some seconds",
                    )
                for _ in range(3):
                    await said.until(
                        "does not know this one",
                        "has to go first, `etcdctl --endpoints http://127.0.0.1:2379,http://127.0.0.2:2379 member remove ID`",
                        "member add c --peer-urls=http://127.0.0.3:2380",
                    )
                assert child.starts == 3
                others.said = [Known(Standing.AWAITED, PEERS)]
                await said.until("await another one: what it had is now", "etcd/removed-2")
                await said.until(JOINS)
                await said.until("joined")
                assert child.starts == 4
            finally:
                await child.stop()

    asyncio.run(main())
    assert (folder / "removed-2" / "member" / "wal" / "0.wal").exists()
    assert state(folder) == "existing"


def test_one_that_ends_for_another_reason_keeps_what_it_has_though_it_is_awaited(
    tmp_path: Path, logged: logging.Logger
) -> None:
    machine, folder = own(THREE, "c"), tmp_path / "etcd"
    wal = begun(folder)
    (tmp_path / "words").write_text(f"{WORDS}\n")
    program = fake(tmp_path, f"if [ -e once ]; then exit 0; fi; touch once; cat {tmp_path}/words; exit 1")
    others = Scripted(machine, Known(Standing.AWAITED, PEERS))

    async def main() -> None:
        child = EtcdChild(machine, folder, program=program, others=others)
        async with listening(logged) as said:
            await child.start()
            try:
                await said.until("has ended with status 1")
                await said.until("has ended with status 0; it is tried again")
                await said.until("has ended with status 0; it is tried again")
            finally:
                await child.stop()

    asyncio.run(main())
    assert (wal / "0.wal").exists()
    assert others.asked == 0


def test_a_real_one_waits_for_silent_others_joins_them_and_joins_again_after_it_was_removed(
    tmp_path: Path, logged: logging.Logger
) -> None:
    trio = etcds.Etcds(tmp_path)
    machine, at = trio.machines["c"], trio.machines["a"].own.clients
    peers = f"http://{machine.own.peers}"

    async def main() -> None:
        trio.by_name["c"].kill()
        shutil.rmtree(tmp_path / "c")
        await etcds.forgotten(at, peers)
        await etcds.awaited(at, peers)
        child = EtcdChild(machine, tmp_path / "c", program=etcds.program())
        async with listening(logged) as said:
            for name in "ab":
                trio.by_name[name].stop()
            await child.start()
            try:
                await said.until("is not started yet, for others may know it", "no answer within 1 s")
                assert child.starts == 0
                for name in "ab":
                    trio.by_name[name].go_on()
                await said.until(READY)
                assert (child.starts, state(tmp_path / "c")) == (1, "existing")
                await etcds.forgotten(at, peers)
                await said.until("has ended with status 0", "has removed this one", "member add c ")
                await said.until("does not know this one", "member add c ")
                await etcds.awaited(at, peers)
                await said.until("await another one: what it had is now", "removed-1")
                await said.until(JOINS)
                await said.until(READY)
            finally:
                await child.stop()

    try:
        asyncio.run(main())
    finally:
        trio.close()
