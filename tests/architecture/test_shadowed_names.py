"""Our packages have everyday names: where one of the user's is found first, the first import of ours says so in one sentence."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.test_import_direction import MAY_IMPORT

ROOT = Path(__file__).resolve().parents[2]
CHECKED = ("actors", "transport", "spark_bridge")
SECONDS = 60.0


def imported(folder: Path, package: str) -> str:
    """The last line that Python says when a program in ``folder`` imports ``package``."""
    program = f"import sys; sys.path[:0] = [{str(folder)!r}, {str(ROOT)!r}]; import {package}; print('imported')"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    return (done.stdout + done.stderr).splitlines()[-1]


@pytest.mark.parametrize(
    ("package", "shadowed"), [("transport", "streams"), ("transport", "actors"), ("actors", "journal")]
)
def test_a_folder_of_the_users_under_one_of_our_names_is_named(tmp_path: Path, package: str, shadowed: str) -> None:
    (tmp_path / shadowed).mkdir()
    (tmp_path / shadowed / "__init__.py").write_text("", "utf-8")
    said = imported(tmp_path, package)
    assert said.startswith(f"ImportError: Penstock needs its own package {shadowed}, but Python finds {tmp_path}")
    assert "rename" in said


def test_a_module_of_the_users_under_one_of_our_names_is_named(tmp_path: Path) -> None:
    (tmp_path / "streams.py").write_text("", "utf-8")
    assert f"Python finds {tmp_path / 'streams.py'}" in imported(tmp_path, "transport")


def test_folders_that_are_no_packages_and_links_to_our_own_are_no_strangers(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    (tmp_path / "streams").symlink_to(ROOT / "streams")
    assert imported(tmp_path, "actors") == "imported"


def test_every_package_that_needs_others_of_ours_checks_them() -> None:
    assert {package for package, needs in MAY_IMPORT.items() if needs} - set(CHECKED) == {"pyspark_penstock"}
    texts: set[str] = set()
    for package in CHECKED:
        text = (ROOT / package / "_ours.py").read_text("utf-8")
        needed = re.search(r"^NEEDED = \((.*)\)$", text, re.MULTILINE)
        assert needed is not None
        assert set(re.findall(r'"(\w+)"', needed[1])) == MAY_IMPORT[package]
        texts.add(text.replace(needed[0], "").replace(f"first import of {package}:", ""))
        first = (ROOT / package / "__init__.py").read_text("utf-8").split("import annotations\n", 1)[1]
        assert f"from {package} import _ours as _ours" in first.split("# isort: split")[0]
    assert len(texts) == 1, "they differ in more than what they need"
