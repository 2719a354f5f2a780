"""``security``: what it costs that a broker knows who is there, and that nobody else can listen."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import trustme

from benchmarks._broker import BrokerProcess
from benchmarks._processes import Worker, await_receivers, cpu_seconds
from benchmarks._report import Figure, Report, medians
from benchmarks._transfer import QUEUE, Transfer, through_broker
from transport.security.principal import Grant, Right
from transport.security.proofs import TokenRecord, make_token, token_hash
from transport.security.users import User, Users
from transport.security.users_file import change_users
from transport.security.verifier import Verifier

USER, PASSWORD = "benchmark", "a password of the benchmark's own"
THROUGHPUT_TARGET = 0.98
"""Of the messages a second without users: nothing is asked per message."""
TLS_TARGET = 0.25
"""Of what a receiver's CPU second takes in without TLS."""
STORM_CPU_TARGET = 3.0
"""Seconds of the broker's CPU for 5,000 clients."""
P99_TARGET = 2.0
"""Times what others have when nobody comes back."""
REPEATS = 4
"""Of the comparison by throughput in each round."""
FAVOURED = -10
"""Niceness of the broker and the pair beside the storm: its clients are more processes than there are cores."""
GRACE = 60.0
"""Seconds beyond the schedule."""


def run(transfer: Transfer, clients: int, rate: float, seconds: float, rounds: int) -> Report:
    """Rounds of: without users, with users; plain, TLS; nobody comes back, all do."""
    results: list[dict[str, Any]] = []
    # Frames of 100 KB, whatever the other comparison is made with.
    large = replace(transfer, batch=100, size=1_000, messages=max(1, transfer.messages // 10))
    with tempfile.TemporaryDirectory(prefix="penstock-security-") as directory:
        token = make_token()
        users, tls = _users_file(Path(directory), token), _certificates(Path(directory))
        for _ in range(rounds):
            results += _with_users_and_without(transfer, users, token)
            results.append(through_broker(large, None, "plain"))
            with _environment({"PENSTOCK_TLS_CA": tls["ca"]}):
                options = {"tls_certificate": tls["certificate"], "tls_key": tls["key"]}
                results.append(through_broker(large, options, "tls"))
            with _environment(_OURS):
                results.append(_storm(users, 0, rate, seconds, transfer.uvloop))
                results.append(_storm(users, clients, rate, seconds, transfer.uvloop))
    without, with_users, plain, secret, calm, storm = (
        [one for one in results if one["kind"] == kind]
        for kind in ("nobody is known", "users", "plain", "tls", "calm", "storm")
    )
    known = medians(with_users, "messages_per_s")
    plain_cpu, tls_cpu = medians(plain, "receiver_cpu_s"), medians(secret, "receiver_cpu_s")
    calm_p99, storm_p99 = medians(calm, "p99"), medians(storm, "p99")
    # The pair's part of the broker's CPU is what it takes when nobody comes back.
    pairs = medians(calm, "pair_cpu_s") / seconds * medians(storm, "storm_s")
    returned_cpu = medians(storm, "broker_cpu_s") - pairs
    figures = [
        Figure("messages a second, nobody is known", medians(without, "messages_per_s"), "msg/s"),
        Figure("messages a second, with users", known, "msg/s"),
        Figure("share", known / medians(without, "messages_per_s"), "", THROUGHPUT_TARGET),
        Figure("frames of 100 KB, plain", medians(plain, "messages_per_s"), "msg/s"),
        Figure("frames of 100 KB, TLS", medians(secret, "messages_per_s"), "msg/s"),
        Figure("share of messages a CPU second of the receiver", plain_cpu / tls_cpu, "", TLS_TARGET),
        Figure("broker's CPU meanwhile", medians(storm, "broker_cpu_s"), "s"),
        Figure(f"of it for {clients} that come back", returned_cpu, "s", STORM_CPU_TARGET, "less"),
        Figure(f"time until all {clients} are back", medians(storm, "storm_s"), "s"),
        Figure("others' p99, nobody comes back", calm_p99 / 1000, "ms"),
        Figure("others' p99 meanwhile", storm_p99 / 1000, "ms"),
        Figure("times", storm_p99 / calm_p99, "", P99_TARGET, "less"),
    ]
    return Report(
        "security",
        "three comparisons, each side by side: the transfer of `throughput` through a broker without users and one whose clients show a "
        "token; frames of 100 KB with and without TLS 1.3, by the receiver's CPU; and a pair that sends and receives at a rate "
        "while clients that have broken off come back with their passwords at one time.",
        "the same without users, without TLS, without the storm.",
        {
            "clients": clients,
            "rate": rate,
            "seconds": seconds,
            "rounds": rounds,
            "uvloop": transfer.uvloop,
            "batch": transfer.batch,
        },
        figures,
        results,
    )


def _with_users_and_without(transfer: Transfer, users: str, token: str) -> list[dict[str, Any]]:
    """Both, several times, each of them first in every other one: what is to be seen is smaller than what two runs differ by."""
    results = []
    for repeat in range(REPEATS):
        for kind in ("nobody is known", "users") if repeat % 2 else ("users", "nobody is known"):
            # Making a password's keys takes each client a fifth of a second once, which is no message's cost.
            with _environment({"PENSTOCK_TOKEN": token} if kind == "users" else {}):
                results.append(through_broker(transfer, {"users_file": users} if kind == "users" else None, kind))
    return results


_OURS = {"PENSTOCK_USER": USER, "PENSTOCK_PASSWORD": PASSWORD}


def _users_file(directory: Path, token: str) -> str:
    path = directory / "users.toml"
    everything = Grant("*", Right.CONFIGURE | Right.WRITE | Right.READ)
    rights = Right.MONITOR | Right.ADMINISTER
    user = User(USER, Verifier.of(PASSWORD), rights, (everything,), (TokenRecord(token_hash(token)),))
    change_users(path, lambda _: Users([user]))
    return str(path)


def _certificates(directory: Path) -> dict[str, str]:
    files = {name: str(directory / f"{name}.pem") for name in ("ca", "certificate", "key")}
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1", "localhost")
    authority.cert_pem.write_to_path(files["ca"])
    issued.private_key_pem.write_to_path(files["key"])
    os.chmod(files["key"], 0o600)
    for part in issued.cert_chain_pems:
        part.write_to_path(files["certificate"], append=True)
    return files


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Who we are, for this process and those that it starts: clients that are told nothing look there."""
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]


def _storm(users: str, clients: int, rate: float, seconds: float, uvloop: bool) -> dict[str, Any]:
    """A paced pair, and meanwhile ``clients`` that come back."""
    count = int(rate * seconds)
    timeout = seconds + GRACE
    with ExitStack() as stack:
        broker = stack.enter_context(BrokerProcess(uvloop=uvloop, options={"users_file": users}))
        receiver = stack.enter_context(
            Worker(
                "_paced:receive_timed",
                address=broker.receive_address,
                queue=QUEUE,
                count=count,
                skip=0,
                max_in_flight=1_000,
                uvloop=uvloop,
            )
        )
        sender = stack.enter_context(
            Worker("_paced:send_paced", address=broker.send_address, queue=QUEUE, rate=rate, count=count, size=100)
        )
        crowd = stack.enter_context(
            Worker(
                "_storm:come_back",
                address=broker.receive_address,
                queue="crowd",
                user=USER,
                password=PASSWORD,
                count=clients,
                uvloop=uvloop,
            )
        )
        receiver.hear()
        sender.hear()
        crowd.hear(timeout)
        await_receivers(broker.send_address, QUEUE, 1)
        for process in (broker, sender, receiver):
            _favour(process.pid)
        cpu = cpu_seconds(broker.pid)
        sender.go()
        if clients:
            crowd.go()
            came = crowd.hear(timeout)
            storm_cpu = cpu_seconds(broker.pid) - cpu
        sender.hear(timeout)
        received = receiver.hear(timeout)
        pair_cpu = cpu_seconds(broker.pid) - cpu
        crowd.go()
    outcome = {"kind": "storm" if clients else "calm", "p99": received["latency_us"]["p99"], "pair_cpu_s": pair_cpu}
    return outcome | ({"broker_cpu_s": storm_cpu, "storm_s": came["seconds"]} if clients else {})


def _favour(pid: int) -> None:
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, pid, FAVOURED)
