"""SASLprep: the examples of RFC 4013, section 3, and what it must refuse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transport.security.access import MAX_SECRET_BYTES
from transport.security.saslprep import PreparationError, saslprep


@pytest.mark.parametrize(
    ("given", "prepared"),
    [("I\u00adX", "IX"), ("user", "user"), ("USER", "USER"), ("\u00aa", "a"), ("\u2168", "IX"), ("a\u00a0b", "a b")],
)
def test_what_looks_alike_has_one_form(given: str, prepared: str) -> None:
    assert saslprep(given) == prepared


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        ("\u0007", "control"),
        ("a\x7f", "control"),
        ("\u06271", "right to left"),
        ("\u0627a\u0628", "right to left"),
        ("\ue000", "private"),
        ("\U000e0001", "tagging"),
        ("\u200e", "shown"),
        ("\ufffd", "plain text"),
        ("", "empty"),
        ("\u00ad", "empty"),
        ("x" * (MAX_SECRET_BYTES + 1), "longer"),
    ],
)
def test_what_cannot_be_typed_alike_is_refused_without_being_shown(refused: str, why: str) -> None:
    with pytest.raises(PreparationError, match=why) as caught:
        saslprep(refused)
    assert not refused or refused not in str(caught.value)


@given(st.text(max_size=40))
def test_what_is_prepared_stays_as_it_is(text: str) -> None:
    try:
        prepared = saslprep(text)
    except PreparationError:
        return
    assert saslprep(prepared) == prepared
