"""The machine's own etcd: it is started with settings made for it, started again when it ends, and ends with the broker."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from actors.replication.register import NOTHING
from tests.transport.cluster import etcds
from tests.transport.cluster.register_contract import FIRST, after, certain_read, settled
from transport.clients.backoff import Backoff
from transport.cluster import etcd_child
from transport.cluster.addresses import OwnEtcd, parse_cluster
from transport.cluster.etcd import EtcdRegister
from transport.cluster.etcd_child import EtcdChild, EtcdMissingError, find_etcd
from transport.cluster.etcd_settings import SETTINGS_FILE, settings_of, write_settings
from transport.errors import LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 30.0
QUICK = Backoff(minimum=0.01, maximum=0.04, give_up_after=None)


def own(text: str = "a=127.0.0.1", node: str = "a") -> OwnEtcd:
    parsed = parse_cluster(text, node)
    assert isinstance(parsed, OwnEtcd)
    return parsed


def fake(folder: Path, script: str) -> str:
    """A program in the place of etcd."""
    path = folder / "fake-etcd"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


class Said(logging.Handler):
    """What was logged, to be awaited."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: asyncio.Queue[tuple[int, str]] = asyncio.Queue()

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.put_nowait((record.levelno, record.getMessage()))

    async def until(self, *words: str) -> str:
        """The first text that has all of these words."""
        async with asyncio.timeout(SECONDS):
            while True:
                _, text = await self.texts.get()
                if all(word in text for word in words):
                    return text


@pytest.fixture
def logged() -> Iterator[logging.Logger]:
    logger = logging.getLogger("penstock.cluster.etcd")
    before = logger.level
    logger.setLevel(logging.DEBUG)
    yield logger
    logger.setLevel(before)
    logger.handlers.clear()


@asynccontextmanager
async def listening(logger: logging.Logger) -> AsyncIterator[Said]:
    said = Said()
    logger.addHandler(said)
    yield said
    logger.removeHandler(said)


def wait_for_the_end_of(pid: int) -> None:
    """Of a process that is nobody's child here."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ready, _, _ = select.select([handle], [], [], SECONDS)
        assert ready, f"process {pid} still runs"
    finally:
        os.close(handle)


# With a real one


READY = "serving client traffic"


def test_a_machines_etcd_runs_until_it_is_stopped_and_keeps_what_it_was_told(
    tmp_path: Path, logged: logging.Logger
) -> None:
    machine = etcds.machines("a")["a"]
    program = etcds.program()

    async def life(version: int) -> int:
        child = EtcdChild(machine, tmp_path / "etcd", program=program)
        async with listening(logged) as said:
            await child.start()
            pid = child.pid
            assert pid is not None
            try:
                await said.until(READY)
                register = EtcdRegister(machine.register)
                written = await settled(register, version, after(FIRST, f"a/{version}") if version else FIRST)
                assert written is not None
            finally:
                await child.stop()
        assert child.pid is None
        wait_for_the_end_of(pid)
        return written

    first = asyncio.run(life(NOTHING))
    assert asyncio.run(life(first)) > first
    assert (tmp_path / "etcd").stat().st_mode & 0o777 == 0o700


def test_one_that_was_killed_is_started_again_with_what_it_had(tmp_path: Path, logged: logging.Logger) -> None:
    machine = etcds.machines("a")["a"]
    program = etcds.program()

    async def main() -> None:
        child = EtcdChild(machine, tmp_path / "etcd", program=program)
        async with listening(logged) as said:
            await child.start()
            try:
                await said.until(READY)
                register = EtcdRegister(machine.register)
                version = await settled(register, NOTHING, FIRST)
                pid = child.pid
                assert pid is not None
                os.kill(pid, signal.SIGKILL)
                await said.until("was ended by signal 9", "it is tried again in 0.")
                await said.until(READY)
                assert await certain_read(register) == (version, FIRST)
                assert child.pid not in (None, pid)
                assert child.starts == 2
            finally:
                await child.stop()

    asyncio.run(main())


DIES = """
import asyncio, sys
from pathlib import Path
from transport.cluster.addresses import parse_cluster
from transport.cluster.etcd_child import EtcdChild

async def main():
    child = EtcdChild(parse_cluster(sys.argv[1], "a"), Path(sys.argv[2]), program=sys.argv[3])
    await child.start()
    print(child.pid, flush=True)
    await asyncio.get_running_loop().create_future()

asyncio.run(main())
"""


@pytest.mark.event_loop
@pytest.mark.parametrize("kind", ["etcd", "one that ignores signals"])
def test_it_dies_with_a_broker_that_is_killed(tmp_path: Path, kind: str) -> None:
    deaf = fake(tmp_path, "trap '' TERM INT HUP\nwhile :; do read line </dev/zero; done")
    program = etcds.program() if kind == "etcd" else deaf
    text = f"a=127.0.0.1:{etcds.free_pairs(1)[0]}"
    broker = subprocess.Popen(
        [sys.executable, "-c", DIES, text, str(tmp_path / "etcd"), program], cwd=ROOT, stdout=subprocess.PIPE
    )
    try:
        assert broker.stdout is not None
        pid = int(broker.stdout.readline())
        assert os.path.exists(f"/proc/{pid}")
    finally:
        broker.kill()
        broker.wait(SECONDS)
        broker.stdout.close()
    wait_for_the_end_of(pid)


def test_three_machines_make_one_register_and_one_that_lost_its_folder_joins_it_when_the_others_await_it(
    tmp_path: Path, logged: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(etcd_child, "BACKOFF", QUICK)
    machines = etcds.machines()
    program = etcds.program()
    at, peers = machines["a"].own.clients, f"http://{machines['c'].own.peers}"

    def child(name: str) -> EtcdChild:
        return EtcdChild(machines[name], tmp_path / name / "etcd", program=program)

    async def main() -> None:
        children = {name: child(name) for name in machines}
        async with listening(logged) as said:
            try:
                # The third comes to what the two have begun.
                await asyncio.gather(children["a"].start(), children["b"].start())
                for _ in "ab":
                    await said.until(READY)
                await children["c"].start()
                await said.until(READY)
                registers = [EtcdRegister(each.register) for each in machines.values()]
                version = await settled(registers[0], NOTHING, FIRST)
                for each in registers:
                    assert await certain_read(each) == (version, FIRST)
                await children["c"].stop()
                shutil.rmtree(tmp_path / "c")
                children["c"] = child("c")
                await children["c"].start()
                await said.until(
                    "must not vote as who it was", "etcdctl --endpoints http", "member remove ID", "it is tried again"
                )
                # What etcdctl does then, while the broker goes on. The others have to have been well for some seconds.
                await etcds.forgotten(at, peers)
                await said.until("does not know this one", "member add ", "--peer-urls=http", "it is tried again")
                assert children["c"].starts == 0
                await etcds.awaited(at, peers)
                await said.until(READY)
                alone = EtcdRegister(replace(machines["c"].register, endpoints=(machines["c"].own.clients,)))
                assert await certain_read(alone) == (version, FIRST)
            finally:
                await asyncio.gather(*(each.stop() for each in children.values()))

    asyncio.run(main())


# With a program in its place


@pytest.mark.event_loop
def test_one_that_cannot_run_is_tried_again_with_growing_waits_and_its_last_words_are_told(
    tmp_path: Path, logged: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(etcd_child, "BACKOFF", QUICK)
    words = '{"level":"info","msg":"beginning"}\n{"level":"fatal","msg":"no luck","error":"port in use"}\n'
    (tmp_path / "words").write_text(words)
    program = fake(tmp_path, f"cat {tmp_path}/words; exit 3")

    async def main() -> list[str]:
        child = EtcdChild(own(), tmp_path / "etcd", program=program, random=Random(1))
        async with listening(logged) as said:
            await child.start()
            texts = [await said.until("is tried again") for _ in range(5)]
            await child.stop()
        assert child.starts >= 5
        return texts

    for text in asyncio.run(main()):
        assert text.startswith(
            "this machine's etcd has ended with status 3: no luck (error: port in use); it is tried again"
        )


def test_a_stop_does_not_wait_until_it_would_be_started_again(
    tmp_path: Path, logged: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(etcd_child, "BACKOFF", Backoff(minimum=10 * SECONDS, maximum=10 * SECONDS))

    async def main() -> None:
        child = EtcdChild(own(), tmp_path / "etcd", program=fake(tmp_path, "exit 1"))
        async with listening(logged) as said:
            await child.start()
            await said.until("is tried again")
            async with asyncio.timeout(SECONDS):
                await child.stop()
        assert child.starts == 1

    asyncio.run(main())


@pytest.mark.event_loop
def test_one_that_does_not_end_when_it_is_told_to_is_killed(
    tmp_path: Path, logged: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(etcd_child, "STOP_SECONDS", 0.1)
    program = fake(tmp_path, "trap '' TERM\necho trapped\nwhile :; do read line </dev/zero; done")

    async def main() -> None:
        child = EtcdChild(own(), tmp_path / "etcd", program=program)
        async with listening(logged) as said:
            await child.start()
            await said.until("trapped")
            pid = child.pid
            assert pid is not None
            async with asyncio.timeout(SECONDS):
                await child.stop()
            wait_for_the_end_of(pid)
            assert "is killed" in await said.until("did not end within")

    asyncio.run(main())


def test_one_that_is_gone_from_the_disk_is_waited_for(
    tmp_path: Path, logged: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(etcd_child, "BACKOFF", QUICK)
    program = fake(tmp_path, f"mv {tmp_path}/fake-etcd {tmp_path}/moved; exit 1")

    async def main() -> None:
        child = EtcdChild(own(), tmp_path / "etcd", program=program)
        async with listening(logged) as said:
            await child.start()
            await said.until("is tried again", "status 1")
            await said.until(f"status 1: {tmp_path}/fake-etcd cannot be run: No such file or directory; it is tried")
            (tmp_path / "moved").write_text("#!/bin/sh\necho back; exec cat /dev/zero >/dev/null\n")
            (tmp_path / "moved").rename(tmp_path / "fake-etcd")
            await said.until("back")
            await child.stop()

    asyncio.run(main())


@pytest.mark.event_loop
def test_nothing_of_the_environment_and_no_terminal_reaches_it(
    tmp_path: Path, logged: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ETCD_NAME", "of another")
    program = fake(
        tmp_path, 'echo "told: $* | $ETCD_NAME | $(cut -d" " -f6 /proc/$$/stat) $$"; exec cat /dev/zero >/dev/null'
    )

    async def main() -> str:
        child = EtcdChild(own(), tmp_path / "etcd", program=program)
        async with listening(logged) as said:
            await child.start()
            text = await said.until("told:")
            await child.stop()
        return text

    arguments, name, processes = asyncio.run(main()).removeprefix("told: ").split(" | ")
    assert arguments == f"--config-file {tmp_path}/etcd/etcd.json"
    assert name == ""
    session, process = processes.split()
    assert session == process


def test_without_an_etcd_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        EtcdMissingError, match=r"there is no etcd on the PATH, .*install etcd-server \(Debian, Ubuntu: sudo apt"
    ):
        EtcdChild(own(), tmp_path / "etcd")
    with pytest.raises(EtcdMissingError, match="/nowhere/etcd is no program"):
        find_etcd("/nowhere/etcd")
    assert not (tmp_path / "etcd").exists()


def test_a_system_without_a_parents_death_signal_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd_child.sys, "platform", "darwin")
    with pytest.raises(
        LocalProtocolError, match="start an etcd yourself, and name it by --cluster etcd://HOST:PORT/NAME"
    ):
        EtcdChild(own(), tmp_path / "etcd", program="/bin/sh")


# Settings


def settings(text: str, node: str = "a", **options: Any) -> dict[str, Any]:
    return settings_of(own(text, node), Path("/data/etcd"), **({"insecure": False} | options))


def test_a_folder_that_is_named_from_where_the_broker_runs_is_found_from_where_etcd_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logged: logging.Logger
) -> None:
    monkeypatch.chdir(tmp_path)
    program = fake(tmp_path, 'test -r "$2" && grep -q "$PWD/data" "$2" && echo found the settings >&2; sleep 100')

    async def main() -> None:
        async with listening(logged) as said:
            child = EtcdChild(own(), Path("data", "etcd"), program=program)
            await child.start()
            try:
                await said.until("found the settings")
            finally:
                await child.stop()

    asyncio.run(main())


def test_the_settings_are_those_of_the_list_of_machines() -> None:
    made = settings("a=10.0.0.1,b=10.0.0.2,c=[fe80::3]:3000/orders", "c", insecure=True)
    assert {
        name: made[name] for name in made if name.startswith(("name", "data", "initial", "listen", "advertise"))
    } == {
        "name": "c",
        "data-dir": "/data/etcd/data",
        "listen-client-urls": "http://[fe80::3]:3000",
        "advertise-client-urls": "http://[fe80::3]:3000",
        "listen-peer-urls": "http://[fe80::3]:3001",
        "initial-advertise-peer-urls": "http://[fe80::3]:3001",
        "initial-cluster": "a=http://10.0.0.1:2380,b=http://10.0.0.2:2380,c=http://[fe80::3]:3001",
        "initial-cluster-token": "penstock-orders",
    }
    assert json.loads(json.dumps(made)) == made


def test_an_etcd_that_joins_others_names_those_that_are_there_and_itself_alone(tmp_path: Path) -> None:
    """etcd refuses to start where it names one that the others do not have: as where two of three have been lost."""
    made = settings("a=10.0.0.1,b=10.0.0.2,c=10.0.0.3", "a", insecure=True)
    write_settings(tmp_path, made, joins={"http://10.0.0.3:2380", "http://10.0.0.1:2380"})
    written = json.loads((tmp_path / SETTINGS_FILE).read_text())
    assert written["initial-cluster"] == "a=http://10.0.0.1:2380,c=http://10.0.0.3:2380"
    assert written["initial-cluster-state"] == "existing"
    write_settings(tmp_path, made)
    assert json.loads((tmp_path / SETTINGS_FILE).read_text()) == made | {"initial-cluster-state": "new"}


def test_a_machine_that_has_a_name_listens_everywhere_and_is_known_by_the_name() -> None:
    made = settings("a=node-a.example", insecure=True)
    assert made["listen-client-urls"] == "http://0.0.0.0:2379"
    assert made["advertise-client-urls"] == "http://node-a.example:2379"


@pytest.mark.parametrize("host", ["10.0.0.1", "node-a.example", "[fe80::1]"])
def test_an_etcd_that_strangers_reach_takes_tls_or_a_word(host: str) -> None:
    with pytest.raises(
        LocalProtocolError, match=r"whoever reaches it may say who leads: give it .ca=FILE.*or say --insecure"
    ):
        settings(f"a={host}")
    assert settings(f"a={host}", insecure=True)["name"] == "a"


def test_files_of_tls_are_for_clients_and_for_the_other_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ca", "certificate", "key"):
        (tmp_path / name).touch()
    made = settings("a=10.0.0.1?ca=ca&certificate=certificate&key=key")
    expected = {
        "trusted-ca-file": f"{tmp_path}/ca",
        "cert-file": f"{tmp_path}/certificate",
        "key-file": f"{tmp_path}/key",
        "client-cert-auth": True,
    }
    assert made["client-transport-security"] == made["peer-transport-security"] == expected
    assert made["listen-client-urls"] == "https://10.0.0.1:2379"
    assert made["initial-cluster"] == "a=https://10.0.0.1:2380"
    (tmp_path / "key").unlink()
    with pytest.raises(LocalProtocolError, match="key: No such file"):
        settings("a=10.0.0.1?ca=ca&certificate=certificate&key=key")
