"""Contexts: what is kept of a broker, what goes before what, and that two who change the file lose nothing."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from transport.cli._access import ACCESS, take_access
from transport.cli._contexts import (
    MAX_CONTEXTS,
    MAX_FILE_BYTES,
    ContextError,
    Contexts,
    change_contexts,
    contexts_file,
    read_contexts,
)
from transport.cli.app import app
from transport.security.access_sources import VARIABLES


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration folder of the test's own, and an environment that says nothing."""
    for variable in (*VARIABLES.values(), "PENSTOCK_CONTEXT"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, prog_name="penstock", env={"NO_COLOR": "1", "TERM": "dumb"})


def add(*arguments: str) -> None:
    result = invoke("context", "add", *arguments)
    assert result.exit_code == 0, result.stderr


def refused(*arguments: str) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    return str(line)


def taken(receiving: bool = False, **said: Any) -> tuple[str, Any]:
    """The address and the access that a verb goes by, which is told ``said``."""
    given: dict[str, Any] = {"address": None, **dict.fromkeys(ACCESS), **said}
    access = take_access("stats", given, receiving=receiving)
    return given["address"], access


# What is kept


@pytest.mark.parametrize(
    ("options", "sending", "receiving"),
    [
        ([], "127.0.0.1:9182", "127.0.0.1:9183"),
        (["--address", "broker.example"], "broker.example:9182", "broker.example:9183"),
        (["--send-address", "broker.example:7000"], "broker.example:7000", "broker.example:7001"),
        (["--address", "a:1", "--receive-address", "b:2"], "a:1", "b:2"),
        (["--address", "[::1]"], "[::1]:9182", "[::1]:9183"),
        (["--address", "a,b:7000, [::1]"], "a:9182,b:7000,[::1]:9182", "a:9183,b:7001,[::1]:9183"),
        (["--address", "a:1,b:1", "--receive-address", "a:5,b:6"], "a:1,b:1", "a:5,b:6"),
        (["--address", "[::1]:7000"], "[::1]:7000", "[::1]:7001"),
    ],
)
def test_a_context_has_both_addresses_of_its_broker(options: list[str], sending: str, receiving: str) -> None:
    add("one", *options)
    assert taken(context="one")[0] == sending
    assert taken(receiving=True, context="one")[0] == receiving


def test_the_file_is_its_owners_and_names_files_as_they_are_from_everywhere(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "secret").write_text("a long password\n")
    monkeypatch.chdir(home)
    add("prod", "--user", "ann", "--password-file", "secret", "--tls-server-name", "broker")
    file = contexts_file()
    assert file == home / "config" / "penstock" / "contexts.toml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert "long password" not in file.read_text()
    monkeypatch.chdir("/")
    _, access = taken(context="prod")
    assert (access.user, access.password, access.tls.server_name) == ("ann", "a long password", "broker")


def test_contexts_are_listed_shown_used_replaced_and_removed() -> None:
    add("prod", "--address", "prod.example", "--tls")
    add("test", "--address", "test.example", "--use")
    listed = invoke("context", "list").stdout
    assert "* test" in " ".join(listed.split())
    assert '"send_address": "prod.example:9182"' in invoke("context", "show", "prod", "--json").stdout
    assert "test.example:9183" in invoke("context", "show").stdout
    assert "there is a context prod already" in refused("context", "add", "prod")
    add("prod", "--address", "new.example", "--replace")
    assert taken(context="prod")[0] == "new.example:9182"
    assert invoke("context", "remove", "test").exit_code == 0
    assert read_contexts(contexts_file()).current is None
    assert "no context counts" in refused("context", "show")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["context", "use", "nix"], "there is no context nix: there are prod"),
        (["context", "remove", "prod", "nix"], "there is no context nix: there are prod"),
        (["stats", "--context", "nix"], "penstock stats: there is no context nix: there are prod"),
        (["context", "use"], "give the name of a context, or --none"),
        (["context", "add", "two words"], "the context name 'two words' is not"),
        (["context", "add", "x", "--address", "a:b:c"], "write an IPv6 host in brackets"),
        (["context", "add", "x", "--address", "a:1,,b:1"], "has an empty place between its commas"),
        (["context", "add", "x", "--address", "a:1,b:65535"], "there is no port after 65535: give --receive-address"),
        (["context", "add", "x", "--address", "a:65535"], "there is no port after 65535: give --receive-address"),
        (["context", "add", "x", "--password-file", "f"], "--password-file needs the --user"),
        (["context", "add", "x", "--user", "a", "--password-file", "-"], "cannot be standard input"),
        (["context", "add", "x", "--no-tls", "--tls-ca", "f"], "--no-tls and options of TLS exclude"),
        (["context", "add", "x", "--user", "a", "--token-file", "f"], "leave --user out"),
    ],
)
def test_what_cannot_be_is_one_line_and_changes_nothing(arguments: list[str], complaint: str) -> None:
    add("prod")
    before = contexts_file().read_bytes()
    assert complaint in refused(*arguments)
    assert contexts_file().read_bytes() == before


# What goes before what


@pytest.mark.parametrize(
    ("option", "variable", "context", "user"),
    [
        ("option", "variable", "context", "option"),
        (None, "variable", "context", "variable"),
        (None, None, "context", "context"),
        (None, None, None, None),
        ("option", None, "context", "option"),
        ("option", "variable", None, "option"),
    ],
)
def test_an_option_goes_before_the_environment_and_that_before_a_context(
    option: str | None,
    variable: str | None,
    context: str | None,
    user: str | None,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secrets = {name: home / name for name in ("option", "variable", "context")}
    for name, file in secrets.items():
        file.write_text(f"password of {name}\n")
    if context:
        add("prod", "--address", "prod.example", "--user", context, "--password-file", str(secrets[context]))
    if variable:
        monkeypatch.setenv("PENSTOCK_USER", variable)
        monkeypatch.setenv("PENSTOCK_PASSWORD_FILE", str(secrets[variable]))
    said = {"user": option, "password_file": option and str(secrets[option])}
    _, access = taken(context="prod" if context else None, **said)
    assert access.user == user
    assert access.password == (user and f"password of {user}")


@pytest.mark.parametrize(
    ("option", "variable", "in_use", "address"),
    [
        ("one", "two", "three", "one.example:9182"),
        (None, "two", "three", "two.example:9182"),
        (None, None, "three", "three.example:9182"),
        (None, "", "three", "three.example:9182"),
        (None, None, None, "127.0.0.1:9182"),
    ],
)
def test_a_context_is_named_by_an_option_the_environment_or_its_use(
    option: str | None, variable: str | None, in_use: str | None, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two", "three"):
        add(name, "--address", f"{name}.example")
    if variable is not None:
        monkeypatch.setenv("PENSTOCK_CONTEXT", variable)
    if in_use:
        assert invoke("context", "use", in_use).exit_code == 0
    assert taken(context=option)[0] == address


def test_an_address_goes_before_a_context_and_one_that_is_only_in_use_then_says_nothing(home: Path) -> None:
    (home / "secret").write_text("a long password\n")
    add("prod", "--address", "prod.example", "--user", "ann", "--password-file", str(home / "secret"), "--use")
    address, access = taken(address="other.example:9182")
    assert (address, access.user, access.password) == ("other.example:9182", None, None)
    address, access = taken(address="other.example:9182", context="prod")
    assert (address, access.user, access.password) == ("other.example:9182", "ann", "a long password")


@pytest.mark.parametrize("verb", [["send", "--queue", "q"], ["receive", "--queue", "q"], ["queue", "list"], ["stats"]])
def test_every_verb_that_connects_takes_a_context(verb: list[str]) -> None:
    add("prod")
    assert "there is no context nix: there are prod" in refused(*verb, "--context", "nix")


# The file


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("current = 3", "current is the name of a context"),
        ("contexts = 3", "contexts are tables"),
        ("[contexts.prod]\nsend_address = 'a:1'", "receive_address is missing"),
        ("[contexts.prod]\nsend_address = 'a'\nreceive_address = 'b:2'", "is not host:port"),
        ("[contexts.prod]\nsend_address = 'a:1'\nreceive_address = 'b:2'\npassword = 'x'", "password is a secret"),
        ("[contexts.prod]\nsend_address = 'a:1'\nreceive_address = 'b:2'\ntls = 'yes'", "not true or false"),
        ("[contexts.prod", "contexts.toml:"),
        ("a = " + "[" * 100_000, "contexts.toml:"),
        (f"# {'x' * MAX_FILE_BYTES}", f"has more than {MAX_FILE_BYTES} bytes"),
    ],
)
def test_a_file_that_cannot_be_is_refused_with_its_name(content: str, complaint: str) -> None:
    file = contexts_file()
    file.parent.mkdir(parents=True)
    file.write_text(content)
    file.chmod(0o600)
    line = refused("stats")
    assert complaint in line
    assert str(file) in line


def test_a_file_that_others_can_change_is_refused() -> None:
    add("prod")
    contexts_file().chmod(0o620)
    assert "can be changed by others" in refused("stats")


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_no_file_in_its_place_is_refused_and_stays(kind: str) -> None:
    file = contexts_file()
    file.parent.mkdir(parents=True)
    if kind == "folder":
        file.mkdir(mode=0o700)
    else:
        os.mkfifo(file, 0o600)
    assert "is no file" in refused("stats")
    assert "is no file" in refused("context", "add", "prod")
    assert not file.is_file()


def test_a_link_stays_and_what_it_leads_to_is_changed(home: Path) -> None:
    file, kept = contexts_file(), home / "kept.toml"
    file.parent.mkdir(parents=True)
    file.symlink_to(kept)
    add("prod")
    add("test")
    assert file.is_symlink()
    assert set(read_contexts(kept).by_name) == {"prod", "test"}


@pytest.mark.parametrize("options", [["--user", "\udcff"], ["--tls-server-name", "a\udcff"], ["--address", "h\udcff"]])
def test_a_text_that_is_not_utf_8_is_refused_and_nothing_changes(options: list[str]) -> None:
    add("prod")
    before = contexts_file().read_bytes()
    assert "UTF-8" in refused("context", "add", "test", *options)
    assert contexts_file().read_bytes() == before


def test_more_contexts_than_there_may_be_are_refused_and_the_file_stays() -> None:
    def fill(contexts: Contexts) -> None:
        for number in range(MAX_CONTEXTS):
            contexts.by_name[f"c{number}"] = {"send_address": "a:1", "receive_address": "a:2"}

    change_contexts(contexts_file(), fill)
    assert f"{MAX_CONTEXTS} are the most" in refused("context", "add", "one-more")
    assert len(read_contexts(contexts_file()).by_name) == MAX_CONTEXTS


def test_what_a_later_version_has_written_stays() -> None:
    file = contexts_file()
    file.parent.mkdir(parents=True)
    file.write_text(
        "colour = true\n[contexts.'a.b']\nsend_address = 'a:1'\nreceive_address = 'a:2'\nwords = ['x\"y', '\\']\n[later]\nn = 1\n"
    )
    file.chmod(0o600)
    add("prod")
    contexts = read_contexts(file)
    assert contexts.others == {"colour": True, "later": {"n": 1}}
    assert contexts.by_name["a.b"]["words"] == ['x"y', "\\"]


def test_writers_at_the_same_time_lose_nothing() -> None:
    names = [f"writer-{number}" for number in range(24)]
    ready = threading.Barrier(len(names))

    def write(name: str) -> None:
        def change(contexts: Contexts) -> None:
            contexts.by_name[name] = {"send_address": "a:1", "receive_address": "a:2"}

        ready.wait(30)
        change_contexts(contexts_file(), change)

    threads = [threading.Thread(target=write, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert set(read_contexts(contexts_file()).by_name) == set(names)


def test_a_change_that_fails_leaves_the_file_as_it_is() -> None:
    add("prod")
    before = contexts_file().read_bytes()

    def change(contexts: Contexts) -> None:
        contexts.by_name.clear()
        raise ContextError("not now")

    with pytest.raises(ContextError, match="not now"):
        change_contexts(contexts_file(), change)
    assert contexts_file().read_bytes() == before


def test_no_context_can_be_read_where_nobody_named_one_is_no_error(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "config").write_text("a file where the folder is meant")
    assert taken()[0] == "127.0.0.1:9182"
    with pytest.raises(typer.Exit):
        taken(context="prod")
