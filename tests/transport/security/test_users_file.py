"""The users file: read whole or refused, replaced whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from datetime import UTC, date, datetime, time, timedelta, timezone
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
    is_there,
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
KEYS = st.sampled_from(
    [
        "version",
        "users",
        "alice",
        "password",
        "rights",
        "grants",
        "tokens",
        "access_keys",
        "names",
        "hash",
        "until",
        "note",
        "",
    ]
) | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
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


@pytest.mark.timeout(10)
def test_a_pipe_that_nobody_writes_to_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for act in (read_users, lambda path: change_users(path, lambda users: users)):
        with pytest.raises(UsersFileError, match="no regular file"):
            act(tmp_path / "pipe")
    assert [each.name for each in tmp_path.iterdir()] == ["pipe"]


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
        ("version = true", "version = 1"),
        ("version = 1.0", "version = 1"),
        ("version = " + "9" * 5000, "a number in it has too many digits"),
        ("version = 1\nx = 0x" + "f" * 5000, "`x`, which"),
        (
            f"version = 1\n[users.alice]\ntokens = [{{hash='{bytes(32).hex()}', until=0001-01-01T00:00:00+14:00}}]",
            "years 1 to 9999",
        ),
        (
            f"version = 1\n[users.alice]\ntokens = [{{hash='{bytes(32).hex()}', until=9999-12-31T23:59:59-01:00}}]",
            "years 1 to 9999",
        ),
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


VALUES = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(),
        st.just(int("9" * 4000)),
        st.floats(),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
        st.datetimes(),
        st.datetimes(timezones=st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))),
        st.dates(),
        st.times(),
        st.sampled_from(["monitor", "read", "orders*", "0" * 64, ALICE.access_keys[0], "CN=alice"]),
        st.just(ALICE.password.text if ALICE.password else ""),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
"""Any value of TOML."""


def in_toml(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return users_file._quoted(value)
        case datetime() | date() | time():
            return value.isoformat()
        case list():
            return f"[{', '.join(map(in_toml, value))}]"
        case dict():
            return f"{{{', '.join(f'{in_toml(key)} = {in_toml(each)}' for key, each in value.items())}}}"
    return str(value)


WHOLE: dict[str, Any] = {
    "version": 1,
    "users": {
        "alice": {
            "password": ALICE.password.text if ALICE.password else "",
            "rights": ["monitor"],
            "grants": [{"names": "orders*", "rights": ["read"]}],
            "tokens": [{"hash": "0" * 64, "until": datetime(2027, 1, 31, tzinfo=UTC), "note": "x"}],
            "access_keys": [ALICE.access_keys[0]],
            "certificates": ["CN=alice"],
        }
    },
}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something stands in ``value``."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, each in inner for place in places(each, (*path, key)))]


def with_value(whole: Any, place: tuple[Any, ...], value: Any) -> Any:
    if not place:
        return value
    key, *rest = place
    changed = copy(whole)
    changed[key] = with_value(whole[key], tuple(rest), value)
    return changed


def text_of(whole: Any) -> bytes:
    return "\n".join(f"{in_toml(key)} = {in_toml(each)}" for key, each in whole.items()).encode()


def test_the_whole_file_that_others_are_made_of_is_read() -> None:
    (user,) = parse_users(text_of(WHOLE))
    assert len(user.tokens) == len(user.grants) == len(user.access_keys) == len(user.certificates) == 1


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(places(WHOLE)[1:]), VALUES)
def test_whatever_stands_in_any_place_it_is_refused_or_is_users_who_can_be_written_again(
    place: tuple[Any, ...], value: Any
) -> None:
    try:
        users = parse_users(text_of(with_value(WHOLE, place, value)))
    except UsersFileError:
        return
    assert as_dict(parse_users(users_text(users).encode())) == as_dict(users)
    users.next_end(datetime.now(UTC))


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_whatever_a_file_says_it_is_refused_or_is_users(whole: dict[str, Any]) -> None:
    try:
        assert parse_users(text_of({"version": 1} | whole)) is not None
    except UsersFileError:
        return


def test_a_moment_that_cannot_be_written_is_refused_and_the_file_is_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"
    change_users(path, lambda _: Users([User("bob")]))
    before = path.read_bytes()
    moment = datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))
    with pytest.raises(UsersFileError, match="years 1 to 9999"):
        change_users(path, lambda _: Users([User("bob", tokens=(TokenRecord(bytes(32), moment),))]))
    assert path.read_bytes() == before


def test_a_lock_that_another_user_has_left_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "users.toml"
    change_users(path, lambda _: Users([User("bob")]))
    real = os.open

    def refused(name: Any, *arguments: Any, **named: Any) -> int:
        if str(name).endswith(".lock"):
            raise PermissionError(errno.EACCES, "Permission denied", str(name))
        return real(name, *arguments, **named)

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(UsersFileError, match=r"\.users\.toml\.lock: Permission denied: another user has left it there"):
        change_users(path, lambda users: users)


def test_a_file_that_may_not_be_read_says_whose_it_is_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "users.toml", users_text(Users([ALICE])))

    def refused(*_: Any, **__: Any) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(UsersFileError, match="sudo -u NAME penstock user"):
        read_users(path)


def test_a_folder_that_one_may_not_look_into_says_whose_the_file_is_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "locked" / "users.toml"
    real = os.open

    def refused(name: Any, *arguments: Any, **named: Any) -> int:
        if "locked" in str(name):
            raise PermissionError(errno.EACCES, "Permission denied", str(name))
        return real(name, *arguments, **named)

    def no_look(*_: Any, **__: Any) -> Any:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", refused)
    monkeypatch.setattr(Path, "stat", no_look)  # what exists() asks
    for use in (lambda: change_users(path, lambda users: users), lambda: is_there(path)):
        with pytest.raises(UsersFileError, match="sudo -u NAME penstock user"):
            use()


def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsersFileError, match="File name too long"):
        change_users(tmp_path / ("a" * 300), lambda users: users)


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
