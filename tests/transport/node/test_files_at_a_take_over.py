"""A node that comes to lead goes on with the users and certificates that were good last, where their files cannot be read then."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.transport.node.nodes import cluster
from transport.broker.broker import Broker
from transport.broker.last_good import LastGood
from transport.broker.unhurried import Unhurried
from transport.config.config import BrokerConfig
from transport.config.settings_sources import Resolved
from transport.errors import LocalProtocolError

if TYPE_CHECKING:
    from tests.transport.certificates import Certificates

USERS = 'version = 1\n[users.{name}]\nrights = ["monitor"]\n'


def users_file(folder: Path, name: str = "ann") -> Path:
    file = folder / "users.toml"
    file.write_text(USERS.format(name=name))
    file.chmod(0o600)
    return file


def names(broker: Broker | None) -> set[str]:
    assert broker is not None
    users = broker._entrance.users
    assert users is not None
    return {user.name for user in users}


def garble(file: Path) -> None:
    file.write_text("this is [no users file\n")


def show_to_all(file: Path) -> None:
    file.chmod(0o644)


@pytest.mark.parametrize("spoil", [garble, show_to_all, Path.unlink])
def test_a_node_whose_users_file_is_broken_when_it_takes_over_leads_with_the_users_that_were_read_last(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, spoil: Callable[[Path], Any]
) -> None:
    users = users_file(tmp_path)

    async def body() -> None:
        async with cluster(tmp_path, users_file=str(users), insecure=True) as nodes:
            former = await nodes.leader()
            users_file(tmp_path, "bea")
            for name, node in nodes.running.items():
                if name != former:
                    await (await node.reloads()).reload({}, Resolved(nodes.config(name), (), ()))
            spoil(users)
            await nodes.stop(former)
            node = nodes.running[await nodes.leader()]
            assert names(node.service.broker) == {"bea"}
            assert not node._ended.done()

    with caplog.at_level(logging.ERROR):
        asyncio.run(body())
    assert "users: not read again, and as before: " in caplog.text


def test_a_node_takes_in_a_good_users_file_when_it_takes_over(tmp_path: Path) -> None:
    users = users_file(tmp_path)

    async def body() -> None:
        async with cluster(tmp_path, users_file=str(users), insecure=True) as nodes:
            former = await nodes.leader()
            users_file(tmp_path, "bea")
            await nodes.stop(former)
            assert names(nodes.running[await nodes.leader()].service.broker) == {"bea"}

    asyncio.run(body())


def test_a_node_that_starts_with_a_broken_users_file_does_not_start(tmp_path: Path) -> None:
    garble(users_file(tmp_path))

    async def body() -> None:
        with pytest.raises(LocalProtocolError, match="users_file: "):
            async with cluster(tmp_path, users_file=str(tmp_path / "users.toml"), insecure=True):
                pytest.fail("it stands")

    asyncio.run(body())


def test_the_next_broker_of_a_node_goes_on_with_the_certificates_of_the_one_before(
    tmp_path: Path, certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    from transport.broker.leadership import Leadership

    certificate = tmp_path / "certificate.pem"
    certificate.write_bytes(Path(certificates.server.certificate).read_bytes())
    free = "127.0.0.1:0"
    config = BrokerConfig(free, free, tls_certificate=str(certificate), tls_key=certificates.server.key)

    async def body() -> None:
        first = Leadership()
        async with Broker(config, leadership=first) as broker:
            await broker.reload_certificates()
            kept = broker._certificates.context
            assert kept is not None
        certificate.write_text("none")
        async with Broker(config, leadership=Leadership(files=first.files)) as broker:
            assert broker._certificates.context is kept
        with pytest.raises(LocalProtocolError, match="TLS cannot be set up"):
            async with Broker(config, leadership=Leadership()):
                pytest.fail("it stands")

    with caplog.at_level(logging.ERROR):
        asyncio.run(body())
    assert "certificates: not read again, and as before: " in caplog.text


def test_a_file_that_never_ends_keeps_nobody_who_has_read_it_before(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    from transport.broker import last_good

    monkeypatch.setattr(last_good, "TAKE_OVER_READ_SECONDS", 0.05)
    stuck, answers = threading.Event(), [True, False]

    def read() -> str:
        return "good" if answers.pop(0) else str(stuck.wait())

    async def body() -> None:
        file: Unhurried[str] = Unhurried(read, LocalProtocolError)
        kept: LastGood[str] = LastGood("users")
        assert await kept.read(file) == "good"
        assert await kept.read(file) == "good"
        stuck.set()

    asyncio.run(body())
    assert not answers
