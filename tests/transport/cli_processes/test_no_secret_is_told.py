"""A broker with users and TLS, and clients with every kind of secret, right and wrong: none of it is in any output, process list or file.

Each secret is looked for as it is, in base64 and in hexadecimal, in what every process has printed, in its command line while it runs,
and in every file that any of them has written.
"""

from __future__ import annotations

import base64
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.transport.programs import COMMAND, DEADLINE, ROOT, BrokerProcess
from transport.security.users import User, Users
from transport.security.users_file import change_users, read_users
from transport.security.verifier import LEAST_ITERATIONS, Verifier

PASSWORD, NEXT, WRONG = "canary password of ann", "canary password to come", "canary password that is wrong"


class Told:
    """Everything that processes have printed, and the secrets that must not be in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.text = b""
        self.secrets: list[bytes] = []
        self.own: set[Path] = set()

    def secret(self, text: str, name: str) -> str:
        """A file with a secret, as a user has it; the file itself is not looked at."""
        self.secrets.append(text.encode())
        path = self.folder / name
        path.write_text(text + "\n")
        path.chmod(0o600)
        self.own.add(path)
        return str(path)

    def run(self, *words: str, stdin: bytes = b"", **variables: str) -> subprocess.CompletedProcess[bytes]:
        """A whole run of ``penstock``."""
        done = subprocess.run(
            [*COMMAND, *words],
            cwd=ROOT,
            input=stdin,
            capture_output=True,
            timeout=DEADLINE,
            check=False,
            env=os.environ | {"PENSTOCK_USERS_FILE": str(self.users)} | variables,
        )
        self.text += done.stdout + done.stderr
        return done

    @property
    def users(self) -> Path:
        return self.folder / "users.toml"

    def found(self) -> list[str]:
        """Where a secret is, in whatever form."""
        places = {"printed": self.text} | {
            str(path): path.read_bytes() for path in self.folder.rglob("*") if path.is_file() and path not in self.own
        }
        forms = [
            form
            for secret in self.secrets
            for form in (secret, base64.b64encode(secret).rstrip(b"=")[:-1], secret.hex().encode())
        ]
        return [f"{place}: {form!r}" for place, text in places.items() for form in forms if form in text]


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path)


@pytest.fixture
def broker(told: Told, certificates: Any) -> Iterator[BrokerProcess]:
    change_users(told.users, lambda _: Users([User("ann", Verifier.of(PASSWORD, LEAST_ITERATIONS))]))
    assert told.run("user", "grant", "ann", "monitor", "administer").returncode == 0
    assert told.run("user", "grant", "ann", "configure", "write", "read", "--on", "*").returncode == 0
    options = ("--data", str(told.folder / "data"), "--users-file", str(told.users))
    tls = ("--tls-certificate", certificates.server.certificate, "--tls-key", certificates.server.key)
    told.secrets += [line for line in Path(certificates.server.key).read_bytes().splitlines() if len(line) > 40]
    with BrokerProcess(*options, *tls, "--log-level", "debug", "--log-format", "json") as running:
        yield running


def test_no_secret_is_printed_logged_listed_or_stored(told: Told, broker: BrokerProcess, certificates: Any) -> None:
    right = ("--user", "ann", "--password-file", told.secret(PASSWORD, "right"), "--tls-ca", certificates.ca)
    wrong = ("--user", "ann", "--password-file", told.secret(WRONG, "wrong"), "--tls-ca", certificates.ca)
    sending = ("--address", broker.sending, "--queue", "orders")

    # Right ones, and a token that is made and revoked.
    assert told.run("send", *sending, *right, stdin=b"one\ntwo\n").returncode == 0
    made = told.run("user", "token", "ann", "--note", "for the test")
    told.text = told.text.removesuffix(made.stdout + made.stderr) + made.stderr
    token = ("--token-file", told.secret(made.stdout.decode().strip(), "token"), "--tls-ca", certificates.ca)
    key = told.run("user", "key", "ann")
    told.text = told.text.removesuffix(key.stdout + key.stderr) + key.stderr
    told.secrets.append(key.stdout.split()[1])
    told.own.add(told.users.with_name("users.toml.key"))
    _reload(broker, "read again: users")
    receiving = ("--address", broker.receiving, "--queue", "orders", "--count", "2")
    assert told.run("receive", *receiving, *token).stdout == b"one\ntwo\n"
    listening = subprocess.Popen(
        [*COMMAND, "receive", "--address", broker.receiving, "--queue", "orders", *right],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    for pid in (listening.pid, broker.process.pid):
        told.text += Path(f"/proc/{pid}/cmdline").read_bytes()

    # Wrong ones.
    for words in (wrong, ("--token-file", told.secret("penstock_" + "x" * 43, "nobodys"), "--tls-ca", certificates.ca)):
        refused = told.run("send", *sending, *words, stdin=b"never\n")
        assert refused.returncode == 1
        assert b"authentication-failed" in refused.stderr
    in_form = told.run("send", *sending, "--token-file", told.secret("canary that is no token", "form"))
    assert in_form.returncode == 2
    assert (
        told.run("queue", "list", "--address", broker.sending, PENSTOCK_TOKEN="canary of the environment").returncode
        == 2
    )
    told.secrets.append(b"canary of the environment")
    told.run("config", "show", PENSTOCK_PASSWORD=WRONG)

    # What is changed under a running broker: a password, a file that is wrong, a token that goes.
    told.secrets.append(NEXT.encode())
    assert told.run("user", "passwd", "ann", "--password-file", "-", stdin=NEXT.encode() + b"\n").returncode == 0
    good = told.users.read_bytes()
    told.users.write_bytes(good.replace(b'password = "SCRAM', f'password = "{WRONG}SCRAM'.encode()))
    _reload(broker, "users: not read again")
    told.run("broker", "--check", "--users-file", str(told.users), "--memory", "--send-address", "127.0.0.1:0")
    told.run("user", "list")
    told.users.write_bytes(good)
    _reload(broker, "read again: users")
    proof = next(iter(read_users(told.users))).tokens[0].name
    assert told.run("user", "revoke", "ann", "--proof", proof).returncode == 0
    told.run("user", "list", "--json")

    listening.send_signal(signal.SIGTERM)
    told.text += b"".join(listening.communicate(timeout=DEADLINE))
    broker.process.send_signal(signal.SIGTERM)
    assert broker.end() == 0
    told.text += broker.rest(broker.stderr) + SEEN.pop(broker.process.pid, b"")
    assert b"authentication" in told.text, "what is looked at has the refusals"
    assert told.found() == []


def test_a_secret_that_is_told_would_be_found(told: Told) -> None:
    told.secret("canary", "own")
    assert told.found() == []
    (told.folder / "journal").write_bytes(b"..." + base64.b64encode(b"canary"))
    told.text = b"canary".hex().encode()
    assert len(told.found()) == 2


SEEN: dict[int, bytes] = {}
"""What was read of a broker's log while it ran."""


def _reload(broker: BrokerProcess, until: str) -> None:
    """Have the users read again, and wait for the line that says what came of it."""
    broker.process.send_signal(signal.SIGHUP)
    while True:
        line = broker.line(broker.stderr)
        SEEN[broker.process.pid] = SEEN.get(broker.process.pid, b"") + line + b"\n"
        if until.encode() in line:
            return
