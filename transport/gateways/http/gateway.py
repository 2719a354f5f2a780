"""What answers a request: who asks, whether that page may ask, which route it is, and how it went."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from base64 import b64decode
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from aiohttp import HttpVersion10, HttpVersion11, web

from transport.broker.served import SHUTTING_DOWN
from transport.errors import forget_variables
from transport.gateways.http import (
    administration,
    clusters,
    exchange_messages,
    exchanges,
    exposed,
    health,
    messages,
    openapi,
    pictures,
    problems,
    schedules,
    signing,
    signing_in,
    upgrade,
)
from transport.gateways.http.answers import ALWAYS, Answer
from transport.gateways.http.held import Held, Share
from transport.gateways.http.pages import PAGES
from transport.gateways.http.problems import ProblemError, known
from transport.gateways.http.routes import PREFIX, Call, Route, Table
from transport.gateways.http.shapes import answers
from transport.gateways.http.whole import Whole
from transport.security.principal import ANYONE, Principal
from transport.security.subject import subject_of
from transport.wire.messages import NOT_LEADER
from transport.wire.shown import shown

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from transport.broker.listener import Host
    from transport.gateways.http.connections import HttpConnection, Wire
    from transport.gateways.http.console.sessions import Session
    from transport.gateways.http.receipts import Receipts

FAILED: Final = "nobody here proves it so: the name and password, or the token, are wrong, or its time is over"
REQUIRED: Final = "this broker has users: say who you are, by Basic with a name and password, Bearer with a token, or a client certificate"
MOST_HOSTS: Final = 256
"""Values of Host headers that are remembered for what is in them: nearly all requests have one of a few."""

logger = logging.getLogger("penstock.http")


async def _described(_call: Call) -> Answer:
    return Answer(openapi.document(ROUTES))


ROUTES: Final = (
    *administration.ROUTES,
    *clusters.ROUTES,
    *exchanges.ROUTES,
    *exchange_messages.ROUTES,
    *messages.ROUTES,
    *schedules.ROUTES,
    *pictures.ROUTES,
    *signing_in.ROUTES,
    Route(
        "GET",
        f"{PREFIX}/openapi.json",
        None,
        "This description.",
        _described,
        open=True,
        answers=answers({"type": "object"}),
    ),
    *exposed.ROUTES,
    *health.ROUTES,
)
"""All there are of the API."""
TABLE: Final = Table((*ROUTES, *PAGES))


class Gateway:
    """Answers the requests of one listener.

    Args:
        host: what the broker gives.
        receipts: of this life of the broker.
        name: under which it is reached, beside its addresses and ``localhost``.
    """

    def __init__(self, host: Host, receipts: Receipts, name: str) -> None:
        self._host = host
        self._receipts = receipts
        self._names = {"localhost", name.lower(), socket.gethostname().lower()}
        # Values of Host headers that were found to be names of this broker.
        self._good_hosts: set[str] = set()
        self._held = Held()
        self._signing = signing.Signing(host)

    async def answer(self, request: web.BaseRequest, connection: HttpConnection) -> web.StreamResponse:
        """Answer a request, and have it written."""
        wire = connection.wire
        wire.begins(request)
        share = self._held.share()
        sent = 0
        try:
            said = await self._carried_out(request, connection, share)
            if said.writes is not None:
                written = await said.writes(request)
                sent = written.body_length
                return written
            try:
                response = response_of(said, share, request)
            except ProblemError as refused:
                said.lost()
                said = problems.answer(refused)
                response = response_of(said, None)
            except BaseException:
                said.lost()
                raise
            # Behind a request for another protocol aiohttp reads no further one.
            if wire.is_last or "Upgrade" in request.headers:
                response.force_close()
            try:
                await response.prepare(request)
                await response.write_eof()
                # What the client has not read is held as well.
                await request.writer.drain()
            except BaseException:
                said.lost()
                raise
            said.reached()
            sent = response.body_length
            return response
        finally:
            share.give_back()
            connection.answered()
            wire.ends(sent)

    async def _carried_out(self, request: web.BaseRequest, connection: HttpConnection, share: Share) -> Answer:
        try:
            if self._host.connections.ending:
                raise ProblemError(*SHUTTING_DOWN)
            if request.version not in (HttpVersion10, HttpVersion11):
                # The parser takes a line without a version for HTTP/0.9, which nobody means.
                text = f"HTTP/{request.version.major}.{request.version.minor} is not spoken here; HTTP/1.1 is"
                raise ProblemError("protocol-error", text, headers={"Connection": "close"})
            self._check_origin(request)
            if request.rel_url.raw_path == upgrade.PATH:
                who, session = await self._shown(request, connection.wire)
                return upgrade.answer(self._host, request, connection, who, session)
            route, names = TABLE.find(request.method, request.rel_url.raw_path)
            principal, session = (ANYONE, None) if route.open else await self._asker(request, connection.wire)
            if not (route.everywhere or self._host.entrance.leads):
                raise self._not_leading(connection.listener)
            proved = not route.open or self._host.entrance.users is None
            operations = connection.door(principal, proved=proved)
            return await route.handler(Call(request, operations, names, self._receipts, share, self._signing, session))
        except Exception as error:  # noqa: BLE001 - what is a defect of ours is logged as one
            # Not here, where what is found would be in a frame that it leads back to.
            return _problem(error, request)

    def _not_leading(self, listener: str) -> ProblemError:
        """This broker does not lead: the answer says who does. It is no redirect, for clients would show there, unasked, who they are."""
        leadership = self._host.entrance.leadership
        assert leadership is not None, "it is in a cluster"
        return ProblemError(NOT_LEADER, leadership.why(listener), {"leader": list(leadership.leader(listener))})

    # --- which page asks

    def _check_origin(self, request: web.BaseRequest) -> None:
        """Refuse what a browser sends for another page: it may be open beside, and is nobody's business.

        A name that resolves to this address by somebody else's will (DNS rebinding) is none of ours. An address is itself.
        """
        headers = request.headers
        host = headers.get("Host", "")
        if (
            host in self._good_hosts
            and request.host == host
            and not ("Origin" in headers or "Sec-Fetch-Site" in headers)
        ):
            # A program asks, as nearly always: what follows it has passed before.
            return
        name = _name_in(host)
        if request.host not in (host, name):
            # A target in absolute form has a host of its own, which would be the one that counts (RFC 9112, 3.2.2).
            raise ProblemError("misdirected", f"the target names {request.host!r:.80}, and Host {host!r:.80}: say one")
        secured = request.transport is not None and request.transport.get_extra_info("sslcontext") is not None
        if not self._is_ours(name) and not secured:
            raise ProblemError(
                "misdirected", f"{host!r:.80} is no name of this broker: use its address, or localhost on its machine"
            )
        if not secured and len(self._good_hosts) < MOST_HOSTS:
            self._good_hosts.add(host)
        origin = headers.get("Origin")
        scheme, _, named = (origin or "").partition("://")
        # A page without TLS is not this broker's own where that has it: it may be anybody's on the way.
        if origin is not None and (named.lower() != host.lower() or (secured and scheme.lower() == "http")):
            raise ProblemError(
                "forbidden", f"a page of {origin!r:.80} asks: this broker answers pages of its own alone"
            )
        if headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin") and not _follows_a_link(request):
            raise ProblemError("forbidden", "a page of another site asks: this broker answers pages of its own alone")

    def _is_ours(self, name: str) -> bool:
        return name.lower() in self._names or _is_address(name)

    # --- who asks

    async def _asker(self, request: web.BaseRequest, wire: Wire) -> tuple[Principal, Session | None]:
        """Who asks, and the session that vouches for them, if one does."""
        if self._host.entrance.users is None:
            return ANYONE, None
        if "Authorization" not in request.headers:
            session = self._signing.asker(request)
            if session is not None:
                return session.principal, session
        return await self._principal(request, wire), None

    async def _shown(self, request: web.BaseRequest, wire: Wire) -> tuple[Principal | None, Session | None]:
        """Who asks, where the request says so, and there are users. A page is known by its session; its origin was looked at."""
        if self._host.entrance.users is None:
            return None, None
        if "Authorization" in request.headers:
            return await self._principal(request, wire), None
        session = self._signing.of(request)
        return (None, None) if session is None else (session.principal, session)

    async def _principal(self, request: web.BaseRequest, wire: Wire) -> Principal:
        entrance, peer = self._host.entrance, wire.peer
        scheme, _, shown_as = request.headers.get("Authorization", "").partition(" ")
        found: Principal | None
        if scheme.lower() == "bearer":
            found = await entrance.of_token(shown_as.strip(), peer)
        elif scheme.lower() == "basic":
            name, password = _name_and_password(shown_as.strip())
            found = await entrance.authenticate(name, password, peer)
        elif not scheme and (subject := subject_of(wire.certificate)) is not None:
            found = await entrance.of_certificate(subject, peer)
        else:
            entrance.nothing_shown(peer)
            raise ProblemError("authentication-required", REQUIRED)
        if found is None:
            raise ProblemError("authentication-failed", FAILED)
        return found


def _problem(error: Exception, request: web.BaseRequest) -> Answer:
    """What a request is answered with that has failed."""
    problem = known(error)
    if problem is None:
        logger.error(
            "%s %s failed on a defect of ours", request.method, shown(request.rel_url.raw_path), exc_info=error
        )
        problem = ProblemError("internal-error", "the request failed; the broker's log has the reason")
    if signing.TOKEN_HEADER in request.headers:
        # A page of ours asks people itself who they are.
        problem.headers = {"WWW-Authenticate": signing.CHALLENGE} | dict(problem.headers)
    return problems.answer(problem)


def _name_and_password(encoded: str) -> tuple[str, str]:
    try:
        name, colon, password = b64decode(encoded, validate=True).decode().partition(":")
    except ValueError:
        # No base64, no ASCII to begin with, or no UTF-8 in it.
        name = colon = password = ""
    if not colon:
        raise ProblemError("authentication-failed", "Basic takes the base64 of NAME:PASSWORD, in UTF-8 (RFC 7617)")
    return name, password


def _follows_a_link(request: web.BaseRequest) -> bool:
    """Whether somebody opens the console by a link of another page, which sees nothing of it and asks for nothing else."""
    fetched = request.headers.get("Sec-Fetch-Mode"), request.headers.get("Sec-Fetch-Dest")
    return request.method == "GET" and request.rel_url.raw_path == "/" and fetched == ("navigate", "document")


@lru_cache(MOST_HOSTS)
def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@lru_cache(MOST_HOSTS)
def _name_in(host: str) -> str:
    """The name or address in a Host header; an empty text where it is none."""
    if any(each in host for each in "@/?#\\"):
        return ""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def response_of(said: Answer, share: Share | None, request: web.BaseRequest | None = None) -> web.StreamResponse:
    """An answer as aiohttp writes it, whole where the request can be answered so; its body is part of the share.

    Raises:
        ProblemError: there is no room for it.
    """
    if said.body is None:
        return web.Response(status=said.status, headers=ALWAYS | dict(said.headers))
    body = messages.json_bytes(said.body)
    if share is not None:
        share.take(len(body))
    if request is not None and Whole.fits(request, said.status) and "Connection" not in said.headers:
        return Whole(said.status, said.headers, said.content_type, body)
    headers = ALWAYS | dict(said.headers)
    response = web.Response(status=said.status, body=body, content_type=said.content_type, headers=headers)
    if headers.get("Connection") == "close":
        response.force_close()
    return response


class _Requests(list[Any]):
    """Requests that have come and are not answered, of which there are few: a `deque` takes 700 bytes, and there is one a connection."""

    __slots__ = ()

    def popleft(self) -> Any:
        """As of a `deque`."""
        return self.pop(0)


class _Protocol(web.RequestHandler):
    """Aiohttp's, which answers what is no HTTP as all else is answered, and logs it where it is looked for alone."""

    __slots__ = ()

    def __init__(self, manager: web.Server, **options: Any) -> None:
        super().__init__(manager, **options)
        self._messages = _Requests()  # type: ignore[assignment]  # it has of a deque what is used

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As of aiohttp."""
        super().connection_made(transport)
        if self._task_handler is not None:
            self._task_handler.add_done_callback(_forget_how_it_ended)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """As of aiohttp."""
        if request.writer.output_size:
            raise ConnectionError("an answer has begun")
        if status < 500:
            logger.debug("%s sent what is no HTTP: %s", request.remote, message)
            problem = ProblemError("protocol-error", f"this is no HTTP: {shown(message or str(exc))}")
        else:
            logger.error("a request failed on a defect of ours", exc_info=exc)
            problem = ProblemError("internal-error", "the request failed; the broker's log has the reason")
        response = response_of(problems.answer(problem), None)
        response.force_close()
        return response


def _forget_how_it_ended(task: asyncio.Task[None]) -> None:
    """Where the peer went away, the task's error leads to frames that lead back to the task, with all that a request had."""
    try:
        task.result()
    except BaseException as error:  # noqa: BLE001 - aiohttp has told of it
        forget_variables(error)


class _Server(web.Server):
    def __call__(self) -> web.RequestHandler:
        """The protocol of a connection."""
        return _Protocol(self, loop=self._loop, **self._kwargs)


def server_of(gateway: Gateway, connection_of: dict[asyncio.Protocol, HttpConnection]) -> web.Server:
    """Aiohttp's server, whose protocols are of connections that ``connection_of`` knows."""

    def handle(request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
        # No coroutine of its own, which would be kept for as long as the request waits.
        return gateway.answer(request, connection_of[request.protocol])

    return _Server(
        handle,
        handler_cancellation=True,
        access_log=None,
        logger=logger,
        keepalive_timeout=75.0,
        auto_decompress=False,
        lingering_time=2.0,
        # The acceptor has asked the system for that.
        tcp_keepalive=False,
    )
