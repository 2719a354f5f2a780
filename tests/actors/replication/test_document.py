"""A cluster's document: what may stand in one, that what was written is read again, and the one error of each mistake."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.replication.document import (
    ADD,
    CHANGES,
    MAX_DOCUMENT_BYTES,
    MAX_EPOCH,
    MAX_MEMBERS,
    MODES,
    MOST_EPOCHS_AHEAD,
    MOVE,
    REMOVE,
    Change,
    ClusterDocument,
    DocumentError,
    Member,
    check_continues,
    decode_document,
    encode_document,
)
from actors.replication.register import NOTHING, Outcome, Versioned, outcome_of
from journal import format as on_the_disk
from transport.wire.address import parse_address

CLUSTER = "c" * 32


def member(number: int, **changes: Any) -> Member:
    values: dict[str, Any] = {
        "directory": f"{number:032x}",
        "send": f"10.0.0.{number}:9182",
        "receive": f"10.0.0.{number}:9183",
        "replication": f"10.0.0.{number}:9184",
    }
    return Member(**(values | changes))


LEARNER = member(4, learner=True, in_step=False)
THREE = {"a": member(1), "b": member(2), "c": member(3)}


def document(**changes: Any) -> ClusterDocument:
    values: dict[str, Any] = {"cluster": CLUSTER, "epoch": 1, "leader": "a", "members": THREE, "writer": "a/1"}
    return ClusterDocument(**(values | changes))


names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
addresses = st.builds("{}:{}".format, st.sampled_from(["10.0.0.1", "[::1]", "node.example"]), st.integers(1, 65535))


@st.composite
def documents(draw: st.DrawFn) -> ClusterDocument:
    listed = draw(st.lists(names, min_size=1, max_size=6, unique=True))
    members = {}
    for number, name in enumerate(listed):
        learner = number > 0 and draw(st.booleans())
        members[name] = Member(
            f"{number:032x}",
            *(draw(addresses) for _ in range(3)),
            http=draw(st.none() | addresses),
            amqp=draw(st.none() | addresses),
            amqps=draw(st.none() | addresses),
            learner=learner,
            in_step=not learner and draw(st.booleans()),
        )
    change = None
    others = listed[1:]
    if others and draw(st.booleans()):
        name = draw(st.sampled_from(others))
        kind = draw(st.sampled_from([ADD] if members[name].learner else [REMOVE, MOVE]))
        change = Change(kind, name, member(99) if kind == MOVE else None)
    return ClusterDocument(
        cluster=draw(st.from_regex(r"[0-9a-f]{32}", fullmatch=True)),
        epoch=draw(st.integers(1, MAX_EPOCH)),
        leader=listed[0],
        members=members,
        mode=draw(st.sampled_from(MODES)),
        change=change,
        writer=draw(st.text("abc/ -~", max_size=128)),
    )


@given(documents())
def test_a_document_is_read_as_it_was_written(written: ClusterDocument) -> None:
    content = encode_document(written)
    assert decode_document(content) == written
    assert encode_document(decode_document(content)) == content


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_whatever_is_no_document_is_one_clear_error(content: bytes) -> None:
    with pytest.raises(DocumentError):
        decode_document(content)


PLACES = [
    ("version",), ("cluster",), ("epoch",), ("leader",), ("mode",), ("members",), ("change",), ("writer",), ("members", "b"),
    ("members", "b", "directory"), ("members", "b", "send"), ("members", "b", "http"), ("members", "b", "learner"),
    ("members", "b", "in_step"), ("members", "b", "amqp"), ("change", "kind"), ("change", "name"), ("change", "member"),
    ("change", "member", "receive"),
]  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


def test_a_document_of_before_there_were_addresses_of_amqp_is_read_and_written_as_it_was() -> None:
    content = encode_document(document())
    assert b"amqp" not in content
    assert decode_document(content).members["a"].amqp is None
    one = document(members=THREE | {"b": member(2, amqp="10.0.0.2:5672")})
    assert encode_document(one).count(b"amqp") == 1
    assert decode_document(encode_document(one)) == one


@given(st.sampled_from(PLACES), VALUES)
def test_another_value_in_any_place_is_read_exactly_or_refused(place: tuple[str, ...], value: object) -> None:
    values = json.loads(encode_document(document(change=Change(MOVE, "b", member(9)))))
    where = values
    for name in place[:-1]:
        where = where[name]
    where[place[-1]] = value
    content = json.dumps(values).encode()
    try:
        read = decode_document(content)
    except DocumentError:
        return
    # A number is not taken for a truth, nor 1.0 for 1.
    assert json.dumps(json.loads(encode_document(read)), sort_keys=True) == json.dumps(values, sort_keys=True)


def changed(**values: Any) -> bytes:
    return json.dumps(json.loads(encode_document(document())) | values).encode()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"\xff", "is no JSON"),
        (b"[" * 60_000, "is no JSON"),
        (b"[]", r"is \[\], and has to be an object with version, cluster, epoch"),
        (b'{"version": 1, "version": 1}', "says something twice"),
        (b" " * (MAX_DOCUMENT_BYTES + 1), "has 65537 bytes, and can have 65536"),
        (changed(version=2), "is of version 2, and this program knows 1: it needs a newer one"),
        (changed(version=True), "version is True, and can be 1"),
        (changed(more=1), "has 'more', which this program does not know"),
        (b'{"version": 1}', "has no cluster, epoch, leader"),
        (changed(epoch=True), "epoch is True, and has to be a whole number"),
        (changed(epoch=0), "epoch is 0, and epochs go from 1"),
        (changed(cluster="C" * 32), "has to be 32 digits of hex, in lower case"),
        (changed(mode="most"), "mode is 'most', and can be async, one, majority, all"),
        (changed(leader="d"), "the leader 'd' is no member: those are a, b, c"),
        (changed(leader=None), "leader is None, and has to be a name"),
        (changed(members=[]), "members is .., and has to be an object of members by name"),
        (changed(members={"a": 1}), "the member 'a': it is 1, and has to be an object with directory"),
        (changed(writer="a\n"), "writer is 'a.n', and has to be printable ASCII"),
    ],
)
def test_what_is_wrong_with_what_was_read_is_said(content: bytes, text: str) -> None:
    with pytest.raises(DocumentError, match=text):
        decode_document(content)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: member(1, directory="x"), "directory is 'x', and has to be 32 digits of hex"),
        (lambda: member(1, send="a"), "send is 'a', and has to be host:port"),
        (lambda: member(1, receive="a:0"), "receive is 'a:0', and has to be host:port with a port of 1-65535"),
        (lambda: member(1, replication="a:65536"), "replication is 'a:65536'"),
        (lambda: member(1, replication="a:00009184"), "replication is 'a:00009184'"),
        (lambda: member(1, replication="fe80::1:9184"), "an IPv6 host has to be in brackets"),
        (lambda: member(1, replication="[]:9184"), r"replication is '\[\]:9184', and has to be host:port"),
        (lambda: member(1, http="x" * 301), "http is .*, at most 300 characters"),
        (lambda: member(1, learner=True), "a learner is not in step"),
        (lambda: member(1, in_step=1), "in_step is 1, and has to be true or false"),
        (lambda: document(members=THREE | {"d": member(1)}), "'a' and 'd' have the same directory"),
        (lambda: document(members={"-a": member(1)}), "a member's name is '-a', and has to be 1-63 letters"),
        (lambda: document(members={"a": replace(LEARNER)}), "no member counts"),
        (lambda: document(members=THREE | {"d": LEARNER}, leader="d"), "the leader 'd' is a learner"),
        (lambda: document(members={f"m{n}": member(n) for n in range(MAX_MEMBERS + 1)}), "there are 33 members"),
        (lambda: document(epoch=MAX_EPOCH + 1), "epochs go from 1 to 4294967295"),
        (lambda: Change("grow", "a"), "change.kind is 'grow', and can be add, remove, move"),
        (lambda: Change(MOVE, "a"), "a change that is to move 'a' has no member"),
        (lambda: Change(ADD, "a", member(1)), "a change that is to add 'a' has a member"),
        (lambda: document(change=Change(REMOVE, "d")), "the change is of 'd', and there is no such member"),
        (lambda: document(change=Change(ADD, "b")), "'b' is to be added, and counts already"),
        (lambda: document(members={"a": member(1)}, change=Change(REMOVE, "a")), "without 'a' no member would count"),
    ],
)
def test_a_document_that_breaks_a_rule_cannot_be_made(make: Any, text: str) -> None:
    with pytest.raises(DocumentError, match=text):
        make()


def test_a_document_goes_on_from_the_one_that_a_node_knows() -> None:
    check_continues(document(epoch=3), CLUSTER, 5)
    check_continues(document(epoch=5 + MOST_EPOCHS_AHEAD), CLUSTER, 5)


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (None, "the cluster's document is gone"),
        (document(cluster="d" * 32), f"of the cluster {'d' * 32}, and this node is of {CLUSTER}"),
        (document(epoch=6 + MOST_EPOCHS_AHEAD), "of epoch 16777222, and this node knows of 5"),
        (document(epoch=MAX_EPOCH), "so many have not led meanwhile"),
    ],
)
def test_a_document_that_only_somebody_else_can_have_put_there_is_told(read: ClusterDocument | None, text: str) -> None:
    with pytest.raises(DocumentError, match=text):
        check_continues(read, CLUSTER, 5)


addresses_or_not = st.text("[]:a1%@ /065", max_size=14)


@given(addresses_or_not)
def test_where_a_document_says_that_somebody_is_can_be_dialled(address: str) -> None:
    try:
        member(1, replication=address)
    except DocumentError:
        return
    assert parse_address(address).port


def test_a_document_that_is_too_large_is_not_written() -> None:
    long = "x" * 290 + ":1"
    members = {
        f"{n:02}" + "m" * 61: member(n, send=long, receive=long, replication=long, http=long)
        for n in range(MAX_MEMBERS)
    }
    whole = document(members=members, leader=min(members))
    # The most that the rules allow fits; the limit is for what comes later.
    assert len(encode_document(whole)) < MAX_DOCUMENT_BYTES


def test_the_members_of_a_document_cannot_be_changed_by_who_has_it() -> None:
    given_ = dict(THREE)
    made = document(members=given_)
    given_.clear()
    assert list(made.members) == ["a", "b", "c"]
    with pytest.raises(TypeError):
        made.members["d"] = LEARNER  # type: ignore[index]


def test_learners_do_not_count() -> None:
    made = document(members=THREE | {"d": LEARNER})
    assert made.counting == ("a", "b", "c")
    assert made.majority == 2


@pytest.mark.parametrize(
    ("change", "counting"),
    [
        (None, ("a", "b", "c")),
        (Change(ADD, "d"), ("a", "b", "c", "d")),
        (Change(REMOVE, "b"), ("a", "c")),
        (Change(MOVE, "b", member(9)), ("a", "b", "c")),
    ],
)
def test_the_members_after_a_change_are_those_of_the_document_that_ends_it(
    change: Change | None, counting: Any
) -> None:
    made = document(members=THREE | {"d": LEARNER}, change=change)
    after = document(members=made.members_after_change)
    assert after.counting == counting
    if change is not None and change.member is not None:
        assert after.members["b"] == change.member


def test_every_kind_of_change_is_tried_here() -> None:
    assert set(CHANGES) == {ADD, REMOVE, MOVE}


def test_a_lost_answer_is_told_by_what_is_read_next() -> None:
    mine = document(writer="a/7")
    other = document(writer="b/1", leader="b", epoch=2)
    assert outcome_of(5, mine, Versioned(5, other)) is Outcome.OPEN
    assert outcome_of(5, mine, Versioned(6, mine)) is Outcome.WON
    assert outcome_of(5, mine, Versioned(7, other)) is Outcome.PASSED
    assert outcome_of(NOTHING, mine, Versioned(NOTHING, None)) is Outcome.OPEN
    assert outcome_of(5, mine, Versioned(NOTHING, None)) is Outcome.PASSED


def test_the_epochs_of_documents_are_those_that_records_have_room_for() -> None:
    assert MAX_EPOCH == on_the_disk.MAX_EPOCH
