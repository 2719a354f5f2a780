"""What the pages show of users, TLS, logs and what is read again, typed at one broker: docs/security.md, access.md, operations.md,
configuration.md and service.md."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from streams import Source
from tests.docs.conftest import make_place, quick_commands
from tests.docs.console import END_OF_INPUT, Step, Terminal, steps, terminals
from tests.docs.typed import Shell, alike, block, end
from tests.streams.pages import DOCS, python_blocks
from transport.cli.app import app
from transport.testing import HostedBroker

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")

PASSWORD: Final = "correct horse"
HOST: Final = "broker.example"
SECURITY: Final = list(steps((DOCS / "security.md").read_text("utf-8")))
SETTINGS: Final = '[limits]\nmax_queues = {queues}\n[broker]\nlog_level = "info"\n'


def said(text: str) -> list[str]:
    return [line.rstrip() for line in alike(text) if line.strip()]


def of_page(command: str) -> Step:
    """The step of docs/security.md that begins so."""
    (found,) = [step for step in SECURITY if step.command.startswith(command)]
    return found


class Secured:
    """A broker with users and TLS, as the page starts it, and a person at a terminal beside it."""

    def __init__(self, shell: Shell, terminal: Terminal) -> None:
        self.shell = shell
        self.terminal = terminal
        self.broker: subprocess.Popen[str] | None = None

    def placed(self, text: str) -> str:
        text = self.shell.placed(text.replace("0.0.0.0:", "127.0.0.1:").replace(f"{HOST}:", "127.0.0.1:"))
        return text.replace(HOST, "127.0.0.1")

    def type(self, step: Step) -> None:
        """Type a command of the page, and the password where it is asked for; compare what is shown."""
        self.terminal.type(self.placed(step.command))
        printed = ""
        for line in step.shown:
            if line.startswith(("password", "Repeat")):
                printed += self.terminal.until_says(f"{line} ")
                self.terminal.type(PASSWORD)
        printed += self.terminal.until_ready()
        assert said(self.shell.documented(printed)) == said("\n".join(step.shown).replace(HOST, "127.0.0.1")), (
            step.command
        )

    def read_again(self) -> None:
        """Have the broker read again what it reads."""
        assert self.broker is not None
        os.kill(int((self.shell.folder / "pid").read_text()), signal.SIGHUP)

    def logs(self, shown: str) -> None:
        """Read the log until all that is shown has come, in its order."""
        assert self.broker is not None
        assert self.broker.stderr is not None
        for line in shown.splitlines():
            assert any(alike(each) == alike(line) for each in self.broker.stderr), line


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    root = tmp_path_factory.mktemp("secured")
    with quick_commands(root / "bin") as commands:
        yield from served(Shell(make_place(root / "place"), commands))


def served(shell: Shell) -> Iterator[Secured]:
    shell.run(block("docs/security.md", "umask 077"))
    (shell.folder / "penstock.toml").write_text(SETTINGS.format(queues=1000))
    with terminals(shell.folder, shell.environment) as terminal:
        session = Secured(shell, terminal["ann"])
        session.type(of_page("penstock user add ann"))
        session.type(of_page("penstock user grant ann"))
        command = session.placed(of_page("penstock broker").command)
        more = "--data data --tls-client-ca ca.pem --config penstock.toml"
        session.broker = shell.start(f"echo $$ >pid; exec {command} {more}")
        try:
            assert session.broker.stderr is not None
            assert "penstock broker: sending" in session.broker.stderr.readline()
            yield session
        finally:
            end(session.broker)
            session.broker.communicate()


def test_a_user_sends_with_a_password_that_is_asked_for(secured: Secured) -> None:
    step = of_page("penstock send --address broker.example:9182 --queue orders --user ann")
    secured.terminal.type(secured.placed(step.command))
    (asked,) = step.shown
    secured.terminal.until_says(f"{asked} ")
    secured.terminal.type(PASSWORD)
    secured.terminal.until_says("\n")
    secured.terminal.type("an order")
    secured.terminal.type(END_OF_INPUT)
    assert "1 message confirmed in queue orders" in secured.terminal.until_ready()


def test_the_program_sends_as_the_user(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(secured.shell.folder)
    monkeypatch.setenv("ANNS_PASSWORD", PASSWORD)
    names: dict[str, object] = {}
    (program,) = python_blocks((DOCS / "security.md").read_text("utf-8"))
    exec(compile(secured.placed(program), "security.md", "exec", dont_inherit=True), names)

    async def main() -> None:
        assert (await Source.of(b"an order").to(names["orders"]).run()).messages == 1  # type: ignore[arg-type]

    asyncio.run(main())


def test_a_certificate_stands_for_a_user(secured: Secured) -> None:
    (secured.shell.folder / "one.txt").write_text("order\n")
    secured.type(of_page("openssl x509"))
    for command in ("penstock user add till-7", "penstock user certificate till-7", "penstock user grant till-7"):
        secured.type(of_page(command))
    secured.read_again()
    secured.logs(block("docs/operations.md", "2026-11-23T09:15:00.250Z").splitlines()[0])
    secured.type(of_page("penstock send --address broker.example:9182 --queue orders --tls-ca"))


def test_a_token_is_made_into_a_file(secured: Secured) -> None:
    secured.shell.run("penstock user add health --no-password --users-file users.toml")
    secured.type(of_page("umask 077"))
    secured.type(of_page("penstock user token health"))
    assert (secured.shell.folder / "health.token").stat().st_mode & 0o777 == 0o600


def test_the_programs_of_access_do_what_they_say(
    secured: Secured, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = secured.shell.folder
    monkeypatch.chdir(folder)
    shutil.copy(folder / "ca.pem", folder / "company-ca.pem")
    asks, commits = python_blocks((DOCS / "access.md").read_text("utf-8"))
    asks = asks.replace('user="till-7"', 'user="ann"').replace("from a file, not from the source", PASSWORD)
    secured.shell.run(
        "penstock user grant ann monitor --users-file users.toml",
        "penstock user grant till-7 write --on till-7 --users-file users.toml",
    )
    secured.read_again()
    secured.logs("2026-11-23T09:15:00.250Z INFO penstock.audit: read again: users, certificates, log level")
    for program in (asks, commits):
        exec(compile(secured.placed(program), "access.md", "exec", dont_inherit=True), {"__name__": "__main__"})
    printed = capsys.readouterr().out.splitlines()
    assert "'name': 'orders'" in printed[0]
    assert printed[1:] == ["1 message committed"]


def test_a_context_says_where_the_broker_is_and_who_one_is(secured: Secured) -> None:
    folder = secured.shell.folder
    (folder / "orders.txt").write_text("an order\n")
    (folder / ".penstock-password").write_text(PASSWORD)
    (folder / ".penstock-password").chmod(0o600)
    added, *used = block("docs/access.md", "penstock context add prod").splitlines()
    # The ports of the page may be somebody's here; the authority is none of the system's.
    send, receive = secured.shell.addresses.values()
    added = added.replace(
        f"--address {HOST} --tls", f"--address {send} --receive-address {receive} --tls --tls-ca ca.pem"
    )
    printed, errors = secured.shell.run(added, "penstock queue purge orders --context prod", *used)
    assert any("1 message confirmed" in line for line in errors)
    assert printed[-1] == "an order"


def test_the_log_says_who_did_what_and_what_was_read_again_and_what_was_not(secured: Secured) -> None:
    folder = secured.shell.folder
    (folder / "pw").write_text(PASSWORD)
    (folder / "pw").chmod(0o600)
    users = "--users-file users.toml"
    shown = block("docs/operations.md", "2026-11-23T09:15:16.677Z INFO")
    add = [f"penstock user add {name} --password-file pw {users}" for name in ("alice", "bob")]
    secured.shell.run(*add, f"penstock user grant alice configure --on orders {users}")
    (folder / "penstock.toml").write_text(SETTINGS.format(queues=2000))
    secured.read_again()
    secured.logs(block("docs/operations.md", "2026-11-23T09:15:00.250Z"))
    there = "--tls-ca ca.pem --password-file pw"
    secured.shell.run(
        f"penstock queue create orders --user alice {there} || true",
        f"echo an order | penstock send --queue orders --user bob {there} || true",
        f"penstock subscription delete orders report --user alice {there} || true",
    )
    secured.logs(shown)
    (folder / "users.toml").chmod(0o644)
    secured.read_again()
    secured.logs(block("docs/operations.md", "2026-11-23T16:52:38.723Z ERROR"))
    (folder / "users.toml").chmod(0o600)


def test_a_broker_that_others_reach_starts_with_users_and_tls_and_logs_json(secured: Secured) -> None:
    folder = secured.shell.folder
    shutil.copy(folder / "broker.pem", folder / "broker.crt")
    added, started = block("docs/configuration.md", "penstock user add alice").splitlines()
    secured.terminal.type(added)
    for asked in ("password:", "confirmation:"):
        secured.terminal.until_says(f"{asked} ")
        secured.terminal.type(PASSWORD)
    assert "user alice added" in secured.terminal.until_ready()
    (folder / "pw").write_text(PASSWORD)
    (folder / "pw").chmod(0o600)
    other = Shell(folder, secured.shell.commands)
    other.run("penstock user grant alice configure --on orders --users-file penstock-users.toml")
    command = other.placed(started.replace("0.0.0.0:", "127.0.0.1:"))
    broker = other.start(f"exec {command} --memory --log-format json")
    try:
        assert broker.stderr is not None
        assert "penstock broker: sending" in broker.stderr.readline()
        other.run("penstock queue create orders --user alice --tls-ca ca.pem --password-file pw")
        assert alike(broker.stderr.readline()) == alike(block("docs/operations.md", '{"time"'))
    finally:
        end(broker)
        broker.communicate()


def test_the_environment_of_the_service_is_settings_that_can_be_in_force(secured: Secured) -> None:
    folder = secured.shell.folder
    lines = block("docs/service.md", "PENSTOCK_SEND_ADDRESS=").replace("/etc/penstock", str(folder)).splitlines()
    printed, _ = secured.shell.run(*(f"export {line}" for line in lines), "penstock config show")
    for line in lines:
        name, _, value = line.partition("=")
        assert any(value in each and name in each for each in printed), line


def test_a_client_that_a_broker_cuts_off_without_a_word_is_told_what_may_be_the_matter(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder: Path = secured.shell.folder
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    shown = block("docs/access.md", "penstock stats: no connection")
    tls = {"tls_certificate": str(folder / "broker.pem"), "tls_key": str(folder / "broker.key")}
    required = {"tls_client_ca": str(folder / "ca.pem"), "tls_client_certificates": "required"}
    users = {"users_file": str(folder / "users.toml")}
    with HostedBroker(**tls, **required, **users) as broker:
        words = ["stats", "--address", broker.send_address, "--tls-ca", str(folder / "ca.pem"), "--connect-timeout"]
        for patience in ("0.3", "1", "3", "10"):  # on a busy machine it may need longer to be cut off
            errors = CliRunner().invoke(app, [*words, patience], prog_name="penstock").stderr
            if alike(told := errors.replace(broker.send_address, "127.0.0.1:9282")) == alike(shown):
                break
    assert alike(told) == alike(shown)
