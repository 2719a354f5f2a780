"""A cluster begins once, with all that were asked for; a directory is a member only as the one that the document names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from actors.replication.document import MOVE, Change, ClusterDocument, Member
from actors.replication.forming import FIRST_EPOCH, Form, Forming, Here, Join, Leave, Wait

CLUSTER = "c" * 32
NAMES = ("a", "b", "c")


def here(name: str, cluster: str = "", end: int = 1, directory: str = "") -> Here:
    number = NAMES.index(name) + 1 if name in NAMES else 9
    places = [f"10.0.0.{number}:{port}" for port in (9181, 9182, 9184)]
    return Here(name, cluster, end, Member(directory or f"{number:032x}", *places))


def forming(me: Here, *others: Here, first: tuple[str, ...] = NAMES) -> Forming:
    made = Forming(me, first, f"{me.name}-1", lambda: CLUSTER)
    for other in others:
        made.heard(other)
    return made


def formed() -> ClusterDocument:
    step = forming(here("a"), here("b"), here("c")).read(0, None)
    assert isinstance(step, Form)
    return step.document


def test_the_first_by_name_forms_it_when_all_are_there() -> None:
    document = formed()
    assert (document.cluster, document.epoch, document.leader, document.mode) == (CLUSTER, FIRST_EPOCH, "a", "majority")
    assert document.members == {name: here(name).member for name in NAMES}
    assert document.writer == "a-1"


@pytest.mark.parametrize("missing", NAMES[1:])
def test_nobody_forms_it_while_one_is_missing(missing: str) -> None:
    others = [here(name) for name in NAMES[1:] if name != missing]
    step = forming(here("a"), *others).read(0, None)
    assert isinstance(step, Wait)
    assert f"{missing} cannot be reached" in step.why


def test_who_was_lost_is_missing_again() -> None:
    made = forming(here("a"), here("b"), here("c"))
    made.lost("b")
    made.lost("a")  # itself is always there
    step = made.read(0, None)
    assert isinstance(step, Wait)
    assert "b cannot be reached" in step.why


def test_the_others_wait_for_the_first() -> None:
    step = forming(here("b"), here("a"), here("c")).read(0, None)
    assert step == Wait("'a' forms the cluster")


def test_one_that_holds_messages_leads_until_the_others_have_learned_and_two_are_refused() -> None:
    step = forming(here("a"), here("b", end=5), here("c")).read(0, None)
    assert isinstance(step, Form)
    assert step.document.leader == "b"
    assert {name for name, member in step.document.members.items() if not member.learner} == {"b"}
    assert {name for name, member in step.document.members.items() if member.in_step} == {"b"}
    step = forming(here("a"), here("b", end=5), here("c", end=2)).read(0, None)
    assert isinstance(step, Wait)
    assert "b and c hold messages already" in step.why


def test_a_register_that_was_lost_is_not_filled_anew() -> None:
    for me, others in ((here("a", CLUSTER), [here("b"), here("c")]), (here("a"), [here("b", CLUSTER), here("c")])):
        step = forming(me, *others).read(0, None)
        assert isinstance(step, Wait)
        assert "the register was lost" in step.why


def test_without_the_names_of_its_members_no_cluster_begins() -> None:
    step = forming(here("a"), here("b"), here("c"), first=()).read(0, None)
    assert isinstance(step, Wait)
    assert "--cluster-members" in step.why
    step = forming(here("d"), here("a"), here("b"), here("c")).read(0, None)
    assert isinstance(step, Wait)
    assert "begins with a, b, c" in step.why


@pytest.mark.parametrize("cluster", ["", CLUSTER])
def test_a_member_joins_as_the_directory_that_the_document_names(cluster: str) -> None:
    document = formed()
    assert forming(here("b", cluster, end=7)).read(3, document) == Join(3, document)


@pytest.mark.parametrize("name", ["b", "d"])
def test_a_directory_with_records_of_nobody_knows_what_is_to_be_emptied_first(name: str) -> None:
    step = forming(here(name, directory="9" * 32, end=7)).read(3, formed())
    assert isinstance(step, Wait)
    assert "put aside what is in its directory, all but the folder etcd" in step.why
    assert "its file `replica` is gone" in step.why
    step = forming(here(name, directory="9" * 32)).read(3, formed())
    assert isinstance(step, Wait)
    assert "put aside" not in step.why, "it is empty"


def test_a_wiped_directory_is_not_the_member_that_it_was() -> None:
    step = forming(here("b", directory="9" * 32)).read(3, formed())
    assert isinstance(step, Wait)
    assert "`penstock cluster move b`" in step.why
    assert "10.0.0.2:9184" in step.why
    # Somebody may have taken the name of one that runs elsewhere.
    elsewhere = here("b", directory="9" * 32)
    elsewhere = elsewhere._replace(member=replace(elsewhere.member, replication="10.0.0.9:9184"))
    step = forming(elsewhere).read(3, formed())
    assert isinstance(step, Wait)
    assert "`penstock cluster move b=10.0.0.9:9184`" in step.why
    assert "another name by --node" in step.why


def test_a_copy_of_a_members_directory_begins_no_cluster_for_nobody_would_lead_there() -> None:
    made = Forming(here("a", end=7), NAMES, "a-1", lambda: CLUSTER, copied=True)
    step = made.read(0, None)
    assert isinstance(step, Leave)
    assert "penstock journal backup" in step.why
    # As a member that is filled anew it is as good as any.
    assert isinstance(made.read(3, formed()), Join | Wait)


def test_a_directory_that_a_member_is_to_live_in_follows_before_it_counts() -> None:
    wiped = replace(here("b").member, directory="9" * 32)
    moving = replace(formed(), change=Change(MOVE, "b", wiped))
    assert forming(here("b", directory="9" * 32)).read(7, moving) == Join(7, moving)
    assert isinstance(forming(here("b", directory="8" * 32)).read(7, moving), Wait)


def test_a_node_that_is_not_named_waits_to_be_added() -> None:
    step = forming(here("d")).read(3, formed())
    assert isinstance(step, Wait)
    assert "no member 'd' yet" in step.why
    assert f"`penstock cluster add d={here('d').member.replication}`" in step.why
    step = forming(here("d", CLUSTER)).read(3, formed())
    assert isinstance(step, Wait)
    assert (
        "no member of its cluster any more: its process can be stopped. To have it back, have it added by" in step.why
    )


def test_a_directory_of_another_cluster_or_another_member_is_never_one() -> None:
    step = forming(here("b", "d" * 32)).read(3, formed())
    assert isinstance(step, Leave)
    assert "--cluster" in step.why
    step = forming(here("c", CLUSTER, directory=here("b").member.directory)).read(3, formed())
    assert isinstance(step, Leave)
    assert "--node b" in step.why


def test_a_node_is_heard_as_it_last_was_and_never_takes_its_own_name() -> None:
    made = forming(here("a"), here("b", CLUSTER), here("c"))
    made.heard(here("b"))
    made.heard(replace_name(here("c"), "a"))
    step = made.read(0, None)
    assert isinstance(step, Form)
    assert step.document.members["a"] == here("a").member


def replace_name(peer: Here, name: str) -> Here:
    return peer._replace(name=name, member=replace(peer.member, directory="8" * 32))
