"""The register in an etcd, over its JSON gateway: a read is a linearizable range of one key, a swap a transaction that compares.

A document's version is the revision of etcd's that wrote it (``mod_revision``), which no later one ever has again, also where somebody
deletes the key. The endpoints are asked in turn, each within a time, the one that answered last first. What was to be read goes
on to the next endpoint whatever happens. A swap does only where it is certain that nothing was done: there was no connection, or etcd has
refused before it did anything. Else it is in doubt, and that is said (``SwapUnknownError``).
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from actors.replication.document import ClusterDocument, decode_document, encode_document
from actors.replication.register import (
    NOTHING,
    RegisterMovedError,
    RegisterUnavailableError,
    SwapUnknownError,
    Versioned,
)
from transport.cluster.addresses import EtcdAddress
from transport.cluster.gateway import Answer, AnswerLostError, Gateway, NotSentError
from transport.errors import LocalProtocolError
from transport.security.secret_files import SecretFileError, read_line
from transport.wire.address import Address

READ_SECONDS: Final = 0.5
"""For one endpoint to answer a read, which may be asked again: in an etcd of version 3.4 what is asked while it has no leader waits long.
So who reads before it swaps comes through soon behind the election, and with no swap in doubt."""
SWAP_SECONDS: Final = 1.0
"""For one to answer a swap, which waits for two disks; without an answer it is in doubt."""
CALL_SECONDS: Final = 3.0
"""For a read or a swap as a whole."""

OK: Final = 200
REFUSED_CODES: Final = frozenset({3, 5, 7, 12, 16})
"""gRPC's invalid argument, not found, permission denied, unimplemented and unauthenticated: nothing was done, nor will be elsewhere."""
REFUSED_STATUSES: Final = frozenset({404, 405, 501})
"""Of HTTP, where there is no such gateway."""
PASSED_ON: Final = frozenset(
    {
        "raft proposal dropped",
        "etcdserver: too many requests",
        "etcdserver: mvcc: database space exceeded",
        "etcdserver: rpc not supported for learner",
    }
)
"""What an endpoint says when it has done nothing and another one may do it."""
NO_TOKEN: Final = frozenset(
    {
        "etcdserver: user name is empty",
        "etcdserver: invalid auth token",
        "etcdserver: revision of auth store is old",
    }
)
"""What it says when it wants to know anew who asks; nothing was done."""
NO_USERS: Final = "etcdserver: authentication is not enabled"

_NOBODY: Final = ""
"""For a token, where it knows no users."""

RANGE: Final = "/v3/kv/range"
TRANSACTION: Final = "/v3/kv/txn"
AUTHENTICATE: Final = "/v3/auth/authenticate"

T = TypeVar("T")

logger = logging.getLogger("penstock.cluster")


class Until(NamedTuple):
    """How long a call has.

    Attributes:
        call: until when, by the loop's clock.
        endpoint: seconds for each request.
    """

    call: float
    endpoint: float


class EtcdRegister:
    """A cluster's register in an etcd; it implements ``actors.replication.register.Register``.

    It keeps no connection and needs no closing. Calls may run at the same time.

    Args:
        address: where it is. The files of TLS and of the password are read here.
        read_seconds: for one endpoint to answer a read.
        swap_seconds: for one to answer a swap.
        call_seconds: for a call as a whole.

    Raises:
        LocalProtocolError: a file cannot be used, or aiohttp is not installed.
    """

    def __init__(
        self,
        address: EtcdAddress,
        *,
        read_seconds: float = READ_SECONDS,
        swap_seconds: float = SWAP_SECONDS,
        call_seconds: float = CALL_SECONDS,
    ) -> None:
        self._gateway = Gateway(address.tls)
        self._endpoints = address.endpoints
        self._key = b64encode(address.key.encode()).decode()
        self._user = address.user
        self._address = address
        self._password = _password(address)
        self._seconds = {RANGE: read_seconds, TRANSACTION: swap_seconds}
        self._call_seconds = call_seconds
        self._first = 0
        self._token: str | None = None
        self._etcd: str | None = None
        self._revision = 0

    def read_again(self) -> None:
        """Read the files of TLS and of the password anew; on any thread. LocalProtocolError where one cannot be used: then it stays."""
        password = _password(self._address)
        self._gateway.read_again()
        self._password = password

    async def read(self) -> Versioned:
        """As of `Register`: the newest document."""
        version, content = await self._ask(RANGE, {"key": self._key}, self._range, repeatable=True)
        return Versioned(version, None if content is None else decode_document(content))

    async def swap(self, version: int, document: ClusterDocument) -> int:
        """As of `Register`: put a document in the place of the one at ``version``.

        Whoever cancels it does not know what came of it, as with SwapUnknownError.
        """
        value = b64encode(encode_document(document)).decode()
        fields = {
            "compare": [{"key": self._key, "target": "MOD", "result": "EQUAL", "mod_revision": str(version)}],
            "success": [{"request_put": {"key": self._key, "value": value}}],
            "failure": [{"request_range": {"key": self._key}}],
        }
        try:
            done, seen = await self._ask(TRANSACTION, fields, self._swapped, repeatable=False)
        except AnswerLostError as error:
            raise SwapUnknownError(f"a swap in the cluster's register has lost its answer: {error}") from None
        if not done:
            raise RegisterMovedError(seen)
        return seen

    async def _ask(
        self, path: str, fields: dict[str, Any], understand: Callable[[dict[str, Any]], T], *, repeatable: bool
    ) -> T:
        """What the first endpoint says that answers.

        Raises:
            RegisterUnavailableError: nothing was done.
            AnswerLostError: something may have been.
        """
        until = Until(asyncio.get_running_loop().time() + self._call_seconds, self._seconds[path])
        seen = self._revision
        tried: list[str] = []
        for number in self._order():
            endpoint = self._endpoints[number]
            try:
                answer = await self._at(endpoint, path, fields, until)
                if answer.status == OK:
                    understood = self._understood(endpoint, answer.fields, understand, seen)
                    self._first = number
                    return understood
            except (NotSentError, AnswerLostError) as error:
                if self._first == number:
                    self._first = (number + 1) % len(self._endpoints)
                if isinstance(error, AnswerLostError) and not repeatable:
                    raise
                tried.append(str(error))
                continue
            if _is_final(answer):
                raise RegisterUnavailableError(self._refusal(endpoint, answer))
            if not repeatable and answer.reason not in PASSED_ON:
                raise AnswerLostError(f"{endpoint}: {answer.reason}")
            tried.append(f"{endpoint}: {answer.reason}")
        raise RegisterUnavailableError(f"the cluster's register does not answer: {'; '.join(tried)}")

    def _order(self) -> list[int]:
        """Numbers of the endpoints, from the one that answered last."""
        count = len(self._endpoints)
        return [(self._first + each) % count for each in range(count)]

    async def _at(self, endpoint: Address, path: str, fields: dict[str, Any], until: Until) -> Answer:
        """What one endpoint answers, to whom it knows."""
        if self._user is not None and self._token is None:
            await self._authenticate(endpoint, until)
        token = self._token
        answer = await self._post(endpoint, path, fields, token, until)
        if self._user is None or answer.status == OK or answer.reason not in NO_TOKEN:
            return answer
        if self._token == token:  # else another call was authenticated meanwhile
            await self._authenticate(endpoint, until)
        return await self._post(endpoint, path, fields, self._token, until)

    async def _authenticate(self, endpoint: Address, until: Until) -> None:
        self._token = None
        fields = {"name": self._user, "password": self._password}
        try:
            answer = await self._post(endpoint, AUTHENTICATE, fields, None, until)
        except AnswerLostError as error:
            raise NotSentError(str(error)) from None  # what was to be asked was not
        if answer.status != OK:
            if answer.reason == NO_USERS:
                logger.warning(
                    "the cluster's register at %s knows no users: everybody who reaches it may change it", endpoint
                )
                self._token = _NOBODY
                return
            if _is_final(answer):
                raise RegisterUnavailableError(self._refusal(endpoint, answer))
            raise NotSentError(f"{endpoint}: {answer.reason}")
        token = answer.fields.get("token")
        # It becomes a header: nothing in it may end one.
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise NotSentError(f"{endpoint}: an answer without a token")
        self._token = token

    async def _post(
        self, endpoint: Address, path: str, fields: dict[str, Any], token: str | None, until: Until
    ) -> Answer:
        left = until.call - asyncio.get_running_loop().time()
        if left <= 0:
            raise NotSentError(f"{endpoint}: not asked, for the {self._call_seconds:.3g} s of a call were over")
        return await self._gateway.post(endpoint, path, fields, token or None, min(left, until.endpoint))

    def _refusal(self, endpoint: Address, answer: Answer) -> str:
        text = f"the cluster's register at {endpoint} refuses: {answer.reason}"
        if self._user is None and answer.reason in NO_TOKEN:
            text += "; it wants a user, so say who: ?user=NAME&password-file=FILE behind the cluster's name"
        if answer.status in REFUSED_STATUSES and answer.code is None:
            text += "; it takes an etcd of version 3.4 or newer whose JSON gateway is on (enable-grpc-gateway)"
        return text

    def _range(self, fields: dict[str, Any]) -> tuple[int, bytes | None]:
        """The version and the content of the one key in an answer to a range."""
        kvs = fields.get("kvs", [])
        if not isinstance(kvs, list) or not all(isinstance(each, dict) for each in kvs) or len(kvs) > 1:
            raise AnswerLostError("an answer to a range that is none of an etcd's")
        if not kvs:
            return NOTHING, None
        try:
            # What has its zero value is left out.
            content = b64decode(str(kvs[0].get("value", "")), validate=True)
        except ValueError:  # what is not ASCII is no `binascii.Error`
            raise AnswerLostError("an answer with a value that is no base64") from None
        return _number(kvs[0].get("mod_revision")), content

    def _swapped(self, fields: dict[str, Any]) -> tuple[bool, int]:
        """Whether a swap was carried out, and the version that there is now."""
        if fields.get("succeeded", False) is True:
            return True, _number(fields["header"]["revision"])
        responses = fields.get("responses")
        first = responses[0] if isinstance(responses, list) and responses else None
        inner = first.get("response_range") if isinstance(first, dict) else None
        if not isinstance(inner, dict):
            raise AnswerLostError("an answer to a transaction that is none of an etcd's")
        return False, self._range(inner)[0]

    def _understood(
        self, endpoint: Address, fields: dict[str, Any], understand: Callable[[dict[str, Any]], T], seen: int
    ) -> T:
        try:
            etcd, revision = self._check_etcd(fields, seen)
            understood = understand(fields)
        except AnswerLostError as error:
            raise AnswerLostError(f"{endpoint}: {error}") from None
        # Only now: what is no answer of an etcd's must not have the next one that is taken for another etcd's.
        self._etcd, self._revision = etcd, max(self._revision, revision)
        return understood

    def _check_etcd(self, fields: dict[str, Any], seen: int) -> tuple[str, int]:
        """All answers have to be of one etcd, which counts its revisions up from what was ``seen`` before the call; others lead astray."""
        header = fields.get("header")
        if not isinstance(header, dict):
            raise AnswerLostError("an answer without a header: is this an etcd?")
        etcd, revision = header.get("cluster_id"), _number(header.get("revision"))
        if not isinstance(etcd, str) or not etcd.isascii() or not etcd.isdigit():
            raise AnswerLostError("an answer of no etcd by name: is this an etcd?")
        if self._etcd is not None and etcd != self._etcd:
            raise AnswerLostError(f"it is of another etcd ({etcd:.20}) than what answered before ({self._etcd:.20})")
        if revision < seen:
            raise AnswerLostError(
                f"its revision has gone back from {seen} to {revision}, as in an etcd that was restored: its document may be an old "
                "one. Look at it, and start the brokers again"
            )
        return etcd, revision


def _is_final(answer: Answer) -> bool:
    """Whether etcd refuses, before it has done anything, and would again."""
    return answer.reason not in PASSED_ON and (answer.code in REFUSED_CODES or answer.status in REFUSED_STATUSES)


def _number(value: object) -> int:
    """A revision: JSON's numbers are too small for it, so it comes as text."""
    if not isinstance(value, str) or not value.isascii() or not value.isdigit() or len(value) > 19 or int(value) < 1:
        raise AnswerLostError("an answer with a revision that is none")
    return int(value)


def _password(address: EtcdAddress) -> str | None:
    if address.password_file is None:
        return None
    try:
        return read_line(address.password_file)
    except (OSError, SecretFileError) as error:
        raise LocalProtocolError(f"the password of the register's user cannot be read: {error}") from None
