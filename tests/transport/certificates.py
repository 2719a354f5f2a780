"""Certificates for tests of TLS: made anew for each run, so that none is ever trusted outside of it, or runs out.

The fixture `certificates` (tests/transport/conftest.py) has the usual ones and makes others.
All of them are files, as those who run a broker have them.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

SERVER_NAMES = ("localhost", "127.0.0.1", "::1")
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Issued:
    """A certificate with its chain, and its key: PEM files."""

    certificate: str
    key: str


class Certificates:
    """An authority and what it has signed.

    Attributes:
        ca: file of the authority's own certificate.
        server: of a broker on this machine.
        folder: where the files lie.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._authority = trustme.CA()
        self._others: dict[str, Issued] = {}
        self.ca = self._ca_file(self._authority, "ca")
        self.server = self.issue(*SERVER_NAMES)

    def issue(
        self, *names: str, common_name: str | None = None, expired: bool = False, authority: trustme.CA | None = None
    ) -> Issued:
        """One for ``names`` (host names, addresses); signed by the authority unless by another."""
        until = datetime.now(UTC) - DAY if expired else None
        since = until - 30 * DAY if until is not None else None
        leaf = (authority or self._authority).issue_cert(
            *names, common_name=common_name, not_before=since, not_after=until
        )
        return self._written(b"".join(blob.bytes() for blob in leaf.cert_chain_pems), leaf.private_key_pem.bytes())

    def client(self, subject: x509.Name) -> Issued:
        """A client's, whose subject is exactly that: several values of one part, any character."""
        signer = serialization.load_pem_private_key(self._authority.private_key_pem.bytes(), None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        issuer = x509.load_pem_x509_certificate(self._authority.cert_pem.bytes())
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder(issuer.subject, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + DAY)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
            .add_extension(x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
            .sign(signer, hashes.SHA256())
        )
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return self._written(certificate.public_bytes(serialization.Encoding.PEM), secret)

    @property
    def expired(self) -> Issued:
        """A broker's, of this authority, whose time is over."""
        return self._once("expired", lambda: self.issue(*SERVER_NAMES, expired=True))

    @property
    def elsewhere(self) -> Issued:
        """A broker's, of this authority, with another host's name."""
        return self._once("elsewhere", lambda: self.issue("broker.example"))

    @property
    def untrusted(self) -> Issued:
        """A broker's with the right names, of an authority that nobody knows."""
        return self._once("untrusted", lambda: self.issue(*SERVER_NAMES, authority=trustme.CA()))

    def server_context(self, issued: Issued | None = None, *, client_ca: str | None = None) -> ssl.SSLContext:
        """What a broker would serve with; with ``client_ca`` it takes no client without a certificate."""
        issued = issued or self.server
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(issued.certificate, issued.key)
        if client_ca is not None:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _once(self, name: str, make: Callable[[], Issued]) -> Issued:
        if name not in self._others:
            self._others[name] = make()
        return self._others[name]

    def _ca_file(self, authority: trustme.CA, name: str) -> str:
        path = self.folder / f"{name}.pem"
        authority.cert_pem.write_to_path(str(path))
        return str(path)

    def _written(self, certificate: bytes, key: bytes) -> Issued:
        number = len(list(self.folder.glob("*.key")))
        paths = self.folder / f"{number}.crt", self.folder / f"{number}.key"
        paths[0].write_bytes(certificate)
        paths[1].touch(mode=0o600)
        paths[1].write_bytes(key)
        return Issued(str(paths[0]), str(paths[1]))
