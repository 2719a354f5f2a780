"""How a verb is told who it is, and how it knows the broker: each verb that connects, by scripted brokers and by what is refused before."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner, Result

from tests.transport.proving_peers import PASSWORD, USER, hear_it_go, prove, proved
from tests.transport.scripted_peers import Peer, Play
from transport.broker.authentication import REQUIRED
from transport.cli import _access
from transport.cli._access import ACCESS
from transport.cli.app import app
from transport.security.proofs import make_token
from transport.wire.messages import Error, Hello

if TYPE_CHECKING:
    from tests.transport.certificates import Certificates

TOKEN = make_token()
CONNECTING = [
    ["send", "--queue", "q"],
    ["receive", "--queue", "q"],
    ["stats"],
    ["queue", "list"],
    ["queue", "create", "q"],
    ["queue", "delete", "q"],
    ["queue", "purge", "q"],
    ["subscription", "list"],
    ["subscription", "release", "q", "s"],
    ["subscription", "delete", "q", "s"],
    ["transaction", "list"],
    ["transaction", "abort", "w", "1"],
]
"""Every verb that connects."""

Invoke = Callable[..., Result]


@pytest.fixture
def invoke() -> Invoke:
    def invoked(*words: str, stdin: str = "", **environment: str) -> Result:
        plain = {"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"}
        result = CliRunner().invoke(app, list(words), input=stdin, env=plain | environment)
        assert PASSWORD not in result.output + result.stderr
        assert TOKEN not in result.output + result.stderr
        return result

    return invoked


@pytest.fixture
def password_file(tmp_path: Path) -> str:
    path = tmp_path / "password"
    path.touch(mode=0o600)
    path.write_text(f"{PASSWORD}\n")
    return str(path)


@pytest.fixture
def token_file(tmp_path: Path) -> str:
    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_text(f"{TOKEN}\n")
    return str(path)


@pytest.mark.parametrize("words", CONNECTING, ids=" ".join)
def test_every_verb_that_connects_takes_the_same_options(words: list[str], invoke: Invoke) -> None:
    verb = words[: 1 if words[0] in {"send", "receive", "stats"} else 2]
    shown = invoke(*verb, "--help").output
    assert "Access" in shown
    assert all(f"--{name.replace('_', '-')} " in shown for name in ACCESS)


@pytest.mark.parametrize("words", CONNECTING[:5], ids=" ".join)
def test_verbs_of_every_kind_prove_who_they_are(words: list[str], play: Play, password_file: str) -> None:
    hellos: list[Hello] = []

    def script(peer: Peer) -> None:
        assert prove(peer, hellos=hellos) == USER
        peer.send(Error("forbidden", "ann may not do this", close=True))
        hear_it_go(peer)

    address = play(script).address
    access = ["--address", address, "--user", USER, "--password-file", password_file]
    # A process of its own: one of the verbs writes to the standard output itself.
    done = subprocess.run(
        [sys.executable, "-m", "transport.cli", *words, *access],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "the broker answered forbidden: ann may not do this; `penstock user grant` gives a right" in done.stderr
    assert len(hellos) == 1


def test_a_token_comes_from_a_file_and_goes_over_the_environments_user(
    invoke: Invoke, play: Play, token_file: str
) -> None:
    hellos: list[Hello] = []

    def script(peer: Peer) -> None:
        hellos.append(peer.read(Hello))
        peer.send(Error("authentication-failed", "no", close=True))
        hear_it_go(peer)

    words = ("queue", "purge", "q", "--address", play(script).address, "--token-file", token_file)
    result = invoke(*words, PENSTOCK_USER="bob", PENSTOCK_PASSWORD=PASSWORD)
    assert (result.exit_code, hellos[0].options) == (1, {"token": TOKEN, "sign_ms": 2500})
    assert "check --user and --password-file, or --token-file" in result.stderr
    assert "with --tls-certificate alone, `penstock user certificate` gives its subject to a user" in result.stderr


def test_the_environment_is_enough(invoke: Invoke, play: Play) -> None:
    address = play(proved).address
    words = ("queue", "purge", "q", "--address", address)
    result = invoke(*words, PENSTOCK_USER=USER, PENSTOCK_PASSWORD=PASSWORD)
    assert (result.exit_code, result.output) == (0, f"queue q purged of 7 messages at {address}\n")


def test_a_password_is_asked_for_where_somebody_sits(
    invoke: Invoke, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_access, "_somebody_sits_there", lambda: True)
    address = play(proved).address
    words = ("queue", "purge", "q", "--address", address, "--user", USER)
    result = invoke(*words, stdin=f"{PASSWORD}\n")
    assert result.exit_code == 0, result.stderr
    assert f"password of {USER}" in result.stderr
    assert result.stdout.endswith(f"queue q purged of 7 messages at {address}\n")


def test_tls_is_spoken_where_it_is_asked_for(invoke: Invoke, play: Play, certificates: Certificates) -> None:
    broker = play(proved, tls=certificates.server_context())
    words = ("queue", "purge", "q", "--address", broker.address, "--tls-ca", certificates.ca)
    assert invoke(*words, PENSTOCK_USER=USER, PENSTOCK_PASSWORD=PASSWORD).exit_code == 0


def test_tls_of_the_environment_can_be_turned_off(invoke: Invoke, play: Play) -> None:
    words = ("queue", "purge", "q", "--address", play(proved).address, "--no-tls")
    environment = {"PENSTOCK_TLS": "1", "PENSTOCK_TLS_CA": "missing.pem"}
    result = invoke(*words, PENSTOCK_USER=USER, PENSTOCK_PASSWORD=PASSWORD, **environment)
    assert result.exit_code == 0, result.stderr


def test_a_certificate_that_is_wrong_is_one_line(invoke: Invoke, play: Play, certificates: Certificates) -> None:
    from tests.transport.scripted_peers import refused_within_tls

    broker = play(refused_within_tls, tls=certificates.server_context(certificates.expired))
    result = invoke("stats", "--address", broker.address, "--tls-ca", certificates.ca)
    assert result.exit_code == 1
    assert result.stderr.strip() == (
        f"penstock stats: the broker at {broker.address} has not proved itself: certificate has expired"
    )


@pytest.mark.parametrize(("which", "option"), [("elsewhere", "--tls-server-name NAME"), ("untrusted", "--tls-ca FILE")])
def test_what_mends_a_certificate_that_is_wrong_is_told_as_an_option(
    invoke: Invoke, play: Play, certificates: Certificates, which: str, option: str
) -> None:
    from tests.transport.scripted_peers import refused_within_tls

    broker = play(refused_within_tls, tls=certificates.server_context(getattr(certificates, which)))
    result = invoke("stats", "--address", broker.address, "--tls-ca", certificates.ca)
    assert result.stderr.strip().endswith(f"({option})")


def test_whoever_speaks_plainly_to_tls_is_told_the_option(invoke: Invoke, play: Play) -> None:
    broker = play(lambda peer: None, again=True)
    told = "if it speaks TLS there, this client must as well (--tls); is the broker running there?"
    for patience in ("0.2", "1", "3", "10"):  # on a busy machine it may need longer until the peer closes
        result = invoke("stats", "--address", broker.address, "--connect-timeout", patience)
        if told in result.stderr:
            break
    assert told in result.stderr


def test_who_has_shown_nothing_is_told_once_and_with_every_option(invoke: Invoke, play: Play) -> None:
    def script(peer: Peer) -> None:
        peer.read(Hello)
        peer.send(Error("authentication-required", REQUIRED, close=True))
        hear_it_go(peer)

    result = invoke("stats", "--address", play(script).address)
    assert result.stderr.count("say who you are") == 1
    assert "use --user, --token-file or --tls-certificate; `penstock user add` makes a user" in result.stderr


def test_a_certificate_without_its_key_says_which_option_has_it(invoke: Invoke, certificates: Certificates) -> None:
    own = certificates.server.certificate
    result = invoke("stats", "--tls-certificate", own)
    assert result.exit_code == 2
    assert result.stderr == (
        f"penstock stats: TLS cannot be set up with {own}: {own} has no key in it: "
        "give tls_key, the file that has it (--tls-key FILE)\n"
    )


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            ["--user", "ann"],
            "the user ann has no password here, and standard input is not a terminal: give --password-file",
        ),
        (["--user", "ann", "--tls-certificate", "x"], "the user ann has no password here: leave --user out"),
        (["--user", "ann", "--password-file", "missing"], "missing: No such file or directory"),
        (["--token-file", "missing"], "missing: No such file or directory"),
        (["--user", "", "--password-file", "/dev/null"], "/dev/null is to hold one line"),
        (["--no-tls", "--tls-ca", "x"], "TLS is turned off, but files or a name for it are given"),
        (["--tls-key", "x"], "a TLS key is of no use without its certificate"),
        (["--tls-ca", "missing"], "TLS cannot be set up with missing"),
    ],
)
def test_what_cannot_be_is_wrong_usage_and_nothing_is_connected(invoke: Invoke, words: list[str], why: str) -> None:
    result = invoke("queue", "list", *words)
    assert result.exit_code == 2, result.stderr
    assert result.stderr.startswith(f"penstock queue list: {why}")


@pytest.mark.parametrize("end", ["\n", "", "\r\n"])
def test_a_password_comes_from_standard_input(invoke: Invoke, play: Play, end: str) -> None:
    address = play(proved).address
    words = ("queue", "purge", "q", "--address", address, "--user", USER, "--password-file", "-")
    assert invoke(*words, stdin=f"{PASSWORD}{end}").stdout == f"queue q purged of 7 messages at {address}\n"


def test_a_token_comes_from_standard_input(invoke: Invoke, play: Play) -> None:
    hellos: list[Hello] = []

    def script(peer: Peer) -> None:
        hellos.append(peer.read(Hello))
        peer.send(Error("authentication-failed", "no", close=True))
        hear_it_go(peer)

    invoke("queue", "purge", "q", "--address", play(script).address, "--token-file", "-", stdin=f"{TOKEN}\n")
    assert hellos[0].options == {"token": TOKEN, "sign_ms": 2500}


def test_send_takes_a_password_from_standard_input_where_its_data_is_in_a_file(play: Play, tmp_path: Path) -> None:
    def script(peer: Peer) -> None:
        assert prove(peer) == USER
        peer.send(Error("forbidden", "ann may not do this", close=True))
        hear_it_go(peer)

    (tmp_path / "data").write_text("one\n")
    words = ["send", "--queue", "q", str(tmp_path / "data"), "--address", play(script).address]
    done = subprocess.run(
        [sys.executable, "-m", "transport.cli", *words, "--user", USER, "--password-file", "-"],
        input=f"{PASSWORD}\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, "the broker answered forbidden: ann may not do this" in done.stderr) == (1, True), (
        done.stderr
    )


@pytest.mark.parametrize(
    ("words", "stdin", "why"),
    [
        (["send", "--queue", "q"], "x\n", "--password-file cannot be standard input, which is the data"),
        (["send", "--queue", "q", "-"], "x\n", "--password-file cannot be standard input, which is the data"),
        (
            ["queue", "list", "--token-file", "-"],
            "x\n",
            "--password-file and --token-file cannot both be standard input",
        ),
        (["queue", "list"], "a\nb\n", "standard input is to hold one line, a password or a token, and has more"),
        (["queue", "list"], "", "standard input is to hold one line, a password or a token, and is empty"),
        (["queue", "list"], "x" * 1025, "standard input holds more than the 1024 bytes"),
    ],
)
def test_a_standard_input_that_cannot_be_a_password_is_wrong_usage(
    invoke: Invoke, words: list[str], stdin: str, why: str
) -> None:
    result = invoke(*words, "--user", "ann", "--password-file", "-", stdin=stdin)
    assert result.exit_code == 2, result.stderr
    verb = " ".join(words[: 1 if words[0] == "send" else 2])
    assert result.stderr.startswith(f"penstock {verb}: {why}")
    assert result.stderr.count("\n") == 1
