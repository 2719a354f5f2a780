"""docs/protocol.md, "WebSocket": its program takes a message of a broker that speaks HTTP, and its table is what the gateway has."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Final

import aiohttp

from tests.docs.programs import programs
from transport import Broker, BrokerConfig
from transport.gateways.http.websocket import CLOSE_CODES
from transport.gateways.listeners import configured_listeners

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "protocol.md"
DOCUMENTED: Final = "127.0.0.1:9180"
FREE: Final = "127.0.0.1:0"
SECONDS: Final = 60.0


def test_the_program_prints_what_the_page_shows() -> None:
    (program,) = programs(PAGE)
    assert program.text.count(DOCUMENTED) == 1

    async def main() -> None:
        config = BrokerConfig(FREE, FREE, http=FREE)
        async with asyncio.timeout(SECONDS), Broker(config, listeners=configured_listeners(config)) as broker:
            address = str(broker.addresses("http")[0])
            async with (
                aiohttp.ClientSession(f"http://{address}") as session,
                session.post("/api/v1/queues/orders/messages", json={"payload": "tea"}) as answer,
            ):
                assert answer.status == 201
            text = program.text.replace(DOCUMENTED, address)
            running = await asyncio.create_subprocess_exec(
                sys.executable, "-c", text, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
            )
            out, err = await running.communicate()
            assert out.decode() == program.shown, err.decode()

    asyncio.run(main())


def test_the_table_has_every_close_code_and_the_errors_before_it() -> None:
    table = dict(re.findall(r"^\| (1\d{3}) \| (.*) \|$", PAGE.read_text("utf-8"), re.MULTILINE))
    for error, code in CLOSE_CODES.items():
        assert f"`{error}`" in table[str(code)], error
    assert set(table) == {"1000", "1001", "1002", "1003", "1008", "1009", "1011"}
