"""A load goes on through what is done to a broker, and tells of a broker that keeps nothing."""

from __future__ import annotations

import pytest

from tests.fault.machines.brokers import PlainBroker
from tests.fault.machines.judge import LOST
from tests.fault.machines.load import Load
from tests.fault.machines.machines import Machines
from tests.fault.machines.options import Options
from tests.fault.machines.processes import ProcessError

EAGER = Options(longest_wait=0.2, hold=100, rate=2_000.0)


def test_a_broker_that_is_killed_paused_and_cut_off_loses_nothing_that_it_confirmed(machines: Machines) -> None:
    a, clients = machines["a"], machines["clients"]
    broker = PlainBroker(a)
    broker.start()
    # The first contact point is a machine where nobody listens: clients go on to the next.
    send = [broker.send.replace(a.address, machines["b"].address), broker.send]
    receive = [broker.receive.replace(a.address, machines["b"].address), broker.receive]
    load = Load(clients, machines.folder / "load", send, receive, EAGER)
    load.start()
    load.wait_confirmed(300)
    load.wait_delivered(300)

    killed = load.mark("kill -9 of the broker")
    broker.kill()
    broker.start()
    load.wait_after(killed)

    broker.process.pause()
    paused = load.mark("SIGSTOP of the broker")
    broker.process.resume()
    load.wait_after(paused)

    machines.links.cut_one_way("clients", "a")
    cut = load.mark("nothing of the clients reaches the broker")
    machines.links.heal()
    load.wait_after(cut)

    load.drain(lambda: broker.left(clients, load.options.queue))
    found = load.judge()
    assert found.clean, found.summary()
    assert found.facts["sent"] == found.facts["confirmed"] == found.facts["acknowledged"] == load.confirmed > 0
    assert found.facts["deliveries"] == load.delivered
    # The kill found some that were delivered and not acknowledged.
    assert found.facts["of them marked"] >= EAGER.hold
    assert len(found.recoveries) == 3 * EAGER.senders
    assert all(one.seconds is not None and one.seconds > 0 for one in found.recoveries)
    assert broker.left(clients, load.options.queue) == 0


def test_a_broker_that_keeps_nothing_is_found_out(machines: Machines) -> None:
    clients = machines["clients"]
    broker = PlainBroker(machines["a"], keeps=False)
    broker.start()
    load = Load(clients, machines.folder / "load", [broker.send], [broker.receive], EAGER)
    load.start_senders()
    load.wait_confirmed(100)
    confirmed = load.confirmed
    mark = load.mark("kill -9 of the broker")
    broker.kill()
    broker.start()
    load.wait_after(mark)
    load.start_receivers()
    load.drain(lambda: broker.left(clients, load.options.queue))
    found = load.judge()
    assert found.counts[LOST] >= confirmed > 0
    assert "0 of producer 0 was confirmed and never delivered" in "\n".join(found.examples)


def test_a_load_whose_client_ends_by_itself_says_so(machines: Machines) -> None:
    load = Load(machines["clients"], machines.folder / "load", ["no address"], ["no address"], Options())
    load.start_senders()
    with pytest.raises(ProcessError, match=r"(?s)ended by itself, with 1; .*no address"):
        load.wait_confirmed(1)
