"""Import this first, where Spark's packages are needed: without one of them it raises, in one line that names the extra."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

PACKAGES: Final = ("pyspark", "pyarrow", "pandas", "numpy")
"""Those of the extra `spark` in pyproject.toml."""

for _package in PACKAGES:
    if find_spec(_package) is None:
        raise ModuleNotFoundError(
            f"{_package} is not installed, which Spark's source and sink need: pip install 'penstock-mq[spark]'",
            name=_package,
        )
