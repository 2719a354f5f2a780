"""amqplib, node's client, unchanged: all that it offers, by promises and by callbacks, in plain and under TLS.

What it does is in `amqplib_program.js`; it says each part that went well.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.transport.gateways.amqp.conftest import AmqpBroker
from tests.transport.gateways.amqp.peers import PASSWORD, USER, Secured
from tests.transport.programs import ROOT

PROGRAM = Path(__file__).with_name("amqplib_program.js")
INSTALL_SECONDS = 150
SECONDS = 100


@pytest.fixture(scope="module")
def modules() -> str:
    """Where amqplib is; it is installed once."""
    found = subprocess.run(
        [str(ROOT / "scripts" / "ensure-amqplib")],
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
        check=False,
    )
    if found.returncode:
        pytest.skip(found.stderr.strip().splitlines()[-1])
    return found.stdout.strip() + "/node_modules"


def said(modules: str, *arguments: str) -> list[str]:
    """What the program says; it must end well."""
    done = subprocess.run(
        ["node", str(PROGRAM), *arguments],
        env=os.environ | {"NODE_PATH": modules},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout.splitlines()


def test_all_that_it_offers_is_as_with_rabbitmq(modules: str, broker: AmqpBroker) -> None:
    parts = re.findall(r'^  async "(.+)"\(', PROGRAM.read_text("utf-8"), re.MULTILINE)
    assert len(parts) >= 16
    assert said(modules, str(broker.port)) == [*parts, "the same by callbacks"]


def test_users_come_in_under_tls_and_renew_their_password(modules: str, secured: Secured) -> None:
    assert said(modules, str(secured.port), str(secured.tls_port), str(secured.ca), USER, PASSWORD) == [
        "users come in under TLS"
    ]
