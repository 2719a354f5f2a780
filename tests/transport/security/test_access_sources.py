"""Where a client's access comes from: the environment, what goes over it, and files with secrets."""

from __future__ import annotations

import logging
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transport.errors import LocalProtocolError, TransportError
from transport.security import secret_files
from transport.security.access import MAX_SECRET_BYTES, NOBODY, Access, Tls
from transport.security.access_sources import (
    VARIABLES,
    GivenAccess,
    access_in_force,
    from_environment,
    read_secret,
)
from transport.security.proofs import make_token
from transport.security.secret_files import SecretFileError

TOKEN = make_token()
ANN = GivenAccess(user="ann", password="canary")


def environment(**said: str) -> dict[str, str]:
    return {VARIABLES[name]: value for name, value in said.items()}


def secret_file(folder: Path, content: bytes, mode: int = 0o600) -> str:
    path = folder / "secret"
    path.write_bytes(content)
    path.chmod(mode)
    return str(path)


# The environment


def test_an_empty_environment_is_nobody() -> None:
    assert from_environment({}).says_nothing
    assert from_environment(dict.fromkeys(VARIABLES.values(), "")).says_nothing
    assert access_in_force(None) == NOBODY


def test_the_environment_says_everything(tmp_path: Path) -> None:
    said = environment(
        user="ann",
        password_file=secret_file(tmp_path, b"canary\n"),
        tls="1",
        tls_ca="ca",
        tls_certificate="c",
        tls_key="k",
        tls_server_name="n",
    )
    assert from_environment(said).access() == Access("ann", "canary", tls=Tls("ca", "c", "k", "n"))
    assert from_environment(environment(token=TOKEN, tls="true")).access() == Access(token=TOKEN, tls=Tls())


@pytest.mark.parametrize("variable", ["tls_ca", "tls_certificate", "tls_server_name"])
def test_whoever_names_something_of_tls_speaks_it(variable: str) -> None:
    assert from_environment(environment(**{variable: "x"})).access().tls is not None


def test_tls_that_is_turned_off_takes_no_files() -> None:
    assert from_environment(environment(tls="0")).access().tls is None
    with pytest.raises(LocalProtocolError, match="TLS is turned off, but files"):
        from_environment(environment(tls="0", tls_ca="x")).access()


def test_neither_on_nor_off_is_an_error() -> None:
    with pytest.raises(LocalProtocolError, match="PENSTOCK_TLS is 1 or 0, not 'maybe'"):
        from_environment(environment(tls="maybe"))


@pytest.mark.parametrize("said", [{"user": "ann"}, {"password": "canary"}, {"tls_key": "k"}])
def test_half_of_something_is_an_error(said: dict[str, str]) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        from_environment(environment(**said)).access()
    assert "canary" not in str(caught.value)


def test_files_of_the_environment_may_be_at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    secret_file(tmp_path, b"~canary")
    said = environment(user="~ann", password_file="~/secret", tls_ca="~/ca.pem", tls_server_name="~n")
    assert from_environment(said).access() == Access("~ann", "~canary", tls=Tls(f"{tmp_path}/ca.pem", server_name="~n"))


# One source over another


@pytest.mark.parametrize(
    ("upper", "lower", "in_force"),
    [
        (GivenAccess(), ANN, ANN),
        (ANN, GivenAccess(user="bob", password="x"), ANN),
        (GivenAccess(token=TOKEN), ANN, GivenAccess(token=TOKEN)),
        (GivenAccess(token_file="f"), GivenAccess(token=TOKEN), GivenAccess(token_file="f")),
        (ANN, GivenAccess(token_file="f"), ANN),
        (GivenAccess(user="ann"), ANN, ANN),
        (GivenAccess(user="bob"), ANN, GivenAccess(user="bob")),
        (GivenAccess(password_file="f"), ANN, GivenAccess(user="ann", password_file="f")),
        (GivenAccess(tls=True), ANN, GivenAccess(user="ann", password="canary", tls=True)),
        (GivenAccess(tls=False), GivenAccess(tls_ca="x"), GivenAccess(tls=False)),
        (
            GivenAccess(tls_ca="y"),
            GivenAccess(tls_ca="x", tls_server_name="n"),
            GivenAccess(tls_ca="y", tls_server_name="n"),
        ),
        (
            GivenAccess(tls_certificate="c"),
            GivenAccess(tls_certificate="d", tls_key="k"),
            GivenAccess(tls_certificate="c"),
        ),
    ],
)
def test_what_is_said_nearer_goes_over_what_is_said_farther(
    upper: GivenAccess, lower: GivenAccess, in_force: GivenAccess
) -> None:
    assert upper.over(lower) == in_force


def test_what_a_program_gives_is_all_that_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_TOKEN", TOKEN)
    assert access_in_force(None) == Access(token=TOKEN)
    assert access_in_force(Access("ann", "x")) == Access("ann", "x")
    assert access_in_force(NOBODY) == NOBODY


def test_a_token_alone_goes_over_the_environments_user_and_leaves_its_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(user="ann", password="x", tls="1").items():
        monkeypatch.setenv(name, value)
    assert access_in_force(None, TOKEN) == Access(token=TOKEN, tls=Tls())
    with pytest.raises(LocalProtocolError, match="within the access"):
        access_in_force(NOBODY, TOKEN)


def test_what_an_access_says_comes_back_from_what_is_made_of_it() -> None:
    for access in (NOBODY, Access("ann", "x"), Access(token=TOKEN, tls=Tls()), Access(tls=Tls("a", "b", "c", "d"))):
        assert GivenAccess.of(access).access() == access


def test_no_secret_is_shown() -> None:
    assert "canary" not in repr(ANN)
    assert TOKEN not in repr(GivenAccess(token=TOKEN))


# Files


@pytest.mark.parametrize("content", [b"canary", b"canary\n", b"canary\r\n"])
def test_a_file_has_one_line_with_or_without_an_end(tmp_path: Path, content: bytes) -> None:
    assert read_secret(secret_file(tmp_path, content)) == "canary"


def test_blanks_are_of_the_secret(tmp_path: Path) -> None:
    assert read_secret(secret_file(tmp_path, b" canary \n")) == " canary "


@pytest.mark.parametrize(
    ("content", "refusal"),
    [
        (b"", "and is empty"),
        (b"\n", "and is empty"),
        (b"canary\nmore\n", "and has more"),
        (b"canary\n\n", "and has more"),
        (b"x" * (MAX_SECRET_BYTES + 1), f"more than the {MAX_SECRET_BYTES} bytes"),
        (b"x" * (1 << 20), f"more than the {MAX_SECRET_BYTES} bytes"),
        (b"canary\xff", "not UTF-8"),
    ],
)
def test_a_file_that_holds_something_else_is_refused_and_not_shown(
    tmp_path: Path, content: bytes, refusal: str
) -> None:
    path = secret_file(tmp_path, content)
    with pytest.raises(LocalProtocolError, match=refusal) as caught:
        read_secret(path)
    assert path in str(caught.value)
    assert "canary" not in str(caught.value)


def test_the_longest_secret_is_taken_with_its_end(tmp_path: Path) -> None:
    longest = b"x" * MAX_SECRET_BYTES
    assert read_secret(secret_file(tmp_path, longest + b"\r\n")) == longest.decode()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(LocalProtocolError, match=str(path)):
            read_secret(str(path))


def test_a_pipe_is_read_as_well(tmp_path: Path) -> None:
    end, start = os.pipe()
    os.write(start, b"canary\n")
    os.close(start)
    try:
        assert read_secret(f"/dev/fd/{end}") == "canary"
    finally:
        os.close(end)


def test_who_writes_into_a_pipe_later_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path, 0o600)
    # A shell that waits, as any writer does, until somebody has opened the pipe to read.
    with subprocess.Popen(["sh", "-c", f"(printf cana; printf ry) > '{path}'"]) as writing:
        assert read_secret(str(path)) == "canary"
    assert writing.returncode == 0


@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o400, False), (0o644, True), (0o604, True)])
def test_who_else_may_read_a_secret_is_told_and_not_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, warned: bool
) -> None:
    with caplog.at_level(logging.WARNING, "penstock.access"):
        assert read_secret(secret_file(tmp_path, b"canary\n", mode)) == "canary"
    assert [f"mode {mode:04o}" in record.getMessage() for record in caplog.records] == [True] * warned
    assert "canary" not in caplog.text


def test_a_group_that_root_lets_at_a_secret_is_no_stranger(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = secret_file(tmp_path, b"canary", 0o440)
    real = os.fstat

    def owned_by(user: int) -> None:
        def fstat(file: int) -> Any:
            facts = list(real(file))
            facts[4] = user
            return os.stat_result(facts)

        monkeypatch.setattr(os, "fstat", fstat)

    owned_by(0)
    read_secret(path)
    assert caplog.records == []
    owned_by(1000)
    read_secret(path)
    assert len(caplog.records) == 1


TEXTS = st.none() | st.text(st.characters(codec=None), max_size=8)


@given(
    st.builds(
        GivenAccess, user=TEXTS, password=TEXTS, token=TEXTS, tls=st.none() | st.booleans(), tls_ca=TEXTS, tls_key=TEXTS
    )
)
def test_whatever_is_given_is_an_access_or_one_clear_error(given: GivenAccess) -> None:
    try:
        access = given.access()
    except TransportError:
        return
    assert GivenAccess.of(access).access() == access


def test_what_a_program_gives_is_all_that_counts_in_spark_too() -> None:
    environment = from_environment({"PENSTOCK_USER": "env", "PENSTOCK_PASSWORD": "x", "PENSTOCK_TLS_CA": "ca"})
    for access in (Access(), Access("ann", "canary"), Access(tls=Tls())):
        assert GivenAccess.of(access).over(environment).access() == access


def test_a_pipe_that_nobody_writes_to_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path, 0o600)
    monkeypatch.setattr(secret_files, "PIPE_SECONDS", 0.02)
    with pytest.raises(SecretFileError, match=r"pipe, and nobody has written a line into it within 0 s"):
        secret_files.read_line(str(path))
