"""native.js in Chromium: a page that sends and receives over /ws, and what becomes of what it holds when it is gone."""

from __future__ import annotations

import asyncio
import os
import signal
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.transport.conftest import until
from tests.transport.gateways.http.browser import chromium
from tests.transport.gateways.http.websocket_users import users_of

if TYPE_CHECKING:
    from playwright.async_api import Page, Route

SECONDS = 120.0
"""For a whole test: a browser takes its time to start."""
STATIC = Path(__file__).parents[4] / "transport" / "gateways" / "http" / "console" / "static"


def browse(main: Any) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(SECONDS):
            await main()

    asyncio.run(bounded())


async def _give(route: Route) -> None:
    """A module, as if it were the broker's own file."""
    name = route.request.url.rpartition("/")[2]
    await route.fulfill(body=(STATIC / name).read_text("utf-8"), content_type="text/javascript")


@asynccontextmanager
async def page_of(http: Any, address: str | None = None, *arguments: str) -> AsyncIterator[Page]:
    """A page that the broker itself, or ``address``, has given, with the module as ``native``.

    It comes from a real server, for browsers keep one that does not from connecting to this machine at all.
    """
    async with chromium(*arguments) as browser:
        page = await browser.new_page()
        await page.route("**/*.js", _give)
        await page.goto(f"http://{address or '{}:{}'.format(*http.address)}/health/live")
        await page.evaluate("async () => { window.native = await import('/native.js'); }")
        yield page


def test_a_page_sends_and_receives_what_it_asks_for_and_no_more(api: Any) -> None:
    async def main() -> None:
        async with api() as http, page_of(http) as page:
            numbers = await page.evaluate(
                """async () => {
                    window.sender = await native.openSender({ queue: "orders" });
                    return await sender.send([
                        "tea", { payload: "caf\\u00e9", key: "k", headers: { table: "7" } }, new Uint8Array([0, 255]),
                    ]);
                }"""
            )
            assert numbers == [0, 1, 2]
            got = await page.evaluate(
                """async () => {
                    window.got = [];
                    window.receiver = await native.openReceiver({ queue: "orders", onMessage: (message) => got.push(message) });
                    receiver.request(2);
                    const look = (found) => got.length >= 2 ? found() : requestAnimationFrame(() => look(found));
                    await new Promise(look);
                    return got.map((each) => [each.number, each.text(), each.key && each.key.length, [...each.headers], each.id.length,
                                              each.deliveries, each.replayed, each.enqueued.getFullYear() > 2000]);
                }"""
            )
            assert got == [
                [0, "tea", None, [], 16, 1, False, True],
                [1, "café", 1, [["table", "7"]], 16, 1, False, True],
            ]
            row = await http.queue()
            assert (row["ready"], row["in_flight"]) == (1, 2)
            # Nothing more comes before it is asked for; acknowledging is not asking.
            assert await page.evaluate("receiver.acknowledge(got[0]); [receiver.wanted, receiver.held.size]") == [0, 1]
            await until(lambda: _acknowledged(http, 1))
            assert (await http.queue())["ready"] == 1
            await page.evaluate("receiver.giveBack([got[1]], { failed: false }); receiver.request(2);")
            await page.wait_for_function("got.length === 4")
            assert await page.evaluate("got.slice(2).map((each) => each.number)") == [1, 2]
            await page.evaluate(
                "async () => { receiver.acknowledge(...got.slice(2, 3)); await receiver.close(); await sender.close(); }"
            )
            assert await page.evaluate("Promise.all([sender.ended, receiver.ended])") == [None, None]
            row = await http.queue()
            assert (row["ready"], row["total_acknowledged"]) == (1, 2)

    browse(main)


async def _acknowledged(http: Any, count: int) -> bool:
    return bool((await http.queue())["total_acknowledged"] == count)


def test_a_page_moves_many_batches_and_waits_for_a_full_queue(api: Any) -> None:
    async def main() -> None:
        async with api(max_queue_messages=1000) as http, page_of(http) as page:
            total = await page.evaluate(
                """async () => {
                    const count = 5000;
                    const sender = await native.openSender({ queue: "orders" });
                    const sent = sender.send(Array.from({ length: count }, (_, n) => `message ${n}`));
                    let next = 0, most = 0;
                    const done = new Promise((resolve, reject) => {
                        native.openReceiver({ queue: "orders", onEnd: reject, onMessage(message) {
                            if (message.text() !== `message ${next}`) reject(new Error(`${message.text()} where ${next} was due`));
                            most = Math.max(most, this.held ? this.held.size : 0);
                            next += 1;
                            window.receiver.acknowledge(message);
                            window.receiver.request(1);
                            if (next === count) resolve();
                        } }).then((receiver) => { window.receiver = receiver; receiver.request(100); });
                    });
                    window.sender = sender;
                    await done;
                    const numbers = await sent;
                    return [numbers.length, numbers.at(-1), sender.waiting];
                }"""
            )
            assert total == [5000, 4999, 0]
            await until(lambda: _acknowledged(http, 5000))

    browse(main)


def test_errors_have_the_brokers_codes(api: Any) -> None:
    async def main() -> None:
        async with api() as http, page_of(http) as page:
            code = "async (options) => { try { await native.openReceiver(options); } catch (error) { return error.code; } }"
            assert await page.evaluate(code, {"queue": "nope", "existing": True}) == "not-found"
            assert await page.evaluate(code, {"queue": "no good"}) == "invalid-name"
            await http.ask("POST", "/api/v1/queues", {"name": "small", "max_messages": 1, "overflow": "reject"})
            assert await page.evaluate(
                """async () => {
                    const sender = await native.openSender({ queue: "small", limit: 10 });
                    const results = [];
                    for (const each of ["a", "b", "c"]) {
                        results.push(await sender.send(each).then((numbers) => numbers[0], (error) => error.code));
                    }
                    results.push(await sender.send(Array(11).fill("x")).catch((error) => error.code));
                    const why = await sender.why();
                    window.last = sender;
                    return [...results, typeof why.text];
                }"""
            ) == [0, "rejected", "rejected", "limit", "string"]
            await http.ask("DELETE", "/api/v1/queues/small")
            assert await page.evaluate("last.ended.then((error) => error.code)") == "queue-deleted"
            assert await page.evaluate("last.send('x').catch((error) => error.code)") == "connection-lost"

    browse(main)


def test_a_page_with_a_token_is_its_user(api: Any, tmp_path: Path) -> None:
    path, token = users_of(tmp_path)

    async def main() -> None:
        async with api(users_file=path) as http, page_of(http) as page:
            ann = {"Authorization": f"Basic {b64encode(b'ann:secret').decode()}"}
            assert (await http.ask("POST", "/api/v1/queues/orders/messages", {"payload": "a"}, headers=ann))[0] == 201
            code = """async ([role, options]) => {
                try { window.peer = await native[role](options); return null; } catch (error) { return error.code; }
            }"""
            assert await page.evaluate(code, ["openReceiver", {"queue": "orders"}]) == "authentication-required"
            wrong = {"queue": "orders", "token": "nonsense"}
            assert await page.evaluate(code, ["openReceiver", wrong]) == "authentication-failed"
            mine = {"queue": "orders", "token": token}
            assert await page.evaluate(code, ["openSender", mine]) == "forbidden"
            assert await page.evaluate(code, ["openReceiver", mine]) is None

    browse(main)


def test_what_a_page_holds_comes_back_at_once_when_its_browser_is_killed(api: Any) -> None:
    async def main() -> None:
        async with api() as http, page_of(http) as page:
            # By itself it takes nothing back in the time of a test.
            await http.ask("POST", "/api/v1/queues", {"name": "orders", "visibility_timeout_ms": 3_600_000})
            await http.publish("one", "two")
            await page.evaluate(
                """async () => {
                    window.got = [];
                    window.receiver = await native.openReceiver({ queue: "orders", onMessage: (message) => got.push(message) });
                    receiver.request(2);
                }"""
            )
            await page.wait_for_function("got.length === 2")
            assert (await http.queue())["in_flight"] == 2
            # The process that holds the socket, and with it the page's messages: the browser's own, and whatever it started.
            session = await page.context.browser.new_browser_cdp_session()  # type: ignore[union-attr]
            found = await session.send("SystemInfo.getProcessInfo")
            for process in found["processInfo"]:
                os.kill(process["id"], signal.SIGKILL)
            await until(lambda: _ready(http, 2))

    browse(main)


async def _ready(http: Any, count: int) -> bool:
    return bool((await http.queue())["ready"] == count)


@asynccontextmanager
async def elsewhere() -> AsyncIterator[str]:
    """Somebody else's server."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3\r\nConnection: close\r\n\r\n<p>"
            )
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


SOCKET = "async (url) => native.openReceiver({ queue: 'orders', url }).then(() => null, (error) => error.code)"


def test_a_page_of_another_origin_opens_no_socket(api: Any) -> None:
    async def main() -> None:
        async with api() as http, elsewhere() as address, page_of(http, address) as page:
            url = "ws://{}:{}/ws".format(*http.address)
            assert await page.evaluate(SOCKET, url) == "connection-lost"
            assert (await http.ask("GET", "/api/v1/queues/orders"))[0] == 404
        async with api() as http, page_of(http) as page:
            # A page of the broker's own can.
            assert await page.evaluate(SOCKET, "ws://{}:{}/ws".format(*http.address)) is None

    browse(main)


def test_a_name_that_somebody_has_pointed_here_opens_no_socket(api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            rebound = f"rebound.example:{http.address[1]}"
            rules = "--host-resolver-rules=MAP rebound.example 127.0.0.1"
            async with page_of(http, rebound, rules) as page:
                assert await page.evaluate(SOCKET, f"ws://{rebound}/ws") == "connection-lost"
                assert (await http.ask("GET", "/api/v1/queues/orders"))[0] == 404

    browse(main)


def test_msgpack_of_the_page_is_that_of_python(api: Any) -> None:
    import msgpack

    values: list[Any] = [
        0,
        127,
        128,
        255,
        256,
        65535,
        65536,
        2**32 - 1,
        2**32,
        2**53 - 1,
        None,
        True,
        False,
        "",
        "é" * 20,
    ]
    values += [
        "a" * 31,
        "a" * 32,
        "a" * 255,
        "a" * 256,
        "a" * 70_000,
        [],
        list(range(15)),
        list(range(16)),
        [[1], ["a"]],
    ]
    values += [{}, {"a": 1, "b": {"c": [None]}}, {f"k{n}": n for n in range(20)}]

    async def main() -> None:
        async with api() as http, page_of(http) as page:
            await page.evaluate("async () => { window.wire = await import('/native_wire.js'); }")
            packed = await page.evaluate("(values) => values.map((value) => [...wire.pack(value)])", values)
            assert [msgpack.unpackb(bytes(each)) for each in packed] == values
            assert [bytes(each) for each in packed] == [msgpack.packb(value) for value in values]
            back = """(all) => {
                const plain = (value) => value instanceof Map ? Object.fromEntries([...value].map(([k, v]) => [k, plain(v)]))
                    : Array.isArray(value) ? value.map(plain) : value;
                return all.map((bytes) => plain(wire.unpack(new Uint8Array(bytes))));
            }"""
            assert await page.evaluate(back, [list(msgpack.packb(value)) for value in values]) == values
            # In any pieces the same frames come out, and what is none is refused.
            assert await page.evaluate(
                """() => {
                    const error = wire.frame([3, "code", "text", true], [new Uint8Array(300)]);
                    const stream = [...wire.frame([4, 7]), ...error, ...wire.frame([5, 1])];
                    const found = [];
                    for (const size of [1, 2, 5, 7, 100, 1000]) {
                        const decoder = new wire.FrameDecoder();
                        const frames = [];
                        for (let at = 0; at < stream.length; at += size) {
                            const piece = new Uint8Array(stream.slice(at, at + size));
                            for (const [header, body] of decoder.feed(piece)) frames.push([header, body.length]);
                        }
                        found.push(JSON.stringify(frames));
                    }
                    return [...new Set(found)];
                }"""
            ) == ['[[[4,7],0],[[3,"code","text",true],300],[[5,1],0]]']
            refused = """(bytes) => {
                try { [...new wire.FrameDecoder().feed(new Uint8Array(bytes))]; } catch (error) { return error.code; }
            }"""
            for wrong in ([0, 0, 0, 6, 0, 0], [255, 255, 255, 255, 0, 1], [0, 0, 0, 8, 0, 9, 0, 0]):
                assert await page.evaluate(refused, wrong) == "protocol-error"

    browse(main)
