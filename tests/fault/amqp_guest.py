"""A broker of ours as RabbitMQ is when it is new: its user is ``guest``, who may do everything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from typer.testing import CliRunner

from benchmarks._rabbitmq_server import RabbitServer
from tests.transport.gateways.amqp.conftest import AmqpBroker
from transport.cli.app import app

GUEST: Final = "guest"
"""The user, and its password."""


class GuestBroker(AmqpBroker):
    """One; as RabbitMQ it looks at who says that they wrote a message.

    Args:
        folder: where its files are; it is made.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        users = folder / "users.toml"
        for words, said in (
            (("add", GUEST, "--password-file", "-"), GUEST + "\n"),
            (("grant", GUEST, "read", "write", "configure", "--on", "*"), None),
        ):
            done = CliRunner().invoke(app, ["user", *words, "--users-file", str(users)], input=said)
            if done.exit_code:
                raise RuntimeError(f"penstock user {words[0]}: {done.output}")
        super().__init__("--http", "none", "--users-file", str(users), "--data", str(folder / "data"))


@contextmanager
def beside_rabbitmq(folder: Path) -> Iterator[tuple[RabbitServer, GuestBroker]]:
    """A RabbitMQ and one of ours, both new, with their files in ``folder``; what is left in ours at the end is looked at."""
    with RabbitServer(folder / "rabbitmq") as rabbit, GuestBroker(folder / "ours") as broker, broker.drained():
        yield rabbit, broker
