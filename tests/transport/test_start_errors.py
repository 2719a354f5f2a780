"""A broker that cannot start says why in one line, with an exit code that docs/cli.md has; what need not stop it does not."""

from __future__ import annotations

import errno
import logging
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from actors import QueueSettings
from actors.storage import Storage
from journal import OsFiles
from tests.free_ports import free_ports
from transport import Broker, BrokerConfig, LocalProtocolError
from transport.cli.app import app
from transport.cli.broker import VERB
from transport.wire.address import Address

FREE = ("--send-address", "127.0.0.1:0", "--receive-address", "127.0.0.1:0")
HERE: dict[str, Any] = {"send_address": "127.0.0.1:0", "receive_address": "127.0.0.1:0"}


def taken(_folder: Path) -> list[str]:
    listening = socket.create_server(("127.0.0.1", 0))
    KEPT.append(listening)
    return ["--memory", "--send-address", "127.0.0.1:0", "--receive-address", f"127.0.0.1:{listening.getsockname()[1]}"]


def taken_by_a_gateway(folder: Path) -> list[str]:
    return ["--memory", *FREE, "--smq-sink", taken(folder)[-1]]


def one_for_both(_folder: Path) -> list[str]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        free = f"127.0.0.1:{listening.getsockname()[1]}"
    return ["--memory", "--send-address", free, "--receive-address", free]


def locked(folder: Path) -> list[str]:
    KEPT.append(Storage.open(folder / "d")._journal)
    return [*FREE, "--data", str(folder / "d")]


def damaged(folder: Path) -> list[str]:
    Storage.open(folder / "d")._journal.close()
    for path in (folder / "d").iterdir():
        if path.stat().st_size > 100:
            path.write_bytes(b"\xff" * 100 + path.read_bytes()[100:])
    return [*FREE, "--data", str(folder / "d")]


def without_the_nodes_secret(folder: Path) -> list[str]:
    """A node whose secret is not where it is said to be."""
    send, receive, links = free_ports(3)
    return [
        *("--cluster", "etcd://127.0.0.1:1/orders", "--node", "a", "--http", "none"),
        *("--cluster-address", f"127.0.0.1:{links}", "--data", str(folder / "d")),
        *("--send-address", f"127.0.0.1:{send}", "--receive-address", f"127.0.0.1:{receive}"),
        *("--cluster-secret-file", str(folder / "secret")),
    ]


def without_an_etcd(folder: Path) -> list[str]:
    """A node of machines that each run an etcd, on one that has none."""
    patched = pytest.MonkeyPatch()
    patched.setenv("PATH", str(folder))
    KEPT.append(SimpleNamespace(close=patched.undo))
    send, receive, links, *etcds = free_ports(9)
    secret = folder / "secret"
    secret.write_text("0123456789abcdef" * 2)
    secret.chmod(0o600)
    machines = ",".join(f"{name}=127.0.0.1:{port}" for name, port in zip("abc", etcds[::2], strict=True))
    return [
        *("--cluster", machines, "--node", "a", "--http", "none", "--cluster-address", f"127.0.0.1:{links}"),
        *("--send-address", f"127.0.0.1:{send}", "--receive-address", f"127.0.0.1:{receive}"),
        *("--data", str(folder / "d"), "--cluster-secret-file", str(secret)),
    ]


def no_folder(folder: Path) -> list[str]:
    (folder / "file").write_text("x")
    return [*FREE, "--data", str(folder / "file" / "data")]


def a_file(folder: Path) -> list[str]:
    (folder / "lines.txt").write_text("x")
    return [*FREE, "--data", str(folder / "lines.txt")]


def failing(name: str, number: int) -> Callable[[Path], list[str]]:
    """A start on a disk that refuses one operation."""

    def fail(folder: Path) -> list[str]:
        def refuse(*_arguments: Any, **_options: Any) -> Any:
            raise OSError(number, os.strerror(number))

        patched = pytest.MonkeyPatch()
        patched.setattr(OsFiles, name, refuse)
        KEPT.append(SimpleNamespace(close=patched.undo))
        return [*FREE, "--data", str(folder / "d")]

    return fail


full = failing("write", errno.ENOSPC)
forbidden = failing("names", errno.EACCES)


def written(text: bytes) -> Callable[[Path], list[str]]:
    def write(folder: Path) -> list[str]:
        (folder / "penstock.toml").write_bytes(text)
        return [*FREE, "--config", str(folder / "penstock.toml")]

    return write


def always(*arguments: str) -> Callable[[Path], list[str]]:
    return lambda _folder: list(arguments)


KEPT: list[Any] = []
"""What holds an address or a directory while a broker tries to have it."""
CASES: dict[str, tuple[Callable[[Path], list[str]], int, str]] = {
    "an address that is taken": (taken, 1, "cannot listen on .*in use"),
    "a gateway's address that is taken": (
        taken_by_a_gateway, 1, "cannot listen on .*in use",
    ),
    "one address for both": (
        one_for_both, 1, "send_address and receive_address are both 127.0.0.1:.*: each needs a port of its own",
    ),
    "a gateway that others can reach": (
        always(*FREE, "--memory", "--smq-source", "0.0.0.0:0"), 2, r"smq_source 0\.0\.0\.0:0 can be reached from other.*--insecure",
    ),
    "a gateway's address that is none": (always("--memory", "--smq-sink", "6212"), 2, "'6212' is not host:port"),
    "a gateway's queue that cannot be": (always("--memory", "--smq-queue", "a b"), 2, "the queue name 'a b' has white space"),
    "an address of another machine": (
        always("--memory", "--insecure", "--send-address", "203.0.113.7:0"), 1, "203.0.113.7:0: Cannot assign",
    ),
    "a host that cannot be asked for": (
        always("--memory", "--insecure", "--send-address", "a..b:0"), 1, r"a\.\.b:0: .*label empty",
    ),
    "an address that strangers can reach": (
        always("--memory", "--send-address", "0.0.0.0:0"), 2, "no users and no TLS: use `penstock user add",
    ),
    "no users file": (always(*FREE, "--memory", "--users-file", "/nowhere.toml"), 2, "users_file: /nowhere.toml: No such"),
    "no certificate": (always(*FREE, "--memory", "--tls-certificate", "/nowhere.pem"), 2, "TLS cannot be set up with /nowhere.pem"),
    "no address": (always("--memory", "--send-address", "here"), 2, "'here' is not host:port"),
    "no settings file": (always("--config", "/nowhere.toml"), 2, "cannot be read: No such file"),
    "a folder for a settings file": (always("--config", "/"), 2, "cannot be read: Is a directory"),
    "a settings file of other bytes": (written(b"\xff\xfe"), 2, "penstock.toml:1: is not UTF-8"),
    "a settings file that is no TOML": (written(b"a = ["), 2, "penstock.toml:1: Invalid value"),
    "a queue that is its own dead-letter queue": (
        always(*FREE, "--memory", "--queue", "x dead_letter_queue=x max_receives=3"), 2, "queues.x: .*its own dead-letter queue",
    ),
    "one in a file": (
        written(b'[queues.x]\nmax_receives = 3\ndead_letter_queue = "x"\n'), 2, "penstock.toml:3: queues.x: .*its own dead-letter",
    ),
    "more queues declared than there may be": (
        always(*FREE, "--memory", "--max-queues", "1", "--queue", "a", "--queue", "b"), 2, "2 queues are declared",
    ),
    "a directory that another broker has": (locked, 74, "d cannot be opened: .*another"),
    "a damaged journal": (damaged, 74, "cannot be opened: .*penstock journal"),
    "a directory below a file": (no_folder, 2, "file is a file and not a directory"),
    "a file for a directory": (a_file, 2, "lines.txt is a file and not a directory"),
    "a directory on a disk that is full": (full, 74, "d cannot be opened: .*No space left on device.*start again"),
    "a node without its secret": (without_the_nodes_secret, 2, "the secret of the links cannot be read"),
    "machines that each run an etcd, where there is none": (
        without_an_etcd, 1, "there is no etcd on the PATH, and a list of machines for --cluster has each run one: install etcd-server",
    ),
    "a directory that may not be read": (forbidden, 74, "d cannot be opened: .*Permission denied"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_start_that_fails_is_one_line_and_a_documented_exit_code(case: str, tmp_path: Path) -> None:
    make, code, text = CASES[case]
    result = CliRunner().invoke(app, [VERB, *make(tmp_path)])
    for held in KEPT:
        held.close()
    KEPT.clear()
    assert result.exit_code == code
    assert result.stdout == ""
    said = result.stderr.splitlines()
    assert len(said) == 1, said
    assert re.search(text, said[0]), said[0]
    documented = (Path(__file__).resolve().parents[2] / "docs/cli.md").read_text()
    assert f"\n| {code} | " in documented


def test_a_broker_that_cannot_listen_leaves_no_journal_behind(tmp_path: Path) -> None:
    command = [*taken(tmp_path)[1:], "--data", str(tmp_path / "d")]
    result = CliRunner().invoke(app, [VERB, *command])
    KEPT.pop().close()
    assert result.exit_code == 1
    assert "in use; choose another with --receive-address\n" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("case", sorted(CASES.keys() - {"a directory on a disk that is full"}))
def test_what_a_start_fails_on_the_check_says_before_with_the_same_exit_code_and_changes_nothing(
    case: str, tmp_path: Path
) -> None:
    make, code, text = CASES[case]
    arguments = make(tmp_path)
    before = contents(tmp_path)
    result = CliRunner().invoke(app, [VERB, *arguments, "--check"])
    after = contents(tmp_path)
    for held in KEPT:
        held.close()
    KEPT.clear()
    assert result.exit_code == code
    assert re.search(text, result.stderr), result.stderr
    assert after == before


@pytest.mark.parametrize(
    ("operation", "number", "what"),
    [
        ("make_directory", errno.EROFS, "made: Read-only file system"),
        ("make_directory", errno.EACCES, "made: Permission denied"),
        ("make_directory", errno.ENOENT, "made: No such file or directory"),
        ("lock", errno.EROFS, "written: Read-only file system"),
        ("lock", errno.EACCES, "written: Permission denied"),
    ],
)
def test_a_place_that_cannot_be_a_data_directory_is_told_as_that_and_not_as_a_broken_disk(
    operation: str, number: int, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_files: OsFiles, path: Path, **_options: Any) -> Any:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(OsFiles, operation, refuse)
    result = CliRunner().invoke(app, [VERB, *FREE, "--data", str(tmp_path / "d")])
    assert result.exit_code == 74
    (line,) = result.stderr.splitlines()
    assert line == (
        f"penstock broker: the data directory {tmp_path / 'd'} cannot be {what}; name one that can be (--data), "
        "give it to the user that the broker runs as, or keep everything in memory (--memory)"
    )


@pytest.mark.parametrize("new", [True, False], ids=["new", "made before"])
@pytest.mark.parametrize(
    ("make", "option"), [(taken, "--receive-address"), (taken_by_a_gateway, "--smq-sink")], ids=["taken", "a gateway's"]
)
def test_whoever_finds_an_address_taken_is_told_that_address_alone_and_the_option_that_says_another(
    make: Callable[[Path], list[str]], option: str, new: bool, tmp_path: Path
) -> None:
    command = [each for each in make(tmp_path) if each != "--memory"]
    if not new:
        Storage.open(tmp_path / "d").close()
    result = CliRunner().invoke(app, [VERB, *command, "--data", str(tmp_path / "d")])
    while KEPT:
        KEPT.pop().close()
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == (
        f"penstock broker: cannot listen on {command[-1]}: Address already in use; choose another with {option}"
    )


def test_a_program_that_finds_an_address_taken_is_told_the_settings_that_say_another(run: Any) -> None:
    async def main() -> None:
        async with Broker(BrokerConfig(**HERE)) as broker:
            taken = BrokerConfig(broker.send_address, "127.0.0.1:0")
            with pytest.raises(OSError, match="in use") as raised:
                await Broker(taken).__aenter__()
            assert raised.value.errno == errno.EADDRINUSE
            text = f"{broker.send_address}: Address already in use; choose others with BrokerConfig(send_address=..., receive_address=...)"
            assert text in str(raised.value)

    run(main)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_declared_queues_are_made_though_clients_have_made_as_many_as_there_may_be(
    run: Any, peers: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        config = {"directory": str(tmp_path), "max_queues": 2, **HERE}
        async with Broker(BrokerConfig(**config)) as broker, peers() as opened:
            for name in ("theirs", "more"):
                await opened.open(broker.send_address, "sender", name)
        assert caplog.text == ""
        with caplog.at_level(logging.WARNING, "penstock.broker"):
            async with Broker(BrokerConfig(**config, queues={"ours": QueueSettings()})) as broker, peers() as opened:
                assert set(broker.queues) == {"theirs", "more", "ours"}
                await opened.open(broker.send_address, "sender", "ours")
                refused = await opened.connect(broker.send_address)
                with pytest.raises(AssertionError, match="limit-exceeded"):
                    await refused.hello("sender", "another")
        assert "there are 3 queues, more than the 2 of max_queues" in caplog.text

    run(main)


def test_the_queue_of_everybodys_dead_letters_has_no_dead_letters_of_its_own(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve(dead_letter_queue="dead", max_receives=3, ttl=60.0) as broker, peers() as opened:
            await opened.open(broker.send_address, "sender", "dead")
            await opened.open(broker.send_address, "sender", "orders")
            dead, orders = broker.queues.settings_of("dead"), broker.queues.settings_of("orders")
            assert (dead.max_receives, dead.dead_letter_queue, dead.ttl) == (None, None, None)
            assert (orders.max_receives, orders.dead_letter_queue, orders.ttl) == (3, "dead", 60.0)

    run(main)


def test_a_queue_that_is_declared_for_everybodys_dead_letters_keeps_what_it_is_given() -> None:
    result = CliRunner().invoke(
        app, ["config", "show", "--dead-letter-queue", "dead", "--max-receives", "3", "--queue", "dead max_messages=5"]
    )
    assert result.exit_code == 0
    assert re.search(r"queues\.dead\.max_receives +never +default", result.stdout)
    assert re.search(r"queues\.dead\.max_messages +5 +--queue", result.stdout)


def test_a_configuration_with_a_queue_that_is_its_own_dead_letter_queue_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="'x' cannot be its own dead-letter queue"):
        BrokerConfig(queues={"x": QueueSettings(max_receives=3, dead_letter_queue="x")})


def test_a_stored_queue_that_was_its_own_dead_letter_queue_starts_with_the_usual_one(run: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with Broker(BrokerConfig(directory=str(tmp_path), **HERE)) as broker:
            storage = broker._storage
            assert storage is not None
            storage.declare("x", QueueSettings(max_receives=3, dead_letter_queue="x"))
            await storage.synced()
        async with Broker(BrokerConfig(directory=str(tmp_path), **HERE)) as broker:
            settings = broker.queues.settings_of("x")
            assert (settings.max_receives, settings.dead_letter_queue) == (3, None)

    run(main)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("broker", False),
     ("localhost", True), ("LOCALHOST", True), ("a.localhost", True), ("localhost.example", False)],
)  # fmt: skip
def test_only_an_address_of_this_machine_is_loopback(host: str, loopback: bool) -> None:
    assert Address(host, 9182).is_loopback is loopback


@pytest.mark.parametrize("reachable", [[], ["send_address"], ["receive_address"], ["send_address", "receive_address"]])
def test_a_broker_that_strangers_can_reach_says_so_in_one_line(
    run: Any, serve: Any, until: Any, caplog: pytest.LogCaptureFixture, reachable: list[str]
) -> None:
    async def main() -> None:
        with caplog.at_level(logging.WARNING, "penstock.broker"):
            async with serve(**dict.fromkeys(reachable, "0.0.0.0:0"), insecure=True) as broker:
                loop_turned: list[None] = []
                broker._loop.call_soon(loop_turned.append, None)
                await until(lambda: loop_turned)
                assert len(caplog.messages) == min(1, len(reachable))
                for address in reachable:
                    assert getattr(broker, address) in caplog.text
                if reachable:
                    assert "anybody who reaches" in caplog.text

    run(main)
