"""One request to one endpoint of an etcd's JSON gateway, and what is certain when there is no answer.

Each request has a connection of its own. The register is asked now and then, and a connection that was kept may be broken without anybody
knowing: what is sent on it would be lost, and a swap would be in doubt for nothing. So where there is no connection, nothing was sent.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from transport.cluster.addresses import EtcdTls
from transport.errors import LocalProtocolError, TransportError
from transport.security.tls_files import check_there, load_own, trusting
from transport.wire.address import Address
from transport.wire.shown import shown

if TYPE_CHECKING:
    import ssl

    import aiohttp

MAX_ANSWER_BYTES: Final = 256 * 1024
"""Of the JSON: a document in base64, and what stands around it."""
MAX_REASON_BYTES: Final = 300
"""Of what an etcd says for a reason, as it is shown."""

T = TypeVar("T")


class NotSentError(TransportError):
    """There was no connection, so nothing was sent. The text says why."""


class NobodyThereError(NotSentError):
    """The machine is there, and says that nobody listens at that port."""


class AnswerLostError(TransportError):
    """The request was sent, or a part of it, and no answer came that could be understood. The text says why."""


class Answer(NamedTuple):
    """What an endpoint has answered.

    Attributes:
        status: of HTTP.
        fields: the object that it sent; what was no JSON is in ``error``.
    """

    status: int
    fields: dict[str, Any]

    @property
    def code(self) -> int | None:
        """Of the error, as gRPC numbers them; None where it has none."""
        code = self.fields.get("code")
        return code if type(code) is int else None

    @property
    def reason(self) -> str:
        """What it says of its error, to be shown."""
        said = self.fields.get("error") or self.fields.get("message")
        return shown(said if isinstance(said, str) else f"HTTP status {self.status}", MAX_REASON_BYTES)


class Gateway:
    """Asks endpoints of an etcd; one for all of them.

    Args:
        tls: None for none. The files are read here.

    Raises:
        LocalProtocolError: aiohttp is not installed, or a file of TLS cannot be used.
    """

    def __init__(self, tls: EtcdTls | None) -> None:
        try:
            import aiohttp  # noqa: F401, PLC0415 - an extra
        except ModuleNotFoundError as error:
            raise LocalProtocolError(
                f"a cluster's register in etcd needs the extra http: pip install 'penstock-mq[http]' ({error})"
            ) from None
        self._files = tls
        self._tls = None if tls is None else _context(tls)

    def read_again(self) -> None:
        """Read the files anew, for connections from now on; on any thread. LocalProtocolError where one cannot be used: then all stay."""
        if self._files is not None:
            self._tls = _context(self._files)

    async def post(
        self, endpoint: Address, path: str, fields: dict[str, Any], token: str | None, seconds: float
    ) -> Answer:
        """Ask ``endpoint``.

        Args:
            endpoint: whom.
            path: of the gateway, as in ``/v3/kv/range``.
            fields: what is sent.
            token: of who was authenticated; None for nobody.
            seconds: after which there is no answer.

        Raises:
            NotSentError, AnswerLostError: there is none.
        """
        headers = {"Content-Type": "application/json"}
        if token is not None:
            headers["Authorization"] = token
        return await self._ask("POST", endpoint, path, json.dumps(fields), headers, seconds, _answer)

    async def get_list(self, endpoint: Address, path: str, seconds: float) -> list[Any]:
        """What ``endpoint`` has at a path, which is a JSON list.

        Raises:
            NotSentError, AnswerLostError: there is none.
        """
        return await self._ask("GET", endpoint, path, None, {}, seconds, _listed)

    async def _ask(
        self,
        method: str,
        endpoint: Address,
        path: str,
        data: str | None,
        headers: dict[str, str],
        seconds: float,
        understand: Callable[[int, bytes], T],
    ) -> T:
        import aiohttp  # noqa: PLC0415 - an extra

        connected = asyncio.Event()
        try:
            async with asyncio.timeout(seconds), self._session(connected) as session:
                url = f"{'http' if self._tls is None else 'https'}://{endpoint}{path}"
                headers = headers | {"Accept-Encoding": "identity"}
                # What another place says is not what this etcd says.
                async with session.request(method, url, data=data, headers=headers, allow_redirects=False) as response:
                    return understand(response.status, await _bounded(response))
        except TimeoutError:
            why = f"no {'answer' if connected.is_set() else 'connection'} within {seconds:.3g} s"
            raise (AnswerLostError if connected.is_set() else NotSentError)(f"{endpoint}: {why}") from None
        except (OSError, UnicodeError, aiohttp.ClientError) as error:
            why = shown(_why(error), MAX_REASON_BYTES)
            if connected.is_set():
                raise AnswerLostError(f"{endpoint}: {why}") from error
            refused = isinstance(getattr(error, "os_error", None), ConnectionRefusedError)
            raise (NobodyThereError if refused else NotSentError)(f"{endpoint}: {why}") from error
        except AnswerLostError as error:
            raise AnswerLostError(f"{endpoint}: {error}") from None

    def _session(self, connected: asyncio.Event) -> aiohttp.ClientSession:
        """For one request; ``connected`` is set before a byte of it is sent."""
        import aiohttp  # noqa: PLC0415 - an extra

        async def note(*_: object) -> None:
            connected.set()

        trace = aiohttp.TraceConfig()
        trace.on_connection_create_end.append(note)
        trace.on_connection_reuseconn.append(note)
        return aiohttp.ClientSession(
            # True is for plain HTTP too, and verifies. The connection is left to the session's end, a moment later, which waits for its
            # end; at the request's own end nobody does.
            connector=aiohttp.TCPConnector(ssl=True if self._tls is None else self._tls, limit=1),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            trace_configs=[trace],
            auto_decompress=False,
        )


def _context(tls: EtcdTls) -> ssl.SSLContext:
    check_there(tls.ca, tls.certificate, tls.key)
    context = trusting(tls.ca)
    if tls.certificate is not None:
        load_own(context, tls.certificate, tls.key, "key")
    return context


def _why(error: Exception) -> str:
    """What went wrong, as the system says it: aiohttp says the host again, and whether there was to be TLS."""
    inner = getattr(error, "os_error", None) or getattr(error, "certificate_error", None) or error
    number = getattr(inner, "errno", None)
    # The number of an error of TLS, or of one of a name, is none of the system's.
    if type(inner) in (ConnectionRefusedError, ConnectionResetError, OSError) and type(number) is int and number > 0:
        return os.strerror(number)
    return str(inner) or type(inner).__name__


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    content = b""
    while chunk := await response.content.read(MAX_ANSWER_BYTES + 1 - len(content)):
        content += chunk
        if len(content) > MAX_ANSWER_BYTES:
            raise AnswerLostError(f"an answer of more than {MAX_ANSWER_BYTES} bytes")
    return content


def _answer(status: int, content: bytes) -> Answer:
    try:
        fields = json.loads(content.decode())
    except (ValueError, RecursionError):
        fields = None
    if isinstance(fields, dict):
        return Answer(status, fields)
    if status == 200:
        raise AnswerLostError("an answer that is no JSON object: is this an etcd?")
    return Answer(status, {"error": f"HTTP status {status}, {content[:80].decode(errors='replace').strip()}"})


def _listed(status: int, content: bytes) -> list[Any]:
    try:
        said = json.loads(content.decode())
    except (ValueError, RecursionError):
        said = None
    if status != 200 or not isinstance(said, list):
        raise AnswerLostError(f"HTTP status {status}, and no JSON list: is this an etcd?")
    return said
