"""SCRAM-SHA-256: a client and a broker show each other that they know a password, and neither sends it (RFC 5802, RFC 7677).

Both exchanges are without I/O. There is no channel binding: a client that can do with it and one that cannot are served alike.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Final

from transport.security.saslprep import PreparationError, saslprep
from transport.security.verifier import LEAST_ITERATIONS, MOST_ITERATIONS, MOST_SALT_BYTES, Keys, Verifier

MAX_MESSAGE_BYTES: Final = 2048
"""A name of 1,024 bytes has room; no message of an honest peer comes near."""
NONCE_BYTES: Final = 18
NO_BINDING: Final = ("n,,", "y,,")
"""How a first message begins that asks for no channel binding: of a client that cannot, and of one that thinks that we cannot."""

_NONCE = r"[\x21-\x2b\x2d-\x7e]{1,256}"
_BASE64 = r"[A-Za-z0-9+/=]+"
_CLIENT_FIRST: Final = re.compile(rf"n=(?P<name>[^,\x00]+),r=(?P<nonce>{_NONCE})(?:,.*)?", re.DOTALL)
_SERVER_FIRST: Final = re.compile(
    rf"r=(?P<nonce>{_NONCE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[1-9][0-9]{{0,8}})(?:,.*)?"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<bare>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_NONCE})(?:,[^m].*)?),p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL: Final = re.compile(rf"(?:v=(?P<signature>{_BASE64})|e=(?P<error>[^,]+))(?:,.*)?")


class ScramError(Exception):
    """The exchange is over, and nobody is proved.

    Attributes:
        code: RFC 5802's ``server-error-value``.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


def make_nonce() -> str:
    """What makes an exchange unlike any other."""
    return b64encode(secrets.token_bytes(NONCE_BYTES)).decode()


class ClientExchange:
    """The client's side, of one connection.

    Args:
        name: the user's.
        keys: gives the password's keys for a salt and a number of iterations (`derive`): slow, so its user may remember them.
        nonce: unlike any before.
    """

    def __init__(self, name: str, keys: Callable[[bytes, int], Keys], nonce: str | None = None) -> None:
        self._keys = keys
        self._nonce = make_nonce() if nonce is None else nonce
        self._bare = f"n={_escaped(saslprep(name, 'name of the user'))},r={self._nonce}"
        self._signature: bytes | None = None

    def first(self) -> bytes:
        """The first message."""
        return f"{NO_BINDING[0]}{self._bare}".encode()

    def answer(self, challenge: bytes) -> bytes:
        """The proof, for the broker's first message.

        Raises:
            ScramError: the broker does not keep to the rules; nothing that helps to guess the password was said.
        """
        text = _text(challenge)
        match = _matched(_SERVER_FIRST, text, "the broker's first message")
        nonce, salt, iterations = match["nonce"], _binary(match["salt"]), int(match["iterations"])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise ScramError(
                "other-error", "the broker's nonce does not go on from ours: the answer belongs to another exchange"
            )
        if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
            raise ScramError(
                "other-error",
                f"the broker asks for {iterations} iterations, outside {LEAST_ITERATIONS}-{MOST_ITERATIONS}: it may be none of ours",
            )
        if len(salt) > MOST_SALT_BYTES:
            raise ScramError("other-error", f"the broker's salt of {len(salt)} bytes is over {MOST_SALT_BYTES}")
        keys = self._keys(salt, iterations)
        bare = f"c={b64encode(NO_BINDING[0].encode()).decode()},r={nonce}"
        signed = f"{self._bare},{text},{bare}".encode()
        proof = _xor(keys.client, hmac.digest(keys.stored, signed, "sha256"))
        self._signature = hmac.digest(keys.server, signed, "sha256")
        return f"{bare},p={b64encode(proof).decode()}".encode()

    def conclude(self, final: bytes) -> None:
        """Check that the broker knows the password's record.

        Raises:
            ScramError: it refused, or cannot prove itself.
        """
        if self._signature is None:
            raise ScramError("other-error", "the broker ends an exchange in which it was given no proof")
        match = _matched(_SERVER_FINAL, _text(final), "the broker's last message")
        if match["error"] is not None:
            raise ScramError(match["error"], f"the broker refuses: {match['error']!r:.80}")
        if not hmac.compare_digest(_binary(match["signature"]), self._signature):
            raise ScramError("other-error", "the broker does not know the password's record: it may be none of ours")


class ServerExchange:
    """The broker's side, of one connection.

    Args:
        verifier: gives the record of a name, also of one that nobody has (`Verifier.of_nobody`).
        nonce: the broker's part, unlike any before.

    Attributes:
        name: who asks, once the first message is there; only after `conclude` has returned is it proved.
    """

    def __init__(self, verifier: Callable[[str], Verifier], nonce: str | None = None) -> None:
        self._find = verifier
        self._nonce = make_nonce() if nonce is None else nonce
        self._verifier: Verifier | None = None
        self._header = self._signed = ""
        self.name = ""

    def challenge(self, first: bytes) -> bytes:
        """The answer to the client's first message.

        Raises:
            ScramError: the message is none, or asks for what is not supported.
        """
        if self._verifier is not None:
            raise ScramError("other-error", "an exchange has one first message")
        text = _text(first)
        flag, comma, rest = text.partition(",")
        if flag.startswith("p="):
            raise ScramError("channel-binding-not-supported", "no channel binding is supported")
        header = text[: len(flag) + 2]
        if header not in NO_BINDING:
            if comma and flag in {"n", "y"} and rest.startswith("a="):
                raise ScramError("other-error", "nobody may act for another here: leave out the authorization identity")
            raise ScramError("invalid-encoding", "the client's first message does not begin with n,, or y,,")
        bare = text[len(header) :]
        if bare.startswith("m="):
            raise ScramError("extensions-not-supported", "no mandatory extension is supported")
        match = _matched(_CLIENT_FIRST, bare, "the client's first message")
        self.name = _name(match["name"])
        self._verifier = self._find(self.name)
        self._header, self._nonce = header, match["nonce"] + self._nonce
        salt = b64encode(self._verifier.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._verifier.iterations}"
        self._signed = f"{bare},{answer}"
        return answer.encode()

    def conclude(self, final: bytes) -> bytes:
        """Check the client's proof; the broker's own.

        Raises:
            ScramError: ``invalid-proof`` where the password is another's, or nobody has the name.
        """
        verifier, self._verifier = self._verifier, None
        if verifier is None:
            raise ScramError("other-error", "a proof without a first message, or a second one")
        match = _matched(_CLIENT_FINAL, _text(final), "the client's last message")
        if not hmac.compare_digest(match["nonce"].encode(), self._nonce.encode()):
            raise ScramError("invalid-proof", "the proof belongs to another exchange")
        if _binary(match["binding"]) != self._header.encode():
            raise ScramError("channel-bindings-dont-match", "the client's two messages do not begin alike")
        signed = f"{self._signed},{match['bare']}".encode()
        proof = _binary(match["proof"])
        signature = hmac.digest(verifier.stored, signed, "sha256")
        if len(proof) != len(signature) or not hmac.compare_digest(
            hashlib.sha256(_xor(proof, signature)).digest(), verifier.stored
        ):
            raise ScramError("invalid-proof", "wrong name or password")
        return b"v=" + b64encode(hmac.digest(verifier.server, signed, "sha256"))


def _text(message: bytes) -> str:
    if len(message) > MAX_MESSAGE_BYTES:
        raise ScramError("invalid-encoding", f"a message of {len(message)} bytes is over {MAX_MESSAGE_BYTES}")
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise ScramError("invalid-encoding", "a message that is no UTF-8") from None


def _matched(pattern: re.Pattern[str], text: str, what: str) -> re.Match[str]:
    match = pattern.fullmatch(text)
    if match is None:
        raise ScramError("invalid-encoding", f"{what} is not as RFC 5802 has it")
    return match


def _binary(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except binascii.Error:
        raise ScramError("invalid-encoding", "a part that is to be base64 is none") from None


def _xor(one: bytes, other: bytes) -> bytes:
    return (int.from_bytes(one) ^ int.from_bytes(other)).to_bytes(len(one))


def _escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _name(escaped: str) -> str:
    """The user's name that a first message holds."""
    if re.search("=(?!2C|3D)", escaped):
        raise ScramError("invalid-username-encoding", "the name of the user has a = that is neither =2C nor =3D")
    try:
        return saslprep(escaped.replace("=2C", ",").replace("=3D", "="), "name of the user")
    except PreparationError as error:
        raise ScramError("invalid-username-encoding", str(error)) from None
