"""What the tests of AMQP's clients have in common: a broker that is frozen, one that is killed and comes again, one with users and TLS."""

from __future__ import annotations

import signal
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pika
from cryptography import x509
from cryptography.x509.oid import NameOID
from typer.testing import CliRunner

from tests.standing_still import stand_still
from tests.transport.gateways.amqp.conftest import AmqpBroker
from transport.cli.app import app

if TYPE_CHECKING:
    from tests.transport.certificates import Certificates

SECONDS = 30
"""The deadline of every wait."""
NOTICED_SECONDS = 20
"""In which a client whose heartbeat is a second has noticed that the broker says nothing: pika gives it five more."""
MOST_SILENT_SECONDS = 10
"""In which a broker has given up a client whose heartbeat is a second, on a busy machine too: after two of them by its own clock."""
USER, PASSWORD = "ann", "correct horse"


@contextmanager
def frozen(broker: AmqpBroker) -> Iterator[None]:
    """The broker does nothing, and its connections stand."""
    stand_still(broker.process.pid)
    try:
        yield
    finally:
        broker.process.send_signal(signal.SIGCONT)


class Lasting:
    """A broker that keeps its data, at one address through its lives.

    Args:
        folder: where its data is.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self.running = AmqpBroker("--data", self._folder)
        self.port = self.running.port

    def kill(self) -> None:
        """End it, as a power cut would."""
        self.running.process.kill()
        self.running.end()
        self.running.__exit__()

    def start(self) -> None:
        """Start it again."""
        self.running = AmqpBroker("--data", self._folder, "--amqp", f"127.0.0.1:{self.port}")

    def restart(self) -> None:
        """Kill it and start it again."""
        self.kill()
        self.start()


@contextmanager
def lasting(folder: Path) -> Iterator[Lasting]:
    """A broker that can be killed and comes again."""
    broker = Lasting(folder)
    try:
        yield broker
    finally:
        broker.running.__exit__()


class Secured(AmqpBroker):
    """A broker with users, in plain and under TLS.

    Args:
        folder: where its users are.
        certificates: the authority, and the broker's certificate.

    Attributes:
        tls_port: where AMQP is spoken under TLS.
        ca: file of the authority's certificate.
        token: one of its user's, which it may show in a password's place.
    """

    def __init__(self, folder: Path, certificates: Certificates) -> None:
        self.users = folder / "users.toml"
        for words, said in (
            (("add", USER, "--password-file", "-"), PASSWORD + "\n"),
            (("certificate", USER, f"CN={USER}"), None),
            (("grant", USER, "read", "write", "configure", "--on", "*"), None),
        ):
            self._user(*words, said=said)
        self.token = self._user("token", USER).strip()
        issued = certificates.server
        tls = ("--tls-certificate", issued.certificate, "--tls-key", issued.key, "--tls-client-ca", certificates.ca)
        super().__init__("--users-file", str(self.users), *tls, "--amqps", "127.0.0.1:0")
        words = self.said.replace(",", "").split()
        self.tls_port = int(words[words.index("TLS") + 1].rpartition(":")[2])
        self.ca = certificates.ca
        self._certificates = certificates

    def _user(self, *words: str, said: str | None = None) -> str:
        """What ``penstock user`` says on standard output."""
        done = CliRunner().invoke(app, ["user", *words, "--users-file", str(self.users)], input=said)
        assert done.exit_code == 0, done.output
        return done.stdout

    def context(self, *, shown: bool = False) -> ssl.SSLContext:
        """What a client trusts it by; with the user's certificate where it is to be ``shown``."""
        context = ssl.create_default_context(cafile=self.ca)
        if shown:
            named = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, USER)])
            own = self._certificates.client(named)
            context.load_cert_chain(own.certificate, own.key)
        return context


class Guarded(AmqpBroker):
    """A broker with users and virtual hosts, in plain: ``ann`` has rights in ``shop``, ``bob`` in none, and ``root`` everywhere.

    Args:
        folder: where its users are.

    Attributes:
        administrator: options by which ``root`` comes in on the command line.
    """

    def __init__(self, folder: Path) -> None:
        users, password = folder / "users.toml", folder / "password"
        password.write_text(PASSWORD + "\n")
        password.chmod(0o600)
        self.administrator = ("--user", "root", "--password-file", str(password))
        for words in (
            ("add", "ann", "--password-file", str(password)),
            ("add", "bob", "--password-file", str(password)),
            ("add", "root", "--password-file", str(password)),
            ("grant", "ann", "read", "write", "configure", "--on", "shop/*"),
            ("grant", "bob", "monitor"),
            ("grant", "root", "read", "write", "configure", "--on", "*"),
            ("grant", "root", "administer"),
        ):
            done = CliRunner().invoke(app, ["user", *words, "--users-file", str(users)])
            assert done.exit_code == 0, done.output
        super().__init__("--users-file", str(users), "--amqp-virtual-hosts", "shop, eu=europe.")

    @contextmanager
    def connected(self, user: str, virtual_host: str, **parameters: Any) -> Iterator[pika.BlockingConnection]:
        """A connection of pika, closed when it is over if nobody has."""
        credentials = pika.PlainCredentials(user, PASSWORD)
        where = pika.ConnectionParameters(
            "127.0.0.1",
            self.port,
            virtual_host,
            credentials,
            blocked_connection_timeout=SECONDS,
            **parameters,
        )
        connection = pika.BlockingConnection(where)
        try:
            yield connection
        finally:
            if connection.is_open:
                connection.close()
