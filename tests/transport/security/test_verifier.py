"""What is kept of a password, and what it gives away."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transport.security.verifier import LEAST_ITERATIONS, MOST_ITERATIONS, Verifier

SALT = b"salt of 16 bytes"
PENCIL = Verifier.of("pencil", LEAST_ITERATIONS, SALT)


def test_a_record_is_the_same_after_it_was_text() -> None:
    assert Verifier.from_text(PENCIL.text) == PENCIL
    assert PENCIL.text.startswith("SCRAM-SHA-256$4096:")


def test_the_record_of_postgresql_for_a_known_password_is_ours() -> None:
    # RFC 7677's example in PostgreSQL's form: its salt and keys, computed here from the password.
    text = Verifier.of("pencil", 4096, b"[m\x99h\x9d\x125\x8e\xec\xa0K\x14\x126\xfa\x81").text
    assert text == (
        "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:"
        "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
    )


def test_only_the_password_fits() -> None:
    assert PENCIL.fits("pencil")
    assert PENCIL.fits("pen\u00adcil"), "what looks alike is alike"
    assert not PENCIL.fits("Pencil")
    assert not PENCIL.fits("")
    assert not PENCIL.fits("pencil\x00")


def test_equal_passwords_have_different_records() -> None:
    assert Verifier.of("pencil", LEAST_ITERATIONS).text != Verifier.of("pencil", LEAST_ITERATIONS).text


def test_no_record_shows_its_keys() -> None:
    assert "stored" not in repr(PENCIL)
    assert PENCIL.stored.hex() not in repr(PENCIL)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pencil",
        PENCIL.text.replace("4096", str(LEAST_ITERATIONS - 1)),
        PENCIL.text.replace("4096", str(MOST_ITERATIONS + 1)),
        PENCIL.text.replace("256", "1"),
        PENCIL.text[:-2],
        PENCIL.text + "x",
        PENCIL.text.rpartition(":")[0] + ":c2hvcnQ=",
    ],
)
def test_a_text_that_is_no_record_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(ValueError, match="verifier") as caught:
        Verifier.from_text(text)
    assert len(text) < 10 or text not in str(caught.value)


@given(st.text(max_size=80))
def test_any_other_text_is_refused_with_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="verifier"):
        Verifier.from_text(text)
