"""A driver to be killed: ``python -m tests.fault.spark_driver QUERIES`` (JSON) runs until they end, or the one who started it does.

It says ``jvm PID`` first; standard input must stay open.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

from tests.fault.spark_query import CopyQuery, session

CORES = "2"


def end_with_the_harness() -> None:
    """A harness that is broken off closes our standard input, and must not leave a driver and its JVM behind."""
    sys.stdin.read()
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    queries = [CopyQuery.parse(said) for said in json.loads(sys.argv[1])]
    threading.Thread(target=end_with_the_harness, daemon=True).start()
    spark = session(CORES)
    print(f"jvm {spark.sparkContext._gateway.proc.pid}", flush=True)
    running = [query.start(spark) for query in queries]
    if len(running) > 1:
        spark.streams.awaitAnyTermination()
    running[0].awaitTermination()


if __name__ == "__main__":
    main()
