"""The RabbitMQ that the benchmark `amqp` and the differential test start: their own, on loopback, and gone with them."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest

from benchmarks._processes import BenchmarkError, cpu_seconds
from benchmarks._rabbitmq_server import RabbitServer, missing

pytestmark = pytest.mark.timeout(180)
LISTENS = "0A"
LOOPBACK = ("0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F")
"""As the kernel writes 127.0.0.1, ::1, and the first in the second's form."""


def rabbitmq_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a rabbitmq-server where it is looked for that does what ``script`` says."""
    for name, text in (("rabbitmq-server", script), ("epmd", "read -r _")):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!{shutil.which('bash')}\n{text}\n", "utf-8")
        program.chmod(0o755)
    monkeypatch.setenv("PENSTOCK_RABBITMQ_FOLDER", str(tmp_path / "bin"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


def test_a_machine_without_rabbitmq_is_told_what_brings_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PENSTOCK_RABBITMQ_FOLDER", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert missing() == (
        "the comparison with RabbitMQ needs rabbitmq-server and there is none; install it "
        "(Debian, Ubuntu: sudo apt-get install rabbitmq-server)"
    )


def test_a_rabbitmq_that_ends_at_once_is_an_error_with_what_it_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rabbitmq_that(tmp_path, monkeypatch, "echo 'no memory for it'; exit 1")
    with pytest.raises(BenchmarkError, match="no memory for it"):
        RabbitServer(tmp_path / "data")


def listening(pid: int) -> list[str]:
    """Addresses at which a process listens, as the kernel writes them."""
    sockets = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with_number = os.readlink(link)
        if with_number.startswith("socket:["):
            sockets.add(with_number[8:-1])
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text("ascii").splitlines()[1:]:
            words = line.split()
            if words[3] == LISTENS and words[9] in sockets:
                found.append(words[1].partition(":")[0])
    return found


def test_a_rabbitmq_of_its_own_listens_on_loopback_alone_and_ends_with_who_started_it(tmp_path: Path) -> None:
    if (lacking := missing()) is not None:
        pytest.skip(lacking)
    with RabbitServer(tmp_path / "data") as server:
        assert server.version >= (3, 8)
        addresses = listening(server.pid)
        assert len(addresses) == 2, "AMQP, and Erlang's distribution"
        assert set(addresses) <= set(LOOPBACK)
        assert cpu_seconds(server.pid) > 0
        with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
            connection.sendall(b"AMQP\0\0\x09\x01")
            assert connection.recv(1) == b"\x01"
        pid = server.pid
    assert not Path(f"/proc/{pid}").exists()
