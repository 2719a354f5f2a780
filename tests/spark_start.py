"""``python -m tests.spark_start``: what makes Spark start in less than half of the processor time, made once for an environment.

A JVM that Spark starts in loads and verifies ten thousand classes, and each of its Python processes imports PySpark. Tests start
some fifteen of the former and two hundred of the latter. In the environment's folder ``spark-home`` are links to what PySpark has
installed, and an archive of the classes as they are in memory (application class-data sharing). An archive that does not fit the
Java or the jars any more is left alone by the JVM.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

BRIEF_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For JVMs that live for a minute: without the optimizing compiler and its threads they start in less than half the processor time."""
QUIET = "-Xlog:disable -Xlog:all=error:stderr"
"""The launcher's output is a command: a warning in it, of an archive that is not for the launcher, would be one too."""
HOME = Path(sys.prefix, "spark-home")

ARCHIVE_SECONDS = 120.0
"""In which the JVM must have written its archive; it takes ten."""


def fill(folder: Path) -> Path:
    """Links in ``folder`` to what PySpark has installed, all but the archive of PySpark itself.

    Spark puts that before all packages, and what is imported from an archive is compiled each time: three quarters of what the start
    of a Python process of Spark's costs, and every query starts some.
    """
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    folder.mkdir(exist_ok=True)
    for part in Path(str(found.origin)).parent.iterdir():
        link = folder / part.name
        if part.name != "python" and not link.is_symlink():
            link.symlink_to(part)
    return folder


def classes() -> Path:
    """The archive of classes, whether it is there or not."""
    return HOME / f"classes-{version('pyspark')}.jsa"


def jvm_options() -> str:
    """For JVMs of tests, with the archive where there is one."""
    return f'{BRIEF_JVM} {QUIET} "-XX:SharedArchiveFile={classes()}"' if classes().is_file() else BRIEF_JVM


def run_queries() -> None:
    """A table and a stream: most of the classes that any query loads."""
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1", "spark.driver.host": "127.0.0.1"}
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.master("local[2]").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    assert spark.range(100).selectExpr("sum(id) AS total").collect()[0].total == 4950
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    stream.writeStream.format("noop").trigger(once=True).start().awaitTermination()
    spark.stop()


def main() -> None:
    """Makes the folder and the archive, unless they are there."""
    fill(HOME)
    if classes().is_file():
        return
    being_made = classes().with_suffix(f".{os.getpid()}")
    os.environ["SPARK_HOME"] = str(HOME)
    os.environ["JDK_JAVA_OPTIONS"] = f'{BRIEF_JVM} {QUIET} "-XX:ArchiveClassesAtExit={being_made}"'
    from pyspark import SparkContext

    run_queries()
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()  # what the JVM waits for; it writes the archive as it ends
    try:
        gateway.proc.wait(ARCHIVE_SECONDS)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        raise
    being_made.rename(classes())


if __name__ == "__main__":
    main()
