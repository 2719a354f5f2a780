"""All links of a node: one to each other node that it is told of, whoever of the two has dialled.

One connection carries both directions: a link that stands has been proved both ways, an answer goes with what the system acknowledges,
and there is half as much to be kept alive. Both sides dial, so that a node that is not there is refused at once to every other. Where both
get through, the dial of the one with the lesser id stays. Where one dials though there is a link, it has lost that one: the new one is
taken. But where it is another start of the program and the link is alive, its directory is a copy, and it is refused.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from actors.replication.limits import BEAT_SECONDS, MISS_SECONDS
from transport.cluster import hello
from transport.cluster.causes import Causes, cause_of, why
from transport.cluster.dialing import FIRST_REDIAL_SECONDS, MOST_REDIAL_SECONDS, Names, dial
from transport.cluster.door import Door, ListenElsewhere
from transport.cluster.frames import PROMPT, TRANSFER
from transport.cluster.hello import Answering, Dialing, Identity, LinkRefusedError
from transport.cluster.link import LINGER_SECONDS, Link, LinkFigures, Refusal
from transport.cluster.link_codec import Alive, LinkCodec
from transport.cluster.link_settings import LinkKeys, LinkSettings, names_fit
from transport.cluster.outgoing import Pace
from transport.cluster.records import MakeRecord
from transport.errors import ConnectionLostError, LocalProtocolError
from transport.wire.address import Address, parse_address
from transport.wire.shown import shown

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

WELL_SECONDS: Final = 2 * BEAT_SECONDS
"""A link that stands for so long is well: when it ends it is dialled at once, and what goes wrong then is said anew."""
CLOSE_SECONDS: Final = LINGER_SECONDS + 1.0
"""For all links to end."""


logger = logging.getLogger("penstock.cluster")

_USUAL: Final = (hello.CROSSED, hello.CLOSING)


class Node(Protocol):
    """Who has the links. It is called on the loop, never from within a call of its own, and must not raise."""

    def connected(self, peer: str) -> None:
        """There is a connection to this directory: the first, or another one in the place of the one before."""

    def lost(self, peer: str) -> None:
        """There is none any more, or an attempt to make one has failed: refused, say, at once."""

    def received(self, peer: str, message: Any) -> None:
        """What it says: a message of ``actors/replication/vocabulary.py``, or of ``transfer_messages.py``."""

    def unknown(self, peer: str, name: str) -> None:
        """Somebody of this cluster has dialled, and proved itself, who is none of the peers: the document may be newer than is known."""


class _Peer:
    """Another node."""

    __slots__ = ("address", "delay", "dial", "link", "task", "timer", "unproved")

    def __init__(self, address: Address) -> None:
        self.address = address
        self.link: Link | None = None
        self.dial: Link | None = None  # an attempt that is under way
        self.task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.delay = FIRST_REDIAL_SECONDS
        self.unproved = 0  # attempts that were refused for their secret


class ClusterLinks:
    """The links of one node, on the running loop.

    Args:
        me: what this node says of itself.
        settings: where it listens, and how fast transfers go.
        keys: of `read_keys`.
        node: is told.
        make_record: makes the records of what comes: ``journal.ShippedRecord``.
        chance: spreads the attempts.
        listen: how it listens, instead of on the machine's network.
    """

    def __init__(
        self,
        me: Identity,
        settings: LinkSettings,
        keys: LinkKeys,
        node: Node,
        make_record: MakeRecord,
        *,
        chance: random.Random | None = None,
        listen: ListenElsewhere | None = None,
    ) -> None:
        if keys.secret is None and (keys.client is None or keys.server is None):
            raise LocalProtocolError("links have a secret or TLS, or both")
        self.me = me
        self._settings = settings
        self._keys = keys
        self._node = node
        self._loop = asyncio.get_running_loop()
        self._codec = LinkCodec(make_record)
        self._pace = Pace(settings.transfer_bytes_a_second)
        self._chance = chance or random.Random()  # noqa: S311 - attempts, not secrets
        self._causes = Causes(self._loop.time)
        self._names = Names(self._loop)
        self._door = Door(self._answering, lambda: self._keys.server, self._not_secured, listen)
        self._peers: dict[str, _Peer] = {}
        self._called: dict[str, str] = {}
        self._made: dict[Link, None] = {}  # in order, so that a simulation is the same each time
        self._dials: dict[Link, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._count = itertools.count(1)
        self._looking: asyncio.TimerHandle | None = None
        self._closing = False
        self._empty = asyncio.Event()
        self._empty.set()

    async def start(self) -> None:
        """Listen, and dial from now on whom `set_peers` names.

        Raises:
            OSError: the address cannot be bound.
        """
        await self._door.open(parse_address(self._settings.address))
        self._look_later()

    async def __aenter__(self) -> Self:
        """As of `start`."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """As of `close`."""
        await self.close()

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Where it listens, with the ports that were really bound."""
        return self._door.addresses

    @property
    def connected(self) -> frozenset[str]:
        """To whom there is a connection."""
        return frozenset(directory for directory, peer in self._peers.items() if peer.link is not None)

    def figures(self, peer: str) -> LinkFigures | None:
        """What the link to somebody has done; None where there is none."""
        found = self._peers.get(peer)
        return None if found is None or found.link is None else found.link.figures

    def use(self, keys: LinkKeys) -> None:
        """Other keys, for connections from now on."""
        self._keys = keys

    def set_peers(self, peers: Mapping[str, str], names: Mapping[str, str] | None = None) -> None:
        """Who the other nodes are: the address of each by its directory. Those that are named no more are let go of, and `lost` is told.

        Who has a name by its directory is called by that in the log.

        Raises:
            LocalProtocolError: an address is none.
        """
        self._called = dict(names or {})
        wanted = {directory: parse_address(text) for directory, text in peers.items() if directory != self.me.directory}
        for directory in [directory for directory in self._peers if directory not in wanted]:
            self._let_go(directory, self._peers.pop(directory))
        for directory, address in wanted.items():
            peer = self._peers.get(directory)
            if peer is None:
                peer = self._peers[directory] = _Peer(address)
                self._dial_later(directory, peer, 0.0)
            elif peer.address != address:
                peer.address = address
                if peer.link is None:
                    self._abandon(peer)
                    self._dial_later(directory, peer, 0.0)

    def send(self, peer: str, message: Any) -> bool:
        """Send a message, in its order; whether there is a connection for it. It never waits.

        Raises:
            LocalProtocolError: it is none, or is over a limit.
        """
        link = self._link_to(peer)
        if link is None:
            return False
        encoded = self._codec.encode(message)
        if encoded.lane == PROMPT:
            link.send(encoded)
        elif encoded.lane == TRANSFER:
            link.transfer(encoded)
        else:
            link.ship(encoded, _nobody)
        return True

    def ship(self, peer: str, message: Any, shipped: Callable[[], None]) -> bool:
        """Send a message with records; whether it has left for the socket, so that what follows on it may be sent.

        If not, ``shipped`` is called when it has; it never is where the connection ends before, which `lost` tells, or `connected` of
        another one. Its buffers must not change until then.

        Raises:
            LocalProtocolError: it is none, or is over a limit.
        """
        link = self._link_to(peer)
        return link is not None and link.ship(self._codec.encode(message), shipped)

    async def close(self) -> None:
        """Take nobody, dial nobody, and end all links."""
        self._closing = True
        self._door.close()
        if self._looking is not None:
            self._looking.cancel()
        for peer in self._peers.values():
            self._abandon(peer)
        for link in list(self._made):
            link.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                while self._tasks:
                    await asyncio.wait(self._tasks)
                await self._door.closed()
                await self._empty.wait()

    # Of links: see `LinkOwner`.

    def made(self, link: Link) -> None:
        """There is a connection."""
        self._made[link] = None
        self._empty.clear()

    def judge(self, link: Link) -> Refusal | None:
        """Whether who has dialled, and proved itself, is taken."""
        said = link.said
        assert said is not None
        peer = self._peers.get(said.directory)
        if self._closing:
            return Refusal(hello.CLOSING, "this node ends")
        if peer is None:
            self._node.unknown(said.directory, said.name)
            return Refusal(
                hello.UNKNOWN,
                f"the directory {said.directory} ({said.name}) is no member's, as far as {self.me.name} knows",
            )
        certificate = link.certificate
        if certificate is not None and not names_fit(certificate, peer.address.host):
            return Refusal(hello.NAMES, f"its certificate is not for {peer.address.host}, where {said.name} is reached")
        return self._beside(link, said, peer)

    def opened(self, link: Link) -> None:
        """It stands."""
        assert link.agreed is not None
        directory = link.agreed.peer.directory
        link.opened = next(self._count)
        self._door.left(link)
        self._dials.pop(link, None)
        peer = self._peers.get(directory)
        if peer is None or self._closing:
            link.close()
            return
        peer.unproved = 0
        old, peer.link = peer.link, link
        if peer.dial is link:
            peer.dial = None
        self._abandon(peer)
        if old is not None:
            old.abort(ConnectionLostError("there is a new one in its place"))
        logger.info("a link to the node %s (%s) at %s stands", directory, shown(link.agreed.peer.name), link.peer)
        self._node.connected(directory)

    def received(self, link: Link, message: Any) -> None:
        """What somebody says."""
        assert link.agreed is not None
        directory = link.agreed.peer.directory
        peer = self._peers.get(directory)
        if peer is not None and peer.link is link:
            self._node.received(directory, message)

    def ended(self, link: Link, error: Exception) -> None:
        """It is over, or never came to stand."""
        self._door.left(link)
        self._made.pop(link, None)
        if not self._made:
            self._empty.set()
        dialled = self._dials.pop(link, None)
        directory = link.agreed.peer.directory if link.agreed is not None else dialled
        peer = None if directory is None else self._peers.get(directory)
        if directory is not None and peer is not None and link in (peer.link, peer.dial):
            self._failed(directory, peer, link, error)
        elif not link.dials and link.agreed is None and not self._closing:
            self._stranger(link, error)

    # Inside

    def _beside(self, link: Link, said: Identity, peer: _Peer) -> Refusal | None:
        """Whether a connection is taken beside the one that there is, or will be."""
        old = peer.link
        if old is None:
            mine = peer.dial is not None and peer.dial.under_way and self.me.directory < said.directory
            return Refusal(hello.CROSSED, "the other connection stays") if mine else None
        assert old.agreed is not None
        if old.agreed.peer.start == said.start:
            # It has begun before the other one stood, so both have dialled; else it has lost the other one.
            return Refusal(hello.CROSSED, "the other connection stays") if link.begun < old.opened else None
        if self._loop.time() - old.heard >= MISS_SECONDS:
            return None
        # Where its machine has started anew, this brings the answer that nobody knows the old connection there.
        old.send(self._codec.encode(Alive()))
        return Refusal(
            hello.TAKEN,
            f"the directory {said.directory} is connected from {old.peer} already: if one of the two is a copy of the other, "
            "it must get an id of its own; or the former connection has not ended yet",
        )

    def _link_to(self, directory: str) -> Link | None:
        peer = self._peers.get(directory)
        return None if peer is None else peer.link

    def _answering(self) -> Link:
        """For somebody who has dialled."""
        side = Answering(self.me, self._keys.secret, os.urandom(hello.NONCE_BYTES), self._keys.also)
        link = Link(side, self, self._codec, self._pace, self._loop)
        link.begun = next(self._count)
        return link

    def _dial_later(self, directory: str, peer: _Peer, seconds: float) -> None:
        if peer.timer is not None:
            peer.timer.cancel()
        peer.timer = self._loop.call_later(seconds, self._dial, directory, peer)

    def _dial(self, directory: str, peer: _Peer) -> None:
        peer.timer = None
        if self._closing or peer.link is not None or peer.dial is not None or self._peers.get(directory) is not peer:
            return
        side = Dialing(self.me, directory, self._keys.secret_of(peer.unproved), os.urandom(hello.NONCE_BYTES))
        link = peer.dial = Link(side, self, self._codec, self._pace, self._loop)
        self._dials[link] = directory
        peer.task = self._loop.create_task(self._connect(directory, peer, link), name="dial a node")
        self._tasks.add(peer.task)
        peer.task.add_done_callback(self._tasks.discard)

    async def _connect(self, directory: str, peer: _Peer, link: Link) -> None:
        try:
            await dial(link, peer.address, self._names, self._keys.client)
        except (OSError, TimeoutError, UnicodeError) as error:
            self._dials.pop(link, None)
            if peer.dial is link:
                self._failed(directory, peer, link, error)

    def _abandon(self, peer: _Peer) -> None:
        """Give up the attempt that is under way, or would be."""
        if peer.timer is not None:
            peer.timer.cancel()
            peer.timer = None
        given_up, peer.dial = peer.dial, None
        task, peer.task = peer.task, None
        if given_up is not None:
            self._dials.pop(given_up, None)
            if task is not None:
                task.cancel()
            given_up.abort(ConnectionLostError("given up"))

    def _let_go(self, directory: str, peer: _Peer) -> None:
        self._abandon(peer)
        self._causes.well(directory)
        if peer.link is not None:
            peer.link.close()
            self._loop.call_soon(self._node.lost, directory)

    def _failed(self, directory: str, peer: _Peer, link: Link, error: Exception) -> None:
        """The link has ended, or the attempt."""
        was_open = peer.link is link
        if was_open:
            peer.link = None
        else:
            peer.dial = peer.task = None
        if self._closing:
            return
        reason = error.reason if isinstance(error, LinkRefusedError) else ""
        usual = reason == hello.CROSSED
        if reason == hello.UNPROVED:
            # Of two secrets the other one is next, and nothing is wrong yet.
            usual = not self._keys.is_last(peer.unproved)
            peer.unproved += 1
        if was_open and self._loop.time() - link.since >= WELL_SECONDS:
            seconds, peer.delay = 0.0, FIRST_REDIAL_SECONDS
        else:
            seconds = peer.delay * self._chance.uniform(0.5, 1.0)
            peer.delay = min(peer.delay * 2, MOST_REDIAL_SECONDS)
        if peer.link is None:
            self._dial_later(directory, peer, seconds)
        if usual or peer.link is not None:
            return
        what = "the link to" if was_open else "no link to"
        self._causes.tell(
            directory,
            cause_of(error),
            f"{what} the node {self._called.get(directory, directory)} at {peer.address}: {why(error)}; this node tries on",
        )
        self._node.lost(directory)

    def _stranger(self, link: Link, error: Exception) -> None:
        """Somebody has dialled, and was not taken, or has gone."""
        if isinstance(error, ConnectionError) or (isinstance(error, LinkRefusedError) and error.reason in _USUAL):
            return
        host = link.peer.rpartition(":")[0]
        who = "" if link.said is None else f" ({shown(link.said.name)})"
        self._causes.tell(host, cause_of(error), f"a node that connects from {host}{who} is not taken: {why(error)}")

    def _not_secured(self, host: str, error: Exception) -> None:
        self._causes.tell(host, cause_of(error), f"a node that connects from {host} is not taken: {why(error)}")

    def _look_later(self) -> None:
        self._looking = self._loop.call_later(BEAT_SECONDS, self._look, self._loop.time() + BEAT_SECONDS)

    def _look(self, due: float) -> None:
        """Once a beat."""
        now = self._loop.time()
        late = max(0.0, now - due)
        for link in list(self._made):
            link.look(now, late)
            if link.agreed is not None and now - link.since >= WELL_SECONDS:
                self._causes.well(link.agreed.peer.directory)
        self._look_later()


def _nobody() -> None:
    """Who sends and does not ask when it has left."""
