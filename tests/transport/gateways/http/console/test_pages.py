"""The files of the console, as a broker serves them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

import pytest

from transport.gateways.http.console.pages import FILES, FOLDER, INDEX, PAGES, POLICY

pytestmark = pytest.mark.event_loop
LINK: Final = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


def test_the_list_has_every_file_there_is_and_no_other() -> None:
    assert sorted(FILES) == sorted(each.relative_to(FOLDER).as_posix() for each in FOLDER.rglob("*") if each.is_file())


def test_the_page_asks_for_nothing_of_elsewhere_and_has_no_script_or_style_in_it() -> None:
    index = (FOLDER / INDEX).read_text("utf-8")
    assert set(re.findall(r'(?:src|href)="([^"#]+)', index)) <= {f"/console/{name}" for name in FILES}
    assert "<style" not in index
    assert not re.search(r"\s(style|on\w+)=", index)
    assert re.findall(r"<script([^>]*)>([^<]*)", index) == [(' type="module" src="/console/app.js"', "")]
    for name in FILES:
        text = (FOLDER / name).read_text("utf-8")
        assert "innerHTML" not in text, name
        assert set(re.findall(r"https?://[^\s\"'`)]+", text)) <= {"http://www.w3.org/2000/svg"}, name


def test_a_module_asks_for_modules_of_the_list_alone() -> None:
    for name in FILES:
        if name.endswith(".js"):
            asked = re.findall(r"""(?:from|import)\s*\(?\s*["']([^"']+)["']""", (FOLDER / name).read_text("utf-8"))
            assert {each.removeprefix("./") for each in asked} <= set(FILES), name


def test_each_file_is_there_with_its_type_and_the_policy(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            for route in PAGES:
                async with http.session.get(route.path) as answer:
                    assert answer.status == 200
                    assert await answer.read() == (FOLDER / (route.path.rpartition("/")[2] or INDEX)).read_bytes()
                    assert answer.headers["Content-Security-Policy"] == POLICY
                    assert answer.headers["X-Frame-Options"] == "DENY"
                    assert answer.headers["X-Content-Type-Options"] == "nosniff"
                    assert answer.headers["Content-Type"].partition("/")[0] in ("text", "image")

    run(main)


def test_what_a_browser_has_already_is_not_sent_again(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            async with http.session.get("/console/app.js") as answer:
                mark = answer.headers["ETag"]
            for known in (mark, f'W/{mark}, "other"', "*"):
                async with http.session.get("/console/app.js", headers={"If-None-Match": known}) as answer:
                    assert (answer.status, await answer.read()) == (304, b"")
                    assert answer.headers["ETag"] == mark
            async with http.session.get("/console/app.js", headers={"If-None-Match": '"other"'}) as answer:
                assert answer.status == 200
            async with http.session.head("/") as answer:
                assert (answer.status, await answer.read()) == (200, b"")

    run(main)


@pytest.mark.parametrize(
    "path",
    [
        "/console/",
        "/console/none.js",
        "/console/../gateway.py",
        "/console/%2e%2e/pages.py",
        "/console/app.js/",
        "/static/app.js",
    ],
)
def test_nothing_else_of_the_disk_is_there(run: Any, api: Any, path: str) -> None:
    async def main() -> None:
        async with api() as http:
            from yarl import URL

            host, port = http.address
            async with http.session.get(URL(f"http://{host}:{port}{path}", encoded=True)) as answer:
                assert answer.status == 404
                assert b"import" not in await answer.read()

    run(main)


def test_a_link_of_another_page_opens_the_console_and_gets_at_nothing_else(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            async with http.session.get("/", headers=LINK) as answer:
                assert answer.status == 200
            for path, changed in (
                ("/api/v1/queues", {}),
                ("/console/app.js", {}),
                ("/", {"Sec-Fetch-Dest": "iframe"}),
                ("/", {"Sec-Fetch-Mode": "no-cors"}),
                ("/", {"Origin": "http://evil.example"}),
                ("/", {"Host": "evil.example"}),
            ):
                async with http.session.get(path, headers=LINK | changed) as answer:
                    assert answer.status in (403, 421), (path, changed)

    run(main)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Host": "rebound.example", "Origin": "http://rebound.example", "Sec-Fetch-Site": "same-origin"}, 421),
    ],
)
def test_from_another_page_or_by_a_name_that_rebinds_nothing_is_read_changed_or_opened(
    run: Any, api: Any, headers: dict[str, str], status: int
) -> None:
    async def main() -> None:
        async with api() as http:
            await http.publish("kept")
            before = replace(http.broker.queues.read("orders"), oldest_ms=0)
            upgrade = {
                "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Protocol": "penstock.1",
            }  # fmt: skip
            for method, path, body, more in (
                ("GET", "/api/v1/queues", None, {}),
                ("GET", "/api/v1/events", None, {}),
                ("GET", "/api/v1/session", None, {}),
                ("GET", "/api/v1/queues/orders/browse", None, {}),
                ("POST", "/api/v1/queues", {"name": "made"}, {}),
                ("POST", "/api/v1/queues/orders/purge", None, {}),
                ("POST", "/api/v1/queues/orders/take", {}, {}),
                ("DELETE", "/api/v1/queues/orders", None, {}),
                ("POST", "/api/v1/session", {"user": "a", "password": "b"}, {}),
                ("OPTIONS", "/api/v1/queues", None, {"Access-Control-Request-Method": "DELETE"}),
                ("GET", "/ws", None, upgrade),
            ):
                async with http.session.request(method, path, json=body, headers=headers | more) as answer:
                    found = await answer.read()
                    assert answer.status == status, (method, path)
                    assert b"orders" not in found
                    assert not [name for name in answer.headers if name.lower().startswith("access-control")]
            assert list(http.broker.queues) == ["orders"]
            assert replace(http.broker.queues.read("orders"), oldest_ms=0) == before
            # A socket of the native protocol would have a role.
            assert {each.role for each in http.broker.connections.values()} <= {"http"}

    run(main)
