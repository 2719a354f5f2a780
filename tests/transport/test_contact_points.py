"""Contact points: how they are written, and in which order a client tries what it knows and is told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transport.clients.backoff import CONNECT_TIMEOUT
from transport.clients.contacts import FIRST_PATIENCE, MAX_HOPS, MAX_LEARNED, Contacts
from transport.errors import LocalProtocolError
from transport.wire.address import Address, parse_address
from transport.wire.contact_points import (
    MAX_CONTACT_POINTS,
    MAX_TOLD_ADDRESSES,
    parse_contact_points,
    told_addresses,
    written,
)

A, B, C, D = (parse_address(f"{name}:9182") for name in "abcd")
THREE = "a:9182,b:9182,c:9182"


def whole_pass(contacts: Contacts) -> list[Address]:
    """What is tried until the next pause, where nobody says anything."""
    tried = []
    while (address := contacts.next()) is not None:
        tried.append(address)
    return tried


@pytest.mark.parametrize(
    "said",
    [THREE, "a:9182, b:9182 ,c:9182", ["a:9182", "b:9182", "c:9182"], ["a:9182,b:9182", "c:9182"], f"{THREE},a:9182"],
)
def test_contact_points_are_a_text_with_commas_or_a_sequence_and_one_that_is_there_twice_counts_once(said: Any) -> None:
    assert parse_contact_points(said) == (A, B, C)


def test_one_address_is_a_list_of_one_and_ipv6_has_its_brackets() -> None:
    assert parse_contact_points("[::1]:9182,a:9182") == (Address("::1", 9182), A)
    assert parse_contact_points("a,[::1],b:1", default_port=9182) == (A, Address("::1", 9182), Address("b", 1))
    assert written(parse_contact_points("[::1]:9182,a:9182")) == "[::1]:9182,a:9182"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("", "the sender needs at least one broker address, as host:port"),
        ([], "the sender needs at least one broker address, as host:port"),
        ("a:1,,b:2", "'a:1, , b:2' has an empty place between its commas"),
        ("a:1,b", "the address 'b' is not host:port"),
        ("a:1;b:2", "the address 'a:1;b:2' has several colons"),
        ([b"a:1"], "an address is a text, host:port, and not bytes"),
        (",".join(f"h{number}:1" for number in range(33)), f"33 addresses are more than the {MAX_CONTACT_POINTS}"),
    ],
)
def test_contact_points_that_cannot_be_are_told_in_one_error(said: Any, told: str) -> None:
    with pytest.raises(LocalProtocolError) as failure:
        parse_contact_points(said, "the sender")
    assert told in str(failure.value)


@given(st.text(max_size=4000))
def test_whatever_a_broker_tells_of_its_leader_is_addresses_that_can_be_tried_or_nothing(said: str) -> None:
    for address in told_addresses(said):
        assert 0 < address.port < 65536
        address.host.encode("idna")


def test_of_what_a_broker_tells_that_is_taken_which_is_an_address_and_not_more_than_so_many() -> None:
    assert told_addresses(f"a:9182,nonsense,b:0,{'x' * 64}:1,..:2,b:9182,a:9182") == (A, B)
    assert len(told_addresses(",".join(f"h{number}:1" for number in range(20)))) == MAX_TOLD_ADDRESSES


def test_a_pass_has_each_address_once_and_begins_with_the_one_that_worked_last() -> None:
    contacts = Contacts(THREE)
    assert whole_pass(contacts) == [A, B, C]
    assert [contacts.next(), contacts.next()] == [A, B]
    contacts.let_in()
    assert whole_pass(contacts) == [B, C, A]
    assert whole_pass(contacts) == [B, C, A]


def test_where_a_broker_says_who_leads_that_is_next_and_known_from_then_on() -> None:
    contacts = Contacts("a:9182,b:9182")
    assert contacts.next() == A
    contacts.follows([D])
    assert whole_pass(contacts) == [D, B]
    assert whole_pass(contacts) == [A, B, D]
    assert str(contacts) == "a:9182,b:9182,d:9182"


def test_two_followers_that_point_at_each_other_are_asked_once_in_a_pass() -> None:
    contacts = Contacts(THREE)
    tried = []
    while (address := contacts.next()) is not None:
        tried.append(address)
        contacts.follows([B if address == A else A])
    assert tried == [A, B, C]
    assert contacts.elects, "there is a cluster"
    assert whole_pass(contacts) == [A, B, C]
    assert not contacts.elects, "nobody has answered in this pass"


def test_brokers_that_tell_ever_new_addresses_are_believed_so_often_in_a_pass_and_what_they_tell_is_bounded() -> None:
    contacts = Contacts("a:9182")
    tried = []
    for number in range(200):
        if (address := contacts.next()) is None:
            break
        tried.append(address)
        contacts.follows([Address(f"new{number}", 1)])
    assert len(tried) == 1 + MAX_HOPS
    for number in range(200):
        contacts.follows([Address(f"newer{number}", 1)])
    assert len(whole_pass(contacts)) <= 1 + MAX_LEARNED + MAX_HOPS


def test_brokers_that_let_in_and_then_point_at_each_other_are_believed_so_often_before_a_pause() -> None:
    contacts = Contacts("a:9182,b:9182")
    hops = 0
    while True:
        assert contacts.next() is not None
        contacts.let_in()
        if not contacts.follows([B if contacts.current == A else A]):
            break
        hops += 1
    assert hops == MAX_HOPS
    contacts.rested()
    contacts.let_in()
    assert contacts.follows([B if contacts.current == A else A]), "behind a pause they are believed again"


def test_what_a_broker_without_a_leader_said_is_kept_for_the_pass_unless_another_one_knew_the_leader() -> None:
    contacts, said = Contacts(THREE), LookupError("its leader is not known yet")
    contacts.next()
    contacts.follows([], said)
    whole_pass(contacts)
    assert contacts.leaderless is said, "the others refuse, and that says less"
    contacts.next()
    contacts.follows([], said)
    contacts.next()
    contacts.follows([C], said)
    whole_pass(contacts)
    assert contacts.leaderless is None, "there is a leader, and why it cannot be reached says more"
    whole_pass(contacts)
    assert contacts.leaderless is None


def test_an_address_that_lets_time_pass_is_tried_last_and_longer_each_time_until_it_says_something() -> None:
    contacts = Contacts(THREE)
    assert contacts.next() == A
    assert contacts.patience == FIRST_PATIENCE
    contacts.let_in()
    contacts.silent()
    assert [contacts.next(), contacts.next()] == [B, C]
    contacts.follows([A])
    assert contacts.next() == A
    assert contacts.patience == 2 * FIRST_PATIENCE
    for _ in range(9):
        contacts.silent()
    assert contacts.patience == CONNECT_TIMEOUT
    contacts.let_in()
    assert contacts.patience == FIRST_PATIENCE


def test_a_leader_that_is_told_and_known_to_be_silent_stays_the_last() -> None:
    contacts = Contacts(THREE)
    contacts.next()
    contacts.let_in()
    contacts.silent()
    assert contacts.next() == B
    contacts.follows([A])
    assert whole_pass(contacts) == [C, A]


def test_a_single_address_has_the_whole_time_to_connect() -> None:
    contacts = Contacts("a:9182")
    assert contacts.patience == CONNECT_TIMEOUT
    contacts.next()
    contacts.follows([B])
    assert contacts.patience == FIRST_PATIENCE
