"""What answers is not always an etcd, and an etcd does not always answer what was asked: nothing of it is believed, kept or waited for."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.replication.document import DocumentError, encode_document
from actors.replication.register import (
    NOTHING,
    RegisterMovedError,
    RegisterUnavailableError,
    SwapUnknownError,
)
from tests.transport.cluster.fault_proxy import read_message
from tests.transport.cluster.register_contract import FIRST
from transport.cluster.addresses import EtcdAddress
from transport.cluster.etcd import EtcdRegister
from transport.cluster.gateway import MAX_ANSWER_BYTES, AnswerLostError, Gateway, NobodyThereError
from transport.errors import LocalProtocolError
from transport.wire.address import Address

SECONDS = 5.0
KEY = EtcdAddress("orders", ()).key


def http(status: str, fields: object, more: str = "") -> bytes:
    body = fields if isinstance(fields, bytes) else json.dumps(fields).encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body


class Scripted:
    """Answers each request with the next of some bytes, and then hangs up."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.requests: list[bytes] = []
        self.address: Address
        self.sent = 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            self.requests.append(await read_message(reader))
            answer = self.answers.pop(0) if self.answers else b""
            for start in range(0, len(answer), 65_536):
                writer.write(answer[start : start + 65_536])
                self.sent += len(answer[start : start + 65_536])
                await writer.drain()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


@asynccontextmanager
async def scripted(*answers: bytes) -> AsyncIterator[tuple[Scripted, EtcdRegister]]:
    peer = Scripted()
    server = await asyncio.start_server(peer.accept, "127.0.0.1", 0)
    peer.address = Address("127.0.0.1", server.sockets[0].getsockname()[1])
    peer.answers = list(answers)
    register = EtcdRegister(
        EtcdAddress("orders", (peer.address,)), read_seconds=SECONDS, swap_seconds=SECONDS, call_seconds=SECONDS
    )
    async with server:
        yield peer, register


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


HEADER = {"cluster_id": "1", "revision": "7"}
VALUE = base64.b64encode(encode_document(FIRST)).decode()

NO_ETCD = [
    b"",
    b"\x00\x01\x02",
    b"SSH-2.0-OpenSSH_9.2\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\n" + b"X-Long: " + b"x" * 100_000 + b"\r\n\r\n",
    http("200 OK", b"<html>"),
    http("200 OK", []),
    http("200 OK", {}),
    http("200 OK", b"[" * 100_000),
    http("200 OK", {"header": HEADER, "kvs": [1]}),
    http("200 OK", {"header": HEADER, "kvs": [{"mod_revision": "7", "value": "*"}]}),
    http("200 OK", {"header": HEADER, "kvs": [{"mod_revision": "7", "value": "\u00e9"}]}),
    http("200 OK", {"header": HEADER, "kvs": [{"mod_revision": 7, "value": VALUE}]}),
    http("200 OK", {"header": HEADER, "kvs": [{"mod_revision": "-7", "value": VALUE}]}),
    http("200 OK", {"header": HEADER, "kvs": [{"mod_revision": "9" * 5_000, "value": VALUE}]}),
    http("200 OK", {"header": HEADER, "succeeded": 1}),
    http("200 OK", {"header": {"cluster_id": "1"}, "succeeded": True}),
    http("200 OK", {"header": {"revision": "7"}, "kvs": []}),
    http("200 OK", {"header": {"cluster_id": 1, "revision": "7"}, "kvs": []}),
    http("302 Found", {}, "Location: http://127.0.0.1:1/\r\n"),
    http("503 Service Unavailable", b"try later"),
    http("500 Internal Server Error", {"error": "etcdserver: request timed out", "code": 14}),
]


@pytest.mark.parametrize("answer", NO_ETCD, ids=range(len(NO_ETCD)))
def test_what_is_no_answer_of_an_etcds_is_none(answer: bytes) -> None:
    async def main() -> None:
        async with scripted(answer, answer) as (peer, register):
            if b"succeeded" not in answer:
                with pytest.raises(RegisterUnavailableError) as raised:
                    await register.read()
                assert str(peer.address) in str(raised.value)
                assert len(str(raised.value)) < 600
                assert str(raised.value).isprintable()
            with pytest.raises(SwapUnknownError):
                await register.swap(NOTHING, FIRST)

    run(main())


@pytest.mark.parametrize(
    ("status", "fields", "error"),
    [
        ("400 Bad Request", {"error": "etcdserver: key is not provided", "code": 3}, "refuses: etcdserver: key is not"),
        ("403 Forbidden", {"error": "etcdserver: permission denied", "code": 7}, "refuses: etcdserver: permission"),
        (
            "404 Not Found",
            b"404 page not found",
            "refuses: HTTP status 404, 404 page not found; it takes an etcd of version 3.4",
        ),
        ("429 Too Many Requests", {"error": "etcdserver: too many requests", "code": 8}, "too many requests"),
        ("500 Error", {"code": 8, "message": "etcdserver: mvcc: database space exceeded"}, "space exceeded"),
        ("500 Error", {"error": "raft proposal dropped", "code": 2}, "raft proposal dropped"),
        ("400 Bad Request", {"error": "x\r\n\x1b[2J" + "y" * 1_000, "code": 3}, r"refuses: x\\r\\n\\x1b\[2Jyyy"),
    ],
)
def test_a_refusal_before_anything_was_done_is_told_and_leaves_nothing_in_doubt(
    status: str, fields: object, error: str
) -> None:
    async def main() -> None:
        async with scripted(http(status, fields), http(status, fields)) as (_, register):
            for call in (register.read(), register.swap(NOTHING, FIRST)):
                with pytest.raises(RegisterUnavailableError, match=error) as raised:
                    await call
                assert str(raised.value).isprintable()
                assert len(str(raised.value)) < 600

    run(main())


def test_an_endpoint_that_has_done_nothing_has_the_next_one_asked() -> None:
    async def main() -> None:
        dropped = http("500 Error", {"error": "raft proposal dropped", "code": 2})
        done = http("200 OK", {"header": HEADER, "succeeded": True})
        async with scripted(dropped) as (first, _), scripted(done) as (second, _):
            both = EtcdAddress("orders", (first.address, second.address))
            assert await EtcdRegister(both, read_seconds=SECONDS, swap_seconds=SECONDS).swap(NOTHING, FIRST) == 7

    run(main())


@pytest.mark.event_loop
def test_an_answer_without_end_is_not_read_to_its_end() -> None:
    async def main() -> None:
        body = json.dumps({"header": HEADER, "kvs": [], "more": "x" * (16 << 20)}).encode()
        async with scripted(http("200 OK", body)) as (peer, register):
            with pytest.raises(RegisterUnavailableError, match=f"an answer of more than {MAX_ANSWER_BYTES} bytes"):
                await register.read()
        assert peer.sent < len(body) // 2

    run(main())


def test_an_answer_of_another_etcd_is_not_believed() -> None:
    async def main() -> None:
        mine = http("200 OK", {"header": HEADER})
        other = http("200 OK", {"header": HEADER | {"cluster_id": "2"}})
        async with scripted(mine, other, mine) as (_, register):
            assert await register.read() == (NOTHING, None)
            with pytest.raises(
                RegisterUnavailableError, match=r"it is of another etcd .2. than what answered before .1."
            ):
                await register.read()
            assert await register.read() == (NOTHING, None)

    run(main())


@pytest.mark.parametrize("header", [{}, {"cluster_id": "2"}, {"revision": "9"}], ids=["the same", "other", "later"])
def test_what_was_no_answer_of_an_etcds_has_no_later_one_taken_for_another_etcds(header: dict[str, str]) -> None:
    async def main() -> None:
        garbage = http("200 OK", {"header": HEADER | header, "kvs": [1]})
        async with scripted(garbage, http("200 OK", {"header": HEADER})) as (_, register):
            with pytest.raises(RegisterUnavailableError, match="none of an etcd's"):
                await register.read()
            assert await register.read() == (NOTHING, None)

    run(main())


def test_an_etcd_that_was_restored_is_not_believed() -> None:
    async def main() -> None:
        later, earlier = (http("200 OK", {"header": HEADER | {"revision": revision}}) for revision in ("7", "6"))
        async with scripted(later, earlier, earlier, later) as (_, register):
            assert await register.read() == (NOTHING, None)
            with pytest.raises(
                RegisterUnavailableError, match="its revision has gone back from 7 to 6, as in an etcd that"
            ):
                await register.read()
            with pytest.raises(SwapUnknownError, match="gone back"):
                await register.swap(NOTHING, FIRST)
            assert await register.read() == (NOTHING, None)

    run(main())


@pytest.mark.event_loop
def test_what_is_asked_for_is_linearizable_and_compared() -> None:
    async def main() -> None:
        found = {"header": HEADER, "kvs": [{"mod_revision": "5", "value": VALUE}]}
        moved = {"header": HEADER, "responses": [{"response_range": found}]}
        async with scripted(http("200 OK", found), http("200 OK", moved)) as (peer, register):
            assert await register.read() == (5, FIRST)
            with pytest.raises(RegisterMovedError) as raised:
                await register.swap(3, FIRST)
            assert raised.value.version == 5
        reading, swapping = (json.loads(request.partition(b"\r\n\r\n")[2]) for request in peer.requests)
        key = base64.b64encode(KEY.encode()).decode()
        # "serializable" would be an old document's licence.
        assert reading == {"key": key}
        assert swapping == {
            "compare": [{"key": key, "target": "MOD", "result": "EQUAL", "mod_revision": "3"}],
            "success": [{"request_put": {"key": key, "value": VALUE}}],
            "failure": [{"request_range": {"key": key}}],
        }

    run(main())


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "7", "1", VALUE]) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["header", "kvs", "succeeded", "responses", "response_range", "value", "mod_revision", "cluster_id",
                             "revision", "error", "message", "code"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)  # fmt: skip


@given(
    st.sampled_from(["200 OK", "400 Bad", "500 Error"]),
    st.dictionaries(st.sampled_from(["header", "kvs", "succeeded", "responses", "error", "code"]), values),
    st.booleans(),
)
def test_whatever_answers_a_call_ends_as_a_register_ends(status: str, fields: Any, proper: bool) -> None:
    if proper:
        fields = {**fields, "header": HEADER}

    async def main() -> None:
        async with scripted(http(status, fields), http(status, fields)) as (_, register):
            with suppress(RegisterUnavailableError, DocumentError):
                version, document = await register.read()
                assert (document is None) == (version == NOTHING)
            with suppress(SwapUnknownError, RegisterUnavailableError, RegisterMovedError):
                assert await register.swap(NOTHING, FIRST) == 7

    run(main())


def test_without_aiohttp_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(LocalProtocolError, match=r"needs the extra http: pip install 'penstock-mq\[http\]'"):
        EtcdRegister(EtcdAddress("orders", (Address("127.0.0.1", 2379),)))


def test_a_list_is_taken_and_nothing_else_and_a_port_where_nobody_listens_is_told_from_silence() -> None:
    async def main() -> None:
        good = http("200 OK", [{"id": 1}])
        bad = [http("200 OK", {"id": 1}), http("404 Not Found", []), http("200 OK", b"[1"), b""]
        async with scripted(good, *bad) as (peer, _):
            gateway, address = Gateway(None), peer.address
            assert await gateway.get_list(address, "/members", SECONDS) == [{"id": 1}]
            assert peer.requests[0].startswith(b"GET /members HTTP/1.1\r\n")
            for _ in bad:
                with pytest.raises(AnswerLostError, match=str(address)):
                    await gateway.get_list(address, "/members", SECONDS)
        with pytest.raises(NobodyThereError, match=f"{address}: Connection refused"):
            await gateway.get_list(address, "/members", SECONDS)
        with socket.create_server(("127.0.0.1", 0)) as stands:
            silent = Address("127.0.0.1", stands.getsockname()[1])
            with pytest.raises(AnswerLostError, match=r"no answer within 0\.05 s"):
                await gateway.get_list(silent, "/members", 0.05)

    run(main())
