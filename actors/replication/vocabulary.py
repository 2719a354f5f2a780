"""What nodes of a cluster say to one another, and what their machines want done.

Whoever carries a message says from which directory it comes: a connection proves that at its start. On one connection messages keep their
order. A message of a connection that has ended may still arrive: nothing here relies on that it does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

from actors.replication.document import ClusterDocument
from actors.replication.positions import LogSummary, Position


class ShippedRecord(Protocol):
    """A record as it is shipped; the journal's has its kind, its flags and its payload besides."""

    @property
    def lsn(self) -> int:
        """Its number."""

    @property
    def epoch(self) -> int:
        """Of the leader that wrote it."""


# Messages


class Follow(NamedTuple):
    """A leader to everybody that it ships to: say what your log is."""

    epoch: int


class Following(NamedTuple):
    """The answer: what the log of a follower is, which has promised the epoch durably."""

    epoch: int
    log: LogSummary


class Replicate(NamedTuple):
    """A leader's records, or none to say that it leads.

    Attributes:
        epoch: the leader's.
        previous: of the record before the first of ``records``.
        committed: every record below is committed.
        sent: when it was sent, by the leader's clock: told back, so that an answer that lay about for long does not count as news.
        records: they follow on.
    """

    epoch: int
    previous: Position
    committed: int
    sent: float
    records: Sequence[ShippedRecord] = ()


class Stored(NamedTuple):
    """A follower has every record of the leader below ``lsn`` on its disk; ``sent`` of the last message that it has read."""

    epoch: int
    lsn: int
    sent: float


class Refused(NamedTuple):
    """A message was of an older epoch than the one that the node has promised, which is ``epoch``."""

    epoch: int


class Seal(NamedTuple):
    """Promise this epoch: take nothing older from then on."""

    epoch: int


class Sealed(NamedTuple):
    """It is promised, durably, and the log as it is said is durable too.

    Attributes:
        epoch: that is promised.
        log: as it is.
        doubt: whether the log may lack something that the node has answered for.
    """

    epoch: int
    log: LogSummary
    doubt: bool = False


FIRST_DOUBTFUL: Final = 1 << 32
"""What is asked by who is in doubt is counted from here on: the questions of a take-over are never so many."""


class Missing(NamedTuple):
    """Do you miss the leader too? From `FIRST_DOUBTFUL` on: where does your log end, if you lead? Nobody else answers that.

    Attributes:
        epoch: that the asking node has promised.
        ask: counts its questions.
        position: its log's.
    """

    epoch: int
    ask: int
    position: Position


class Missed(NamedTuple):
    """The answer to a `Missing`.

    Attributes:
        epoch: that the answering node has promised.
        ask: the question's.
        missed: whether it misses its leader.
        position: its log's.
    """

    epoch: int
    ask: int
    missed: bool
    position: Position


class Fetch(NamedTuple):
    """Who takes over to whose log it adopts: give me records from ``lsn`` on."""

    epoch: int
    lsn: int


class Fetched(NamedTuple):
    """Records from ``lsn`` on; none where the log does not hold it."""

    epoch: int
    lsn: int
    records: Sequence[ShippedRecord] = ()


class TakeTransfer(NamedTuple):
    """A leader to a follower whose log ends before the leader's starts, or parts from it there: take a transfer from me.

    Attributes:
        epoch: the leader's.
        before: of the record before the first in the leader's log. Who has that one needs no transfer, and must not take any: what it has
            stored since would go.
    """

    epoch: int
    before: Position


class TakeOver(NamedTuple):
    """A leader that stops to the follower that has everything: take over at once."""

    epoch: int


Message = (
    Follow
    | Following
    | Replicate
    | Stored
    | Refused
    | Seal
    | Sealed
    | Missing
    | Missed
    | Fetch
    | Fetched
    | TakeTransfer
    | TakeOver
)

# Effects, which the shell carries out in order, before it tells a machine anything else


class Send(NamedTuple):
    """Send a message to a directory; where there is no connection, it is lost."""

    to: str
    message: Message


class Ship(NamedTuple):
    """Read records, put them into the message, and send it. The shell says `shipped` then, now or later.

    What is read when the node has stepped down, or its log was cut or replaced since, is not sent: it may be another log's.

    Attributes:
        to: to whom.
        message: the one that the records go into.
        lsn: of the first record.
        records: how many, at most;
        nbytes: and with how many bytes, at most; but always one.
    """

    to: str
    message: Replicate | Fetched
    lsn: int
    records: int
    nbytes: int


class Append(NamedTuple):
    """Append records that follow on; `synced` is said when they are on the disk. Never between a `Truncate` or `Install` and its end."""

    records: Sequence[ShippedRecord]


class Truncate(NamedTuple):
    """Cut everything from ``lsn`` on, after a copy is kept; `truncated` is said when that is durable."""

    lsn: int


class Promise(NamedTuple):
    """Sync the log as it is, then write the epoch durably; `promised` is said then."""

    epoch: int


class EndDoubt(NamedTuple):
    """The log has all again that it may have been answered for up to an epoch: have that durable."""

    epoch: int


class Commit(NamedTuple):
    """Every record below ``lsn`` is committed, and on this disk: fold it, and have checkpoints of it."""

    lsn: int


class Confirm(NamedTuple):
    """The leader's: every record below ``lsn`` may be confirmed to its sender and delivered."""

    lsn: int


class Keep(NamedTuple):
    """The leader's: records from ``lsn`` on are still needed by a follower."""

    lsn: int


class Lead(NamedTuple):
    """Write this epoch into records from now on, and append the first one of it; `appended` is said then, `synced` later."""

    epoch: int


class Open(NamedTuple):
    """The leader's first record is committed: open the ports.

    ``whole``: nothing that was confirmed can be missing. Where it may, that is said before the `Commit` behind this is carried out.
    """

    epoch: int
    whole: bool


class StepDown(NamedTuple):
    """Stop delivering and confirming, close the clients, open the directory anew; `reopened` is said then."""

    reason: str


class Give(NamedTuple):
    """The leader's: be ready to give a transfer, and pin what it reads until `Unpin`."""

    to: str


class Unpin(NamedTuple):
    """A transfer to this directory is over, or will not be."""

    to: str


class Take(NamedTuple):
    """Take a transfer into a folder aside; `transferred` is said when it is whole, `transfer_failed` when it cannot be."""

    source: str


class Install(NamedTuple):
    """Put the transfer that is whole in the place of the log, at once for whoever looks; `installed` is said then."""

    source: str


class DropTransfer(NamedTuple):
    """Stop a transfer, and remove what there is of it; nothing more is said of it. Never of one that is being installed."""

    source: str


class Diverged(NamedTuple):
    """What this node knows as committed is not what the leader has: it follows nobody any more. Somebody has to look."""

    lsn: int


class Hindered(NamedTuple):
    """Half + 1 are there, and this node cannot lead: these are in doubt, and somebody has to be there who is not, or everybody."""

    doubted: frozenset[str]


class ReadRegister(NamedTuple):
    """Read the document; `register_read` or `register_failed` is said with the number."""

    number: int


class SwapRegister(NamedTuple):
    """Swap the document; `register_swapped`, `register_moved` or `register_failed` is said with the number."""

    number: int
    version: int
    document: ClusterDocument


class LeaderKnown(NamedTuple):
    """Who leads, by its directory, or that this is not known any more (""): for clients that ask this node."""

    leader: str
    epoch: int


Effect = (
    Send
    | Ship
    | Append
    | Truncate
    | Promise
    | EndDoubt
    | Commit
    | Confirm
    | Keep
    | Lead
    | Open
    | StepDown
    | Give
    | Unpin
    | Take
    | Install
    | DropTransfer
    | Diverged
    | Hindered
    | ReadRegister
    | SwapRegister
    | LeaderKnown
)
Effects = list[Any]
"""A list of `Effect`; mypy is slow with a union of so many."""
