"""What other machines can reach is refused without users and TLS, before anything is bound, and the refusal says what to do."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.transport.line_protocol import echo_listener
from transport import Broker, BrokerConfig
from transport.config.exposure import check_listener
from transport.config.settings_file import SettingsError
from transport.config.settings_sources import resolve
from transport.errors import LocalProtocolError
from transport.security.users import User, Users
from transport.security.users_file import change_users
from transport.wire.address import Address

if TYPE_CHECKING:
    from tests.transport.certificates import Certificates

EVERYWHERE = Address("0.0.0.0", 9182)
HERE = Address("127.0.0.1", 9182)


def why(config: BrokerConfig, address: Address = EVERYWHERE, *, protected: bool = True) -> str:
    try:
        check_listener("listener x", address, config, protected=protected)
    except LocalProtocolError as error:
        return str(error)
    return ""


def test_users_and_tls_are_both_needed_and_the_text_has_the_commands_that_mend_it() -> None:
    add, certificate = "`penstock user add NAME --users-file FILE` and --users-file FILE", "--tls-certificate FILE"
    neither = why(BrokerConfig())
    assert neither.startswith("listener x 0.0.0.0:9182 can be reached from other machines")
    assert "no users and no TLS" in neither
    assert [part in neither for part in (add, certificate, "--insecure")] == [True] * 3
    no_tls = why(BrokerConfig(users_file="u"))
    assert ("no users" in no_tls, add in no_tls, certificate in no_tls) == (False, False, True)
    no_users = why(BrokerConfig(tls_certificate="c"))
    assert ("no TLS" in no_users, add in no_users, certificate in no_users) == (False, True, False)
    assert why(BrokerConfig(users_file="u", tls_certificate="c")) == ""


def test_this_machines_own_address_is_allowed_and_every_one_if_the_broker_is_insecure() -> None:
    assert why(BrokerConfig(), HERE) == why(BrokerConfig(), HERE, protected=False) == ""
    assert why(BrokerConfig(insecure=True)) == why(BrokerConfig(insecure=True), protected=False) == ""


def test_a_protocol_that_asks_nobody_stays_on_this_machine_whatever_users_and_certificates_there_are() -> None:
    said = why(BrokerConfig(users_file="u", tls_certificate="c"), protected=False)
    assert "its protocol asks nobody who they are" in said
    assert "--insecure" in said


def test_plain_amqp_elsewhere_says_what_can_be_read_and_where_it_cannot() -> None:
    with pytest.raises(SettingsError) as caught:
        resolve({"amqp": "0.0.0.0:1", "users_file": "u", "tls_certificate": "c"}, {})
    (problem,) = caught.value.problems
    assert "passwords can be read on their way there: use --amqps, listen on this machine alone" in problem


def test_amqp_under_tls_without_a_certificate_is_refused_and_not_spoken_in_plain() -> None:
    with pytest.raises(SettingsError) as caught:
        resolve({"amqps": "127.0.0.1:1"}, {})
    (problem,) = caught.value.problems
    assert problem.startswith("--amqps: amqps speaks TLS, which takes tls_certificate")


@pytest.mark.parametrize("address", ["send_address", "receive_address"])
def test_it_is_an_error_of_the_settings_with_its_origin(address: str) -> None:
    flag = f"--{address.replace('_', '-')}"
    with pytest.raises(SettingsError) as caught:
        resolve({address: "0.0.0.0:1"}, {})
    (problem,) = caught.value.problems
    assert problem.startswith(f"{flag}: {address} 0.0.0.0:1 can be reached from other machines")
    assert resolve({address: "0.0.0.0:1", "insecure": "true"}, {}).config.insecure


@pytest.mark.parametrize("own", [False, True])
def test_a_broker_in_a_program_is_refused_before_anything_is_bound(run: Any, own: bool) -> None:
    everywhere = "0.0.0.0:0"

    async def main() -> None:
        if own:
            broker = Broker(listeners=[echo_listener(everywhere)])
        else:
            broker = Broker(BrokerConfig(send_address="127.0.0.1:0", receive_address=everywhere))
        with pytest.raises(LocalProtocolError, match="can be reached from other machines"):
            await broker.__aenter__()
        with pytest.raises(LookupError):
            broker.addresses("echo" if own else "send")

    run(main)


def test_with_users_and_tls_every_address_is_allowed_and_nothing_is_warned_of(
    run: Any, serve: Any, certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    change_users(tmp_path / "users.toml", lambda _: Users([User("alice")]))
    server = certificates.server

    async def main() -> None:
        async with serve(
            send_address="0.0.0.0:0",
            users_file=str(tmp_path / "users.toml"),
            tls_certificate=server.certificate,
            tls_key=server.key,
        ) as broker:
            assert broker.send_address.startswith("0.0.0.0:")

    with caplog.at_level(logging.WARNING):
        run(main)
    assert caplog.messages == []


def test_without_tls_an_insecure_broker_with_users_says_that_it_can_be_read_on_the_way(
    run: Any, serve: Any, until: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    change_users(tmp_path / "users.toml", lambda _: Users([User("alice")]))

    async def main() -> None:
        async with serve(send_address="0.0.0.0:0", users_file=str(tmp_path / "users.toml"), insecure=True):
            await until(lambda: caplog.messages)

    with caplog.at_level(logging.WARNING):
        run(main)
    (said,) = caplog.messages
    assert "can be read on its way" in said


def test_a_name_that_turns_out_to_stand_for_another_machine_is_refused(
    run: Any, serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        broker = serve(send_address="localhost:0")
        listener = broker._listeners[0]
        monkeypatch.setattr(type(listener), "addresses", (Address("192.0.2.1", 9182),))
        with pytest.raises(LocalProtocolError, match=r"192\.0\.2\.1:9182 can be reached from other machines"):
            await broker.__aenter__()
        assert listener._listening is None

    run(main)
