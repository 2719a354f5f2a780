"""An etcd that asks who one is: by TLS, or by a user and a password."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.replication.register import NOTHING, RegisterUnavailableError, SwapUnknownError
from tests.transport.certificates import Certificates
from tests.transport.cluster.etcds import Etcds, post
from tests.transport.cluster.register_contract import FIRST, after
from transport.cluster.addresses import EtcdAddress, EtcdTls
from transport.cluster.etcd import EtcdRegister
from transport.errors import LocalProtocolError
from transport.wire.address import Address

SECONDS = 5.0
"""For one endpoint to answer; the machine is shared."""


def register(address: EtcdAddress) -> EtcdRegister:
    return EtcdRegister(address, read_seconds=SECONDS, swap_seconds=SECONDS, call_seconds=3 * SECONDS)


# TLS


@pytest.fixture(scope="module")
def under_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Etcds, Certificates]]:
    """One etcd that speaks TLS, and lets in only who shows a certificate."""
    folder = tmp_path_factory.mktemp("tls")
    issued = Certificates(folder)
    query = f"?ca={issued.ca}&certificate={issued.server.certificate}&key={issued.server.key}"
    running = Etcds(folder, "a", query)
    yield running, issued
    running.close()


def test_a_register_is_reached_over_tls_with_a_certificate(under_tls: tuple[Etcds, Certificates]) -> None:
    etcds, _ = under_tls

    async def main() -> None:
        a = register(replace(etcds.machines["a"].register, name="with-certificate"))
        version = await a.swap(NOTHING, FIRST)
        assert await a.read() == (version, FIRST)

    asyncio.run(main())


def test_another_certificate_in_the_files_is_shown_once_they_are_read_again(
    under_tls: tuple[Etcds, Certificates], tmp_path: Path
) -> None:
    etcds, issued = under_tls
    (tmp_path / "other").mkdir()
    other = Certificates(tmp_path / "other")
    files = [tmp_path / "ca.pem", tmp_path / "certificate.pem", tmp_path / "key.pem"]

    def put(*sources: str) -> None:
        for file, source in zip(files, sources, strict=True):
            file.write_bytes(Path(source).read_bytes())

    async def main() -> None:
        put(other.ca, other.server.certificate, other.server.key)
        whole = replace(etcds.machines["a"].register, name="read-again")
        a = register(replace(whole, tls=EtcdTls(*map(str, files))))
        with pytest.raises(RegisterUnavailableError):
            await a.read()
        put(issued.ca, issued.server.certificate, issued.server.key)
        a.read_again()
        version = await a.swap(NOTHING, FIRST)
        # Files that cannot be used leave those that were read.
        files[1].write_text("none")
        with pytest.raises(LocalProtocolError):
            a.read_again()
        assert await a.read() == (version, FIRST)

    asyncio.run(main())


@pytest.mark.event_loop
def test_what_is_wrong_with_tls_is_told_and_nothing_was_done(
    under_tls: tuple[Etcds, Certificates], tmp_path: Path
) -> None:
    etcds, issued = under_tls
    (tmp_path / "other").mkdir()
    other = Certificates(tmp_path / "other")
    whole = replace(etcds.machines["a"].register, name="wrong")
    port = whole.endpoints[0].port
    own = EtcdTls(issued.ca, issued.server.certificate, issued.server.key)

    async def main() -> None:
        for tls, error in (
            (replace(own, ca=other.ca), "certificate verify failed"),
            (replace(own, ca=None), "certificate verify failed"),
            (None, r"127.0.0.1:\d+: "),
        ):
            a = register(replace(whole, tls=tls))
            with pytest.raises(RegisterUnavailableError, match=error):
                await a.read()
            if tls is not None:
                # It was not even sent.
                with pytest.raises(RegisterUnavailableError, match=error):
                    await a.swap(NOTHING, FIRST)
        # A name that the certificate is not for.
        named = register(replace(whole, endpoints=(Address("127.0.0.2", port),)))
        with pytest.raises(RegisterUnavailableError):
            await named.read()
        # Nobody's certificate, and one that another authority has signed.
        for tls in (EtcdTls(issued.ca), EtcdTls(issued.ca, other.server.certificate, other.server.key)):
            stranger = register(replace(whole, tls=tls))
            with pytest.raises(RegisterUnavailableError):
                await stranger.read()
            # Of TLS 1.3 a client does not know whether it was let in when it sends.
            with pytest.raises((RegisterUnavailableError, SwapUnknownError)):
                await stranger.swap(NOTHING, FIRST)
        assert await register(whole).read() == (NOTHING, None)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("tls", "error"),
    [
        (EtcdTls("/nowhere/ca.pem"), "/nowhere/ca.pem: No such file"),
        (EtcdTls(None, __file__), "has no certificate in it"),
    ],
)
def test_a_file_of_tls_that_cannot_be_used_is_told_at_once(tls: EtcdTls, error: str) -> None:
    with pytest.raises(LocalProtocolError, match=error):
        EtcdRegister(EtcdAddress("orders", (Address("127.0.0.1", 2379),), tls))


# Users

PASSWORD = "what nobody guesses"


@pytest.fixture(scope="module")
def with_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcds]:
    """One etcd with two users: root, and one who may write what is of clusters."""
    running = Etcds(tmp_path_factory.mktemp("users"), "a")
    endpoint = running.machines["a"].own.clients
    beginning = base64.b64encode(b"/penstock/").decode()
    behind = base64.b64encode(b"/penstock0").decode()
    may = {"permType": 2, "key": beginning, "range_end": behind}
    for path, fields in (
        ("user/add", {"name": "root", "password": PASSWORD}),
        ("user/grant", {"user": "root", "role": "root"}),
        ("role/add", {"name": "clusters"}),
        ("role/grant", {"name": "clusters", "perm": may}),
        ("user/add", {"name": "penstock", "password": PASSWORD}),
        ("user/grant", {"user": "penstock", "role": "clusters"}),
        ("user/add", {"name": "guest", "password": PASSWORD}),
        ("auth/enable", {}),
    ):
        where = f"/v3/auth/{path}" if not path.startswith("auth") else f"/v3/{path}"
        post(endpoint, where, fields)
    yield running
    running.close()


def as_user(etcds: Etcds, tmp_path: Path, name: str, password: str, cluster: str = "orders") -> EtcdAddress:
    file = tmp_path / f"{name}-password"
    file.write_text(f"{password}\n")
    file.chmod(0o600)
    return replace(etcds.address(cluster), user=name, password_file=str(file))


def test_who_knows_the_password_reads_and_writes(with_users: Etcds, tmp_path: Path) -> None:
    async def main() -> None:
        a = register(as_user(with_users, tmp_path, "penstock", PASSWORD))
        version = await a.swap(NOTHING, FIRST)
        assert await a.read() == (version, FIRST)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("name", "password", "error"),
    [
        ("penstock", "wrong", "authentication failed, invalid user ID or password"),
        ("nobody", PASSWORD, "authentication failed"),
        ("guest", PASSWORD, "permission denied"),
    ],
)
def test_who_may_not_is_told_so_and_nothing_was_done(
    with_users: Etcds, tmp_path: Path, name: str, password: str, error: str
) -> None:
    async def main() -> None:
        a = register(as_user(with_users, tmp_path, name, password, "refused"))
        with pytest.raises(RegisterUnavailableError, match=error):
            await a.read()
        with pytest.raises(RegisterUnavailableError, match=error):
            await a.swap(NOTHING, FIRST)
        allowed = register(as_user(with_users, tmp_path, "penstock", PASSWORD, "refused"))
        assert await allowed.read() == (NOTHING, None)

    asyncio.run(main())


def test_who_says_no_name_is_told_how_to_say_it(with_users: Etcds) -> None:
    async def main() -> None:
        with pytest.raises(
            RegisterUnavailableError, match=r"it wants a user, so say who: \?user=NAME&password-file=FILE"
        ):
            await register(with_users.address("orders")).read()

    asyncio.run(main())


def test_a_token_that_etcd_has_forgotten_is_asked_for_again(with_users: Etcds, tmp_path: Path) -> None:
    async def main() -> None:
        a = register(as_user(with_users, tmp_path, "penstock", PASSWORD, "forgotten"))
        version = await a.swap(NOTHING, FIRST)
        # A start forgets all tokens.
        etcd = with_users.by_name["a"]
        etcd.kill()
        etcd.start()
        etcd.wait_until_ready()
        later = await a.swap(version, after(FIRST, "a/1"))
        assert later > version
        # A change of users has those that were given out refused too.
        token = post(etcd.own.own.clients, "/v3/auth/authenticate", {"name": "root", "password": PASSWORD})["token"]
        post(etcd.own.own.clients, "/v3/auth/user/add", {"name": "another", "password": PASSWORD}, token)
        assert (await a.read()).version == later

    asyncio.run(main())


def test_a_user_where_etcd_knows_none_is_let_in_and_the_log_says_so(etcd: Etcds, tmp_path: Path, caplog: Any) -> None:
    async def main() -> None:
        a = register(as_user(etcd, tmp_path, "penstock", PASSWORD, "no-users"))
        version = await a.swap(NOTHING, FIRST)
        assert await a.read() == (version, FIRST)

    asyncio.run(main())
    warnings = [record.getMessage() for record in caplog.records if "knows no users" in record.getMessage()]
    assert len(warnings) == 1


@pytest.mark.parametrize(("content", "error"), [(None, "No such file"), (b"", "is empty"), (b"a\nb", "has more")])
def test_a_password_file_that_cannot_be_used_is_told_at_once(tmp_path: Path, content: bytes | None, error: str) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)
        file.chmod(0o600)
    address = EtcdAddress("orders", (Address("127.0.0.1", 2379),), None, "penstock", str(file))
    with pytest.raises(LocalProtocolError, match=error):
        EtcdRegister(address)
