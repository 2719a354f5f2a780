"""Nothing under version control knows the machine, or the package registry, that it was written on."""

from __future__ import annotations

import re
from typing import Any

import pytest

# Put together here, so that this file keeps the rule too.
FOLDERS = "|".join(["wo" + "rk", "t" + "mp", "ro" + "ot", "ho" + "me"])
# A folder at the root of a file system: not one inside a relative path, nor a page of a web site.
MACHINE_PATH = re.compile(rf"(?<![\w.~}})\]*-])/({FOLDERS})(?=[/\s\"'`:;,)]|$)")
REGISTRIES = "|".join(
    ["py" + "pi", "python" + "hosted", "arti" + "factory", "j" + "frog", "npm" + "js", "dev" + "pi", "maven"]
)
REGISTRY = re.compile(REGISTRIES, re.IGNORECASE)
"""In every host of one; most files have none, and it is found sooner."""
REGISTRY_HOST = re.compile(
    rf"[\w.-]*\b({REGISTRIES})[\w-]*(\.[\w-]+)*\.(org|com|net|io|dev|local|internal)\b", re.IGNORECASE
)


def traces(source: Any) -> list[str]:
    found = []
    sought = [("the machine's path", MACHINE_PATH)]
    if REGISTRY.search(source.text):
        sought.append(("the registry's host", REGISTRY_HOST))
    for number, line in enumerate(source.text.splitlines(), 1):
        for kind, pattern in sought:
            if hit := pattern.search(line):
                found.append(f"{source.path}:{number} has {kind} {hit[0].strip()}")
    return found


def test_no_file_names_a_machines_path_or_a_registrys_host(tracked: Any) -> None:
    assert any(source.path == "pyproject.toml" for source in tracked), "the test looks in the wrong place"
    found = [violation for source in tracked for violation in traces(source)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "path = '/{w}/main'",
        'open("/{t}/x")',
        "see /{h}/someone/notes",
        "cd /{r}",
        "--index-url https://{p}.org/simple",
        "https://files.{q}.org/packages/x.whl",
        "http://{a}.example.com/api",
    ],
)
def test_a_trace_is_found(snippet: Any, text: str) -> None:
    words = {"w": "wo" + "rk", "t": "t" + "mp", "h": "ho" + "me", "r": "ro" + "ot", "p": "py" + "pi"}
    words |= {"q": "python" + "hosted", "a": "arti" + "factory"}
    assert len(traces(snippet(text.format(**words)))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "#!/usr/bin/env bash",
        "examples/wo" + "rk/a",
        "https://example.org/ho" + "me",
        "$JAVA_HOME/bin",
        "./t" + "mp/x",
        "~/ho" + "me",
    ],
)
def test_what_is_no_trace_passes(snippet: Any, text: str) -> None:
    assert traces(snippet(text)) == []
