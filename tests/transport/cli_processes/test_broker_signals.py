"""The signals of a broker's process, and what it tells its supervisor: a running `penstock broker`, from outside."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.decoding import FrameDecoder
from tests.preconditions import terminal
from tests.transport.programs import DEADLINE, BrokerProcess
from transport.config.settings import QUEUE_OPTIONS
from transport.wire.address import parse_address
from transport.wire.codec import decode, encode
from transport.wire.messages import VERSION, Error, Frame, Hello, Ping, Welcome

NEVER = "1h"
"""A time to drain that does not pass."""


class Deaf:
    """A client that says HELLO and then nothing, whatever it is asked."""

    def __init__(self, address: str) -> None:
        self._socket = socket.create_connection(parse_address(address), DEADLINE)
        self._socket.sendall(b"".join(encode(Hello(VERSION, "receiver", "orders", "deaf", {}))))
        self._decoder = FrameDecoder()
        self._frames: list[Frame] = []
        assert isinstance(self.next(), Welcome)

    def next(self) -> Frame:
        while not self._frames:
            data = self._socket.recv(1 << 16)
            assert data, "the broker has closed"
            self._frames += [decode(raw) for raw in self._decoder.receive_data(data)]
        return self._frames.pop(0)

    def asked(self) -> None:
        """Returns once the broker drains: it asks for a sign, which it does not get."""
        while not (isinstance(frame := self.next(), Ping) and frame.token):
            continue

    def close(self) -> None:
        self._socket.close()


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_a_draining_broker_at_once_and_its_journal_is_whole(
    tmp_path: Path, first: signal.Signals, second: signal.Signals
) -> None:
    with BrokerProcess("--data", str(tmp_path), "--drain", NEVER) as broker:
        broker.fill("orders", [b"a", b"b"])
        client = Deaf(broker.receiving)
        broker.process.send_signal(first)
        client.asked()
        broker.process.send_signal(second)
        code = broker.end()
        err = broker.rest(broker.stderr).decode()
        client.close()
    assert code == 128 + second
    assert err.endswith(f"penstock broker: ended at once by a second signal, {second.name}\n")
    with BrokerProcess("--data", str(tmp_path)) as again:
        assert again.statistics("orders")["ready"] == 2


def test_a_client_that_gives_no_sign_holds_up_the_end_for_the_time_that_was_set_and_no_longer() -> None:
    with BrokerProcess("--drain", "0.4s") as broker:
        client = Deaf(broker.receiving)
        broker.process.send_signal(signal.SIGTERM)
        client.asked()
        assert broker.end() == 0
        client.close()


def test_without_time_to_drain_each_client_is_told_at_once() -> None:
    with BrokerProcess("--drain", "0s") as broker:
        client = Deaf(broker.receiving)
        broker.process.send_signal(signal.SIGTERM)
        told = client.next()
        assert isinstance(told, Error)
        assert told.code == "shutting-down"
        client.close()
        assert broker.end() == 0


# SIGHUP

ON_A_TERMINAL = """
import fcntl, os, signal, sys, termios
os.setsid()
terminal = os.open(sys.argv[1], os.O_RDWR)
fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
os.close(terminal)
signal.signal(signal.SIGHUP, signal.SIG_IGN if sys.argv[2] == "nohup" else signal.SIG_DFL)
os.execvp(sys.argv[3], sys.argv[3:])
"""
"""Runs a command as the first of a session that a terminal controls; the tests themselves may be under ``nohup``."""


def test_a_broker_ends_in_good_order_with_the_terminal_that_it_was_started_on() -> None:
    with terminal() as (ours, theirs):
        before = (sys.executable, "-c", ON_A_TERMINAL, os.ttyname(theirs), "no nohup")
        with BrokerProcess(before=before) as broker:
            broker.process.send_signal(signal.SIGHUP)
            assert "read again" in broker.line(broker.stderr).decode(), "the terminal is there"
            hang_up(ours, theirs)
            assert broker.end() == 0


def test_with_nohup_a_broker_outlives_its_terminal_and_reads_its_settings() -> None:
    with terminal() as (ours, theirs):
        before = (sys.executable, "-c", ON_A_TERMINAL, os.ttyname(theirs), "nohup")
        with BrokerProcess(before=before) as broker:
            hang_up(ours, theirs)
            assert "read again" in broker.line(broker.stderr).decode()
            broker.process.send_signal(signal.SIGTERM)
            assert broker.end() == 0


def hang_up(ours: int, theirs: int) -> None:
    """Close a terminal; its number stays taken, for whoever closes it once more."""
    os.close(theirs)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, ours)
    os.close(nothing)


@pytest.fixture
def reloadable(tmp_path: Path) -> Iterator[tuple[BrokerProcess, Path]]:
    settings = tmp_path / "penstock.toml"
    settings.write_text('[broker]\nmemory = true\nlog_level = "warning"\n[limits]\nmax_queues = 7\n')
    with BrokerProcess("--config", str(settings)) as broker:
        yield broker, settings


def said(broker: BrokerProcess) -> str:
    return broker.line(broker.stderr).decode()


def test_settings_that_are_read_again_are_told_and_so_are_those_that_take_a_restart(
    reloadable: tuple[BrokerProcess, Path],
) -> None:
    broker, settings = reloadable
    settings.write_text('[broker]\nmemory = true\nlog_level = "info"\n[limits]\nmax_queues = 8\n[queues.orders]\n')
    broker.process.send_signal(signal.SIGHUP)
    assert "INFO penstock.audit: read again: log level" in said(broker)
    lines = [said(broker) for _ in range(1 + len(QUEUE_OPTIONS))]
    assert re.search(r"WARNING penstock.broker: limits.max_queues is 7 now and 8 after a restart: it cannot", lines[0])
    assert all(re.search(r"queues\.orders\.\w+ is not there now and \S", line) for line in lines[1:])
    settings.write_text('[broker]\nmemory = true\nlog_level = "warning"\n[limits]\nmax_queues = 7\n')
    broker.process.send_signal(signal.SIGHUP)
    # Nothing differs by now from what the broker runs with.
    assert "read again" in said(broker)
    broker.process.send_signal(signal.SIGTERM)
    assert broker.end() == 0
    assert broker.rest(broker.stderr) == b""


def test_a_mistake_in_the_settings_leaves_everything_as_it_is_and_is_told(
    reloadable: tuple[BrokerProcess, Path],
) -> None:
    broker, settings = reloadable
    settings.write_text('[broker]\nlog_level = "loud"\n')
    broker.process.send_signal(signal.SIGHUP)
    told = said(broker)
    assert "ERROR penstock.broker: nothing is read again, for the settings cannot be: " in told
    assert "penstock.toml:2: broker.log_level: log_level is 'loud'" in told
    settings.write_text(f"[limits]\nmax_queues = {'9' * 5000}\n")
    broker.process.send_signal(signal.SIGHUP)
    assert "penstock.toml: a number in it has too many digits" in said(broker)
    settings.write_text(f"[limits]\nmax_queues = 0x{'f' * 5000}\n")
    broker.process.send_signal(signal.SIGHUP)
    assert "penstock.toml:2: limits.max_queues" in said(broker)
    settings.unlink()
    broker.process.send_signal(signal.SIGHUP)
    assert "cannot be read: No such file" in said(broker)
    broker.fill("orders", [b"it goes on"])


# The supervisor


@pytest.fixture(params=["path", "abstract"])
def supervisor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A socket like systemd's, which the broker's environment names."""
    name = f"penstock-test-{os.getpid()}"
    # Not in tmp_path: the name of a socket has 107 bytes at most.
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        path = f"{folder}/notify"
        listening.bind(path if request.param == "path" else f"\0{name}")
        listening.settimeout(DEADLINE)
        monkeypatch.setenv("NOTIFY_SOCKET", path if request.param == "path" else f"@{name}")
        yield listening


def heard(listening: socket.socket, wanted: bytes) -> bytes:
    """The next that is no sign of life, unless that is what is wanted."""
    while (told := listening.recv(4096)) == b"WATCHDOG=1" != wanted:
        continue
    return told


def test_the_supervisor_hears_when_it_is_ready_reloads_lives_and_stops(
    supervisor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "20000")
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    with BrokerProcess() as broker:
        assert heard(supervisor, b"READY=1") == b"READY=1"
        for _ in range(3):
            assert heard(supervisor, b"WATCHDOG=1") == b"WATCHDOG=1"
        broker.process.send_signal(signal.SIGHUP)
        assert re.fullmatch(rb"RELOADING=1\nMONOTONIC_USEC=\d+", heard(supervisor, b"RELOADING=1"))
        assert heard(supervisor, b"READY=1") == b"READY=1"
        broker.process.send_signal(signal.SIGTERM)
        assert heard(supervisor, b"STOPPING=1") == b"STOPPING=1"
        assert broker.end() == 0


@pytest.mark.parametrize("name", ["/nowhere/at/all", "@nobody-listens-here", "vsock:2:1", "relative", "/" + "x" * 300])
def test_a_supervisor_that_cannot_be_told_is_no_reason_to_end(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", name)
    monkeypatch.setenv("WATCHDOG_USEC", "not a number")
    with BrokerProcess() as broker:
        broker.fill("orders", [b"it works"])
        broker.process.send_signal(signal.SIGTERM)
        assert broker.end() == 0
