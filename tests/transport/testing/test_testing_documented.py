"""docs/testing.md: its examples run with the plugin, each fixture and method is named, and a test that uses no broker loads none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from transport.testing import HostedBroker

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "testing.md").read_text("utf-8")
EXAMPLE, CONSUMER = (each.split("```")[0] for each in PAGE.split("```python\n")[1:])
NO_BROKER = """
def test_nothing_of_a_broker_is_loaded():
    import sys
    assert "transport.testing.plugin" in sys.modules
    loaded = {name for name in sys.modules if name.split(".")[0] in ("streams", "journal", "actors", "transport")}
    assert loaded == {"transport", "transport._ours", "transport.testing", "transport.testing.plugin"}
"""
ANOTHER_SETTING = """
import pytest

@pytest.fixture
def penstock_settings():
    return {"max_receives": 2}

def test_a_setting_holds(penstock_broker):
    penstock_broker.send("orders", [b"a"])
    assert penstock_broker.contents("orders.dead") == []
    penstock_broker.disconnect()
"""


def run(folder: Path, *arguments: str) -> str:
    # The entry point leads to the plugin, as in any installation.
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_examples_run_and_who_uses_no_broker_loads_none(tmp_path: Path) -> None:
    none = tmp_path / "test_none.py"
    none.write_text(NO_BROKER, "utf-8")
    (tmp_path / "test_documented.py").write_text(EXAMPLE, "utf-8")
    (tmp_path / "test_settings.py").write_text(ANOTHER_SETTING, "utf-8")
    # Alone, for pytest loads what any of the tests' files names.
    assert "1 passed" in run(tmp_path, "-q", none.name)
    assert "4 passed" in run(tmp_path, "-q", "-W", "error", "test_documented.py", "test_settings.py")


def test_the_example_of_a_consumer_runs(tmp_path: Path) -> None:
    (tmp_path / "test_consumer.py").write_text(CONSUMER, "utf-8")
    assert "2 passed" in run(tmp_path, "-q", "-W", "error", "test_consumer.py")


def test_each_fixture_has_its_line(tmp_path: Path) -> None:
    listed = [line for line in run(tmp_path, "--fixtures").splitlines() if line.startswith("penstock_")]
    names = {line.split(" ")[0] for line in listed}
    assert len(names) == 5
    assert all(f"`{name}`" in PAGE for name in names)


def test_each_method_is_told() -> None:
    methods = {name for name in dir(HostedBroker) if not name.startswith("_")} - {"close"}
    assert [name for name in sorted(methods) if name not in PAGE] == []
