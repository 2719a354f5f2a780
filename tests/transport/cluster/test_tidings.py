"""What a node tells of its directory: as bytes and back, to whom it is told, and what is made of what cannot be."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.replication.document import MAX_ADDRESS_BYTES, Places
from transport.cluster.frames import PROMPT, Whole
from transport.cluster.link_codec import LinkCodec
from transport.cluster.tidings import (
    MAX_DAMAGE_BYTES,
    MAX_FIGURE,
    NOTHING,
    Heal,
    Tidings,
    pack_tidings,
    unpack_tidings,
)
from transport.errors import RemoteProtocolError
from transport.node.told import Told

FIGURES = st.integers(0, MAX_FIGURE)
CODEC = LinkCodec()


def carried(message: Any) -> Any:
    encoded = CODEC.encode(message)
    return CODEC.decode(Whole(encoded.kind, PROMPT, (b"".join(encoded.parts),)))


HOSTS = st.sampled_from(("10.0.0.1:9182", "b.example:1", "[::1]:65535"))
PLACES = st.builds(Places, HOSTS, HOSTS, *[st.none() | HOSTS] * 3)


@given(
    st.builds(
        Tidings,
        st.text(max_size=100),
        st.booleans(),
        *[FIGURES] * 5,
        st.booleans(),
        FIGURES,
        st.none() | PLACES,
    )
)
def test_they_come_out_as_they_went_in(tidings: Tidings) -> None:
    assert carried(tidings) == tidings


def test_that_a_node_is_filled_anew_is_a_message_too() -> None:
    assert carried(Heal()) == Heal()


def test_a_text_that_is_too_long_is_cut_between_two_characters() -> None:
    assert carried(Tidings("ü" * 600)) == Tidings("ü" * (MAX_DAMAGE_BYTES // 2))


def test_what_a_later_version_tells_besides_is_passed_over() -> None:
    packed = msgpack.packb({"damage": "bits", "colour": "red"})
    assert unpack_tidings(packed) == Tidings("bits")
    assert unpack_tidings(msgpack.packb({})) == NOTHING


@pytest.mark.parametrize(
    "body",
    [
        b"\xc1",
        b"",
        msgpack.packb([1]),
        msgpack.packb({"damage": 7}),
        msgpack.packb({"asks": 1}),
        msgpack.packb({"cut_records": True}),
        msgpack.packb({"cut_records": -1}),
        msgpack.packb({"kept_bytes": 2**63}),
        pack_tidings(NOTHING) + b"x",
        msgpack.packb({"damage": "x" * 5000}),
    ],
)
def test_what_no_node_tells_is_refused(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="a node that tells"):
        unpack_tidings(body)


class Links:
    def __init__(self, *connected: str) -> None:
        self.connected = connected
        self.sent: list[tuple[str, Any]] = []

    def send(self, peer: str, message: Any) -> bool:
        self.sent.append((peer, message))
        return peer in self.connected


def test_a_node_of_which_there_is_nothing_to_tell_says_nothing() -> None:
    told, links = Told(), Links("b", "c")
    told.begin(links)
    told.connected("b")
    told.say(NOTHING)
    assert links.sent == []


def test_what_is_new_is_told_to_all_and_to_whoever_connects() -> None:
    told, links = Told(), Links("b", "c")
    told.begin(links)
    news = Tidings(cut_records=3)
    told.say(news)
    told.say(news)
    assert links.sent == [("b", news), ("c", news)]
    told.connected("d")
    assert links.sent[2:] == [("d", news)]
    told.end()
    told.say(Tidings(cut_records=4))
    assert len(links.sent) == 3


def test_it_is_told_in_the_same_order_in_every_process() -> None:
    """Who the others are is a set of texts, whose order goes by the hashes of the process."""
    told, links = Told(), Links("e", "b", "d", "c")
    told.begin(links)
    told.say(Tidings(cut_records=3))
    assert [peer for peer, _ in links.sent] == ["b", "c", "d", "e"]


def test_what_a_peer_has_told_holds_until_it_connects_anew() -> None:
    told = Told()
    told.begin(Links("b"))
    assert told.received("b", Tidings("bits"))
    assert not told.received("b", Heal())
    assert told.of("b") == Tidings("bits")
    assert told.heal("b", Heal())
    assert not told.heal("c", Heal())
    told.connected("b")
    assert told.of("b") is None


def told(*places: Any) -> bytes:
    packed: bytes = msgpack.packb({"damage": "bits", "places": places})
    return packed


@pytest.mark.parametrize(
    "places",
    [
        ("a:1",),
        ("", "a:2", "", "", ""),
        ("a:1", "", "", "", ""),
        ("a:1", "a:0", "", "", ""),
        ("a:1", "a:2", "a", "", ""),
        ("a:1", "a:2", 7, "", ""),
        ("a:1", "a:2", ["a:1"], "", ""),
        ("a:1", "a:2", "", "a" * MAX_ADDRESS_BYTES + ":1", ""),
    ],
)
def test_places_where_nobody_can_be_are_refused(places: tuple[Any, ...]) -> None:
    with pytest.raises(RemoteProtocolError, match=r"a node that tells .*(nobody can|nowhere)"):
        unpack_tidings(told(*places))


@pytest.mark.parametrize("places", ["a:1", 7, None, {"send": "a:1"}])
def test_places_that_are_no_list_are_refused(places: object) -> None:
    with pytest.raises(RemoteProtocolError, match="a node that tells that clients reach it at"):
        unpack_tidings(msgpack.packb({"places": places}))


def test_of_the_places_of_a_later_version_those_that_are_known_count_and_of_an_earlier_one_those_that_it_has() -> None:
    assert unpack_tidings(told("a:1", "a:2", "", "a:4", "", "a:6")).places == Places("a:1", "a:2", None, "a:4")
    assert unpack_tidings(told("a:1", "a:2")).places == Places("a:1", "a:2")
    assert unpack_tidings(told()).places is None


def test_the_longest_places_and_text_fit() -> None:
    longest = f"{'h' * (MAX_ADDRESS_BYTES - 6)}:65535"
    tidings = Tidings("d" * MAX_DAMAGE_BYTES, True, *[MAX_FIGURE] * 5, True, MAX_FIGURE, Places(*[longest] * 5))
    assert carried(tidings) == tidings
