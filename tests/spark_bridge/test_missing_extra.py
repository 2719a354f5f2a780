"""Without the packages of the extra `spark`, one line names the extra."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from spark_bridge._extra import PACKAGES

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("lacking", "statement"),
    [
        ("pyspark", "from spark_bridge import PenstockDataSource"),
        ("pyarrow", "import spark_bridge; spark_bridge.PenstockDataSource"),
        ("pyspark", "from spark_bridge import acknowledge"),
        ("pyspark", "from spark_bridge import register"),
        ("pyspark", "from spark_bridge import QueueListener"),
        ("pyspark", "import pyspark_penstock"),
        ("pyarrow", "from pyspark_penstock import DefaultSource; DefaultSource({})"),
    ],
)
def test_whoever_lacks_a_package_is_told_the_extra_in_one_line(lacking: str, statement: str) -> None:
    # None in sys.modules is a package that cannot be imported.
    program = f"import sys\nsys.modules[{lacking!r}] = None\n{statement}\n"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"ModuleNotFoundError: {lacking} is not installed, which Spark's source and sink need: pip install 'penstock-mq[spark]'"
    )


def test_the_packages_are_those_of_the_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    listed = {each.partition(">")[0] for each in project["optional-dependencies"]["spark"]}
    assert listed == set(PACKAGES)
