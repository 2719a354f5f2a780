"""``penstock user``: the users file is kept without an editor, and no secret is an argument or is shown twice."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from typer.testing import CliRunner

from transport.cli import user as verbs
from transport.cli.app import app
from transport.cli.user import TOKEN_DAYS
from transport.config.settings_sources import resolve
from transport.security.principal import Right
from transport.security.proofs import access_key_secret
from transport.security.subject import PRINTS
from transport.security.users import Users
from transport.security.users_file import read_users

if TYPE_CHECKING:
    from tests.transport.certificates import Certificates

PASSWORD = "correct horse"  # a canary: it must appear nowhere


class Kept:
    """A users file, and the command that keeps it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "users.toml"

    def __call__(self, *words: str, stdin: str | None = None, code: int = 0) -> tuple[str, str]:
        result = CliRunner().invoke(app, ["user", *words, "--users-file", str(self.path)], input=stdin)
        assert result.exit_code == code, result.output
        assert PASSWORD not in result.output
        return result.stdout, result.stderr

    def has_bob(self) -> Kept:
        """One without a password, which takes a fifth of a second to make."""
        self("add", "bob", "--no-password")
        return self

    @property
    def users(self) -> Users:
        return read_users(self.path)

    def has_alice(self) -> Kept:
        self("add", "alice", "--password-file", "-", stdin=PASSWORD + "\n")
        return self


@pytest.fixture
def keep(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def may(users: Users, *rights: Right, on: str | None = None) -> list[bool]:
    alice = users.of_password("alice", PASSWORD)
    assert alice is not None
    return [alice.may(right, on) for right in rights]


def test_a_user_comes_in_with_the_password_from_standard_input_a_file_or_a_prompt(
    keep: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep("add", "one", "--password-file", "-", stdin=f"{PASSWORD}\r\n")
    (tmp_path / "password").write_text(PASSWORD)
    keep("add", "two", "--password-file", str(tmp_path / "password"))
    monkeypatch.setattr(verbs, "_has_terminal", lambda: True)
    keep("add", "three", stdin=f"{PASSWORD}\n{PASSWORD}\n")
    for name in ("one", "two", "three"):
        assert keep.users.of_password(name, PASSWORD) is not None
    assert PASSWORD not in keep.path.read_text()


def test_without_a_terminal_nothing_waits_for_a_password(keep: Kept) -> None:
    _, told = keep("add", "alice", code=2)
    assert told == (
        "penstock user add: no password, and standard input is not a terminal: use --password-file FILE, or - for standard input\n"
    )
    assert not keep.path.exists()


def test_a_new_password_takes_the_place_of_the_old_one(keep: Kept) -> None:
    keep.has_alice()("passwd", "alice", "--password-file", "-", stdin="other\n")
    assert keep.users.of_password("alice", PASSWORD) is None
    assert keep.users.of_password("alice", "other") is not None


def test_rights_are_given_and_taken_one_by_one(keep: Kept) -> None:
    keep.has_alice()("grant", "alice", "read", "write", "--on", "orders*")
    keep("grant", "alice", "configure", "--on", "orders*")
    keep("grant", "alice", "monitor")
    assert may(keep.users, Right.READ, Right.WRITE, Right.CONFIGURE, on="orders-1") == [True, True, True]
    keep("revoke", "alice", "write", "--on", "orders*")
    assert may(keep.users, Right.READ, Right.WRITE, Right.CONFIGURE, on="orders-1") == [True, False, True]
    keep("revoke", "alice", "monitor")
    assert may(keep.users, Right.MONITOR) == [False]
    keep("revoke", "alice", "read", "configure", "--on", "orders*")
    assert keep.users.get("alice").grants == ()  # type: ignore[union-attr]


def test_a_token_is_printed_alone_and_once(keep: Kept) -> None:
    token, told = keep.has_bob()("token", "bob", "--note", "tests")
    bob = keep.users.of_token(token.strip(), datetime.now(UTC))
    assert bob is not None
    assert token.strip() not in told + keep.path.read_text() + keep("list")[0] + keep("list", "--json")[0]
    (record,) = keep.users.get("bob").tokens  # type: ignore[union-attr]
    assert record.until is not None
    assert TOKEN_DAYS - 1 <= (record.until - datetime.now(UTC)).days <= TOKEN_DAYS
    keep("revoke", "bob", "--proof", record.name)
    assert keep.users.of_token(token.strip(), datetime.now(UTC)) is None


def test_both_halves_of_an_access_key_are_printed_and_the_secret_one_follows_from_the_key_file(keep: Kept) -> None:
    printed, _ = keep.has_bob()("key", "bob")
    key, secret = printed.split()
    key_file = keep.path.with_name("users.toml.key").read_bytes()
    assert secret == access_key_secret(key, key_file)
    assert keep.users.of_access_key(key) is not None
    assert secret not in keep.path.read_text()


def test_a_certificate_stands_for_a_user(keep: Kept) -> None:
    keep.has_bob()("certificate", "bob", "CN=alice,O=Example")
    assert keep.users.of_certificate("CN=alice,O=Example") is not None


@pytest.mark.parametrize(
    "printed",
    [
        "subject=CN=alice,O=Example",
        "subject= CN=alice,O=Example\n",
        "CN=alice,O=Example ",
        r"CN=a = b\, c/d\+,O=\ e\ ",
        "1.2.3.4=#0403",
        "OU=x+OU=y",
    ],
)
def test_a_subject_may_be_what_openssl_prints(keep: Kept, printed: str) -> None:
    keep.has_bob()("certificate", "bob", printed)
    [subject] = keep.users.get("bob").certificates  # type: ignore[union-attr]
    assert subject == printed.removeprefix("subject=").strip(" \n") + (" " if printed.endswith("\\ ") else "")


@pytest.mark.parametrize(
    "other",
    [
        "subject=CN = alice, O = Example",
        "CN=alice, O=Example",
        "/O=Example/CN=alice",
        "alice",
        "",
        "CN=alice,",
        "CN= alice",
    ],
)
def test_a_subject_in_another_form_is_refused_with_the_command_that_prints_the_right_one(
    keep: Kept, other: str
) -> None:
    _, told = keep.has_bob()("certificate", "bob", other, code=2)
    assert "is no subject as RFC 4514 writes it" in told
    assert "openssl x509 -noout -subject -nameopt RFC2253,utf8,-esc_msb -in FILE" in told
    assert keep.users.get("bob").certificates == ()  # type: ignore[union-attr]


def test_the_command_that_a_refusal_names_prints_a_subject_that_is_taken(
    keep: Kept, certificates: Certificates
) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here")
    parts = [(NameOID.ORGANIZATION_NAME, "Ä, B"), (NameOID.COMMON_NAME, "till = 7 ")]
    own = certificates.client(x509.Name([x509.NameAttribute(oid, value) for oid, value in parts]))
    command = PRINTS.replace("FILE", own.certificate).split()
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    keep.has_bob()("certificate", "bob", printed)
    assert keep.users.of_certificate(r"CN=till = 7\ ,O=Ä\, B") is not None


def test_a_certificate_that_stands_for_somebody_is_told_with_the_command_that_takes_it_away(keep: Kept) -> None:
    keep.has_bob()("certificate", "bob", "CN=till 7")
    keep("add", "ann", "--no-password")
    for name in ("ann", "bob"):
        _, told = keep("certificate", name, "CN=till 7", code=2)
        assert told == (
            "penstock user certificate: the certificate CN=till 7 stands for the user bob already: "
            "`penstock user revoke bob --proof 'CN=till 7'` takes it away\n"
        )


@pytest.mark.parametrize(
    "words",
    [("grant", "ann", "monitor"), ("remove", "ann"), ("revoke", "ann", "monitor"), ("token", "ann"), ("key", "ann")],
)
def test_where_there_is_no_users_file_that_is_told_and_nothing_is_left(keep: Kept, words: tuple[str, ...]) -> None:
    _, told = keep(*words, code=2)
    assert told.startswith(f"penstock user {words[0]}: {keep.path}: No such file or directory: `penstock user add NAME")
    assert list(keep.path.parent.iterdir()) == []


def test_the_note_of_a_token_is_in_the_list(keep: Kept) -> None:
    keep.has_bob()("token", "bob", "--note", "the till\x1b at the door")
    [row] = json.loads(keep("list", "--json")[0])
    assert row["proofs"][0]["note"] == "the till\x1b at the door"
    assert r"(the till\x1b at the door)" in keep("list")[0]


def test_the_help_of_a_key_says_where_the_key_file_is() -> None:
    shown = CliRunner().invoke(app, ["user", "key", "--help"], env={"COLUMNS": "200"}).stdout
    assert "the users file's name and .key" in shown


def test_the_list_shows_what_everybody_may_do_and_nothing_to_guess_from(keep: Kept) -> None:
    keep.has_alice()("add", "bob", "--no-password")
    keep("grant", "alice", "read", "write", "--on", "orders*")
    keep("grant", "bob", "administer")
    found: list[dict[str, Any]] = json.loads(keep("list", "--json")[0])
    assert found == [
        {
            "name": "alice",
            "proofs": [{"kind": "password"}],
            "rights": [],
            "grants": [{"rights": ["write", "read"], "on": "orders*"}],
        },
        {"name": "bob", "proofs": [], "rights": ["administer"], "grants": []},
    ]
    table, _ = keep("list")
    assert table.startswith("2 users\n")
    assert "write+read on orders*" in table
    assert "SCRAM" not in table


def test_a_program_finds_the_parts_of_a_proof_one_by_one(keep: Kept) -> None:
    keep.has_bob()("token", "bob", "--note", "laptop")
    key = keep("key", "bob")[0].split()[0]
    keep("certificate", "bob", "CN=bob,O=Example")
    (record,) = keep.users.get("bob").tokens  # type: ignore[union-attr]
    assert record.until is not None
    [row] = json.loads(keep("list", "--json")[0])
    assert row["proofs"] == [
        {"kind": "token", "id": record.name, "until": f"{record.until:%Y-%m-%dT%H:%M:%SZ}", "note": "laptop"},
        {"kind": "key", "id": key},
        {"kind": "certificate", "subject": "CN=bob,O=Example"},
    ]


def test_whoever_changes_something_is_told_when_a_running_broker_knows_it(keep: Kept) -> None:
    for words in (
        ("add", "bob", "--no-password"),
        ("grant", "bob", "monitor"),
        ("revoke", "bob", "monitor"),
        ("token", "bob"),
        ("key", "bob"),
        ("certificate", "bob", "CN=bob"),
        ("revoke", "bob", "--proof", "CN=bob"),
        ("passwd", "bob", "--password-file", "-"),
        ("remove", "bob"),
    ):
        told = keep(*words, stdin=f"{PASSWORD}\n" if words[0] == "passwd" else None)[1].splitlines()
        assert told[-1] == f"penstock user {words[0]}: a running broker takes it in at SIGHUP: kill -HUP PID"
    assert "SIGHUP" not in keep("list")[1]


def test_one_who_is_removed_is_gone(keep: Kept) -> None:
    keep.has_bob()("remove", "bob")
    assert len(keep.users) == 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("grant", "bob", "read", "--on", "x"), "there is no user 'bob': `penstock user list` shows who there is"),
        (("grant", "alice", "reed", "--on", "x"), "there is no right 'reed'"),
        (("grant", "alice", "read"), "read is a right on queues: say which with --on PATTERN"),
        (
            ("grant", "alice", "monitor", "--on", "x"),
            "monitor is a right of the broker: say it without --on",
        ),
        (("grant", "alice", "read", "--on", "a*b"), "has a * that is not its end"),
        (("revoke", "alice"), "name the rights that go, or --proof and what goes"),
        (("revoke", "alice", "read", "--proof", "x"), "name the rights that go, or --proof and what goes"),
        (("revoke", "alice", "read", "--on", "x"), "alice was not granted read on x"),
        (("revoke", "alice", "--proof", "x"), "has no token, access key or certificate 'x'"),
        (("add", "alice", "--no-password"), "there is a user alice already"),
        (("add", "a b", "--no-password"), "white space"),
        (("add", "bob", "--password-file", "/nowhere"), "/nowhere: No such file or directory"),
        (("passwd", "bob"), "there is no user 'bob'"),
        (("key", "bob"), "there is no user 'bob'"),
        (("remove", "bob"), "there is no user 'bob'"),
    ],
)
def test_what_cannot_be_is_told_in_one_line_and_changes_nothing(keep: Kept, words: tuple[str, ...], why: str) -> None:
    keep("add", "alice", "--no-password")
    before = keep.path.read_bytes()
    _, told = keep(*words, code=2)
    assert why in told
    assert told.startswith(f"penstock user {words[0]}: ")
    assert told.count("\n") == 1
    assert keep.path.read_bytes() == before


@pytest.mark.parametrize("content", [b"\xff\n", b"\n", b"x" * 1025, b"a\x07b\n", b"a\nb\n"])
def test_what_is_no_password_is_refused_and_not_shown(keep: Kept, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "password").write_bytes(content)
    _, told = keep("add", "alice", "--password-file", str(tmp_path / "password"), code=2)
    assert told.count("\n") == 1
    assert "a\x07b" not in told
    assert not keep.path.exists()


def test_a_second_line_on_standard_input_is_no_password_either(keep: Kept) -> None:
    _, told = keep("add", "alice", "--password-file", "-", stdin=f"{PASSWORD}\nmore\n", code=2)
    assert told == "penstock user add: standard input is to hold one line, a password or a token, and has more\n"
    assert not keep.path.exists()


def test_a_file_is_found_at_home_as_the_broker_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PENSTOCK_USERS_FILE", "~/u.toml")
    monkeypatch.chdir(tmp_path)
    for words in (("add", "bob", "--no-password"), ("key", "bob", "--key-file", "~/k")):
        assert CliRunner().invoke(app, ["user", *words]).exit_code == 0
    assert resolve({}, {"PENSTOCK_USERS_FILE": "~/u.toml"}).config.users_file == str(tmp_path / "u.toml")
    assert len(read_users(tmp_path / "u.toml")) == 1
    assert sorted(each.name for each in tmp_path.iterdir()) == [".u.toml.lock", "k", "u.toml"]


@pytest.mark.parametrize(
    "words", [("grant", "bob", "monitor"), ("key", "bob"), ("list",), ("add", "ann", "--no-password")]
)
def test_a_file_of_another_user_is_left_alone_and_what_to_do_is_said(
    keep: Kept, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    keep.has_bob()
    keep.path.with_name(f".{keep.path.name}.lock").unlink()
    monkeypatch.setattr(os, "geteuid", lambda: 1_000_001)
    monkeypatch.setattr(os, "fstat", owned_by(os.fstat, 1_000_002))
    _, told = keep(*words, code=2)
    assert "belongs to the user with number 1000002, not to this one (1000001)" in told
    assert "`sudo setpriv --reuid 1000002 --regid 1000002 --clear-groups penstock user ...`" in told
    assert [each.name for each in keep.path.parent.iterdir()] == [keep.path.name]


def owned_by(real: Callable[[int], os.stat_result], user: int) -> Callable[[int], os.stat_result]:
    def fstat(file: int) -> os.stat_result:
        facts = list(real(file))
        facts[4] = user
        return os.stat_result(facts)

    return fstat
