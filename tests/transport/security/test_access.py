"""What clients take as ``access``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from transport.errors import LocalProtocolError
from transport.security.access import MAX_SECRET_BYTES, NOBODY, Access, Tls
from transport.security.proofs import make_token


def test_whoever_says_nothing_is_nobody() -> None:
    assert Access() == NOBODY


def test_neither_a_password_nor_a_token_is_shown() -> None:
    token = make_token()
    assert "canary" not in repr(Access(user="ann", password="canary-of-a-password"))
    assert token not in repr(Access(token=token))


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ({"user": "ann"}, "a user and a password go together"),
        ({"password": "x"}, "a user and a password go together"),
        ({"user": "ann", "password": "x", "token": make_token()}, "not both"),
        ({"user": "ann", "password": ""}, f"1 to {MAX_SECRET_BYTES} bytes"),
        ({"user": "ann", "password": "x" * (MAX_SECRET_BYTES + 1)}, f"1 to {MAX_SECRET_BYTES} bytes"),
        ({"token": "canary"}, "this is no token"),
    ],
)
def test_what_cannot_prove_anything_is_refused_before_anything_is_connected(
    given: dict[str, Any], refusal: str
) -> None:
    with pytest.raises(LocalProtocolError, match=refusal) as caught:
        Access(**given)
    assert "canary" not in str(caught.value)


def test_a_key_needs_its_certificate() -> None:
    with pytest.raises(LocalProtocolError, match="without its certificate"):
        Tls(key="client.key")


def test_a_file_that_is_no_certificate_is_named(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("nothing of the kind")
    with pytest.raises(LocalProtocolError, match=str(file)):
        Tls(ca=str(file)).context()
    with pytest.raises(LocalProtocolError, match=r"missing\.pem"):
        Tls(ca=str(tmp_path / "missing.pem")).context()


def test_tls_is_of_version_1_2_at_least_and_verifies_names() -> None:
    import ssl

    context = Tls().context()
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
