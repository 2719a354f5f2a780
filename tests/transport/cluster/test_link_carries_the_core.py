"""What the machines of a cluster really say fits a link: runs of the simulation go as before with every message as frames in between."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from actors.replication import vocabulary as say
from tests.simulation.replication.disk import Record as Simulated
from tests.simulation.replication.runner import run
from tests.simulation.replication.world import Link
from transport.cluster.frames import FrameReader, FrameWriter
from transport.cluster.link_codec import LinkCodec
from transport.cluster.records import Record

MESSAGES = get_args(say.Message)
SEEDS = [0, 1, 2, 5, 26, 346]
"""Of several modes, with take-overs, cuts, transfers and changes of members."""


def made(lsn: int, epoch: int, kind: int, flags: int, payload: tuple[Any, ...]) -> Simulated:
    assert (kind, flags) == (1, 0)
    return Simulated(lsn, epoch, tuple(json.loads(b"".join(payload))))


class Wire:
    """One direction of a connection."""

    def __init__(self) -> None:
        self._codec = LinkCodec(made)
        self._writer, self._reader = FrameWriter(1), FrameReader(1)

    def carry(self, message: Any) -> Any:
        if isinstance(message, say.Replicate | say.Fetched) and message.records:
            records = [Record(r.lsn, r.epoch, 1, 0, (json.dumps(r.payload).encode(),)) for r in message.records]
            message = message._replace(records=records)
        stream = b"".join(b"".join(frame) for frame in self._writer.cut(*self._codec.encode(message)))
        (whole,) = self._reader.feed(stream)
        return self._codec.decode(whole)


@pytest.fixture
def carried(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[type]]:
    """While it lasts, each message of a simulated connection goes through bytes; how many of each type."""
    kinds: Counter[type] = Counter()
    wires: dict[tuple[int, str], Wire] = {}
    kept: list[Link] = []
    send = Link.send

    def through_bytes(link: Link, sender: Any, message: Any) -> None:
        if type(message) in MESSAGES:
            kinds[type(message)] += 1
            key = (id(link), sender.name)
            if key not in wires:
                kept.append(link)  # so that no other link has its id
                wires[key] = Wire()
            again = wires[key].carry(message)
            if isinstance(message, say.Replicate | say.Fetched):
                again, message = (each._replace(records=tuple(each.records)) for each in (again, message))
            assert again == message
            message = again
        send(link, sender, message)

    with monkeypatch.context() as patched:
        patched.setattr(Link, "send", through_bytes)
        yield kinds


def test_runs_of_a_cluster_go_over_links_as_they_go_without(
    carried: Counter[type], monkeypatch: pytest.MonkeyPatch
) -> None:
    over_links = [run(seed, verbose=True) for seed in SEEDS]
    assert [outcome.findings for outcome in over_links] == [[]] * len(SEEDS)
    assert {*carried} == {*MESSAGES}, "some message was never said"
    monkeypatch.undo()
    for seed, outcome in zip(SEEDS, over_links, strict=True):
        assert outcome.confirmed > 0
        assert outcome.events == run(seed, verbose=True).events
