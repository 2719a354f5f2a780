"""docs/amqp.md: its program says what the page shows, with the broker that its line starts."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

from tests.docs.typed import block
from tests.transport.programs import DEADLINE, BrokerProcess

PAGE = "docs/amqp.md"


def test_the_program_prints_what_the_page_shows() -> None:
    _, verb, *options = shlex.split(block(PAGE, "penstock broker"))
    assert (verb, options) == ("broker", ["--amqp", "127.0.0.1:5672"])
    with BrokerProcess("--amqp", "127.0.0.1:0") as broker:
        words = broker.said.replace(",", "").split()
        port = words[words.index("AMQP") + 1].rpartition(":")[2]
        program = block(PAGE, "import pika").replace("5672", port)
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=DEADLINE, check=False
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == block(PAGE, "b'tea' text/plain")


def test_definitions_are_taken_over_as_the_page_shows(tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    file.write_text(block(PAGE, '{\n  "rabbit_version"'))
    shown = block(PAGE, "$ penstock definitions import")
    line, _, answer = shown.partition("\n")
    with BrokerProcess("--amqp", "127.0.0.1:0", "--amqp-virtual-hosts", "shop") as broker:
        code, out, said = broker.run("definitions import", str(file))
    assert line == "$ penstock definitions import definitions.json"
    assert (code, out.decode() + said) == (0, answer)
