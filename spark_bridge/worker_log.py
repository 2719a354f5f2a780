"""What the processes say that Spark starts: on their stderr, which Spark passes on, a line each in the form of Spark's own lines.

Nobody configures a log there, and Python then prints bare texts: without a time, a level, or a word of who says it.
"""

from __future__ import annotations

import logging
import os

RUNTIME_VARIABLE, OF_WORKERS = "SPARK_PYTHON_RUNTIME", "PYTHON_WORKER"
"""Spark sets it in the processes that plan and read for it."""
FORM, TIMES = "%(asctime)s %(levelname)s %(name)s: %(message)s", "%y/%m/%d %H:%M:%S"
"""As Spark's own log has them, unless somebody configures it."""
OURS = "penstock"
"""Above all loggers of ours."""


class WorkerHandler(logging.StreamHandler):  # type: ignore[type-arg]  # of whatever stderr is
    """Prints warnings while nobody has configured a log, in place of Python's last resort."""

    def __init__(self) -> None:
        super().__init__()
        self.setLevel(logging.WARNING)
        self.setFormatter(logging.Formatter(FORM, TIMES))

    def emit(self, record: logging.LogRecord) -> None:
        """Print, unless the log goes somewhere else."""
        if not logging.getLogger().handlers:
            super().emit(record)


def in_worker() -> bool:
    """Whether Spark has started this process."""
    return os.environ.get(RUNTIME_VARIABLE) == OF_WORKERS


def spark_logger() -> logging.Logger:
    """The logger of this package; in a process of Spark's what it says has a time, a level and a name."""
    ours = logging.getLogger(OURS)
    if in_worker() and not any(isinstance(handler, WorkerHandler) for handler in ours.handlers):
        ours.addHandler(WorkerHandler())
    return logging.getLogger(f"{OURS}.spark")
