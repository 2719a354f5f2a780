"""Two nodes trust one another when both have shown that they know the secret, and agree on everything else; else each is told why not."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transport.cluster import hello
from transport.cluster.hello import (
    Agreed,
    Answering,
    Dialing,
    HandshakeError,
    HandshakeReader,
    Identity,
    LinkRefusedError,
    pack,
    refusal,
)

CLUSTER = "c" * 32
SECRET = b"a secret of the cluster"


def identity(name: str = "a", **other: Any) -> Identity:
    fields = {"cluster": CLUSTER, "directory": name * 32, "address": f"{name}.example:9184", "start": name.encode() * 8}
    return Identity(name=name, **(fields | other))


def nonce(text: str) -> bytes:
    return text.encode() * hello.NONCE_BYTES


def one(data: bytes) -> tuple[int, bytes]:
    """The one message of some bytes."""
    reader = HandshakeReader()
    reader.add(data)
    message = reader.next_message()
    assert message is not None
    assert reader.empty
    return message


def sides(
    secret: bytes | None = SECRET,
    other_secret: bytes | None = SECRET,
    *,
    me: Identity | None = None,
    other: Identity | None = None,
    wanted: str = "b" * 32,
) -> tuple[Dialing, Answering]:
    dials = Dialing(me or identity("a"), wanted, secret, nonce("1"))
    return dials, Answering(other or identity("b"), other_secret, nonce("2"))


def said(answer: bytes | None) -> bytes:
    assert answer is not None
    return answer


def shake(dials: Dialing, answers: Answering) -> tuple[Agreed, Agreed]:
    """What both come to."""
    challenge = said(answers.received(*one(dials.begin())))
    proof = said(dials.received(*one(challenge)))
    assert answers.received(*one(proof)) is None
    assert answers.proved
    assert dials.received(*one(answers.ready())) is None
    return dials.agreed(dials=True), answers.agreed(dials=False)


@pytest.mark.parametrize("secret", [SECRET, None])
def test_both_know_who_the_other_is_and_how_frames_begin(secret: bytes | None) -> None:
    mine, theirs = shake(*sides(secret, secret))
    assert mine.peer == identity("b")
    assert theirs.peer == identity("a")
    assert mine.version == theirs.version == hello.VERSION
    assert (mine.seed_out, mine.seed_in) == (theirs.seed_in, theirs.seed_out)
    assert mine.seed_out != mine.seed_in


def test_the_secret_is_in_nothing_that_is_said() -> None:
    dials, answers = sides()
    everything = begin = dials.begin()
    challenge = said(answers.received(*one(begin)))
    proof = said(dials.received(*one(challenge)))
    answers.received(*one(proof))
    everything += challenge + proof + answers.ready()
    assert SECRET not in everything
    assert len({proof[-32:], answers.ready()[-32:]}) == 2


def test_who_only_connects_is_shown_no_proof() -> None:
    """To say HELLO takes no secret; what is answered holds nothing that one could try secrets on."""
    dials, _ = sides()
    challenges = {
        said(Answering(identity("b"), each, nonce("2")).received(*one(dials.begin()))) for each in (SECRET, b"x" * 20)
    }
    assert len(challenges) == 1


@pytest.mark.parametrize(
    ("secret", "other_secret", "text"),
    [(SECRET, b"another", "different secrets"), (SECRET, None, "the other has none"), (None, SECRET, "has none")],
)
def test_a_wrong_secret_is_refused(secret: bytes | None, other_secret: bytes | None, text: str) -> None:
    with pytest.raises(LinkRefusedError, match=text) as refused:
        shake(*sides(secret, other_secret))
    assert refused.value.reason == hello.UNPROVED


def test_who_answers_has_to_prove_itself_too() -> None:
    dials, answers = sides()
    dials.received(*one(said(answers.received(*one(dials.begin())))))
    for proof in (b"", b"\0" * 32, b"x" * 31):
        with pytest.raises(LinkRefusedError, match="different secrets"):
            dials.received(hello.READY, proof)


def test_a_proof_is_of_one_side_and_cannot_be_given_back() -> None:
    dials, answers = sides()
    proof = said(dials.received(*one(said(answers.received(*one(dials.begin()))))))
    with pytest.raises(LinkRefusedError, match="different secrets"):
        dials.received(hello.READY, one(proof)[1])


def test_what_was_recorded_proves_nothing_on_another_connection() -> None:
    dials, answers = sides()
    begin = dials.begin()
    proof = said(dials.received(*one(said(answers.received(*one(begin))))))
    again = Answering(identity("b"), SECRET, nonce("3"))
    again.received(*one(begin))
    with pytest.raises(LinkRefusedError, match="different secrets"):
        again.received(*one(proof))
    assert not again.proved


@given(st.data())
def test_whatever_is_changed_of_what_both_say_is_found(data: Any) -> None:
    dials, answers = sides()
    try:
        begin = flipped(data, dials.begin(), "begin")
        challenge = flipped(data, said(answers.received(*one(begin))), "challenge")
        proof = flipped(data, said(dials.received(*one(challenge))), "proof")
        assert answers.received(*one(proof)) is None
        ready = flipped(data, answers.ready(), "ready")
        assert dials.received(*one(ready)) is None
    except (HandshakeError, LinkRefusedError, AssertionError):
        return
    assert not data.changed, "something was changed, and both took one another"


def flipped(data: Any, message: bytes, which: str) -> bytes:
    """The message, of which a bit may be another."""
    if not hasattr(data, "changed"):
        data.changed = False
        data.where = data.draw(st.sampled_from(["begin", "challenge", "proof", "ready"]))
    if data.where != which:
        return message
    at = data.draw(st.integers(0, len(message) - 1))
    data.changed = True
    return message[:at] + bytes((message[at] ^ 1 << data.draw(st.integers(0, 7)),)) + message[at + 1 :]


def test_another_cluster_is_refused_by_both() -> None:
    other = identity("b", cluster="d" * 32)
    with pytest.raises(LinkRefusedError, match=f"of the cluster {CLUSTER}") as refused:
        shake(*sides(other=other))
    assert refused.value.reason == hello.CLUSTER
    # One that does not look is looked at.
    dials, _ = sides()
    dials.begin()
    looser = Answering(identity("b", cluster="d" * 32), SECRET, nonce("2"))
    hello_of_its = Dialing(identity("a", cluster="d" * 32), "b" * 32, SECRET, nonce("1")).begin()
    with pytest.raises(LinkRefusedError, match="of the cluster d"):
        dials.received(*one(said(looser.received(*one(hello_of_its)))))


def test_a_node_of_no_cluster_yet_is_refused_in_words_that_are_true_for_both() -> None:
    with pytest.raises(
        LinkRefusedError, match=f"one of the two nodes is of the cluster {CLUSTER}, and the other of none yet"
    ):
        shake(*sides(other=identity("b", cluster=hello.NOBODY)))


def test_another_directory_than_the_one_that_is_wanted_is_refused_by_both() -> None:
    with pytest.raises(LinkRefusedError, match="wiped, restored or copied") as refused:
        shake(*sides(wanted="e" * 32))
    assert refused.value.reason == hello.DIRECTORY
    dials, _ = sides()
    dials.begin()
    other = Answering(identity("e"), SECRET, nonce("2"))
    begin = Dialing(identity("a"), "e" * 32, SECRET, nonce("1")).begin()
    with pytest.raises(LinkRefusedError, match="wiped, restored or copied"):
        dials.received(*one(said(other.received(*one(begin)))))


def test_a_node_does_not_take_its_own_directory() -> None:
    with pytest.raises(LinkRefusedError, match="one of them is a copy") as refused:
        shake(*sides(me=identity("b", start=b"another1")))
    assert refused.value.reason == hello.TAKEN


@pytest.mark.parametrize(("least", "most"), [(0, 0), (2, 9), (9, 2), (65535, 65535)])
def test_no_common_version_is_refused(least: int, most: int) -> None:
    dials, answers = sides()
    kind, body = one(dials.begin())
    with pytest.raises(LinkRefusedError, match="upgrade the older one") as refused:
        answers.received(kind, struct.pack("<HH", least, most) + body[4:])
    assert refused.value.reason == hello.VERSIONS


def test_a_newer_program_that_knows_this_version_too_is_taken() -> None:
    dials, answers = sides()
    kind, body = one(dials.begin())
    challenge = said(answers.received(kind, struct.pack("<HH", 1, 9) + body[4:]))
    assert one(challenge)[1][:2] == struct.pack("<H", hello.VERSION)


def test_a_challenge_of_an_unknown_version_is_refused() -> None:
    dials, answers = sides()
    kind, body = one(said(answers.received(*one(dials.begin()))))
    with pytest.raises(LinkRefusedError, match="versions 9 to 9"):
        dials.received(kind, struct.pack("<H", 9) + body[2:])


def test_a_refusal_says_why_and_whose_it_is() -> None:
    dials, _ = sides()
    dials.begin()
    with pytest.raises(LinkRefusedError, match="no member's") as refused:
        dials.received(*one(refusal(hello.UNKNOWN, "it is no member's")))
    assert (refused.value.reason, refused.value.by_peer) == (hello.UNKNOWN, True)


def test_a_refusal_has_a_bound() -> None:
    assert len(refusal("x", "y" * 5_000)) < hello.MAX_BODY_BYTES
    dials, _ = sides()
    for body in (b"", b"\xff", b"\x01x" + b"y" * 301):
        with pytest.raises((HandshakeError, LinkRefusedError)):
            dials.received(hello.REFUSED, body)


@pytest.mark.parametrize("kind", [hello.HELLO, hello.PROOF, hello.READY])
def test_what_comes_in_the_wrong_place_is_an_error_to_who_dials(kind: int) -> None:
    dials, _ = sides()
    dials.begin()
    with pytest.raises(HandshakeError, match="wrong place"):
        dials.received(kind, b"")


@pytest.mark.parametrize("kind", [hello.CHALLENGE, hello.PROOF, hello.READY])
def test_what_comes_in_the_wrong_place_is_an_error_to_who_answers(kind: int) -> None:
    _, answers = sides()
    with pytest.raises(HandshakeError, match="wrong place"):
        answers.received(kind, b"")


def test_nothing_is_taken_a_second_time() -> None:
    dials, answers = sides()
    begin = dials.begin()
    challenge = said(answers.received(*one(begin)))
    proof = said(dials.received(*one(challenge)))
    for side, message in ((answers, begin), (dials, challenge)):
        with pytest.raises(HandshakeError, match="wrong place"):
            side.received(*one(message))
    answers.received(*one(proof))
    with pytest.raises(HandshakeError, match="wrong place"):
        answers.received(*one(proof))


NAMES = [b"", b"\x05ab", b"\x01a", b"\x01a\x05\0ab", b"\x01a\x02\0abc", b"\x40" + b"a" * 64 + b"\0\0", b"\x01 \0\0"]


@pytest.mark.parametrize(
    "names", [*NAMES, b"\x01a\x01\0\n", b"\x01a\x01\0\xff", b"\x01a" + struct.pack("<H", 301) + b"a" * 301]
)
def test_a_node_without_a_name_is_an_error(names: bytes) -> None:
    dials, answers = sides()
    kind, body = one(dials.begin())
    with pytest.raises(HandshakeError):
        answers.received(kind, body[: -len(b"\x01a" + b"\0\0" + b"a.example:9184")] + names)


@given(st.binary(max_size=3_000))
def test_garbage_is_an_error_or_is_waited_for_and_never_much_is_kept(data: bytes) -> None:
    reader = HandshakeReader()
    _, answers = sides()
    try:
        reader.add(data[: hello.MAX_BODY_BYTES])
        while (message := reader.next_message()) is not None:
            answers.received(*message)
    except (HandshakeError, LinkRefusedError):
        return
    assert hello.MARK.startswith(data[:4]) or data.startswith(hello.MARK)


@pytest.mark.parametrize(
    "start", [b"GET / HTTP/1.1\r\n", b"\x16\x03\x01", b"\0", b"PLNK\x09\0\0", b"PLNK\x01\xff\xff", b"PLNX"]
)
def test_what_is_no_handshake_is_an_error_at_its_first_bytes(start: bytes) -> None:
    reader = HandshakeReader()
    reader.add(start)
    with pytest.raises(HandshakeError):
        reader.next_message()


@pytest.mark.parametrize("cut", [1, 3, 6, 7, 50])
def test_a_message_may_come_in_pieces(cut: int) -> None:
    begin = sides()[0].begin()
    reader = HandshakeReader()
    reader.add(begin[:cut])
    assert reader.next_message() is None
    reader.add(begin[cut:] + pack(hello.PROOF, b"next"))
    assert reader.next_message() == one(begin)
    assert reader.next_message() == (hello.PROOF, b"next")
    reader.add(b"PLN")
    assert reader.rest() == b"PLN"


def test_the_longest_names_fit_into_a_message() -> None:
    me = identity("a", address="h" * 294 + ":65535")
    longest = Identity(me.cluster, me.directory, "n" * 63, me.address, me.start)
    mine, theirs = shake(*sides(me=longest, other=identity("b", address=me.address)))
    assert theirs.peer == longest
    assert mine.peer.address == me.address


@pytest.mark.parametrize(
    "make", [lambda: identity("a", start=b"short"), lambda: Dialing(identity("a"), "b" * 32, None, b"")]
)
def test_chance_that_is_too_short_is_an_error_of_ours(make: Any) -> None:
    with pytest.raises(ValueError, match="bytes"):
        make()
