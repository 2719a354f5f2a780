"""Users, and the four proofs of one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from transport.security.principal import Grant, Proof, Right
from transport.security.proofs import (
    KEY_FILE_BYTES,
    TokenRecord,
    access_key_secret,
    is_key_id,
    looks_like_token,
    make_key_id,
    make_token,
    token_hash,
)
from transport.security.users import MAX_TOKENS, User, Users, UsersError
from transport.security.verifier import LEAST_ITERATIONS, Verifier

NOW = datetime(2026, 11, 23, tzinfo=UTC)
TOKEN = make_token()
KEY = make_key_id()
ALICE = User(
    "alice",
    Verifier.of("pencil", LEAST_ITERATIONS, b"salt"),
    Right.MONITOR,
    (Grant("orders*", Right.READ),),
    (TokenRecord(token_hash(TOKEN), NOW + timedelta(days=1)),),
    (KEY,),
    ("CN=alice",),
)
BOB = User("bob")
USERS = Users([ALICE, BOB])


def test_each_of_four_proofs_shows_the_same_user_and_says_which_it_was() -> None:
    found = [
        USERS.of_password("alice", "pencil"),
        USERS.of_token(TOKEN, NOW),
        USERS.of_access_key(KEY),
        USERS.of_certificate("CN=alice"),
        USERS.principal("alice", Proof.SCRAM),
    ]
    assert [each.proof for each in found if each] == [
        Proof.PASSWORD,
        Proof.TOKEN,
        Proof.ACCESS_KEY,
        Proof.CERTIFICATE,
        Proof.SCRAM,
    ]
    for each in found:
        assert each is not None
        assert (each.name, each.may(Right.READ, "orders-1"), each.may(Right.WRITE, "orders-1")) == (
            "alice",
            True,
            False,
        )
        assert each.may(Right.MONITOR)


def test_nobody_comes_in_with_what_is_wrong() -> None:
    assert USERS.of_password("alice", "Pencil") is None
    assert USERS.of_password("bob", "") is None
    assert USERS.of_token(make_token(), NOW) is None
    assert USERS.of_token("", NOW) is None
    assert USERS.of_access_key(make_key_id()) is None
    assert USERS.of_certificate("CN=Alice") is None


def test_who_has_no_password_and_who_is_not_there_cost_a_guess_as_much_as_anybody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    def fits(verifier: Verifier, _password: str) -> bool:
        asked.append(verifier.iterations)
        return False

    monkeypatch.setattr(Verifier, "fits", fits)
    usual = Users([User("alice", Verifier.of("pencil")), BOB])
    for name in ("alice", "bob", "nobody"):
        assert usual.of_password(name, "x") is None
    assert len(set(asked)) == 1
    assert len(asked) == 3


def test_a_token_is_refused_from_the_moment_on_at_which_it_ends() -> None:
    end = NOW + timedelta(days=1)
    assert USERS.of_token(TOKEN, end - timedelta(microseconds=1)) is not None
    assert USERS.of_token(TOKEN, end) is None


def test_a_token_has_256_random_bits_and_is_known_by_its_form() -> None:
    tokens = {make_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(looks_like_token(token) and len(token) == len("penstock_") + 43 for token in tokens)
    assert not looks_like_token(TOKEN + "\n")


def test_the_secret_of_an_access_key_follows_from_the_key_file_and_from_nothing_else() -> None:
    one, other = bytes(KEY_FILE_BYTES), bytes(KEY_FILE_BYTES - 1) + b"x"
    assert access_key_secret(KEY, one) == access_key_secret(KEY, one)
    assert access_key_secret(KEY, one) != access_key_secret(KEY, other)
    assert access_key_secret(KEY, one) != access_key_secret(make_key_id(), one)
    assert is_key_id(KEY)
    with pytest.raises(ValueError, match="31 bytes is not of 32"):
        access_key_secret(KEY, bytes(31))


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (User("alice"), "two users are called alice"),
        (User("carol", tokens=ALICE.tokens), "the token"),
        (User("carol", access_keys=(KEY,)), "the access key"),
        (User("carol", certificates=("CN=alice",)), "the certificate"),
    ],
)
def test_two_users_have_nothing_in_common(other: User, what: str) -> None:
    with pytest.raises(UsersError, match=what):
        Users([ALICE, other])


def test_a_user_has_no_more_of_anything_than_its_limit() -> None:
    tokens = tuple(TokenRecord(number.to_bytes(32, "big")) for number in range(MAX_TOKENS + 1))
    with pytest.raises(UsersError, match=f"{MAX_TOKENS + 1} tokens, {MAX_TOKENS} is the most"):
        replace(BOB, tokens=tokens)


def test_a_name_that_a_client_could_not_say_is_refused() -> None:
    with pytest.raises(UsersError, match="another form"):
        User("\u2168")


def test_no_repr_shows_a_secret() -> None:
    shown = repr(ALICE) + repr(USERS) + repr(USERS.of_token(TOKEN, NOW))
    assert TOKEN not in shown
    assert token_hash(TOKEN).hex() not in shown
    assert repr(token_hash(TOKEN)) not in shown
    assert "SCRAM" not in shown
