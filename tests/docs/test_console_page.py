"""docs/console.md: what it says of kinds and limits is so, and each picture is one that the script takes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from transport.gateways.http.console.sessions import MOST_OF_ONE, MOST_SESSIONS, SESSION_SECONDS
from transport.gateways.http.console.signing import MOST_BODY
from transport.gateways.http.pictures import STREAM_SECONDS
from transport.picture.pressure import Kind
from transport.picture.sampler import MOST_LOOKS
from transport.picture.view import MOST_BEFORE

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = (ROOT / "docs" / "console.md").read_text("utf-8")
STATIC: Final = ROOT / "transport" / "gateways" / "http" / "console" / "static"


def test_the_kinds_of_pressure_are_all_there_the_most_pressing_first() -> None:
    table = PAGE.split("| pressure |")[1].split("\n\n")[0]
    assert re.findall(r"^\| ([a-z ]+) \|", table, re.MULTILINE) == [kind.value for kind in reversed(Kind)]


def test_each_kind_has_a_colour_in_both_schemes() -> None:
    styles = (STATIC / "console.css").read_text("utf-8")
    for kind in Kind:
        name = kind.value.replace(" ", "-")
        assert len(re.findall(rf"--{name}: #", styles)) == len(re.findall(rf"--{name}-ground: #", styles)) == 2, name


def test_the_limits_are_those_in_force() -> None:
    said = {
        f"{MOST_SESSIONS:,} at a time; {MOST_OF_ONE} of a user",
        f"| what it takes to sign in | {MOST_BODY // 1024} KiB |",
        f"| pages that look at the same time | {MOST_LOOKS} |",
        f"{MOST_BEFORE + 50:,} can be\nreached",
    }
    assert [text for text in said if text not in PAGE] == []
    assert SESSION_SECONDS == 8 * STREAM_SECONDS == 8 * 3600
    assert f"const MOST_BEFORE = {MOST_BEFORE};" in (STATIC / "queues.js").read_text("utf-8")
    assert "const ROWS = 50;" in (STATIC / "queues.js").read_text("utf-8")


def test_each_picture_is_there_and_is_one_that_the_script_takes() -> None:
    script = (ROOT / "scripts" / "screenshots.py").read_text("utf-8")
    shown = re.findall(r"\]\(images/console-(\w+)-(\d+)-(\w+)\.png\)", PAGE)
    assert len(shown) >= 5
    for name, width, scheme in shown:
        assert f'"{name}", "queues' in script
        assert (width, scheme) in {(width, scheme) for width in ("390", "1440") for scheme in ("light", "dark")}
        assert (ROOT / "docs" / "images" / f"console-{name}-{width}-{scheme}.png").read_bytes()[:4] == b"\x89PNG"
