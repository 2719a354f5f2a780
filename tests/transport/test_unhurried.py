"""What may never be read, as from a mount that does not answer, keeps nobody: neither who asks, nor the process at its end."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.transport.programs import DEADLINE, ROOT
from transport.broker import certificates, entrance
from transport.broker.check import check_certificates, check_users
from transport.broker.unhurried import STUCK, Unhurried
from transport.config.config import BrokerConfig
from transport.errors import LocalProtocolError
from transport.security.users import User, Users
from transport.security.users_file import change_users, read_users

SHORT = 0.02
"""A deadline that is over soon; nothing else is timed."""


class LateError(Exception):
    """What is raised for who is late."""


class Dead:
    """Reads nothing until it is let go."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.asked = 0

    def read(self, *_: Any) -> str:
        self.asked += 1
        self.answers.wait()
        return "read"


@pytest.fixture
def dead() -> Iterator[Dead]:
    one = Dead()
    yield one
    one.answers.set()


def got(reading: Unhurried[Any], later: bool) -> Any:
    return asyncio.run(reading.later()) if later else reading.now()


@pytest.mark.parametrize("later", [True, False])
def test_what_is_read_in_time_is_returned_and_what_it_raises_is_raised(later: bool) -> None:
    assert got(Unhurried(lambda: 7, LateError), later) == 7
    for error in (ZeroDivisionError, TimeoutError, SystemExit):

        def fails(kind: type[BaseException] = error) -> None:
            raise kind

        with pytest.raises(error):
            got(Unhurried(fails, LateError), later)


@pytest.mark.parametrize("later", [True, False])
def test_who_is_late_is_told_so_and_one_thread_is_left_behind_and_no_more(dead: Dead, later: bool) -> None:
    reading = Unhurried(dead.read, LateError, SHORT)
    with pytest.raises(LateError, match=r"could not be read within 0\.02 s"):
        got(reading, later)
    for _ in range(3):
        with pytest.raises(LateError, match=STUCK):
            got(reading, later)
    assert dead.asked == 1
    under_way = reading._under_way
    assert under_way is not None
    dead.answers.set()
    assert under_way.result(DEADLINE) == "read"
    assert got(Unhurried(dead.read, LateError), later) == "read"


@pytest.mark.parametrize("later", [True, False])
def test_where_no_thread_can_be_begun_it_is_said_and_the_next_time_it_is_read(
    monkeypatch: pytest.MonkeyPatch, later: bool
) -> None:
    reading = Unhurried(lambda: 7, LateError)

    def none(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none)
        with pytest.raises(LateError, match="this process may begin no thread"):
            got(reading, later)
    assert got(reading, later) == 7


def test_a_thread_that_comes_back_when_the_loop_is_gone_has_nobody_to_tell(dead: Dead) -> None:
    reading = Unhurried(dead.read, LateError, SHORT)
    with pytest.raises(LateError):
        got(reading, later=True)
    under_way = reading._under_way
    assert under_way is not None
    dead.answers.set()
    assert under_way.result(DEADLINE) == "read"


@pytest.mark.event_loop
def test_a_users_file_that_is_stuck_leaves_the_users_and_the_next_reload_works(
    run: Any, serve: Any, tmp_path: Path, dead: Dead, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "users.toml"
    change_users(path, lambda _: Users([User("alice")]))

    async def main() -> None:
        async with serve(users_file=str(path)) as broker:
            before = broker._entrance.users
            broker._entrance._file._seconds = SHORT
            monkeypatch.setattr(entrance, "read_users", dead.read)
            for why in ("it could not be read within", STUCK):
                with caplog.at_level(logging.ERROR, "penstock.broker"):
                    assert not await broker.reload_users()
                assert f"users: not read again, and as before: {path}: {why}" in caplog.text
            assert broker._entrance.users is before
            monkeypatch.undo()
            under_way = broker._entrance._file._under_way
            dead.answers.set()
            await asyncio.to_thread(under_way.result, DEADLINE)
            broker._entrance._file._seconds = DEADLINE
            assert await broker.reload_users()

    run(main)


def test_the_check_and_the_start_give_a_file_that_is_stuck_up(
    dead: Dead, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Unhurried.__init__, "__defaults__", (SHORT,))
    monkeypatch.setattr(entrance, "read_users", dead.read)
    monkeypatch.setattr(certificates, "_context", dead.read)
    config = BrokerConfig(users_file=str(tmp_path / "u.toml"), tls_certificate="c.pem", tls_key="k.pem")
    (users,), (tls,) = check_users(config), check_certificates(config)
    assert f"users_file: {tmp_path}/u.toml: it could not be read within 0.02 s" in users.text
    assert "TLS cannot be set up with c.pem, k.pem: it could not be read within 0.02 s" in tls.text
    with pytest.raises(LocalProtocolError, match="could not be read"):
        entrance.Entrance(str(tmp_path / "u.toml"), None, lambda: 0.0).open()  # type: ignore[arg-type]


STUCK_AT_RELOAD = """
import sys, threading
from transport.broker import entrance

real, asked = entrance.read_users, []

def read(path):
    if asked:
        print("stuck", flush=True)
        threading.Event().wait()
    asked.append(path)
    return real(path)

entrance.read_users = read
from transport.cli import main
main()
"""


def test_sigterm_ends_a_broker_whose_users_file_is_stuck(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"
    change_users(path, lambda _: Users([User("alice")]))
    words = ["broker", "--memory", "--send-address", "127.0.0.1:0", "--receive-address", "127.0.0.1:0"]
    with subprocess.Popen(
        [sys.executable, "-c", STUCK_AT_RELOAD, *words, "--users-file", str(path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as broker:
        assert broker.stdout is not None
        assert broker.stderr is not None
        try:
            while b"in memory only" not in (line := broker.stderr.readline()):
                assert line, "it has not started"
            broker.send_signal(signal.SIGHUP)
            assert broker.stdout.readline() == b"stuck\n"
            broker.send_signal(signal.SIGTERM)
            assert broker.wait(DEADLINE) == 0
        finally:
            broker.kill()
    assert len(read_users(path)) == 1
