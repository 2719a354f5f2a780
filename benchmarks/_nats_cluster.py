"""Three NATS servers with JetStream, started and ended by a benchmark; each syncs its files as it does by default: every two minutes."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

from benchmarks._nats_raw import HOST, NatsConnection
from benchmarks._processes import STOP_TIMEOUT, BenchmarkError

PROGRAM: Final = "nats-server"
NODES: Final = ("a", "b", "c")
START_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 0.2
ANSWER_SECONDS: Final = 3.0
SETTINGS: Final = """\
server_name: {name}
listen: "{host}:{port}"
jetstream {{ store_dir: "{folder}", max_mem: 1GB, max_file: 20GB }}
cluster {{ name: penstock, listen: "{host}:{route}", routes: [{routes}] }}
"""


def missing() -> str | None:
    """What a comparison with JetStream lacks on this machine, and how to get it; None where it has all."""
    if shutil.which(PROGRAM) is None:
        return f"the comparison with JetStream needs {PROGRAM} and there is none; install it (Debian: sudo apt-get install {PROGRAM})"
    return None


class NatsCluster:
    """Three that are one; a context manager that ends them.

    Attributes:
        version: as they say themselves.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.version = ""
        self._processes: list[subprocess.Popen[bytes]] = []
        with ExitStack() as held:
            probes = [held.enter_context(socket.create_server((HOST, 0))) for _ in range(2 * len(NODES))]
            found = [int(probe.getsockname()[1]) for probe in probes]
        self._ports = dict(zip(NODES, found, strict=False))
        routes = found[len(NODES) :]
        urls = ", ".join(f'"nats://{HOST}:{route}"' for route in routes)
        for (name, port), route in zip(self._ports.items(), routes, strict=True):
            settings = folder / f"{name}.conf"
            settings.write_text(
                SETTINGS.format(name=name, host=HOST, port=port, folder=folder / name, route=route, routes=urls),
                "utf-8",
            )
            with (folder / f"{name}.log").open("wb") as log:
                process = subprocess.Popen(
                    [PROGRAM, "--config", str(settings)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            self._processes.append(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def make_stream(self, stream: str, window: int = 1) -> int:
        """A stream on all three whose messages go when they are acknowledged, and its one consumer; the port of the node that leads it.

        The consumer holds ``window`` messages at most.

        Raises:
            BenchmarkError: it cannot be made within `START_SECONDS`.
        """
        until, answer = time.monotonic() + START_SECONDS, ""
        wanted = {"name": stream, "subjects": [stream], "storage": "file", "num_replicas": 3, "retention": "interest"}
        consumer = {
            "stream_name": stream,
            "config": {
                "durable_name": "c",
                "deliver_subject": f"to.{stream}",
                "ack_policy": "all",
                "max_ack_pending": window,
            },
        }
        while time.monotonic() < until:
            try:
                # Where nobody leads yet, nobody answers.
                with NatsConnection(self._ports["a"], ANSWER_SECONDS) as asking:
                    self.version = asking.version
                    asking.ask(f"$JS.API.STREAM.CREATE.{stream}", wanted)
                    asking.ask(f"$JS.API.CONSUMER.DURABLE.CREATE.{stream}.c", consumer)
                    return self._leader(asking.ask(f"$JS.API.STREAM.INFO.{stream}", {}))
            except (OSError, BenchmarkError) as error:  # they have not found each other yet
                answer = str(error)
            time.sleep(LOOK_SECONDS)
        raise BenchmarkError(f"no stream within {START_SECONDS:g} s: {answer}")

    def _leader(self, facts: dict[str, Any]) -> int:
        cluster = facts.get("cluster") or {}
        if len(cluster.get("replicas", ())) != len(NODES) - 1 or cluster.get("leader") not in self._ports:
            raise BenchmarkError(f"it is not on {len(NODES)} nodes: {json.dumps(cluster)}")
        return self._ports[cluster["leader"]]

    def delete_stream(self, stream: str) -> int:
        """The stream is gone; how many messages were in it."""
        with NatsConnection(self._ports["a"]) as asking:
            left = int(asking.ask(f"$JS.API.STREAM.INFO.{stream}", {})["state"]["messages"])
            asking.ask(f"$JS.API.STREAM.DELETE.{stream}", {})
        return left
