"""How a receiver asks for leases without a deadline, and what it makes of a broker that knows of none."""

from __future__ import annotations

from typing import Any

import pytest

from streams import Sink
from tests.transport.receiver_helpers import fill
from transport import Receiver
from transport.errors import OldBrokerError, RemoteProtocolError
from transport.wire.messages import VERSION, Error, Hello, Welcome
from transport.wire.receiver_deadlines import wants_deadline


def hello(**options: Any) -> Hello:
    return Hello(VERSION, "receiver", "orders", None, options)


def test_a_receiver_has_a_deadline_unless_it_says_otherwise() -> None:
    assert wants_deadline(hello())
    assert wants_deadline(hello(no_deadline=False))
    assert not wants_deadline(hello(no_deadline=True))


@pytest.mark.parametrize("said", [1, 0, "true", b"", [], {}])
def test_what_is_no_truth_is_refused_by_its_name(said: object) -> None:
    with pytest.raises(RemoteProtocolError, match=r"no_deadline is .*, neither true nor false"):
        wants_deadline(hello(no_deadline=said))


def test_the_broker_answers_that_there_is_none_and_refuses_what_is_no_truth(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            for options, expected in (({}, 10_000), ({"no_deadline": True}, 0)):
                peer = await opened.connect(broker.receive_address)
                peer.send(hello(**options))
                assert (await peer.expect(Welcome)).options["visibility_timeout_ms"] == expected
            peer = await opened.connect(broker.receive_address)
            peer.send(hello(no_deadline="yes"))
            assert (await peer.expect(Error)).code == "protocol-error"

    run(main)


def test_a_broker_that_gives_deadlines_all_the_same_is_too_old(
    run: Any, serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        monkeypatch.setattr("transport.broker.receiving_ports.wants_deadline", lambda _hello: True)
        async with serve() as broker:
            await fill(broker, 1)
            with pytest.raises(OldBrokerError, match="older than this client and gives every message a deadline"):
                await Receiver(broker.receive_address, queue="orders", deadline=False).to(Sink.collect()).run()

    run(main)
