"""A broker of ours as RabbitMQ is when it is new: its user is ``guest``, who may do everything."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from typer.testing import CliRunner

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
