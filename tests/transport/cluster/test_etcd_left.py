"""An etcd that a former broker has left is ended by the next start, and nobody else's is."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import subprocess
from pathlib import Path

import pytest

from tests.transport.cluster import etcds
from tests.transport.cluster.test_etcd_child import SECONDS, fake, listening, logged, own
from transport.clients.backoff import Backoff
from transport.cluster import etcd_child, etcd_left
from transport.cluster.etcd_child import EtcdChild
from transport.cluster.etcd_left import end_left
from transport.cluster.etcd_settings import SETTINGS_FILE
from transport.errors import LocalProtocolError

__all__ = ["logged"]

SLOW = Backoff(minimum=SECONDS, maximum=SECONDS, give_up_after=None)


def test_a_start_ends_the_etcd_of_its_directory_that_runs_still_and_goes_on_with_what_that_had(
    tmp_path: Path, logged: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Had it not, its own could not listen: the next try would be too late for this test."""
    monkeypatch.setattr(etcd_child, "BACKOFF", SLOW)
    running = etcds.RunningEtcd(etcds.machines("a")["a"], tmp_path / "etcd")
    try:
        running.wait_until_ready()

        async def main() -> None:
            child = EtcdChild(running.own, tmp_path / "etcd", program=etcds.program())
            async with listening(logged) as said:
                await child.start()
                try:
                    await said.until("serving client traffic")
                finally:
                    await child.stop()
            assert child.starts == 1

        asyncio.run(main())
        assert running.process.wait(SECONDS) == -signal.SIGKILL
    finally:
        running.kill()


def test_a_second_broker_with_the_same_directory_leaves_the_etcd_of_the_first_alone(
    tmp_path: Path, logged: logging.Logger
) -> None:
    """The journal's lock keeps it out, but not where that is damaged."""
    program = fake(tmp_path, "echo begun; exec tail -f /dev/null")

    async def main() -> None:
        first, second = (EtcdChild(own(), tmp_path / "etcd", program=program) for _ in range(2))
        async with listening(logged) as said:
            await first.start()
            await said.until("begun")
            with pytest.raises(LocalProtocolError, match="another broker runs the etcd in"):
                await second.start()
            await second.stop()
            assert second.starts == 0
            await first.stop()
            assert first.starts == 1
            third = EtcdChild(own(), tmp_path / "etcd", program=program)
            await third.start()
            await third.stop()

    asyncio.run(main())


def test_only_an_etcd_with_the_settings_of_this_directory_is_ended(tmp_path: Path) -> None:
    """Of another directory, or a program that only names the file: both are somebody else's."""
    mine, others = tmp_path / "mine" / SETTINGS_FILE, tmp_path / "others" / SETTINGS_FILE
    for each in (mine, others):
        each.parent.mkdir()
        each.touch()

    def started(name: str, settings: str) -> subprocess.Popen[bytes]:
        words = [name, "-c", "read line", "etcd", "--config-file", settings]
        return subprocess.Popen(words, executable="/bin/sh", stdin=subprocess.PIPE, cwd=tmp_path)

    left = started("etcd", f"mine/{SETTINGS_FILE}")
    strangers = [started("etcd", str(others)), started("less", str(mine)), started("etcd", "mine/gone")]
    try:
        assert end_left(mine) == [left.pid]
        assert left.wait(SECONDS) == -signal.SIGKILL
        assert end_left(mine) == []
        for each in strangers:
            each.communicate(b"go on\n", SECONDS)
            assert each.returncode == 0
    finally:
        for each in (left, *strangers):
            each.kill()
            each.communicate(timeout=SECONDS)


def test_an_etcd_that_sees_another_file_by_the_same_path_is_not_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one in a container does, which the machine's processes show beside those of its own."""
    mine, within, shown = tmp_path / "mine" / SETTINGS_FILE, tmp_path / "container", tmp_path / "processes"
    in_container = within / mine.relative_to("/")
    for each in (mine, in_container):
        each.parent.mkdir(parents=True)
        each.touch()
    stranger = subprocess.Popen(["etcd", "-c", "read line"], executable="/bin/sh", stdin=subprocess.PIPE)
    process = shown / str(stranger.pid)
    process.mkdir(parents=True)
    (process / "cwd").symlink_to(mine.parent)
    (process / "root").symlink_to(within)
    monkeypatch.setattr(etcd_left, "PROCESSES", shown)
    try:
        for name in (str(mine), str(mine.parent / "." / SETTINGS_FILE)):
            (process / "cmdline").write_bytes(b"\0".join((b"etcd", b"--config-file", name.encode(), b"")))
            assert end_left(mine) == []
        stranger.communicate(b"go on\n", SECONDS)
        assert stranger.returncode == 0
    finally:
        stranger.kill()
        stranger.communicate(timeout=SECONDS)


def last_words(folder: Path, logged: logging.Logger, script: str) -> str:
    """What is logged of the end of a program in the place of etcd."""
    program = fake(folder, script)

    async def main() -> str:
        child = EtcdChild(own(), folder / "etcd", program=program)
        async with listening(logged) as said:
            await child.start()
            try:
                return await said.until("is tried again")
            finally:
                await child.stop()

    return asyncio.run(main())


def test_where_something_else_has_the_address_the_log_says_what_shows_it(
    tmp_path: Path, logged: logging.Logger
) -> None:
    words = (
        '{"level":"fatal","msg":"discovery failed","error":"listen tcp 127.0.0.1:2380: bind: address already in use"}'
    )
    (tmp_path / "words").write_text(f"{words}\n")
    text = last_words(tmp_path, logged, f"cat {tmp_path}/words; exit 1")
    assert "another process has that address, which `ss -ltnp` shows: end it" in text


STACK = "\n".join(f"        go.etcd.io/bbolt.(*DB).freepages.func{number}()" for number in range(200))
OF_DAMAGE = {
    "a sum that does not fit": '{"level":"fatal","msg":"discovery failed","error":"walpb: crc mismatch"}',
    "a record that is none": '{"level":"fatal","msg":"discovery failed","error":"proto: wrong wireType = 7 for field Type"}',
    "a record with a field that is none": '{"level":"fatal","msg":"discovery failed","error":"proto: Record: illegal tag 0"}',
    "a record of no length that can be": '{"level":"fatal","msg":"failed","error":"wal: max entry size limit exceeded"}',
    "a database without its head": '{"level":"panic","msg":"failed to open database","error":"invalid database"}',
    "a database that is cut short": "unexpected fault address 0x7f9b64002000",
    "a database with pages that are none": "panic: freepages: failed to get all reachable pages (page -1: out of bounds: 5)",
}
"""What etcd 3.4 says, which ends a part of it with where each of its threads stood."""


@pytest.mark.parametrize("words", OF_DAMAGE.values(), ids=OF_DAMAGE.keys())
def test_where_its_files_are_damaged_the_log_says_how_it_comes_back(
    tmp_path: Path, logged: logging.Logger, words: str
) -> None:
    (tmp_path / "words").write_text(f"{words}\n\ngoroutine 1 [running]:\n{STACK}\n")
    text = last_words(tmp_path, logged, f"cat {tmp_path}/words; exit 2")
    reason = json.loads(words)["error"] if words.startswith("{") else words
    data = tmp_path / "etcd" / "data"
    assert reason in text
    assert f"(its files are damaged: stop this node, put {data} aside, and start the node." in text
    assert "goroutine" not in text


def test_one_that_was_killed_is_not_taken_for_damaged_by_what_it_said_before(
    tmp_path: Path, logged: logging.Logger
) -> None:
    (tmp_path / "words").write_text('{"level":"error","msg":"a peer sends what is none","error":"illegal tag 0"}\n')
    text = last_words(tmp_path, logged, f"cat {tmp_path}/words; kill -9 $$")
    assert "was ended by signal 9" in text
    assert "damaged" not in text
