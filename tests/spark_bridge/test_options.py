"""What the options may be, and that a wrong one says so."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_bridge import OptionError
from spark_bridge.access_options import access_here
from spark_bridge.options import DEFAULT_MAX_BYTES_PER_BATCH, DEFAULT_MAX_ROWS_PER_BATCH, MAX_BROKERS, SourceOptions
from transport import DEFAULT_RECEIVE_ADDRESS, Access, LocalProtocolError, Tls
from transport.security.access_sources import GivenAccess
from transport.security.proofs import make_token

TOKEN = make_token()


def parse(**given: str) -> SourceOptions:
    return SourceOptions.parse({"queue": "orders"} | given)


def test_only_the_queue_is_needed() -> None:
    options = SourceOptions.parse({"queue": "orders"})
    assert options == SourceOptions(queue="orders")
    assert options.brokers == (DEFAULT_RECEIVE_ADDRESS,)
    assert (options.max_rows_per_batch, options.max_bytes_per_batch) == (
        DEFAULT_MAX_ROWS_PER_BATCH,
        DEFAULT_MAX_BYTES_PER_BATCH,
    )
    assert options.fail_on_data_loss
    assert options.ack_on == "commit"
    with pytest.raises(OptionError, match="option queue is missing"):
        SourceOptions.parse({})


def test_every_option_is_understood_in_lower_case_as_spark_hands_it_over() -> None:
    options = SourceOptions.parse(
        {
            "subscribe": "orders",
            "brokers": "a:1, [::1]:2",
            "subscription": "lake",
            "maxoffsetspertrigger": "10",
            "maxbytesperbatch": "2m",
            "minpartitions": "4",
            "maxrecordsperpartition": "7",
            "startingoffsets": "LATEST",
            "includeheaders": "true",
            "failondataloss": "False",
            "ackon": "poll",
            "brokerdown": "Continue",
            "ownertimeout": "90m",
            "token": TOKEN,
        }
    )
    assert options == SourceOptions(
        queue="orders",
        brokers=("a:1", "[::1]:2"),
        subscription="lake",
        max_rows_per_batch=10,
        max_bytes_per_batch=2 * 2**20,
        min_partitions=4,
        max_records_per_partition=7,
        starting_offsets="latest",
        include_headers=True,
        fail_on_data_loss=False,
        ack_on="poll",
        broker_down="continue",
        owner_timeout_ms=90 * 60_000,
        access=GivenAccess(token=TOKEN),
    )


@pytest.mark.parametrize("alias", ["maxRowsPerBatch", "maxOffsetsPerTrigger", "maxRecordsPerTrigger"])
def test_the_row_limit_has_the_names_users_of_other_sources_know(alias: str) -> None:
    assert SourceOptions.parse({"queue": "q", alias: "3"}).max_rows_per_batch == 3


@pytest.mark.parametrize(("text", "said"), [("1", True), ("Yes", True), ("off", False), ("0", False), ("true", True)])
def test_whether_is_said_as_in_the_environment(text: str, said: bool) -> None:
    assert parse(tls=text).access.tls is said
    assert parse(includeHeaders=text).include_headers is said


def test_an_unknown_option_lists_the_known_ones() -> None:
    with pytest.raises(
        OptionError,
        match=r"unknown option 'maxRowPerBatch': did you mean maxRowsPerBatch\? Known are queue or subscribe, .*token",
    ):
        parse(maxRowPerBatch="3")


def test_two_names_for_one_option_are_refused() -> None:
    with pytest.raises(OptionError, match="'queue' and 'subscribe' are the same"):
        SourceOptions.parse({"queue": "a", "subscribe": "b"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("queue", ""),
        ("queue", "with space"),
        ("queue", "line\nfeed"),
        ("queue", "x" * 256),
        ("subscription", "a\tb"),
        ("brokers", ","),
        ("brokers", "nowhere"),
        ("brokers", "a:1,b:99999"),
        ("brokers", "a:1,b:1,A:01"),
        ("brokers", ",".join(f"b:{port}" for port in range(MAX_BROKERS + 1))),
        ("maxRowsPerBatch", "0"),
        ("maxRowsPerBatch", "-1"),
        ("maxRowsPerBatch", "1e6"),
        ("maxRowsPerBatch", "²"),
        ("maxBytesPerBatch", "0"),
        ("maxBytesPerBatch", "5 apples"),
        ("minPartitions", "two"),
        ("startingOffsets", "middle"),
        ("includeHeaders", "yeah"),
        ("failOnDataLoss", "2"),
        ("ackOn", "never"),
        ("brokerDown", "panic"),
        ("ownerTimeout", "soon"),
        ("ownerTimeout", "0s"),
        ("token", ""),
        ("token", "no token of a broker's"),
        ("password", ""),
        ("tls", "maybe"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_its_option(name: str, value: str) -> None:
    with pytest.raises(OptionError, match=name):
        SourceOptions.parse({"queue": "q"} | {name: value})


@pytest.mark.parametrize(
    ("text", "ms"),
    [("never", None), ("30", 30_000), ("500ms", 500), ("90 s", 90_000), ("2h", 7_200_000), ("1d", 86_400_000)],
)
def test_durations_have_units(text: str, ms: int | None) -> None:
    assert parse(ownerTimeout=text).owner_timeout_ms == ms


def test_a_streaming_query_names_its_subscription() -> None:
    with pytest.raises(OptionError, match="option subscription is missing"):
        parse().for_streaming()
    assert parse(subscription="s").for_streaming().subscription == "s"


def test_brokers_are_named_in_one_way_since_offsets_are_kept_by_their_names() -> None:
    assert parse(brokers="B.Example:09183, a:1").brokers == ("b.example:9183", "a:1")


def test_positions_are_for_batch_reads_without_a_subscription() -> None:
    options = parse(startingPosition="0", endingPosition="5")
    assert (options.for_batch().starting_position, options.for_batch().ending_position) == (0, 5)
    assert parse(subscription="s").for_batch().subscription == "s"
    with pytest.raises(OptionError, match="endingPosition 5 is before startingPosition 6"):
        parse(startingPosition="6", endingPosition="5").for_batch()
    with pytest.raises(OptionError, match="for a read without a subscription"):
        parse(subscription="s", endingPosition="5").for_batch()
    with pytest.raises(OptionError, match="for a batch read"):
        parse(subscription="s", startingPosition="5").for_streaming()


def test_neither_token_nor_password_is_shown_anywhere() -> None:
    assert TOKEN not in repr(parse(token=TOKEN))
    assert "canary" not in repr(parse(user="ann", password="canary"))


@given(st.dictionaries(st.text(max_size=12), st.text(max_size=12), max_size=4))
def test_any_options_are_understood_or_refused_as_options(given: dict[str, str]) -> None:
    try:
        options = SourceOptions.parse(given)
    except OptionError:
        return
    assert options.queue


@pytest.mark.parametrize(
    "name",
    [
        "maxRowsPerBatch",
        "maxBytesPerBatch",
        "parallelism",
        "ownerTimeout",
        "ownerWait",
        "maxTriggerDelay",
        "startingPosition",
    ],
)
@pytest.mark.parametrize("digits", [17, 5000])
def test_a_number_that_no_frame_could_hold_is_too_large_and_is_not_shown_as_a_whole(name: str, digits: int) -> None:
    with pytest.raises(OptionError, match=rf"option {name} has .*: it is too large") as raised:
        SourceOptions.parse({"queue": "q", name: "9" * digits})
    assert len(str(raised.value)) < 250


def test_the_greatest_number_is_taken_and_no_greater_one_in_any_unit() -> None:
    options = SourceOptions.parse({"queue": "q", "maxRowsPerBatch": f"{2**53}", "maxBytesPerBatch": f"000{2**23}g"})
    assert (options.max_rows_per_batch, options.max_bytes_per_batch) == (2**53, 2**53)
    owner_wait_ms = SourceOptions.parse({"queue": "q", "ownerWait": "36500d"}).owner_wait_ms
    assert owner_wait_ms / 1000 < threading.TIMEOUT_MAX
    for name, text in (
        ("maxRowsPerBatch", f"{2**53 + 1}"),
        ("maxBytesPerBatch", f"{2**23 + 1}g"),
        ("ownerWait", "36501d"),
    ):
        with pytest.raises(OptionError, match="too large"):
            SourceOptions.parse({"queue": "q", name: text})


@pytest.mark.parametrize("name", ["queue", "subscription"])
def test_a_name_of_nothing_is_called_empty(name: str) -> None:
    with pytest.raises(OptionError, match=f"option {name} has '': it is empty"):
        SourceOptions.parse({"queue": "q"} | {name: ""})


@pytest.mark.parametrize("name", ["subscribe", "Subscribe"])
def test_a_list_of_queues_is_refused_and_says_what_to_do(name: str) -> None:
    with pytest.raises(OptionError, match=r"'a,b', several names: a query reads one queue .* union the frames"):
        SourceOptions.parse({name: "a,b"})


def test_a_queue_may_have_a_comma_in_its_name_where_it_is_named_as_a_queue() -> None:
    assert SourceOptions.parse({"queue": "a,b"}).queue == "a,b"
    assert SourceOptions.parse({"subscribe": "a"}).queue == "a"


@pytest.mark.parametrize("name", ["subscribePattern", "assign"])
def test_patterns_and_assignments_are_refused_in_their_own_words(name: str) -> None:
    with pytest.raises(OptionError, match=rf"option {name} is of no use here: a query reads one queue"):
        SourceOptions.parse({name: "a.*"})


@pytest.mark.parametrize(
    "given",
    [
        {"password": "p", "passwordFile": "f"},
        {"token": TOKEN, "tokenFile": "f"},
        {"token": TOKEN, "user": "ann"},
        {"tokenFile": "f", "password": "p"},
    ],
)
def test_one_proof_is_enough(given: dict[str, str]) -> None:
    with pytest.raises(OptionError, match="exclude one another") as caught:
        parse(**given)
    assert TOKEN not in str(caught.value)


def test_files_of_the_access_are_read_where_connections_are_made(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    options = pickle.loads(pickle.dumps(parse(user="ann", passwordFile=str(secret), tlsCa="ca.pem")))
    with pytest.raises(LocalProtocolError, match="No such file"):
        access_here(options.access)
    secret.write_text("canary\n")
    secret.chmod(0o600)
    assert access_here(options.access) == Access("ann", "canary", tls=Tls(ca="ca.pem"))


def test_options_go_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_USER", "bob")
    monkeypatch.setenv("PENSTOCK_PASSWORD", "canary")
    assert access_here(parse().access) == Access("bob", "canary")
    assert access_here(parse(token=TOKEN).access) == Access(token=TOKEN)
