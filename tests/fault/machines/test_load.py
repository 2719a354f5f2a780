"""A load goes on through what is done to a broker, and tells of a broker that keeps nothing."""

from __future__ import annotations

from tests.fault.machines.brokers import PlainBroker
from tests.fault.machines.judge import LOST
from tests.fault.machines.load import Load, Options
from tests.fault.machines.machines import Machines

EAGER = Options(longest_wait=0.2, hold=100)


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
    load = Load(clients, machines.folder / "load", [broker.send], [broker.receive], Options(longest_wait=0.2, hold=400))
    # What a receiver holds is gone with the broker; so is what was never delivered, which is what counts as lost.
    machines.links.cut("clients", "a")
    machines.links.heal()
    load.start()
    load.wait_confirmed(300)
    mark = load.mark("kill -9 of the broker")
    broker.kill()
    broker.start()
    load.wait_after(mark)
    load.drain(lambda: broker.left(clients, load.options.queue))
    found = load.judge()
    assert not found.clean
