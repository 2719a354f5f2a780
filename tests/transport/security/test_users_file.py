"""The users file: read whole or refused, replaced whole or not at all."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from transport.security import users_file
from transport.security.principal import Grant, Right
from transport.security.proofs import TokenRecord, make_key_id
from transport.security.users import User, Users, UsersError
from transport.security.users_file import (
    MAX_FILE_BYTES,
    UsersFileError,
    change_users,
    parse_users,
    read_users,
    users_text,
)
from transport.security.verifier import LEAST_ITERATIONS, Verifier

ALICE = User(
    "alice",
    Verifier.of("pencil", LEAST_ITERATIONS, b"salt"),
    Right.MONITOR | Right.ADMINISTER,
    (Grant("orders*", Right.READ | Right.WRITE), Grant('quote"d\\', Right.CONFIGURE)),
    (TokenRecord(bytes(32), datetime(2027, 1, 31, tzinfo=UTC), 'for "the\ntests"'),),
    (make_key_id(),),
    ("CN=alice,O=Müller",),
)
NAMES = st.text(st.characters(categories=["L", "N", "P", "S"], max_codepoint=0x2FF), min_size=1, max_size=20).filter(
    lambda name: "*" not in name
)
RIGHTS = st.sampled_from([Right.READ, Right.WRITE | Right.READ, Right.CONFIGURE])


def as_dict(users: Users) -> dict[str, User]:
    return {user.name: user for user in users}


def written(path: Path, content: str | bytes, mode: int = 0o600) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(mode)
    return path


@st.composite
def user(draw: st.DrawFn) -> User | None:
    try:
        return User(
            draw(NAMES),
            draw(st.none() | st.just(ALICE.password)),
            draw(st.sampled_from([Right.NONE, Right.MONITOR, Right.MONITOR | Right.ADMINISTER])),
            tuple(
                Grant(name + star, rights)
                for name, star, rights in draw(
                    st.lists(st.tuples(NAMES, st.sampled_from(["", "*"]), RIGHTS), max_size=3)
                )
            ),
            tuple(
                TokenRecord(digest, until, note)
                for digest, until, note in draw(
                    st.lists(
                        st.tuples(
                            st.binary(min_size=32, max_size=32),
                            st.none() | st.datetimes(timezones=st.just(UTC)),
                            st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
                        ),
                        max_size=2,
                        unique_by=lambda told: told[0],
                    )
                )
            ),
        )
    except ValueError:
        return None


@given(st.lists(user(), max_size=4))
def test_what_is_written_is_read_as_it_was(found: list[User | None]) -> None:
    try:
        users = Users(filter(None, found))
    except UsersError:
        return
    assert as_dict(parse_users(users_text(users).encode())) == as_dict(users)


def test_a_file_is_made_for_its_owner_alone_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"
    change_users(path, lambda users: Users([*users, ALICE]))
    assert path.stat().st_mode & 0o777 == 0o600
    change_users(path, lambda users: Users([*users, User("bob")]))
    assert as_dict(read_users(path)) == {"alice": ALICE, "bob": User("bob")}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o700, 0o644])
def test_a_file_that_others_might_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = written(tmp_path / "users.toml", users_text(Users([ALICE])), mode)
    with pytest.raises(UsersFileError, match=rf"mode {mode:04o}.*chmod 600"):
        read_users(path)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsersFileError, match="penstock user add"):
        read_users(tmp_path / "missing.toml")
    with pytest.raises(UsersFileError, match=str(tmp_path)):
        read_users(tmp_path)
    os.mkfifo(tmp_path / "pipe", 0o600)
    held = os.open(tmp_path / "pipe", os.O_RDWR)
    try:
        with pytest.raises(UsersFileError, match="no regular file"):
            read_users(tmp_path / "pipe")
    finally:
        os.close(held)


def test_a_file_that_is_too_large_is_refused_before_it_is_read_whole(tmp_path: Path) -> None:
    path = written(tmp_path / "users.toml", b"")
    os.truncate(path, MAX_FILE_BYTES + 1)
    with pytest.raises(UsersFileError, match=f"more than {MAX_FILE_BYTES} bytes"):
        read_users(path)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "version = 1"),
        ("version = 2", "version = 1"),
        ("version = 1\nuser = {}", "`user`, which this program does not know"),
        ("version = 1\nusers = 1", "`users` is to be"),
        ("version = 1\nusers.alice = 1", "is no table"),
        ("version = 1\n[users.alice]\npasswort = 'x'", "`passwort`, which this program does not know"),
        ("version = 1\n[users.alice]\npassword = 'pencil'", "penstock user passwd"),
        ("version = 1\n[users.alice]\nrights = ['read']", "right read is none of monitor, administer"),
        ("version = 1\n[users.alice]\nrights = 'monitor'", "`rights` is to be"),
        ("version = 1\n[users.alice]\ngrants = [{names='a', rights=['monitor']}]", "right monitor is none of"),
        ("version = 1\n[users.alice]\ngrants = [{names='a'}]", "a grant gives one or more"),
        ("version = 1\n[users.alice]\ngrants = [{names='a', rights=['read'], if='x'}]", "`if`, which"),
        ("version = 1\n[users.alice]\ngrants = ['a']", "a grant is to be"),
        ("version = 1\n[users.alice]\ntokens = [{hash='00'}]", "of 32 bytes"),
        ("version = 1\n[users.alice]\ntokens = [{hash='" + "0" * 64 + "', until=2027-01-01}]", "with its zone"),
        (
            "version = 1\n[users.alice]\ntokens = [{hash='" + "0" * 64 + "', until=2027-01-01T00:00:00}]",
            "with its zone",
        ),
        (
            "version = 1\n[users.alice]\ntokens = [{hash='" + "0" * 64 + "', note='" + "x" * 256 + "'}]",
            "255 is the most",
        ),
        ("version = 1\n[users.alice]\naccess_keys = ['x']", "penstock user key"),
        ("version = 1\n[users.alice]\ncertificates = [1]", "certificate's subject is to be"),
        ("version = 1\n[users.'a b']", "white space"),
        ("version = 1\n[users.alice]\n[users.alice]", "line"),
        ("version = 1\nx = " + "[" * 100_000, "users.toml"),
        (b"version = 1 # \xff", "utf-8"),
    ],
)
def test_a_file_that_says_what_is_not_known_is_refused_whole(tmp_path: Path, content: str | bytes, why: str) -> None:
    path = written(tmp_path / "users.toml", content)
    with pytest.raises(UsersFileError, match=why) as caught:
        read_users(path)
    assert str(caught.value).startswith(str(path))


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_file_with_a_changed_byte_is_refused_or_names_no_more_users_than_it_did(data: st.DataObject) -> None:
    content = bytearray(users_text(Users([ALICE, User("bob")])).encode())
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        users = parse_users(bytes(content))
    except UsersFileError:
        return
    assert len(users) <= 2


def test_two_programs_do_not_change_it_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"

    def meanwhile(users: Users) -> Users:
        with pytest.raises(UsersFileError, match="being changed by another program"):
            change_users(path, lambda them: them)
        return Users([*users, ALICE])

    change_users(path, meanwhile)
    assert list(as_dict(read_users(path))) == ["alice"]


def test_a_change_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"
    change_users(path, lambda _: Users([ALICE]))
    before = path.read_bytes()
    with pytest.raises(UsersError, match="two users"):
        change_users(path, lambda users: Users([*users, ALICE]))
    with pytest.raises(UsersFileError, match="as it would be"):
        change_users(path, lambda _: Users([User("bob", certificates=("CN=\udc80",))]))
    assert path.read_bytes() == before


class Killed(BaseException):
    """The program ends here."""


class Cut:
    """Lets so many calls to the file system be made, and ends the program at the next."""

    def __init__(self, calls: int) -> None:
        self.left = calls

    def after(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """``real``, while calls are left."""

        def call(*arguments: Any, **named: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise Killed
            return real(*arguments, **named)

        return call


WRITE = os.write


@pytest.mark.parametrize("writes", [WRITE, lambda file, view: WRITE(file, view[:1])], ids=["whole", "a byte at a time"])
def test_whenever_a_change_is_cut_off_the_old_file_or_the_new_one_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: Callable[..., int]
) -> None:
    path = tmp_path / "users.toml"
    old, new = Users([User("alice")]), Users([User("alice"), User("bob")])
    seen: list[bytes] = []
    while True:
        change_users(path, lambda _: old)
        cut = Cut(len(seen))
        with monkeypatch.context() as patched, suppress(Killed):
            for name in ("open", "fchmod", "fsync"):
                patched.setattr(users_file.os, name, cut.after(getattr(os, name)))
            patched.setattr(users_file.os, "write", cut.after(writes))
            patched.setattr(Path, "replace", cut.after(Path.replace))
            change_users(path, lambda _: new)
        seen.append(path.read_bytes())
        assert read_users(path) is not None
        if cut.left >= 0:
            break
    assert set(seen) == {users_text(old).encode(), users_text(new).encode()}
    assert len(seen) > 6


def test_the_lock_is_given_back_however_a_change_ends(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"
    with pytest.raises(ZeroDivisionError):
        change_users(path, lambda _: Users([User(str(1 // 0))]))
    lock = os.open(tmp_path / ".users.toml.lock", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(lock)


def test_a_name_that_nobody_has_is_answered_alike_after_every_change_and_every_start(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"
    change_users(path, lambda _: Users([ALICE]))
    first = read_users(path).verifier("nobody")
    change_users(path, lambda users: users.but([]))
    assert read_users(path).verifier("nobody") == first
    # A file from before it was kept has another one after each start.
    written(path, "version = 1\n")
    assert read_users(path).verifier("nobody") != first


@pytest.mark.parametrize("decoy", ["00", "zz" * 32, "00" * 33])
def test_what_decoys_are_made_with_has_the_right_size(decoy: str) -> None:
    with pytest.raises(UsersFileError):
        parse_users(f'version = 1\ndecoy = "{decoy}"\n'.encode())
