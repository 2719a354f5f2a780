"""`penstock broker --check`: everything that is wrong in one run, a line each; nothing is started, bound or written."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from actors.storage import Storage
from journal.format import SEGMENT_HEADER_BYTES, pack_segment_header, unpack_segment_header
from journal.names import parse_segment
from transport.broker import check as checking
from transport.broker.check import (
    Problem,
    check,
    check_addresses,
    check_certificates,
    check_directory,
    check_open_files,
    check_users,
)
from transport.cli.app import app
from transport.config.config import BrokerConfig
from transport.security.users import User, Users
from transport.security.users_file import change_users

if TYPE_CHECKING:
    from tests.transport.certificates import Certificates

ROOT = Path(__file__).resolve().parents[2]
FREE = {"send_address": "127.0.0.1:0", "receive_address": "127.0.0.1:0"}


def texts(found: Any) -> list[str]:
    return [problem.text for problem in found]


def run(*arguments: str) -> tuple[int, list[str]]:
    result = CliRunner().invoke(app, ["broker", "--check", *arguments])
    assert result.stdout == ""
    return result.exit_code, result.stderr.splitlines()


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A data directory that a broker has left."""
    storage = Storage.open(tmp_path / "data")
    storage.close()
    return tmp_path / "data"


def test_where_nothing_is_wrong_one_line_says_so_and_nothing_is_made(tmp_path: Path) -> None:
    where = ["--send-address", "127.0.0.1:0", "--receive-address", "127.0.0.1:0", "--data", str(tmp_path / "a" / "b")]
    assert run(*where) == (0, ["penstock broker --check: nothing is wrong"])
    assert list(tmp_path.iterdir()) == []


def test_all_that_is_wrong_is_told_in_one_run_and_the_code_is_the_one_that_a_start_would_have(tmp_path: Path) -> None:
    storage = Storage.open(tmp_path / "data")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, said = run(
            "--data",
            str(tmp_path / "data"),
            "--send-address",
            address,
            "--receive-address",
            "203.0.113.7:1",
            "--insecure",
        )
    storage.close()
    assert code == 74
    assert [re.sub(r"\S*/data", "data", line).removeprefix("penstock broker --check: ")[:60] for line in said] == [
        "the data directory data cannot be opened: data is in use by an"[:60],
        f"cannot listen on {address}: Address already in use"[:60],
        "cannot listen on 203.0.113.7:1: Cannot assign requested address"[:60],
        "note: anybody who reaches 203.0.113.7:1 may read, write and delete everything here"[:60],
    ]


def test_settings_that_cannot_be_are_told_all_of_them_and_the_rest_is_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text(
        '[broker]\nheartbeat = 0\nlog_level = "loud"\n[journal]\nsync = "sometimes"\n'
    )
    code, said = run("--config", str(tmp_path / "penstock.toml"))
    assert code == 2
    assert len(said) == 3


def test_one_address_for_both_is_found_though_neither_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = f"127.0.0.1:{server.getsockname()[1]}"
    config = BrokerConfig(send_address=free, receive_address=free)
    assert texts(check_addresses(config)) == [
        f"send_address and receive_address are both {free}: each needs a port of its own"
    ]


@pytest.mark.parametrize(
    ("one", "other"), [("0.0.0.0", "127.0.0.1"), ("localhost", "127.0.0.1"), ("127.0.0.1", "0.0.0.0")]
)
def test_one_address_that_takes_anothers_port_is_found(one: str, other: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    config = BrokerConfig(send_address=f"{one}:{port}", receive_address=f"{other}:{port}", insecure=True)
    assert texts(check_addresses(config)) == [
        f"send_address and receive_address ({one}:{port}, {other}:{port}) are one address: each needs a port of its own"
    ]
    apart = BrokerConfig(send_address=f"{one}:{port}", receive_address=f"{other}:0", insecure=True)
    assert texts(check_addresses(apart)) == []


def test_each_file_of_tls_that_is_missing_is_told(tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("c.pem", "k.pem", "ca.pem")]
    config = BrokerConfig(tls_certificate=files[0], tls_key=files[1], tls_client_ca=files[2])
    why = "; ".join(f"{file}: No such file or directory" for file in files)
    assert texts(check_certificates(config)) == [f"TLS cannot be set up with {', '.join(files)}: {why}"]


def test_an_address_that_was_checked_can_be_bound_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    config = BrokerConfig(send_address=f"127.0.0.1:{port}", receive_address="127.0.0.1:0")
    for _ in range(3):
        assert texts(check_addresses(config)) == []
    socket.create_server(("127.0.0.1", port)).close()


def test_a_directory_that_a_broker_has_left_is_right_and_stays_as_it_is(journal: Path) -> None:
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in journal.iterdir()}
    assert texts(check_directory(BrokerConfig(directory=str(journal)))) == []
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in journal.iterdir()} == before


def test_a_file_of_another_version_is_told_with_both_versions(journal: Path) -> None:
    [segment] = [path for path in journal.iterdir() if parse_segment(path.name)]
    content = segment.read_bytes()
    header = unpack_segment_header(content[:SEGMENT_HEADER_BYTES])._replace(version=9)
    segment.write_bytes(pack_segment_header(header) + content[SEGMENT_HEADER_BYTES:])
    [problem] = check_directory(BrokerConfig(directory=str(journal)))
    assert f"{segment.name}: this is no segment: a segment of version 9; this program knows 2" in problem.text
    said = re.sub(r"version \d+", "version N", problem.text.replace(str(journal), "penstock-data"))
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    (shown,) = re.findall(r"^penstock broker --check: (.*this is no segment.*)$", page, re.MULTILINE)
    assert re.sub(r"knows \d+", "knows N", said) == re.sub(
        r"knows \d+", "knows N", re.sub(r"version \d+", "version N", shown)
    )


def test_a_directory_that_may_not_be_written_is_told_and_so_is_one_that_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The superuser, as whom tests may run, may do everything.
    monkeypatch.setattr(checking.os, "access", lambda path, mode: False)
    for name, what in ((".", "written"), ("new/data", f"made in {tmp_path}")):
        [problem] = check_directory(BrokerConfig(directory=str(tmp_path / name)))
        assert f"cannot be {what}: this process has no right to" in problem.text


def test_too_few_files_are_told_and_fewer_than_asked_for_are_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transport.broker.check.raise_soft_limit", lambda _connections: None)
    monkeypatch.setattr("transport.broker.descriptors.soft_limit", lambda: 10)
    [problem] = check_open_files(BrokerConfig())
    assert problem.error is not None
    monkeypatch.setattr("transport.broker.descriptors.soft_limit", lambda: 1000)
    [problem] = check_open_files(BrokerConfig())
    assert problem.error is None
    assert "not the 10000 of max_connections" in problem.text
    code, said = run("--memory", "--send-address", "127.0.0.1:0", "--receive-address", "127.0.0.1:0")
    assert code == 0
    assert said[0].startswith("penstock broker --check: note: the limit of open files")
    assert said[1:] == ["penstock broker --check: nothing is wrong"]


def test_a_users_file_that_others_may_read_is_told_and_so_is_one_that_is_not_there(tmp_path: Path) -> None:
    users = tmp_path / "users.toml"
    [missing] = check_users(BrokerConfig(users_file=str(users)))
    assert "No such file" in missing.text
    users.write_text("version = 1\n")
    users.chmod(0o644)
    [open_to_all] = check_users(BrokerConfig(users_file=str(users)))
    assert "has mode 0644, and others might read it: chmod 600" in open_to_all.text
    users.chmod(0o600)
    assert list(check_users(BrokerConfig(users_file=str(users)))) == []


@pytest.mark.parametrize("users", [False, True])
def test_what_a_start_would_warn_of_who_can_reach_it_is_a_note(tmp_path: Path, users: bool) -> None:
    options = ["--memory", "--insecure", "--send-address", "0.0.0.0:0", "--receive-address", "127.0.0.1:0"]
    if users:
        change_users(tmp_path / "users.toml", lambda _: Users([User("alice")]))
        options += ["--users-file", str(tmp_path / "users.toml")]
    code, said = run(*options)
    warned = (
        "what goes to and from 0.0.0.0:0 can be read on its way, tokens too"
        if users
        else "anybody who reaches 0.0.0.0:0 may read, write and delete everything here"
    )
    assert code == 0
    assert said[0].startswith(f"penstock broker --check: note: {warned}, for this broker is told to be insecure")
    assert said[1:] == ["penstock broker --check: nothing is wrong"]


@pytest.mark.parametrize("together", [False, True], ids=["a key's file", "one file for both"])
def test_a_key_of_tls_that_others_may_read_is_a_note(
    tmp_path: Path, certificates: Certificates, together: bool
) -> None:
    key, certificate = tmp_path / "broker.key", tmp_path / "broker.crt"
    key.write_bytes(Path(certificates.server.key).read_bytes())
    certificate.write_bytes(Path(certificates.server.certificate).read_bytes())
    if together:
        certificate.write_bytes(certificate.read_bytes() + key.read_bytes())
    config = BrokerConfig(tls_certificate=str(certificate), tls_key=None if together else str(key))
    held = certificate if together else key
    held.chmod(0o644)
    [problem] = check_certificates(config)
    text = f"{held} has the key of TLS and mode 0644, so others may read it: chmod 600 {held}"
    assert problem == Problem(text, None)
    held.chmod(0o600)
    assert list(check_certificates(config)) == []


def test_a_broker_in_memory_needs_no_directory() -> None:
    assert check(BrokerConfig(**FREE)) == []
