"""docs/http.md: its lines of curl are typed at a broker that speaks HTTP, and its tables are what the gateway has."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.docs.console import free_address
from tests.docs.typed import Shell
from transport.config.config import DEFAULT_HTTP_ADDRESS
from transport.gateways.http.gateway import ROUTES
from transport.gateways.http.problems import STATUSES

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
PAGE: Final = (DOCS / "http.md").read_text("utf-8")
PROTOCOL: Final = (DOCS / "protocol.md").read_text("utf-8")


def test_the_lines_of_curl_print_what_the_page_shows(shell: Shell) -> None:
    if shutil.which("curl") is None:
        pytest.skip("needs curl: there is none on this machine")
    blocks = re.findall(r'^```console title="http"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 6
    address, others = free_address(), (free_address(), free_address())
    # With a journal, as the page has it: in memory alone a message that waits long has its number at once.
    words = f"penstock broker --http {address} --send-address {others[0]} --receive-address {others[1]}"
    broker = shell.start(f"exec {words}")
    try:
        assert broker.stderr is not None
        assert "penstock broker: sending" in broker.stderr.readline()
        lines = "".join(blocks).replace(DEFAULT_HTTP_ADDRESS, address).splitlines()
        typed = "\n".join(f"{line[2:]}\nprintf '\\n%s\\n' --" for line in lines if line.startswith("$ "))
        done = subprocess.run(
            ["bash", "-c", typed], cwd=shell.folder, capture_output=True, text=True, timeout=60, check=False
        )
        printed = [line for line in done.stdout.splitlines() if line not in ("", "--")]
        assert printed == [line for line in lines if not line.startswith("$ ")], done.stderr
        missing = subprocess.run(
            ["curl", "-s", f"http://{address}/api/v1/queues/nope"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert missing.stdout in PAGE
    finally:
        broker.terminate()
        broker.communicate()


def test_every_route_and_every_code_that_is_no_code_of_the_protocol_is_on_the_page() -> None:
    for route in ROUTES:
        short = route.path.replace("/api/v1/queues/{name}", "...")
        assert f"`{route.method} {route.path}`" in PAGE or f"`{route.method} {short}`" in PAGE, route.path
    for code, status in STATUSES.items():
        assert f"`{code}`" in PROTOCOL or f"| `{code}` | {status} |" in PAGE, code
