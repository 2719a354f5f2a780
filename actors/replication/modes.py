"""Which nodes have to have a record before it is committed and confirmed, and which have to have sealed before one of them leads.

Nodes are named by the ids of their directories: a wiped disk is another node. Two questions are kept apart:

- *committed* is the log's: half + 1 of those that count have the record on their disks. It never changes again, whoever leads, so it may be
  folded, put into a checkpoint and given back. It is the same in every mode.
- *confirmed* is the sender's, and goes by the mode: ``async`` and ``one`` may be ahead of what is committed, ``all`` may be behind.

While the members change, or it is not known whether they have, each of the documents that may hold has to be satisfied.

What is promised of a confirmed record, as ``tests/simulation/replication`` holds it; in every mode half + 1 have to be there to go on:

======== =========================================== ==========================================================================
mode     it is confirmed when it is on the disk of   it is lost only
======== =========================================== ==========================================================================
async    the leader                                  when the leader after did not seal the former one: it opens as not `whole`
one      two                                         with both disks; in more than 3 members also when all but one were not
                                                     sealed in `ALL_BUT_ONE_SECONDS`: it opens as not `whole`
majority half + 1                                    with the disks of half of the members or more, before others are in place
all      half + 1, and everybody listed as in step   with every disk that the document lists as in step
======== =========================================== ==========================================================================

A leader that others have replaced, and that has not noticed, may still confirm for `MISS_SECONDS` in ``async`` and ``one``: lost too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from actors.replication.document import ALL, ASYNC, MAJORITY, ONE, ClusterDocument


class Rule(NamedTuple):
    """What one document asks for.

    Attributes:
        mode: its mode.
        quorums: those that count, now and after the change that is under way; half + 1 of each.
        in_step: whom the mode ``all`` waits for.
    """

    mode: str
    quorums: tuple[frozenset[str], ...]
    in_step: frozenset[str]


def rule_of(document: ClusterDocument) -> Rule:
    """What a document asks for."""
    versions = [document.members] if document.change is None else [document.members, document.members_after_change]
    counting = [[each for each in members.values() if not each.learner] for members in versions]
    quorums = tuple(dict.fromkeys(frozenset(each.directory for each in members) for members in counting))
    in_step = frozenset(each.directory for members in counting for each in members if each.in_step)
    return Rule(document.mode, quorums, in_step)


def half_plus_one(count: int) -> int:
    """More than half."""
    return count // 2 + 1


def stored_by(count: int, nodes: Iterable[str], ends: Mapping[str, int]) -> int:
    """The lsn below which ``count`` of the nodes have everything; each of ``ends`` is one more than a node's last."""
    return sorted([ends.get(node, 0) for node in nodes])[-count]


def committed(rules: Iterable[Rule], ends: Mapping[str, int]) -> int:
    """The lsn below which half + 1 have everything, by each of the rules."""
    found = []
    for rule in rules:
        for quorum in rule.quorums:
            # As `stored_by`; it is asked with each answer of a follower.
            each = sorted([ends.get(node, 0) for node in quorum])
            found.append(each[-half_plus_one(len(each))])
    return min(found)


def confirmed(rules: Iterable[Rule], ends: Mapping[str, int], leader: str) -> int:
    """The lsn below which everything may be confirmed, by each of the rules."""
    return min([_confirmed(rule, ends, leader) for rule in rules])


def as_committed(rules: Iterable[Rule]) -> bool:
    """Whether what is committed may be confirmed, and nothing else: so says each of the rules."""
    return all(rule.mode == MAJORITY for rule in rules)


def _confirmed(rule: Rule, ends: Mapping[str, int], leader: str) -> int:
    if rule.mode == ASYNC:
        return ends.get(leader, 0)
    if rule.mode == ONE:
        return min(stored_by(min(2, len(quorum)), quorum, ends) for quorum in rule.quorums)
    most = committed((rule,), ends)
    if rule.mode == ALL:
        most = min((most, *(ends.get(node, 0) for node in rule.in_step)))
    return most


def enough(rules: Iterable[Rule], answered: Collection[str]) -> bool:
    """Whether half + 1 of each quorum are among those that answered: then everything committed is in one of their logs."""
    asked = frozenset(answered)
    return all(len(quorum & asked) >= half_plus_one(len(quorum)) for rule in rules for quorum in rule.quorums)


def certain(rules: Iterable[Rule], answered: Collection[str], doubted: Collection[str]) -> bool:
    """Whether everything committed is in one of the logs of those that answered, though some of them may lack what they had stored.

    That is so where half + 1 of each quorum have answered, and so many of it without doubt that any half + 1 have one of them; or where all
    of it have: then fewer disks that are damaged than half hide nothing. Of three that is two without doubt, of four two, of five three.
    """
    asked, sure = frozenset(answered), frozenset(answered) - frozenset(doubted)
    for rule in rules:
        for quorum in rule.quorums:
            most = half_plus_one(len(quorum))
            meets = len(quorum & asked) >= most and len(quorum & sure) > len(quorum) - most
            if not (meets or quorum <= asked):
                return False
    return True


def whole(rule: Rule, answered: Collection[str], former: str | None, *, opened: bool) -> bool:
    """Whether everything that was *confirmed* is in the greatest log of those that answered, too.

    Args:
        rule: of the document that the former leader had.
        answered: they are at least `enough`; those that are in doubt count as not asked.
        former: the directory of the leader that has written the last records of the greatest log; None where that is not known.
        opened: whether the epoch of those records is known to have opened. Its leader has said itself what was missing before.
    """
    asked = frozenset(answered)
    if rule.mode == ASYNC:
        return opened and former in asked
    if rule.mode == ONE and any(half_plus_one(len(quorum)) > 2 for quorum in rule.quorums):
        return opened and all(len(quorum - asked) < 2 for quorum in rule.quorums)
    return True


def voters(rules: Iterable[Rule]) -> frozenset[str]:
    """Everybody that counts in any of the rules."""
    return frozenset().union(*(quorum for rule in rules for quorum in rule.quorums))


def may_leave(rule: Rule, node: str) -> bool:
    """Whether half + 1 of each quorum are still in step without a node."""
    rest = rule.in_step - {node}
    return all(len(quorum & rest) >= half_plus_one(len(quorum)) for quorum in rule.quorums)
