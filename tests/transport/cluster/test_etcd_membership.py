"""An etcd whose folder is empty begins with others only where none of them can be part of one: who is silent may be."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.transport.cluster.test_etcd_child import own
from transport.cluster.etcd_membership import (
    SETTLED_SECONDS,
    SILENT_SECONDS,
    Known,
    Others,
    Said,
    Standing,
    judged,
)
from transport.cluster.gateway import Answer, AnswerLostError, Gateway, NobodyThereError, NotSentError
from transport.wire.address import Address

THREE = "a=10.0.0.1,b=10.0.0.2,c=10.0.0.3"
URLS = {name: f"http://10.0.0.{number}:2380" for number, name in enumerate("abc", 1)}
ALL = frozenset(URLS.values())
SILENT, REFUSES = "silent", "refuses"


def listed(names: str, there: str, renewed: str = "") -> list[dict[str, Any]]:
    """The members of an etcd, and which of them have been there."""
    return [
        {"id": ord(name) + 100 * (name in renewed), "peerURLs": [URLS[name]]}
        | ({"clientURLs": [URLS[name].replace("2380", "2379")]} if name in there else {})
        for name in names
    ]


class Etcds(Gateway):
    """What the others answer, by their names: a list of members, or silent or refusing; and a clock."""

    def __init__(self) -> None:
        super().__init__(None)
        self.clients: dict[str, Any] = {}
        self.peers: dict[str, Any] = {}
        self.now = 1000.0

    async def post(
        self, endpoint: Address, path: str, fields: dict[str, Any], token: str | None, seconds: float
    ) -> Answer:
        members = self._said(self.clients, endpoint)
        return Answer(200, {"members": [{"ID": str(each["id"])} | each for each in members]})

    async def get_list(self, endpoint: Address, path: str, seconds: float) -> list[Any]:
        return self._said(self.peers, endpoint)

    def _said(self, answers: dict[str, Any], endpoint: Address) -> list[Any]:
        said = answers[" abc"[int(endpoint.host[-1])]]
        if said == REFUSES:
            raise NobodyThereError(f"{endpoint}: Connection refused")
        if said == SILENT:
            raise (NotSentError if endpoint.port == 2380 else AnswerLostError)(f"{endpoint}: no answer within 1 s")
        assert isinstance(said, list)
        return said

    def say(self, a: Any, b: Any) -> None:
        """At both ports."""
        self.clients = self.peers = {"a": a, "b": b}

    def without_a_majority(self, a: Any, b: Any) -> None:
        """At the port for other etcds alone; at that for clients, who runs is silent then."""
        self.clients = {"a": REFUSES if a == REFUSES else SILENT, "b": REFUSES if b == REFUSES else SILENT}
        self.peers = {"a": a, "b": b}


class Asking:
    """The node c, which asks a and b."""

    def __init__(self, *, brokers: bool = False) -> None:
        self.etcds = Etcds()
        self.running = ""
        met = {name: Address(f"10.0.0.{number}", 9184) for number, name in enumerate("abc", 1)} if brokers else {}
        self._others = Others(own(THREE, "c"), self.etcds, lambda: self.etcds.now, brokers=met, listens=self._listens)

    async def _listens(self, address: Address) -> bool:
        assert address.port == 9184
        return " abc"[int(address.host[-1])] in self.running

    def after(self, seconds: float) -> Known:
        self.etcds.now += seconds
        return asyncio.run(self._others.known())


def test_while_all_others_are_silent_it_waits_and_then_goes_by_what_they_say() -> None:
    asking = Asking()
    asking.etcds.say(SILENT, SILENT)
    for seconds in (0.0, 6.0, 100 * SILENT_SECONDS):
        known = asking.after(seconds)
        assert known.standing is Standing.UNHEARD
    assert known.why == "10.0.0.1:2380: no answer within 1 s; 10.0.0.2:2380: no answer within 1 s"
    asking.etcds.say(SILENT, listed("abc", "ab"))
    assert asking.after(1.0) == Known(Standing.AWAITED, ALL)


def test_where_all_others_refuse_it_is_a_first_start_and_nothing_is_waited_for() -> None:
    asking = Asking()
    asking.etcds.say(REFUSES, REFUSES)
    assert asking.after(0.0) == Known(Standing.ALONE)


def test_a_machine_that_refuses_has_an_etcd_to_start_until_its_broker_runs_and_starts_none() -> None:
    """After a loss of power the one that is empty may be there first: it must not begin anew as who it was."""
    asking = Asking(brokers=True)
    asking.etcds.say(REFUSES, REFUSES)
    for running, away in (("", 1), ("a", 2), ("b", 1), ("a", 2)):
        asking.running = running
        known = asking.after(SILENT_SECONDS)
        assert known.standing is Standing.UNHEARD
        said = f"at 10.0.0.{away}:2380 no etcd runs yet, nor a broker at 10.0.0.{away}:9184, which starts the one that may be there"
        assert said in known.why
    asking.running = "ab"
    assert asking.after(0.0).standing is Standing.UNHEARD
    assert "the etcd at 10.0.0.2:2380 does not run yet" in asking.after(SETTLED_SECONDS - 0.5).why
    asking.etcds.without_a_majority(listed("abc", "abc"), REFUSES)
    assert asking.after(1.0).standing is Standing.UNHEARD
    assert asking.after(SETTLED_SECONDS) == Known(Standing.LOST, ALL)


def test_where_the_brokers_of_all_others_run_and_no_etcd_does_for_a_while_it_is_a_first_start() -> None:
    asking = Asking(brokers=True)
    asking.running = "ab"
    asking.etcds.say(REFUSES, REFUSES)
    assert asking.after(0.0).standing is Standing.UNHEARD
    assert asking.after(SETTLED_SECONDS - 0.5).standing is Standing.UNHEARD
    assert asking.after(0.5) == Known(Standing.ALONE)


def test_a_machine_that_is_off_at_the_first_start_is_waited_for_so_long_and_no_longer() -> None:
    asking = Asking()
    asking.etcds.say(SILENT, REFUSES)
    for seconds in (0.0, SILENT_SECONDS - 0.5):
        known = asking.after(seconds)
        assert known.standing is Standing.UNHEARD
        assert known.why == "10.0.0.1:2380: no answer within 1 s; after 10 s it begins without an answer"
    assert asking.after(0.5) == Known(Standing.ALONE)


def test_with_an_etcd_that_begins_it_begins_too_also_where_the_third_is_silent() -> None:
    """Two that have never been part of one are enough of three."""
    asking = Asking()
    asking.etcds.without_a_majority(SILENT, listed("abc", ""))
    assert asking.after(0.0).standing is Standing.UNHEARD
    known = asking.after(SETTLED_SECONDS - 0.5)
    assert "the etcd at 10.0.0.2:2380 has not found enough others yet" in known.why
    assert asking.after(0.5) == Known(Standing.ALONE)


@pytest.mark.parametrize(
    ("members", "known"),
    [
        (listed("abc", "abc"), Known(Standing.LOST, ALL)),
        (listed("abc", "ab"), Known(Standing.AWAITED, ALL)),
        (listed("ab", "ab"), Known(Standing.UNKNOWN, ALL - {URLS["c"]})),
    ],
)
def test_an_etcd_without_a_majority_is_believed_once_it_has_said_the_same_for_a_while(
    members: list[dict[str, Any]], known: Known
) -> None:
    """It waits for this one, maybe: two of a cluster of two have to be there."""
    asking = Asking()
    asking.etcds.without_a_majority(REFUSES, [])
    assert asking.after(0.0).standing is Standing.UNHEARD
    # What it has by the first read of its disk is not all.
    asking.etcds.without_a_majority(REFUSES, listed("abc", ""))
    assert asking.after(2 * SILENT_SECONDS).standing is Standing.UNHEARD
    asking.etcds.without_a_majority(REFUSES, members)
    assert asking.after(SETTLED_SECONDS).standing is Standing.UNHEARD
    assert asking.after(SETTLED_SECONDS) == known


def test_an_etcd_that_was_silent_in_between_has_to_say_it_for_a_while_again() -> None:
    asking = Asking()
    for each in (listed("abc", ""), SILENT, listed("abc", "")):
        asking.etcds.without_a_majority(REFUSES, each)
        assert asking.after(SETTLED_SECONDS / 2).standing is Standing.UNHEARD
    assert asking.after(SETTLED_SECONDS) == Known(Standing.ALONE)


def test_one_that_some_await_and_others_have_seen_there_was_lost_and_another_one_in_its_place_is_awaited() -> None:
    asking = Asking()
    asking.etcds.say(listed("abc", "ab"), listed("abc", "abc"))
    assert asking.after(0.0) == Known(Standing.LOST, ALL)
    asking.etcds.say(listed("abc", "ab", renewed="c"), listed("abc", "abc"))
    assert asking.after(0.0) == Known(Standing.AWAITED, ALL)


@pytest.mark.parametrize(("silent", "standing"), [(2, Standing.ALONE), (3, Standing.UNHEARD)])
def test_of_five_machines_two_may_be_off_at_the_first_start(silent: int, standing: Standing) -> None:
    said = [Said(Standing.UNHEARD, why="silent")] * silent + [Said(Standing.ALONE)] * (4 - silent)
    assert judged(said, SILENT_SECONDS).standing is standing
    assert judged(said, SILENT_SECONDS - 0.5).standing is Standing.UNHEARD


def test_a_single_machine_asks_nobody() -> None:
    assert asyncio.run(Others(own(), Etcds()).known()) == Known(Standing.ALONE)
