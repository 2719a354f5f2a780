"""What a principal may do: exactly what was granted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transport.errors import InvalidNameError
from transport.security.principal import (
    ANYONE,
    BROKER_RIGHTS,
    RESOURCE_RIGHTS,
    Grant,
    Grants,
    Principal,
    Right,
    name_of,
    right_of,
)

NAMES = st.text("ab*.", min_size=1, max_size=6)
PATTERNS = st.builds(
    lambda name, beginning: name.replace("*", "a") + ("*" if beginning else ""),
    st.text("ab.*", min_size=1, max_size=5),
    st.booleans(),
)
RIGHTS = st.sets(st.sampled_from(RESOURCE_RIGHTS), min_size=1).map(
    lambda rights: Right(sum(right.value for right in rights))
)


@given(st.lists(st.builds(Grant, PATTERNS | st.just("*"), RIGHTS), max_size=8), NAMES)
def test_rights_on_a_name_are_those_of_all_patterns_that_fit_it(grants: list[Grant], name: str) -> None:
    expected = Right.NONE
    for grant in grants:
        fits = name.startswith(grant.pattern[:-1]) if grant.pattern.endswith("*") else name == grant.pattern
        if fits:
            expected |= grant.rights
    assert Grants(grants).on(name) == expected
    somebody = Principal("somebody", grants=Grants(grants))
    for right in RESOURCE_RIGHTS:
        assert somebody.may(right, name) == (right in expected)


@pytest.mark.parametrize("pattern", ["a*b", "**", "", "a b", "a\n*", "x" * 256])
def test_a_pattern_is_a_name_or_the_beginning_of_names(pattern: str) -> None:
    with pytest.raises((ValueError, InvalidNameError)):
        Grant(pattern, Right.READ)


@pytest.mark.parametrize("rights", [Right.NONE, Right.MONITOR, Right.READ | Right.ADMINISTER])
def test_a_grant_gives_rights_of_resources_alone(rights: Right) -> None:
    with pytest.raises(ValueError, match="one or more of configure, write, read"):
        Grant("orders", rights)


def test_whoever_administers_sees_statistics_and_has_no_resource_that_was_not_granted() -> None:
    admin = Principal("admin", Right.ADMINISTER)
    assert admin.may(Right.ADMINISTER)
    assert admin.may(Right.MONITOR)
    assert not any(admin.may(right, "orders") for right in RESOURCE_RIGHTS)
    assert not Principal("watcher", Right.MONITOR).may(Right.ADMINISTER)


def test_a_right_of_the_broker_is_none_of_a_resource() -> None:
    anyone = Principal("x", Right.MONITOR, Grants([Grant("*", Right.READ)]))
    assert not anyone.may(Right.MONITOR, "orders")
    assert not anyone.may(Right.READ)


def test_without_users_anyone_may_do_everything() -> None:
    assert all(ANYONE.may(right, "orders") for right in RESOURCE_RIGHTS)
    assert all(ANYONE.may(right) for right in BROKER_RIGHTS)


def test_a_right_is_found_by_its_word() -> None:
    for right in (*RESOURCE_RIGHTS, *BROKER_RIGHTS):
        assert right_of(name_of(right)) is right
    with pytest.raises(ValueError, match="there are configure, write, read, monitor, administer"):
        right_of("none")


@pytest.mark.parametrize(
    ("pattern", "within"),
    [
        ("*", ["", "shop/", "eu."]),
        ("shop/*", ["", "shop/"]),
        ("sh*", ["", "shop/"]),
        ("shop/orders*", ["", "shop/"]),
        ("shop/orders", ["", "shop/"]),
        ("shop", [""]),
        ("shopping*", [""]),
        ("eu.x", ["", "eu."]),
    ],
)
def test_somebody_has_a_right_among_names_that_begin_so_where_one_of_them_may_fit(
    pattern: str, within: list[str]
) -> None:
    grants = Grants([Grant(pattern, Right.WRITE)])
    assert [beginning for beginning in ("", "shop/", "eu.") if grants.within(beginning)] == within
    assert not any(Grants().within(beginning) for beginning in ("", "shop/"))
