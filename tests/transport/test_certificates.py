"""The certificates that tests of TLS use are what they are said to be."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from tests.transport.certificates import Certificates, Issued


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str = "localhost") -> ssl.SSLObject:
    """A whole handshake without a socket; the server's end of it."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = client.wrap_bio(down, up, server_hostname=name), server.wrap_bio(up, down, server_side=True)
    done: set[ssl.SSLObject] = set()
    while len(done) < 2:
        for end in ends:
            try:
                end.do_handshake()
                done.add(end)
            except ssl.SSLWantReadError:
                continue
    return ends[1]


def test_the_brokers_certificate_is_good_for_who_trusts_the_authority(certificates: Certificates) -> None:
    trusting = ssl.create_default_context(cafile=certificates.ca)
    for name in ("localhost", "127.0.0.1"):
        assert shake_hands(certificates.server_context(), trusting, name).version() == "TLSv1.3"


@pytest.mark.parametrize(
    ("which", "why"), [("expired", "expired"), ("elsewhere", "mismatch"), ("untrusted", "local issuer")]
)
def test_the_others_are_not(certificates: Certificates, which: str, why: str) -> None:
    issued: Issued = getattr(certificates, which)
    with pytest.raises(ssl.SSLCertVerificationError, match=why):
        shake_hands(certificates.server_context(issued), ssl.create_default_context(cafile=certificates.ca))


def test_a_clients_subject_comes_as_it_was_given(certificates: Certificates) -> None:
    subject = x509.Name(
        [
            x509.RelativeDistinguishedName([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Müller, Söhne + Co")]),
            x509.RelativeDistinguishedName(
                [
                    x509.NameAttribute(NameOID.COMMON_NAME, "till 7"),
                    x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "north"),
                ]
            ),
        ]
    )
    issued = certificates.client(subject)
    client = ssl.create_default_context(cafile=certificates.ca)
    client.load_cert_chain(issued.certificate, issued.key)
    served = shake_hands(certificates.server_context(client_ca=certificates.ca), client)
    peer = served.getpeercert()
    assert peer is not None
    assert [dict(part) for part in peer["subject"]] == [
        {"organizationName": "Müller, Söhne + Co"},
        {"commonName": "till 7", "organizationalUnitName": "north"},
    ]
