"""The cluster over HTTP: each route is a command of docs/protocol.md, section "Administration"."""

from __future__ import annotations

from typing import Final

from transport.gateways.http import described
from transport.gateways.http.commanding import command
from transport.gateways.http.routes import PREFIX, Field, Route
from transport.gateways.http.shapes import answers

CLUSTER: Final = f"{PREFIX}/cluster"
_MEMBER: Final = f"{CLUSTER}/members/{{member}}"
_NAMED: Final = {"member": "name"}
_REFUSES: Final = frozenset({"change-refused", "no-cluster"})
_WHERE: Final = "where the other nodes reach it, host or host:port"
_LIMITS: Final = {"minLength": 1, "maxLength": 300}
ADD: Final = {"address": Field("string", _WHERE, required=True, limits=_LIMITS)}
MOVE: Final = {"address": Field("string", f"{_WHERE}, where that is another place", limits=_LIMITS)}

ROUTES: Final = (
    Route(
        "GET",
        CLUSTER,
        "cluster.status",
        "How the cluster stands. Any node of it answers; only the leader knows how far behind each member is.",
        command("cluster.status"),
        answers=answers(described.CLUSTER),
        refuses=frozenset({"no-cluster"}),
        of_any_node=True,
    ),
    Route(
        "PUT",
        _MEMBER,
        "cluster.add",
        "Take in a node that waits; answered when it is a learner. It counts once it has caught up.",
        command("cluster.add", body=ADD, path=_NAMED),
        ADD,
        answers=answers(described.CHANGED_MEMBER),
        refuses=_REFUSES,
    ),
    Route(
        "DELETE",
        _MEMBER,
        "cluster.remove",
        "Let a member go; answered when that is under way, or done.",
        command("cluster.remove", path=_NAMED),
        answers=answers(described.CHANGED_MEMBER),
        refuses=_REFUSES,
    ),
    Route(
        "POST",
        f"{_MEMBER}/move",
        "cluster.move",
        "Have a member live in the directory that its node has now, or elsewhere; answered when that is under way, or done.",
        command("cluster.move", body=MOVE, path=_NAMED),
        MOVE,
        answers=answers(described.CHANGED_MEMBER),
        refuses=_REFUSES,
    ),
    Route(
        "POST",
        f"{_MEMBER}/heal",
        "cluster.heal",
        "Have a member that has met damage put its directory aside, and be filled anew; answered when that is under way.",
        command("cluster.heal", path=_NAMED),
        answers=answers(described.CHANGED_MEMBER),
        refuses=_REFUSES,
    ),
    Route(
        "DELETE",
        f"{CLUSTER}/change",
        "cluster.give_up",
        "Leave the members as they were before the change that is under way.",
        command("cluster.give_up"),
        answers=answers(described.GIVEN_UP),
        refuses=_REFUSES,
    ),
)
