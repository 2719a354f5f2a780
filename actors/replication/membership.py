"""Who the members are, and how that changes while the cluster runs: one swap of the document at a time, by who leads.

A new member is a learner first. Once it has what the others have, the document says that it is to count (`change`), and from before that
swap is sent until the next one is known a commit needs half + 1 of the members before and of those after. The same goes for each swap: as
long as it is not known which document holds, both are satisfied. An answer that was lost is never guessed: a read that finds the document
as it was proves nothing, for the swap may still be on its way, so it is sent again until the version has moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from actors.replication import modes
from actors.replication.document import ADD, ALL, MOVE, REMOVE, Change, ClusterDocument, DocumentError, Member, Places
from actors.replication.leader import Leader
from actors.replication.limits import BEAT_SECONDS, PREPARE_SECONDS, REGISTER_SECONDS
from actors.replication.vocabulary import Effects, ReadRegister, SwapRegister

IDLE: Final = "idle"
PREPARING: Final = "preparing"
"""The next document is satisfied already, and is not yet sent."""
SWAPPING: Final = "swapping"
UNSURE: Final = "unsure"
"""It is not known whether the swap was done: it is read again a beat later."""
READING: Final = "reading"


class Membership:
    """The document in the hands of a leader.

    Attributes:
        document: as it is known.
        version: its version.
        begun: the version that this lead began with.
        changes: how often it has changed which documents may hold.
        reached: where clients reach members, by directory, as far as their nodes say it: what the document says follows.
        superseded: why this leader has to step down; None as long as it has not.
    """

    __slots__ = (
        "_epoch",
        "_looked",
        "_me",
        "_next",
        "_number",
        "_numbers",
        "_since",
        "_state",
        "_wanted",
        "_writer",
        "begun",
        "changes",
        "document",
        "reached",
        "superseded",
        "version",
    )

    def __init__(self, me: str, version: int, document: ClusterDocument, writer: str, numbers: Iterator[int]) -> None:
        self.document = document
        self.version = self.begun = version
        self.changes = 0
        self.reached: Mapping[str, Places] = {}
        self.superseded: str | None = None
        self._me = me
        self._epoch = document.epoch
        self._writer = writer
        self._numbers = numbers
        self._state = IDLE
        self._next: ClusterDocument | None = None
        self._since = 0.0
        self._number = 0  # of the operation whose answer is waited for
        self._wanted: Callable[[], ClusterDocument] | None = None  # what an operator has asked for
        self._looked = 0.0  # when it last looked what is to be done

    def documents(self) -> tuple[ClusterDocument, ...]:
        """Those that may hold."""
        return (self.document,) if self._next is None else (self.document, self._next)

    def rules(self) -> tuple[modes.Rule, ...]:
        """What they ask for."""
        return tuple(modes.rule_of(document) for document in self.documents())

    def peers(self) -> set[str]:
        """Everybody that they name."""
        return {
            member.directory
            for document in self.documents()
            for members in (document.members, document.members_after_change)
            for member in members.values()
        }

    # What an operator asks for

    def add(self, name: str, member: Member) -> str | None:
        """Take in a member, which learns first. Why not, if it cannot be."""
        return self._want(lambda: self._with(name, member))

    def remove(self, name: str) -> str | None:
        """Let a member go. Why not, if it cannot be."""
        return self._want(lambda: self._without(name))

    def move(self, name: str, member: Member) -> str | None:
        """A member lives in another directory from now on, or elsewhere. Why not, if it cannot be."""
        return self._want(lambda: self._moved(name, member))

    def give_up(self) -> str | None:
        """Leave the members as they were before the change that is under way. Why not, if it cannot be."""
        if self.document.change is None:
            return "no change is under way"
        return self._want(lambda: replace(self.document, change=None), changing=True)

    def _want(self, plan: Callable[[], ClusterDocument], *, changing: bool = False) -> str | None:
        """What is planned is planned anew when its turn comes: the document may be another one by then."""
        if self._wanted is not None or (self.document.change is not None and not changing):
            return "a change is under way already"
        try:
            plan()
        except DocumentError as error:
            return str(error)
        self._wanted = plan
        return None

    def _with(self, name: str, member: Member) -> ClusterDocument:
        if name in self.document.members:
            raise DocumentError(f"there is a member {name!r} already")
        learner = replace(member, learner=True, in_step=False)
        return replace(self.document, members={**self.document.members, name: learner})

    def _without(self, name: str) -> ClusterDocument:
        if not self._other(name).learner:
            return replace(self.document, change=Change(REMOVE, name))
        rest = {other: each for other, each in self.document.members.items() if other != name}
        return replace(self.document, members=rest)

    def _moved(self, name: str, member: Member) -> ClusterDocument:
        learner = self._other(name).learner
        member = replace(member, learner=learner, in_step=False)
        if learner:
            return replace(self.document, members={**self.document.members, name: member})
        return replace(self.document, change=Change(MOVE, name, member))

    def _other(self, name: str) -> Member:
        """A member that does not lead."""
        member = self.document.members.get(name)
        if member is None:
            raise DocumentError(f"there is no member {name!r}")
        if member.directory == self._me:
            raise DocumentError(f"{name!r} leads: restart its node first, so that another one leads")
        return member

    # What is to be done next

    def tick(self, now: float, leader: Leader) -> Effects:
        """What is to be done now. The rules may be others behind it."""
        if self._state == IDLE and self._wanted is None and now - self._looked < BEAT_SECONDS:
            return []  # as mostly: it is asked with each message
        if self.superseded is not None:
            return []
        if self._state == IDLE and leader.opened and (self._wanted or now - self._looked >= BEAT_SECONDS):
            self._looked = now
            wish = self._wish(now, leader)
            if wish is not None:
                self._intend(replace(wish, writer=f"{self._writer}-{next(self._numbers)}"))
                self._state, self._since = PREPARING, now
        if self._state == PREPARING:
            return self._prepare(now, leader)
        if self._state in (SWAPPING, READING) and now - self._since >= REGISTER_SECONDS:
            self._state, self._since = UNSURE, now
        elif self._state == UNSURE and now - self._since >= BEAT_SECONDS:
            return self._read(now)
        return []

    def _prepare(self, now: float, leader: Leader) -> Effects:
        assert self._next is not None
        rules, ends = (modes.rule_of(self._next),), leader.ends()
        if (
            modes.committed(rules, ends) >= leader.committed
            and modes.confirmed(rules, ends, self._me) >= leader.confirmed
        ):
            return self._swap(now)
        if now - self._since >= PREPARE_SECONDS:
            self._intend(None)  # nobody has seen it
            self._state = IDLE
        return []

    def _intend(self, document: ClusterDocument | None) -> None:
        self._next = document
        self.changes += 1

    def _swap(self, now: float) -> Effects:
        assert self._next is not None
        self._state, self._since = SWAPPING, now
        self._number = next(self._numbers)
        return [SwapRegister(self._number, self.version, self._next)]

    def _read(self, now: float) -> Effects:
        self._state, self._since = READING, now
        self._number = next(self._numbers)
        return [ReadRegister(self._number)]

    def _wish(self, now: float, leader: Leader) -> ClusterDocument | None:
        """The document that there should be; None if there is nothing to do."""
        document = self.document
        if self._wanted is not None:
            plan, self._wanted = self._wanted, None
            with suppress(DocumentError):  # it was possible when it was asked for, and is not any more
                return plan()
        if document.mode == ALL and (listed := self._listed(now, leader)) is not None:
            return listed
        if (change := document.change) is not None:
            after = document.members_after_change
            ready = change.kind == REMOVE or leader.caught_up(after[change.name].directory)
            return replace(document, members=dict(after), change=None) if ready else self._with_places()
        for name, member in document.members.items():
            if member.learner and leader.caught_up(member.directory):
                return replace(document, change=Change(ADD, name))
        return self._with_places()

    def _listed(self, now: float, leader: Leader) -> ClusterDocument | None:
        """With one less, or one more, on the list of the mode ``all``; None where it is as it should be.

        A change that is under way is not waited for: a directory may take hours to be filled, and who is gone can leave the list only once
        half and one of the others are on it.
        """
        rule = modes.rule_of(self.document)
        for name, member in self.document.members.items():
            if member.in_step and leader.silent(now, member.directory) and modes.may_leave(rule, member.directory):
                return self._stepping(name, in_step=False)
        for name, member in self.document.members.items():
            if not (member.in_step or member.learner) and self._returns(now, leader, member.directory):
                return self._stepping(name, in_step=True)
        return None

    def _returns(self, now: float, leader: Leader, directory: str) -> bool:
        """Whether one that is not on the list is to be.

        Who leads is, or another one that dies could not leave it where the two make half and one: who leads may have come back just before.
        """
        return directory == self._me or (leader.caught_up(directory) and not leader.silent(now, directory))

    def _stepping(self, name: str, *, in_step: bool) -> ClusterDocument:
        members = dict(self.document.members)
        members[name] = replace(members[name], in_step=in_step)
        return replace(self.document, members=members)

    def _with_places(self) -> ClusterDocument | None:
        """With members where clients reach them; None where they are there. Who counts, and where, stays, so one swap does it."""
        elsewhere = {
            name: member.reached_at(places)
            for name, member in self.document.members.items()
            if (places := self.reached.get(member.directory)) is not None and places != member.places
        }
        if not elsewhere:
            return None
        return replace(self.document, members={**self.document.members, **elsewhere})

    # What the register says

    def swapped(self, number: int, version: int) -> None:
        """The swap was done."""
        if number == self._number and self._state == SWAPPING:
            self._done(version, self._next)

    def moved(self, now: float, number: int) -> Effects:
        """The document is of another version: a swap before this one was done after all, or somebody else's."""
        return self._read(now) if number == self._number and self._state == SWAPPING else []

    def failed(self, now: float, number: int) -> None:
        """It could not be asked, or the answer was lost."""
        if number == self._number and self._state in (SWAPPING, READING):
            self._state, self._since = UNSURE, now

    def read(self, now: float, number: int, version: int, document: ClusterDocument | None) -> Effects:
        """What the document is now."""
        if number != self._number or self._state != READING:
            return []
        if document is None or document.epoch != self._epoch:
            self.superseded = f"the document is of epoch {0 if document is None else document.epoch}"
        elif version == self.version:
            return self._swap(now)  # what was sent may still come, but only one of the two can be done
        elif self._next is not None and document.writer == self._next.writer:
            self._done(version, document)
        else:
            self.superseded = "somebody else has changed the document"
        return []

    def _done(self, version: int, document: ClusterDocument | None) -> None:
        assert document is not None
        self.version, self.document = version, document
        self._intend(None)
        self._state = IDLE
