"""Links are open to nobody without a secret or TLS, and what is read for them is checked as everything of that kind is."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from transport.cluster.link_settings import (
    LEAST_SECRET_BYTES,
    LinkKeys,
    LinkSettings,
    LinkTls,
    names_fit,
    read_keys,
    warning_of,
)
from transport.errors import LocalProtocolError

if TYPE_CHECKING:
    from tests.transport.certificates import Certificates

SECRET = "0123456789abcdef"


def secret_file(folder: Path, text: str = SECRET + "\n", mode: int = 0o600) -> str:
    file = folder / "secret"
    file.write_text(text)
    file.chmod(mode)
    return str(file)


def test_there_are_no_links_without_a_secret_or_tls() -> None:
    with pytest.raises(LocalProtocolError, match="none without a secret or TLS: give a file with a secret"):
        LinkSettings("127.0.0.1:9184")


def test_the_default_address_is_of_this_machine_alone() -> None:
    assert LinkSettings(secret_file="s").address == "127.0.0.1:9184"


@pytest.mark.parametrize("address", ["9184", "a:b", "127.0.0.1:70000"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(LocalProtocolError, match="is not host:port"):
        LinkSettings(address, secret_file="s")


def test_transfers_have_a_rate() -> None:
    with pytest.raises(LocalProtocolError, match="a rate above 0"):
        LinkSettings(secret_file="s", transfer_bytes_a_second=0)


def test_a_secret_is_one_line_of_a_file(tmp_path: Path) -> None:
    assert read_keys(LinkSettings(secret_file=secret_file(tmp_path))) == LinkKeys(SECRET.encode())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        (SECRET[1:] + "\n", f"has {LEAST_SECRET_BYTES - 1} bytes, and could be guessed"),
        ("a\nb\nc\n", "has more"),
    ],
)
def test_a_secret_that_is_none_is_refused(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(LocalProtocolError, match=why) as refused:
        read_keys(LinkSettings(secret_file=secret_file(tmp_path, text)))
    assert not text or text.strip() not in str(refused.value)


def test_a_secret_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LocalProtocolError, match=r"the secret of the links cannot be read: \S+: No such file"):
        read_keys(LinkSettings(secret_file=str(tmp_path / "none")))


def test_a_secret_that_others_may_read_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        read_keys(LinkSettings(secret_file=secret_file(tmp_path, mode=0o644)))
    assert "others may read it" in caplog.text


def test_with_tls_both_sides_show_a_certificate_and_verify_the_others(certificates: Certificates) -> None:
    own = certificates.server
    keys = read_keys(LinkSettings(tls=LinkTls(certificates.ca, own.certificate, own.key)))
    assert keys.secret is None
    for context in (keys.client, keys.server):
        assert context is not None
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert keys.client is not None
    assert keys.client.check_hostname


@pytest.mark.parametrize("missing", ["ca", "certificate", "key"])
def test_a_file_of_tls_that_is_not_there_is_told(certificates: Certificates, missing: str) -> None:
    files = {"ca": certificates.ca, "certificate": certificates.server.certificate, "key": certificates.server.key}
    with pytest.raises(LocalProtocolError, match="/nowhere: No such file"):
        read_keys(LinkSettings(tls=LinkTls(**(files | {missing: "/nowhere"}))))


@pytest.mark.parametrize(
    ("address", "tls", "warned"),
    [
        ("127.0.0.1:1", False, False),
        ("0.0.0.0:1", False, True),
        ("10.0.0.1:1", False, True),
        ("0.0.0.0:1", True, False),
    ],
)
def test_it_is_said_where_others_could_read_on_the_way(address: str, tls: bool, warned: bool) -> None:
    settings = LinkSettings(address, "secret", LinkTls("ca", "certificate") if tls else None)
    assert ("can be read and changed on its way" in (warning_of(settings) or "")) == warned


CERTIFICATE: dict[str, Any] = {
    "subject": ((("commonName", "common.example"),),),
    "subjectAltName": (
        ("DNS", "a.example"),
        ("DNS", "*.Nodes.example"),
        ("IP Address", "10.0.0.1"),
        ("IP Address", "FD00:0:0:0:0:0:0:1"),
        ("DNS", "10.0.0.9"),
    ),
}


@pytest.mark.parametrize(
    ("host", "fits"),
    [
        ("a.example", True),
        ("A.EXAMPLE.", True),
        ("b.example", False),
        ("common.example", False),
        ("b.nodes.example", True),
        ("nodes.example", False),
        ("c.b.nodes.example", False),
        ("10.0.0.1", True),
        ("10.0.0.2", False),
        ("10.0.0.9", False),
        ("fd00::1", True),
        ("fd00::2", False),
        ("", False),
    ],
)
def test_a_certificate_is_for_the_names_that_it_has(host: str, fits: bool) -> None:
    assert names_fit(CERTIFICATE, host) is fits
    assert not names_fit({}, host)
