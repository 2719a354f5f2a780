"""Where `penstock top` has its pictures from: the broker's sending address, or its HTTP API."""

from __future__ import annotations

import base64
import http.client
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import urlencode, urlsplit

from transport.cli._blocking import BlockingWorker
from transport.clients.administration import Administration, Facts
from transport.clients.picture import Picture, checked
from transport.errors import BrokerError, ConnectionLostError, LocalProtocolError, RemoteProtocolError
from transport.security.access import Access, Tls
from transport.wire.shown import shown

T = TypeVar("T")

MAX_ANSWER_BYTES: Final = 16 * 2**20
"""Of an answer over HTTP, as of one over the other address."""
MOST_CONNECTIONS: Final = 500
"""That are asked for over HTTP at once; no screen has room for more."""
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class Pictures(ABC):
    """Somebody to ask. What is asked is as of `Administration.picture`."""

    where: str
    """The address, for people."""

    @abstractmethod
    async def picture(self, wanted: Mapping[str, Any]) -> Picture:
        """One picture; over another connection when one is broken.

        Raises:
            TransportError, OSError: as of `Administration`; `is_transient` says whether to ask again.
        """

    @abstractmethod
    async def connections(self) -> list[Facts]:
        """Who is connected."""

    @abstractmethod
    async def close(self) -> None:
        """End the connection."""


class NativePictures(Pictures):
    """The sending address."""

    def __init__(self, address: str, access: Access, connect_timeout: float) -> None:
        self._made: Administration | None = None
        self._access = access
        self._timeout = connect_timeout
        self.where = address

    async def picture(self, wanted: Mapping[str, Any]) -> Picture:
        return await self._asked(lambda client: client.picture(**wanted))

    async def connections(self) -> list[Facts]:
        return await self._asked(lambda client: client.connections())

    async def close(self) -> None:
        made, self._made = self._made, None
        if made is not None:
            await made.close()

    async def _asked(self, ask: Callable[[Administration], Awaitable[T]]) -> T:
        client = await self._client()
        try:
            return await ask(client)
        except BrokerError:
            raise
        except Exception:
            # Whatever it was: the next question has a connection of its own.
            await self.close()
            raise

    async def _client(self) -> Administration:
        if self._made is None:
            client = Administration(self.where, access=self._access, connect_timeout=self._timeout)
            await client.__aenter__()
            self._made = client
        return self._made


class HttpPictures(Pictures):
    """The HTTP API, asked from a thread: one connection a question, for a broker that ends leaves no other behind.

    Raises:
        LocalProtocolError: an URL that is none, or a secret that would go over a network as it is.
    """

    def __init__(self, url: str, access: Access, timeout: float) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise LocalProtocolError(f"--http {url!r:.80} is no address: {error}") from None
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username is not None or parts.query:
            raise LocalProtocolError(f"--http {url!r:.80} is no address: say it as http://127.0.0.1:9180")
        self._secure = parts.scheme == "https" or access.tls is not None
        self._host, self._port = parts.hostname, port
        self._path = parts.path.rstrip("/")
        self._timeout = timeout
        self._headers = {"Accept": "application/json"} | _proof(access)
        if len(self._headers) > 1 and not self._secure and self._host not in LOOPBACK:
            raise LocalProtocolError(f"a password or token is not sent in the clear to {self._host}: use https://")
        tls = access.tls or Tls()
        self._context = tls.context() if self._secure else None
        if self._secure and access.tls is not None and access.tls.server_name not in {None, self._host}:
            raise LocalProtocolError("--tls-server-name is of the other addresses; over HTTP the URL has the name")
        self._worker: BlockingWorker | None = None
        self.where = f"{'https' if self._secure else 'http'}://{parts.netloc}{self._path}"

    async def picture(self, wanted: Mapping[str, Any]) -> Picture:
        # None and the empty text are what is not said.
        query = urlencode({key: value for key, value in wanted.items() if value not in {None, ""}})
        return checked(await self._ask(f"/api/v1/picture?{query}"))

    async def connections(self) -> list[Facts]:
        found = await self._ask(f"/api/v1/connections?limit={MOST_CONNECTIONS}")
        if not isinstance(found, dict) or not isinstance(found.get("rows"), list):
            raise RemoteProtocolError(f"{self.where} answered with no list of connections: {found!r:.80}")
        return [row for row in found["rows"] if isinstance(row, dict)]

    async def close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()

    async def _ask(self, path: str) -> Any:
        if self._worker is None:
            self._worker = BlockingWorker("penstock-top-http")
        status, body = await self._worker.call(lambda: self._got(path))
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            raise RemoteProtocolError(
                f"{self.where} answered {status} and no JSON; is a broker's HTTP there?"
            ) from None
        if status == http.client.OK:
            return found
        problem = found if isinstance(found, dict) else {}
        code, text = str(problem.get("code", f"HTTP {status}")), str(problem.get("detail", "no reason is told"))
        if status >= http.client.INTERNAL_SERVER_ERROR:
            raise ConnectionLostError(f"{self.where} answered {status}: {shown(text)}")
        raise BrokerError(shown(code), shown(text))

    def _got(self, path: str) -> tuple[int, bytes]:
        connection = (
            http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._context)
            if self._context is not None
            else http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        )
        try:
            connection.request("GET", self._path + path, headers=self._headers)
            answer = connection.getresponse()
            body = _read_all(answer, time.monotonic() + self._timeout)
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionLostError(f"no answer of {self.where}: {error or type(error).__name__}") from error
        finally:
            connection.close()
        if len(body) > MAX_ANSWER_BYTES:
            raise RemoteProtocolError(f"{self.where} answered with more than {MAX_ANSWER_BYTES:,} bytes")
        return answer.status, body


def _read_all(answer: http.client.HTTPResponse, ends: float) -> bytes:
    """A body, up to one byte more than it may have.

    Raises:
        IncompleteRead: the connection broke in the middle of it.
        TimeoutError: it comes so slowly that it is not there when its time ``ends``.
    """
    body = bytearray()
    while len(body) <= MAX_ANSWER_BYTES and (part := answer.read1(MAX_ANSWER_BYTES + 1 - len(body))):
        body += part
        if time.monotonic() > ends:
            raise TimeoutError("the answer came too slowly")
    if len(body) <= MAX_ANSWER_BYTES and answer.length:
        raise http.client.IncompleteRead(bytes(body), answer.length)
    return bytes(body)


def _proof(access: Access) -> dict[str, str]:
    if access.token is not None:
        return {"Authorization": f"Bearer {access.token}"}
    if access.user is not None:
        both = f"{access.user}:{access.password}".encode()
        return {"Authorization": f"Basic {base64.b64encode(both).decode('ascii')}"}
    return {}
