"""The page on links says what goes over them: its program makes the same proofs, seeds and frames, and its figures are those in force."""

from __future__ import annotations

import re
from typing import Any

from actors.replication import vocabulary as say
from actors.replication.limits import BEAT_SECONDS
from tests.streams.pages import DOCS
from transport.cluster import dialing, door, frames, hello, link, link_codec, link_settings, outgoing, records
from transport.cluster.hello import Answering, Dialing, HandshakeReader, Identity
from transport.config import clustered

PAGE = (DOCS / "cluster-wire.md").read_text()
SECRET = b"a secret of sixteen bytes"


def program() -> dict[str, Any]:
    (text,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(text, names)
    return names


def one(data: bytes) -> tuple[int, bytes]:
    reader = HandshakeReader()
    reader.add(data)
    message = reader.next_message()
    assert message is not None
    return message


def test_the_program_makes_the_proofs_seeds_and_frames_that_go_over_a_link() -> None:
    names = program()
    a, b = (Identity("c" * 32, each * 32, each, f"{each}:9184", each.encode() * 8) for each in "ab")
    for secret in (SECRET, None):
        dials, answers = Dialing(a, b.directory, secret, bytes(32)), Answering(b, secret, bytes(range(32)))
        begin = dials.begin()
        challenge = answers.received(*one(begin))
        assert challenge is not None
        proof = dials.received(*one(challenge))
        assert proof is not None
        answers.received(*one(proof))
        if secret is not None:
            assert names["proofs"](secret, begin, challenge) == (one(proof)[1], one(answers.ready())[1])
        agreed = dials.agreed(dials=True)
        seeds = [names["seed"](secret or b"", side, begin, challenge) for side in ("who dials", "who answers")]
        assert seeds == [agreed.seed_out, agreed.seed_in]
        writer = frames.FrameWriter(agreed.seed_out)
        for number in range(3):
            encoded = link_codec.LinkCodec().encode(say.Stored(3, number, 0.5))
            sent = b"".join(writer.whole(*encoded))
            body = b"".join(encoded.parts)
            assert names["frame"](seeds[0], number, encoded.lane, frames.WHOLE, encoded.kind, body) == sent


def rows(heading: str) -> dict[str, list[str]]:
    """The table below a heading, by the first column."""
    section = PAGE.split(f"\n{heading}\n", 1)[1].split("\n## ", 1)[0]
    found = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("|")
    ]
    return {row[0]: row[1:] for row in found if not set(row[0]) <= {"-"}}


def test_the_page_names_every_message_by_its_number() -> None:
    named = {int(kind) for kind in rows("## Messages") if kind.isdigit()}
    assert named == {kind for kind, _ in link_codec._DECODE}
    bulk = {kind for kind, lane in link_codec._DECODE if lane == frames.BULK}
    assert {rows("## Messages")[str(kind)][0] for kind in bulk} == {"REPLICATE", "FETCHED"}


def test_the_page_names_every_refusal() -> None:
    codes = {code.strip("`") for code in rows("## The handshake") if code.startswith("`")}
    assert codes == {
        value
        for name, value in vars(hello).items()
        if isinstance(value, str) and name.isupper() and not name.startswith("_") and name != "NOBODY"
    }


def test_the_figures_of_the_page_are_those_in_force() -> None:
    limits = {what: value for what, (value,) in rows("## Limits").items()}
    assert limits["a handshake, from when the connection stands"] == f"{link.HANDSHAKE_SECONDS:g} s"
    assert limits["connections that have proved nothing"].startswith(
        f"{door.MAX_STRANGERS}, and {door.MAX_STRANGERS_OF_ONE} of"
    )
    assert limits["an attempt to connect, name and TLS included"] == f"{dialing.DIAL_SECONDS:g} s"
    between = f"{dialing.FIRST_REDIAL_SECONDS:g} to {dialing.MOST_REDIAL_SECONDS:g} s"
    assert limits["between two attempts"] == between
    assert between.removesuffix("s") in PAGE.replace("\n", " ")
    assert limits["a sign of life, where nothing else is said"] == f"every {BEAT_SECONDS:g} s"
    assert limits["silence that ends a connection (`TCP_USER_TIMEOUT` too)"] == f"{link.SILENT_SECONDS:g} s"
    assert limits["messages with records that wait for one link"] == str(outgoing.MAX_SHIPMENTS)
    assert (
        limits["bytes that wait before one socket, and end the connection"] == f"{outgoing.MAX_UNSENT_BYTES >> 20} MiB"
    )
    text = " ".join(PAGE.split())
    for said in (
        f"port **{clustered.CLUSTER_PORT}** by default",
        f"one line of {link_settings.LEAST_SECRET_BYTES} bytes or more",
        f"a body of at most {hello.MAX_BODY_BYTES:,} bytes",
        f"that of the body, {frames.FRAME_BYTES >> 10} KiB at most",
        f"than leaves it in {outgoing.QUEUE_SECONDS:g} seconds",
        f"between {outgoing.LEAST_QUEUE_BYTES >> 10} KiB and {outgoing.MOST_QUEUE_BYTES >> 20} MiB",
        f"the kernel holds {link.NOT_SENT_BYTES >> 10} KiB",
        f"`flags` u8; {records.MAX_RECORDS:,} at most",
        f"at {link_settings.TRANSFER_BYTES_A_SECOND >> 20} MiB a second at most",
        f"then bytes, {link_codec.MAX_STATE_PIECE_BYTES >> 20} MiB at most",
        f"a text of at most {hello.MAX_REASON_BYTES} bytes",
        f"one record of {frames.MAX_PAYLOAD_BYTES >> 30} GiB",
        f"speaks version {hello.VERSION}.",
    ):
        assert said in text, said
