"""What holds for every test: hypothesis' profiles, Spark only where there is a Java, and an event loop that may not complain."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib.util
import logging
import os
import signal
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from hypothesis.strategies._internal import core

if TYPE_CHECKING:
    from collections.abc import Iterator

ENSURE_JAVA = Path(__file__).resolve().parent.parent / "scripts" / "ensure-java"
ENSURE_JAVA_SECONDS = 120.0

# On a shared machine how long an example takes says nothing, so neither profile has a deadline for one. Every run tries the same
# examples, on any machine, or a failure is nobody's; others are for `make soak`, and for who gives --hypothesis-seed.
PLAIN = settings.get_profile("default")  # where hypothesis sees that it is in CI, another is loaded
# The suite tries a third of them (`tests/examples_tried.py` for a test that has a number of its own); the others are tried there too.
settings.register_profile(
    "same", PLAIN, deadline=None, derandomize=True, database=None, print_blob=True, max_examples=35
)
settings.register_profile("fresh", PLAIN, deadline=None, print_blob=True)
settings.load_profile("same")


# A shell that runs this in the background has it ignore SIGINT, and every process that it starts inherits that; tests of
# what Ctrl-C does start processes that must not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Brokers that tests start as processes would all want the one usual address of HTTP; those that are to have some name one.
os.environ["PENSTOCK_HTTP"] = "none"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The event loop that ``asyncio.run`` makes, and whether the long forms run too."""
    parser.addoption("--soak", action="store_true", help="run what is marked `soak` too")
    parser.addoption("--loop", choices=["asyncio", "uvloop"], default="asyncio", help="the event loop of all tests")


def pytest_configure(config: pytest.Config) -> None:
    """Has ``asyncio.run`` make the loop that was asked for, and hypothesis the examples."""
    if config.getoption("--hypothesis-seed") is not None and config.getoption("--hypothesis-profile") is None:
        settings.load_profile("fresh")  # under the other a seed would count for nothing
    if settings.default.derandomize:
        # Hypothesis tries constants of whatever modules are loaded, so that a test's examples would go by which other tests ran before it.
        providers._get_local_constants = providers.Constants
        # It asks for the state of Python's chance before and after each draw, to tell of strategies that use that; `make soak` lets it.
        core.deprecate_random_in_strategy = lambda *_: contextlib.nullcontext()
    if config.getoption("--loop") == "uvloop":
        uvloop = pytest.importorskip("uvloop", reason="--loop uvloop, and uvloop is not installed")
        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    if hasattr(config, "workerinput"):
        from tests.sharing import tell_little

        tell_little(config)


MOST_BESIDE = 4
"""Processes beyond one for each core: each collects all tests first, for some seconds."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Two for each core, where there are few: tests wait for processes and disks as often as they compute."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None  # pytest-xdist's own then says how many
    cores = len(os.sched_getaffinity(0))
    return cores + min(cores, MOST_BESIDE)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Has pytest-xdist share the tests out as `Sharing` says."""
    from tests.sharing import Sharing

    return Sharing(config, log)


def why_no_spark(config: pytest.Config) -> str | None:
    """Why tests that need Spark cannot run here, or None; sets JAVA_HOME and SPARK_HOME where they can."""
    if importlib.util.find_spec("pyspark") is None:
        return "PySpark is not installed (pip install 'penstock-mq[spark]')"
    look = subprocess.run(
        [str(ENSURE_JAVA), "--no-install"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=ENSURE_JAVA_SECONDS,
    )
    if look.returncode != 0:
        return look.stderr.strip().removeprefix("penstock: ") or "ensure-java failed and did not say why"
    os.environ["JAVA_HOME"] = look.stdout.strip()
    from tests import spark_start

    # The launcher's own variable, so that it reaches the drivers that tests start as programs.
    os.environ.setdefault("JDK_JAVA_OPTIONS", spark_start.jvm_options())
    if "SPARK_HOME" not in os.environ:
        home = spark_start.HOME
        if not home.is_dir():  # `make spark-start` makes it
            folder = tempfile.TemporaryDirectory(prefix="penstock-spark-home-")
            config.add_cleanup(folder.cleanup)
            home = spark_start.fill(Path(folder.name))
        os.environ["SPARK_HOME"] = str(home)
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Has each of several processes compile a part of the tests, and not all of them all.

    Modules and tests stay: the garbage collector would look at more and more of them and find nothing.
    """
    gc.disable()
    if hasattr(session.config, "workerinput"):
        from tests.sharing import import_share

        import_share(session.config)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves whole modules of long forms alone: to collect thousands of tests takes a second or two, in each process."""
    return True if collection_path.name.endswith("_soak.py") and not config.getoption("--soak") else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what is marked `soak` unless it is asked for; skips what is marked `spark` where Spark cannot run, with the reason.

    What is shared out among processes begins with what takes longest.
    """
    if not config.getoption("--soak") and (long := [item for item in items if item.get_closest_marker("soak")]):
        items[:] = [item for item in items if not item.get_closest_marker("soak")]
        config.hook.pytest_deselected(items=long)
    need_spark = [item for item in items if item.get_closest_marker("spark")]
    if need_spark and (reason := why_no_spark(config)):
        for item in need_spark:
            item.add_marker(pytest.mark.skip(reason=reason))
    if hasattr(config, "workerinput"):
        from tests.sharing import longest_first

        longest_first(items)


def pytest_collection_finish() -> None:
    """Takes what was collected out of the garbage collector's sight.

    Tests of what is let go of collect all generations, thousands of times together; twenty thousand tests and all modules are
    half a second of looking each time. The garbage among it stays too: to look for it takes longer than it is large.
    """
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def spark_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What a session of Spark's in this process has for Python: it forks."""
    from tests.spark_forks import forking_python

    with forking_python(tmp_path_factory.mktemp("forks")) as program:
        yield program


@pytest.fixture(scope="module", autouse=True)
def _what_a_module_leaves_is_out_of_sight() -> Iterator[None]:
    """As above, of what stays when a module has ended: runs that are kept, trees of parsed files, what hypothesis knows by then."""
    yield
    with warnings.catch_warnings():
        # Of py4j, which leaves the sockets of its callback threads to the collector, in whosever test that comes.
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    gc.freeze()


class _Reports(logging.Handler):
    """Collects what the event loop logs at WARNING and above."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(self.format(record))


@pytest.fixture(autouse=True)
def _the_loop_has_nothing_to_report(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Fails a test in which a task's exception was lost, a pending task was dropped, or a callback raised.

    Asyncio logs these instead of warning of them, so that pytest's filter does not see them. With PYTHONASYNCIODEBUG=1 the
    same log tells of callbacks that block the loop.
    """
    handler, logger = _Reports(), logging.getLogger("asyncio")
    reports = handler.messages
    logger.addHandler(handler)
    yield reports
    gc.collect(1)  # a lost task reports when it is collected; the young generations hold what this test made
    logger.removeHandler(handler)
    if reports and "loop_reports" not in request.fixturenames:
        pytest.fail("the event loop reported:\n" + "\n".join(reports), pytrace=False)


@pytest.fixture
def loop_reports(_the_loop_has_nothing_to_report: list[str]) -> list[str]:
    """What asyncio logged during the test; a test that asks for it expects such reports and asserts on them itself."""
    return _the_loop_has_nothing_to_report
