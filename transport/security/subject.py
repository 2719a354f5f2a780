"""A certificate's subject as text: RFC 4514, in the words that ``openssl x509 -nameopt RFC2253,utf8,-esc_msb`` has for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

SHORT: Final = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "street",
    "domainComponent": "DC",
    "userId": "UID",
}
"""RFC 4514, section 3, written as OpenSSL does. Other parts keep the name that it has for them, or their number."""

PRINTS: Final = "openssl x509 -noout -subject -nameopt RFC2253,utf8,-esc_msb -in FILE"
"""The command that prints a certificate's subject as it is written here."""
LABEL: Final = "subject="
"""What it begins with."""

_PART: Final = re.compile(r"[^=\s/](?:[^=]*[^=\s])?=(?!\s).*", re.DOTALL)
"""One that stands at its place: nothing but a value has white space around it, and that one is escaped."""
_ESCAPED: Final = re.compile(r"\\.", re.DOTALL)
_UNESCAPED_END: Final = re.compile(r"(?<!\\)\s+$")
_SPECIAL: Final = re.compile(r'[\\",+;<>]|^[ #]| $')
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


def subject_of(certificate: Mapping[str, Any] | None) -> str | None:
    """The subject of a certificate as `ssl.SSLSocket.getpeercert` gives it; None where there is none.

    The last part comes first, as RFC 4514 has it, and so do the values of a part that has several.
    """
    parts = certificate.get("subject") if certificate else None
    if not parts:
        return None
    return ",".join(
        "+".join(f"{SHORT.get(key, key)}={_escaped(value)}" for key, value in part[::-1]) for part in parts[::-1]
    )


def written_subject(text: str) -> str:
    """The subject that somebody has written, or copied from what OpenSSL prints.

    Raises:
        ValueError: it is in another form, and would be no certificate's; the text has the command that prints the right one.
    """
    subject = _UNESCAPED_END.sub("", text.lstrip().removeprefix(LABEL).lstrip())
    # What is escaped separates nothing.
    parts = re.split(r"[,+]", _ESCAPED.sub("..", subject))
    if all(_PART.fullmatch(part) for part in parts):
        return subject
    raise ValueError(
        f"{subject!r:.255} is no subject as RFC 4514 writes it, CN=alice,O=Example: no blanks around = or behind a comma, "
        f"and no / at its beginning. This prints it: {PRINTS}"
    )


def _escaped(value: str) -> str:
    escaped = _SPECIAL.sub(lambda match: "\\" + match[0], value)
    return _CONTROL.sub(lambda match: f"\\{ord(match[0]):02X}", escaped)
