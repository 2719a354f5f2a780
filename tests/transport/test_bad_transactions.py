"""Stages and transactions that cannot be are refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.transport.bad_clients import BATCH, bystanders
from transport.wire.messages import (
    CommitTransaction,
    Demand,
    Enlist,
    Error,
    Hello,
    Send,
    TransactionEnded,
)

STAGES: dict[str, tuple[dict[str, Any], str]] = {
    "a writer only": ({"writer": "w"}, "protocol-error"),
    "a stage only": ({"stage": "s"}, "protocol-error"),
    "no stage": ({"writer": "w", "version": 1}, "protocol-error"),
    "no version": ({"writer": "w", "stage": "s"}, "protocol-error"),
    "no writer": ({"version": 1, "stage": "s"}, "protocol-error"),
    "a version below zero": ({"writer": "w", "version": -1, "stage": "s"}, "protocol-error"),
    "a version of 64 bits": ({"writer": "w", "version": 2**63, "stage": "s"}, "protocol-error"),
    "a text for a version": ({"writer": "w", "version": "1", "stage": "s"}, "protocol-error"),
    "a truth for a version": ({"writer": "w", "version": True, "stage": "s"}, "protocol-error"),
    "a number for a stage": ({"writer": "w", "version": 1, "stage": 7}, "protocol-error"),
    "a list for a writer": ({"writer": ["w"], "version": 1, "stage": "s"}, "protocol-error"),
    "a writer with white space": ({"writer": "a b", "version": 1, "stage": "s"}, "invalid-name"),
    "an empty stage": ({"writer": "w", "version": 1, "stage": ""}, "invalid-name"),
    "a stage of 256 bytes": ({"writer": "w", "version": 1, "stage": "s" * 256}, "invalid-name"),
}


@pytest.mark.parametrize("case", STAGES)
def test_a_stage_that_cannot_be_is_refused(run: Any, serve: Any, peers: Any, case: str) -> None:
    options, code = STAGES[case]

    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            peer = await opened.connect(broker.send_address)
            peer.send(Hello(1, "sender", "orders", "c", options))
            refusal = await peer.refusal()
            assert refusal.code == code
            assert "orders" not in broker.queues

    run(main)


@pytest.mark.parametrize("case", [case for case in STAGES if "stage" not in case])
def test_a_transaction_that_cannot_be_is_refused(run: Any, serve: Any, peers: Any, case: str) -> None:
    options, code = STAGES[case]

    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            peer = await opened.connect(broker.send_address)
            named = {"writer": "w"} if case == "a writer only" else options
            peer.send(Hello(1, "transaction", None, None, named))
            assert (await peer.refusal()).code == code

    run(main)


def test_a_staged_send_with_a_time_of_its_own_is_refused(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            stage = {"writer": "w", "version": 1, "stage": "s"}
            peer = await opened.open(broker.send_address, "sender", "orders", "c", **stage)
            await peer.expect(Demand)
            peer.send(Send(0, {"ttl_ms": 5}, BATCH))
            assert (await peer.refusal()).code == "protocol-error"

    run(main)


def test_a_second_end_of_a_transaction_before_the_first_is_answered_is_refused(
    run: Any, serve: Any, peers: Any
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            peer = await opened.open(broker.send_address, "transaction", None, writer="w", version=1)
            peer.send(CommitTransaction(1), CommitTransaction(2))
            refusal = await peer.refusal()
            assert refusal.code == "protocol-error"
            assert "TRANSACTION_ENDED" in refusal.text

    run(main)


def test_more_stages_than_the_limit_cannot_be_enlisted(
    run: Any, serve: Any, peers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transport.broker.enlisted.MAX_ENLISTED", 3)

    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            peer = await opened.open(broker.send_address, "transaction", None, writer="w", version=1)
            peer.send(*(Enlist("orders", f"s{number}", 1) for number in range(4)))
            refusal = await peer.refusal()
            assert refusal.code == "limit-exceeded"
            assert "3 stages" in refusal.text

    run(main)


def test_a_commit_that_is_refused_leaves_its_connection_open_and_nothing_enlisted(
    run: Any, serve: Any, peers: Any
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            peer = await opened.open(broker.send_address, "transaction", None, writer="w", version=1)
            peer.send(Enlist("orders", "none", 1), CommitTransaction(1))
            refusal = await peer.expect(Error)
            assert (refusal.code, refusal.close) == ("transaction-incomplete", False)
            assert "'none'" in refusal.text
            peer.send(CommitTransaction(2))
            assert await peer.expect(TransactionEnded) == TransactionEnded(2, 0)

    run(main)
