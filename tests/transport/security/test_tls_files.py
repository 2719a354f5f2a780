"""Files of TLS that are wrong: the error names the one that is to blame, what is wrong with it, and what to do."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from transport.broker.certificates import Certificates as OfBroker
from transport.config.config import BrokerConfig
from transport.errors import LocalProtocolError
from transport.security.access import Tls
from transport.security.tls_files import MAX_PEM_BYTES, authorities_failed

if TYPE_CHECKING:
    from tests.transport.certificates import Certificates


def broker(certificate: str, key: str | None = None, ca: str | None = None) -> str:
    with pytest.raises(LocalProtocolError) as caught:
        OfBroker(BrokerConfig(tls_certificate=certificate, tls_key=key, tls_client_ca=ca)).open()
    return str(caught.value)


def client(certificate: str, key: str | None = None, ca: str | None = None) -> str:
    with pytest.raises(LocalProtocolError) as caught:
        Tls(ca, certificate, key).context()
    return str(caught.value)


@pytest.mark.parametrize(
    ("why", "setting"), [(broker, "--tls-key (tls_key)"), (client, "tls_key")], ids=["a broker", "a client"]
)
def test_the_file_that_is_to_blame_is_named(
    why: Callable[..., str], setting: str, certificates: Certificates, tmp_path: Path
) -> None:
    own, other, missing = certificates.server, certificates.elsewhere, str(tmp_path / "missing")
    assert why(own.certificate) == (
        f"TLS cannot be set up with {own.certificate}: {own.certificate} has no key in it: give {setting}, the file that has it"
    )
    assert why(own.key).endswith(f": {own.key} has no certificate in it")
    assert why(missing, own.key).endswith(f": {missing}: No such file or directory")
    assert why(own.certificate, missing).endswith(f": {missing}: No such file or directory")
    assert why(own.certificate, own.certificate).endswith(f": {own.certificate} has no key in it")
    assert why(str(tmp_path)).endswith(f": {tmp_path}: Is a directory")
    assert why(own.certificate, other.key) == (
        f"TLS cannot be set up with {own.certificate}, {other.key}: the key is not the certificate's: "
        "name the two that were made together"
    )
    ca = why(own.certificate, own.key, own.key)
    assert ca == f"TLS cannot be set up with {own.key}: {own.key} has no certificate in it"
    assert why(own.certificate, own.key, missing).endswith(f"{missing}: No such file or directory")


def test_what_can_be_read_once_is_not_read_again_to_see_what_was_wrong(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)
    try:
        assert str(authorities_failed(str(pipe), OSError("broken"))) == f"TLS cannot be set up with {pipe}: broken"
    finally:
        os.close(writer)


@pytest.mark.parametrize("why", [broker, client], ids=["a broker", "a client"])
def test_of_a_file_that_is_too_large_to_be_a_certificate_not_all_is_read(
    why: Callable[..., str], certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = tmp_path / "large"
    with large.open("wb") as opened:
        opened.truncate(MAX_PEM_BYTES + 1)
    assert why(str(large), certificates.server.key).endswith(
        f": {large} has more than {MAX_PEM_BYTES} bytes: it is no file of a certificate"
    )


def test_a_pipe_in_the_place_of_a_brokers_file_is_refused_and_not_waited_for(
    certificates: Certificates, tmp_path: Path
) -> None:
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    own = certificates.server
    for files in ((pipe, own.key), (own.certificate, pipe), (own.certificate, own.key, pipe)):
        assert broker(*files) == f"TLS cannot be set up with {pipe}: {pipe}: it is no regular file"
