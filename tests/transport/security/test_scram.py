"""SCRAM-SHA-256: the RFC's own exchange, and that nobody comes in, or is believed, who does not know the password."""

from __future__ import annotations

import re
from base64 import b64encode
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transport.security.scram import MAX_MESSAGE_BYTES, ClientExchange, ScramError, ServerExchange
from transport.security.verifier import LEAST_ITERATIONS, MOST_ITERATIONS, Keys, Verifier, derive

ROOT = Path(__file__).resolve().parents[3]
SALT = b"salt of 16 bytes"
VERIFIER = Verifier.of("pencil", LEAST_ITERATIONS, SALT)
NOBODY = Verifier.of_nobody("nobody", b"key")
PENCIL = derive("pencil", SALT, LEAST_ITERATIONS)


def keys(password: str) -> Keys:
    return PENCIL if password == "pencil" else derive(password, SALT, LEAST_ITERATIONS)


def client(name: str = "user", password: str = "pencil", nonce: str | None = None) -> ClientExchange:
    return ClientExchange(name, lambda _salt, _iterations: keys(password), nonce)


def server(verifier: Verifier = VERIFIER, nonce: str | None = None) -> ServerExchange:
    return ServerExchange(lambda _name: verifier, nonce)


def code(exchange: ServerExchange | ClientExchange, step: str, message: bytes) -> str:
    """With what the exchange refuses ``message``."""
    with pytest.raises(ScramError) as caught:
        getattr(exchange, step)(message)
    return caught.value.code


def test_the_exchange_of_rfc_7677_is_word_for_word_ours() -> None:
    verifier = Verifier.of("pencil", 4096, b"[m\x99h\x9d\x125\x8e\xec\xa0K\x14\x126\xfa\x81")
    one = ClientExchange("user", lambda salt, iterations: derive("pencil", salt, iterations), "rOprNGfwEbeRWgbNEkqO")
    other = server(verifier, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    first = one.first()
    assert first == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = other.challenge(first)
    assert challenge == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    proof = one.answer(challenge)
    assert proof == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    final = other.conclude(proof)
    assert final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    one.conclude(final)
    assert other.name == "user"
    page = (ROOT / "docs" / "protocol.md").read_text("utf-8")
    assert re.findall(r"^[CB]: \[6, (.*)\]$", page, re.MULTILINE) == [
        said.decode() for said in (first, challenge, proof, final)
    ]


@given(st.text(min_size=1, max_size=20))
def test_whatever_the_name_is_the_broker_hears_it_as_it_was_said(name: str) -> None:
    try:
        one = client(name)
    except ValueError:
        return
    other = server()
    one.conclude(other.conclude(one.answer(other.challenge(one.first()))))
    assert one._bare.startswith("n=" + other.name.replace("=", "=3D").replace(",", "=2C"))


@pytest.mark.parametrize("verifier", [VERIFIER, NOBODY], ids=["of another password", "of a name that nobody has"])
def test_a_wrong_proof_is_refused_alike_for_a_user_and_for_nobody(verifier: Verifier) -> None:
    one, other = client(password="pencil2" if verifier is VERIFIER else "pencil"), server(verifier)
    proof = one.answer(other.challenge(one.first()))
    with pytest.raises(ScramError, match="wrong name or password") as caught:
        other.conclude(proof)
    assert caught.value.code == "invalid-proof"


def test_nobody_has_the_same_salt_each_time_and_as_many_iterations_as_everybody() -> None:
    again = Verifier.of_nobody("nobody", b"key")
    assert again == NOBODY
    assert again.salt != Verifier.of_nobody("nobody2", b"key").salt
    assert again.iterations == Verifier.of("x", salt=SALT).iterations


def test_a_proof_that_was_overheard_is_worth_nothing_in_another_exchange() -> None:
    one, other = client(nonce="same"), server()
    first = one.first()
    overheard = one.answer(other.challenge(first))
    other.conclude(overheard)
    later = server()
    later.challenge(first)
    assert code(later, "conclude", overheard) == "invalid-proof"


def test_a_proof_counts_once_and_needs_a_first_message() -> None:
    one, other = client(), server()
    proof = one.answer(other.challenge(one.first()))
    assert code(server(), "conclude", proof) == "other-error"
    assert code(other, "challenge", one.first()) == "other-error"
    other.conclude(proof)
    assert code(other, "conclude", proof) == "other-error"


@pytest.mark.parametrize(
    ("first", "refusal"),
    [
        (b"p=tls-unique,,n=user,r=x", "channel-binding-not-supported"),
        (b"n,a=root,n=user,r=x", "other-error"),
        (b"n,,m=ext,n=user,r=x", "extensions-not-supported"),
        (b"n,,n=user", "invalid-encoding"),
        (b"n,,n=,r=x", "invalid-encoding"),
        (b"n,,n=us=er,r=x", "invalid-username-encoding"),
        (b"n,,n=us\x07er,r=x", "invalid-username-encoding"),
        (b"n,,n=user,r=", "invalid-encoding"),
        (b"n,,n=user,r=" + b"x" * 257, "invalid-encoding"),
        (b"n,,n=\xff,r=x", "invalid-encoding"),
        (b"n,,n=" + b"u" * MAX_MESSAGE_BYTES, "invalid-encoding"),
        (b"", "invalid-encoding"),
        (b"x,,n=user,r=x", "invalid-encoding"),
    ],
)
def test_a_first_message_that_is_none_is_refused_with_its_code(first: bytes, refusal: str) -> None:
    assert code(server(), "challenge", first) == refusal


def test_a_last_message_with_another_beginning_is_refused() -> None:
    one, other = client(), server()
    proof = one.answer(other.challenge(one.first()))
    forged = proof.replace(b"c=biws", b"c=" + b64encode(b"y,,"))
    assert code(other, "conclude", forged) == "channel-bindings-dont-match"


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        ("r=other,s=c2FsdA==,i=4096", "another exchange"),
        ("r=mine,s=c2FsdA==,i=4096", "another exchange"),
        (f"r=mine2,s=c2FsdA==,i={LEAST_ITERATIONS - 1}", "iterations"),
        (f"r=mine2,s=c2FsdA==,i={MOST_ITERATIONS + 1}", "iterations"),
        ("r=mine2,s=c2FsdA==,i=0", "RFC 5802"),
        ("r=mine2,s=c2F,i=4096", "base64"),
        ("r=mine2,i=4096", "RFC 5802"),
        ("r=mine2,s=" + b64encode(b"x" * 65).decode() + ",i=4096", "salt"),
        ("e=no-resources", "RFC 5802"),
    ],
)
def test_a_client_answers_no_broker_that_breaks_the_rules(challenge: str, why: str) -> None:
    asked: list[int] = []

    def derived(_salt: bytes, iterations: int) -> Keys:
        asked.append(iterations)
        return PENCIL

    with pytest.raises(ScramError, match=why):
        ClientExchange("user", derived, "mine").answer(challenge.encode())
    assert asked == [], "no work was done for it"


def test_a_broker_that_does_not_know_the_record_is_not_believed() -> None:
    one, other = client(), server()
    challenge = other.challenge(one.first())
    one.answer(challenge)
    assert code(one, "conclude", b"v=" + b64encode(bytes(32))) == "other-error"
    assert code(one, "conclude", b"e=invalid-proof") == "invalid-proof"
    assert code(client(), "conclude", b"v=" + b64encode(bytes(32))) == "other-error"


@given(st.binary(max_size=80), st.booleans())
def test_what_a_peer_says_ends_in_an_answer_or_in_a_scram_error(noise: bytes, begun: bool) -> None:
    one, other = client(), server()
    if begun:
        other.challenge(client().first())
    answered: list[bytes | None] = []
    for step in (other.challenge, other.conclude, one.answer, one.conclude):
        with suppress(ScramError):
            answered.append(step(noise))
    assert None not in answered, "nobody is believed for noise"
