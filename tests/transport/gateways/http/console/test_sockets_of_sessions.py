"""The WebSockets of a page that is known by its session: they end with it, as all else does."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.transport.gateways.http.console.test_signing import SESSION, signed_in
from tests.transport.gateways.http.websocket_client import WsPeer
from tests.transport.gateways.http.websocket_users import users_of
from transport.gateways.http.console import sessions
from transport.wire.messages import Deliver, Request

pytestmark = pytest.mark.event_loop


async def opened(http: Any, page: Any, **options: Any) -> WsPeer:
    peer = await WsPeer.connect(http.listener.addresses[0], Cookie=page.headers["Cookie"])
    await peer.hello("receiver", "orders", None, **options)
    return peer


def test_who_signs_out_receives_nothing_any_more(run: Any, sockets: Any, tmp_path: Path) -> None:
    path, _ = users_of(tmp_path)

    async def main() -> None:
        async with sockets(users_file=path) as http:
            page, other = await signed_in(http), await signed_in(http)
            await http.ask("POST", "/api/v1/queues/orders/messages", {"payload": "a"}, headers=page.told)
            receives, stays = await opened(http, page), await opened(http, other)
            receives.send(Request(1, 1 << 20))
            await receives.expect(Deliver)
            assert (await http.ask("DELETE", SESSION, headers=page.told))[0] == 200
            assert (await receives.refusal()).code == "authentication-required"
            assert receives.received.closed == (1008, b"authentication-required")
            # What it held goes to who is still there.
            stays.send(Request(1, 1 << 20))
            await stays.expect(Deliver)

    run(main)


def test_a_socket_lasts_no_longer_than_its_session(
    run: Any, sockets: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = users_of(tmp_path)

    async def main() -> None:
        async with sockets(users_file=path) as http:
            for seconds in (0.5, 2.0, 8.0):
                monkeypatch.setattr(sessions, "SESSION_SECONDS", seconds)
                page = await signed_in(http)
                with suppress(AssertionError):  # on a busy machine its time may be over by now: then it lets nobody in
                    peer = await WsPeer.connect(http.listener.addresses[0], Cookie=page.headers["Cookie"])
                    break
            assert (await peer.refusal()).code == "authentication-required"

    run(main)


def test_a_proof_of_its_own_in_hello_outlives_the_session_and_a_socket_that_is_gone_is_forgotten(
    run: Any, sockets: Any, tmp_path: Path
) -> None:
    path, token = users_of(tmp_path)

    async def main() -> None:
        async with sockets(users_file=path) as http:
            page = await signed_in(http)
            await http.ask("POST", "/api/v1/queues/orders/messages", {"payload": "a"}, headers=page.told)
            session = http.listener._gateway._signing.sessions.of(page.cookie.value)
            left = await opened(http, page)
            assert len(session.ends) == 1
            left.abort()
            own = await opened(http, page, token=token)
            while len(session.ends) != 1:
                await http.ask("GET", "/health/live")
            assert (await http.ask("DELETE", SESSION, headers=page.told))[0] == 200
            own.send(Request(1, 1 << 20))
            await own.expect(Deliver)

    run(main)
