"""One of two brokers that are told the same: it carries out an operation, and tells what came of it in words that can be compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from tests.fault.amqp_on_disk import OnDisk
from tests.fault.amqp_peer import ENDED, Heard, Peer
from tests.fault.amqp_view import CHANNELS, DEAD, SESSIONS, Operation, Place, View
from tests.transport.gateways.amqp.raw_amqp import published
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.method import Method
from transport.gateways.amqp.methods import METHODS

PROBING: Final = 9
"""The channel of each session on which is asked what there is."""
GIVEN: Final = {"amq.gen-": "gen", "amq.ctag-": "ctag"}
"""Beginnings of the names that a broker gives, and ours of them."""
_CLOSES: Final = ("channel.close", "connection.close", ENDED)
_FLOW: Final = connection.ChannelFlow(active=True)

Outcome = dict[str, Any]
"""What came, by channel and kind: what is of one kind has an order, and what is of two need not have one."""


class Side:
    """One of the two.

    Args:
        name: what reports call it.
        port: where it speaks AMQP.
        on_disk: whether each operation is over when all that was told is on the disk, as far as it is to be there.
    """

    def __init__(self, name: str, port: int, *, on_disk: bool = False) -> None:
        self.name = name
        self._port = port
        self._on_disk = OnDisk(port) if on_disk else None
        self._peers = {session: self._peer() for session in SESSIONS}
        # Names that it has given, as we call them, and back.
        self._ours: dict[str, str] = {}
        self._its: dict[str, str] = {}
        self._numbered: dict[Place, int] = {}
        self._said: dict[int, list[Heard]] = {session: [] for session in SESSIONS}
        self._probed: Outcome = {}
        self._counts_consumers = True

    def _peer(self) -> Peer:
        return Peer(self._port, (*CHANNELS, PROBING))

    def clear(self, queues: Iterable[str], exchanges: Iterable[str]) -> None:
        """Both sessions end, and with them what is their own; these queues and exchanges are gone, and those that the broker has named."""
        for peer in self._peers.values():
            peer.close()
        if self._on_disk is not None:
            self._on_disk.close()
        peer = self._peer()
        given = [its for ours, its in self._its.items() if ours.startswith(GIVEN["amq.gen-"])]
        for name in (*queues, *given):
            peer.say(1, entity.QueueDelete(queue=name))
            peer.await_one(lambda heard: heard.name == "queue.delete-ok")
            peer.heard.clear()
        for name in exchanges:
            peer.say(1, entity.ExchangeDelete(exchange=name))
            peer.await_one(lambda heard: heard.name == "exchange.delete-ok")
            peer.heard.clear()
        peer.close()

    def begin(self, operation: Operation) -> None:
        """Say what the client says, and await nothing."""
        self._said = {session: [] for session in SESSIONS}
        peer, channel = self._peers[operation.session], operation.channel
        method = self._translated(operation.method)
        if isinstance(method, basic.BasicPublish):
            said = {name: getattr(method, name) for name in ("exchange", "mandatory", "immediate")}
            for body in operation.bodies:
                self._number(peer, (operation.session, channel))
                data = published(method.routing_key, body, channel=channel, properties=operation.properties, **said)
                peer.write(data)
        else:
            peer.say(channel, method)
        if not method.synchronous:
            peer.say(channel, _FLOW)

    def confirms(self, place: Place) -> None:
        """From now on the messages of a channel are numbered, for they are confirmed."""
        self._numbered.setdefault(place, 0)

    def _number(self, peer: Peer, place: Place) -> None:
        if place in self._numbered:
            self._numbered[place] += 1
            peer.owed.setdefault(place[1], set()).add(self._numbered[place])

    def finish(self, operation: Operation) -> None:
        """Hear all that the client waits for; a channel that was closed is opened again, and so is a connection."""
        peer, channel = self._peers[operation.session], operation.channel
        answers = {METHODS[index].NAME for index in type(operation.method).ANSWERS}
        if not operation.method.synchronous:
            answers = {"channel.flow-ok"}
        peer.await_one(
            lambda heard: (
                (heard.channel == channel and heard.name in (*answers, "channel.close"))
                or heard.name == "connection.close"
            )
        )
        peer.await_confirms(channel)
        if self._on_disk is not None:
            self._on_disk.wait()
        self._take(operation.session)
        self._renew(operation.session)
        if isinstance(operation.method, connection.ChannelClose) and channel in CHANNELS and 0 not in peer.closed:
            self._numbered.pop((operation.session, channel), None)
            peer.open(channel)

    def _renew(self, session: int) -> None:
        """Go on where something was closed."""
        peer = self._peers[session]
        if 0 in peer.closed:
            peer.await_one(lambda heard: heard.name == ENDED)
            self._take(session)
            peer.close()
            self._peers[session] = self._peer()
            self._forget(session, CHANNELS)
            return
        closed = [channel for channel in peer.closed if channel in (*CHANNELS, PROBING)]
        for channel in closed:
            peer.open(channel)
        self._forget(session, closed)

    def _forget(self, session: int, channels: Iterable[int]) -> None:
        for channel in channels:
            self._numbered.pop((session, channel), None)

    def probe(self, view: View) -> None:
        """Ask what there is, and hear what is on its way: whoever has been asked has done all that came before."""
        self._probed = {}
        self._counts_consumers = view.counts_consumers
        for name in sorted(view.exchanges):
            self._ask(0, entity.ExchangeDeclare(exchange=name, passive=True), f"exchange {name}")
        # What goes from queue to queue is there when the queue where it goes is asked behind the other.
        for name, owner in sorted(view.queues.items(), key=lambda item: (item[0] == view.named(DEAD), item[0])):
            self._ask(owner or 0, entity.QueueDeclare(queue=name, passive=True), f"queue {name}")
        for session, peer in self._peers.items():
            for channel in CHANNELS:
                peer.say(channel, _FLOW)
            for channel in CHANNELS:
                peer.await_one(
                    lambda heard, channel=channel: (
                        heard.channel == channel and heard.name in ("channel.flow-ok", "channel.close")
                    )
                )
            self._take(session)
            self._renew(session)

    def _ask(self, session: int, method: Method, what: str) -> None:
        peer = self._peers[session]
        peer.say(PROBING, self._translated(method))
        peer.await_one(lambda heard: heard.channel == PROBING and (heard.name.endswith("-ok") or heard.name in _CLOSES))
        answer = next((heard for heard in peer.heard if heard.channel == PROBING), None)
        self._take(session)
        if answer is not None:
            facts = self._told(answer).facts
            self._probed[f"probe {what}"] = facts.get("reply_text") or (
                facts.get("message_count"),
                facts.get("consumer_count") if self._counts_consumers else None,
            )
        self._renew(session)

    def outcome(self) -> Outcome:
        """What came of the last operation, and what there is, as it was probed last."""
        found: Outcome = dict(self._probed)
        for session, said in self._said.items():
            for heard in said:
                found.setdefault(f"{session}.{heard.channel} {_kind(heard.name)}", []).append((heard.name, heard.facts))
        for (session, channel), told in self._confirmed.items():
            found[f"{session}.{channel} confirmed"] = sorted(told.items())
        return found

    @property
    def _confirmed(self) -> dict[Place, dict[int, bool]]:
        return {
            (session, channel): told
            for session, peer in self._peers.items()
            for channel, told in peer.confirmed.items()
            if told
        }

    def forget_outcome(self) -> None:
        """What came is compared."""
        for peer in self._peers.values():
            peer.confirmed.clear()

    def events(self, session: int) -> list[Heard]:
        """What came on a session since the last operation began."""
        return self._said[session]

    def _take(self, session: int) -> None:
        peer = self._peers[session]
        taken, peer.heard[:] = list(peer.heard), []
        kept = [heard for heard in taken if heard.name != "channel.flow-ok" and heard.channel != PROBING]
        self._said[session] += [self._told(heard) for heard in kept]

    # Names

    def _told(self, heard: Heard) -> Heard:
        """The same with our names for those that the broker has given."""
        facts = {name: self._as_ours(value) for name, value in heard.facts.items()}
        if not self._counts_consumers:
            facts.pop("consumer_count", None)
        return heard._replace(facts=facts)

    def _as_ours(self, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        for beginning, name in GIVEN.items():
            if value.startswith(beginning) and value not in self._ours:
                number = sum(each.startswith(name) for each in self._its) + 1
                self._ours[value] = f"{name}-{number}"
                self._its[f"{name}-{number}"] = value
        if value in self._ours:
            return self._ours[value]
        for given, ours in self._ours.items():
            value = value.replace(given, ours)
        return value

    def _translated(self, method: Method) -> Method:
        """The same with the broker's names."""
        names = {
            name: self._its[value]
            for name in type(method).__slots__
            if isinstance(value := getattr(method, name), str) and value in self._its
        }
        return replace(method, **names) if names else method  # type: ignore[type-var]


def _kind(name: str) -> str:
    """What is compared by itself: a delivery, a return and an answer may come in any order."""
    return name if name in ("basic.deliver", "basic.return", "basic.cancel") else "answers"
