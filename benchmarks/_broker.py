"""The role of the broker, and the way a benchmark starts one."""

from __future__ import annotations

import cProfile
import io
import pstats
from pathlib import Path
from typing import Any

from benchmarks._links import raise_file_limit
from benchmarks._processes import Worker
from benchmarks._worker import Parent, run_loop
from transport import Broker, BrokerConfig
from transport.broker.memory import collect_rarely
from transport.gateways.listeners import configured_listeners

ANY_PORT = "127.0.0.1:0"
HOTTEST = 40
"""Functions that a profile's text lists, by own time and by cumulative time."""


class BrokerProcess(Worker):
    """A broker in a process of its own.

    Attributes:
        send_address: where senders connect.
        receive_address: where receivers connect.
        http: where HTTP is spoken, likewise.
        smq_source: where sources of the simple message queue connect, if the options say that they may.
        amqp: where AMQP is spoken, likewise.
    """

    def __init__(
        self, *, uvloop: bool = True, profile: Path | None = None, options: dict[str, Any] | None = None
    ) -> None:
        path = None if profile is None else str(profile.resolve())
        super().__init__("_broker:serve", uvloop=uvloop, profile=path, options=options or {})
        try:
            facts = self.hear()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        self.send_address: str = facts["send_address"]
        self.receive_address: str = facts["receive_address"]
        self.smq_source: str | None = facts["smq_source"]
        self.http: str | None = facts["http"]
        self.amqp: str | None = facts["amqp"]


def serve(parent: Parent, uvloop: bool, profile: str | None, options: dict[str, Any]) -> None:
    """Serve until told to stop; under cProfile, if ``profile`` names a file (its text goes beside it as ``.txt``)."""
    raise_file_limit()
    if profile is None:
        run_loop(_serve(parent, options), uvloop)
        return
    profiler = cProfile.Profile()
    profiler.enable()
    try:
        run_loop(_serve(parent, options), uvloop)
    finally:
        profiler.disable()
        profiler.dump_stats(profile)
        text = io.StringIO()
        stats = pstats.Stats(profiler, stream=text)
        stats.sort_stats("tottime").print_stats(HOTTEST)
        stats.sort_stats("cumulative").print_stats(HOTTEST)
        Path(f"{profile}.txt").write_text(text.getvalue(), "utf-8")


async def _serve(parent: Parent, options: dict[str, Any]) -> None:
    collect_rarely()  # as `penstock broker` does
    config = BrokerConfig(send_address=ANY_PORT, receive_address=ANY_PORT, **options)
    async with Broker(config, listeners=configured_listeners(config)) as broker:
        source = None if config.smq_source is None else str(broker.addresses("smq-source")[0])
        http = None if config.http is None else str(broker.addresses("http")[0])
        addresses = {"send_address": broker.send_address, "receive_address": broker.receive_address}
        amqp = None if config.amqp is None else str(broker.addresses("amqp")[0])
        parent.say(**addresses, smq_source=source, http=http, amqp=amqp)
        await parent.told()
