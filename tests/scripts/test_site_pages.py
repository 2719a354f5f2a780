"""The site: links of the pages lead to pages, and what leads nowhere ends its making."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("mkdocs", reason="the site's generator is not installed")

from scripts import site_pages

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 100.0


def turned(text: str, uri: str) -> str:
    page: Any = SimpleNamespace(file=SimpleNamespace(src_uri=uri))
    nothing: Any = None
    return site_pages.on_page_markdown(text, page, nothing, nothing)


@pytest.mark.parametrize(
    ("uri", "written", "link"),
    [
        ("index.md", "docs/demand.md", "demand.md"),
        ("index.md", "docs/operators/README.md", "operators/README.md"),
        ("index.md", "docs/operators/", "operators/README.md"),
        ("index.md", "ARCHITECTURE.md", "ARCHITECTURE.md"),
        ("demand.md", "../examples/streams/paces.py", "examples/streams/paces.py.md"),
        ("demand.md", "../examples/streams", "examples/README.md"),
        ("demand.md", "protocol.md#frames", "protocol.md#frames"),
        ("operators/sources.md", "../failures.md", "../failures.md"),
        ("operators/sources.md", "../../benchmarks/RESULTS.md", "../benchmarks/RESULTS.md"),
        ("benchmarks/RESULTS.md", "../docs/spark.md", "../spark.md"),
        ("durability.md", "../benchmarks/RESULTS.md", "benchmarks/RESULTS.md"),
        ("coming-from.md", "../README.md", "index.md"),
    ],
)
def test_a_link_to_a_file_of_the_repository_is_one_to_its_page(uri: str, written: str, link: str) -> None:
    assert turned(f"see [it]({written}), or", uri) == f"see [it]({link}), or"


@pytest.mark.parametrize("text", ["[it](https://example.com/a.md)", "[it](#here)", "`[a](b)`", "[it](../no/such.py)"])
def test_any_other_link_stays_as_it_is(text: str) -> None:
    assert turned(text, "demand.md") == text


def test_every_example_is_a_page_with_what_it_says_of_itself() -> None:
    listed = site_pages.list_of_examples()
    assert "- [examples/broker.py](broker.py.md): " in listed
    assert all(f"[{path}](" in listed for path in site_pages.examples())
    assert '"""' in site_pages.example("examples/broker.py")


def test_the_page_of_commands_has_every_verb_in_80_columns() -> None:
    page = site_pages.commands()
    for verb in ("## penstock broker", "## penstock send", "### penstock queue create", "### penstock journal verify"):
        assert f"\n{verb}\n" in page
    assert max(map(len, page.splitlines())) <= 100, "names of options are never cut"


def build(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Make a site of one page, by the rules of ours."""
    (folder / "docs").mkdir()
    (folder / "docs" / "index.md").write_text(text, "utf-8")
    ours = (ROOT / "mkdocs.yml").read_text("utf-8")
    rules = ours[ours.index("\nvalidation:") : ours.index("\nnav:")]
    theme = "theme: {name: material, font: false}"
    (folder / "mkdocs.yml").write_text(f"site_name: x\nstrict: true\nplugins: []\n{theme}\n{rules}\n", "utf-8")
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build"],
        cwd=folder,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )


def test_a_link_or_an_anchor_that_leads_nowhere_ends_the_making(tmp_path: Path) -> None:
    made = build(tmp_path, "# Here\n\n[one](nowhere.md) [two](#there) [three](#here)\n")
    assert made.returncode == 1
    assert "nowhere.md" in made.stderr
    assert "#there" in made.stderr
    assert "#here" not in made.stderr
