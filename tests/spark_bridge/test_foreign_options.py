"""Options that people bring from elsewhere, each refused in one sentence that names ours."""

from __future__ import annotations

import pytest

from spark_bridge import OptionError
from spark_bridge.foreign_options import FOREIGN, SINKS
from spark_bridge.options import NAMES, SourceOptions
from spark_bridge.sink_options import NAMES as SINK_NAMES
from spark_bridge.sink_options import SinkOptions

SECRET = "canary"


def refusal(option: str, value: str = SECRET) -> str:
    with pytest.raises(OptionError) as caught:
        SourceOptions.parse({"queue": "orders", option: value})
    return str(caught.value)


@pytest.mark.parametrize(
    ("option", "ours"),
    [
        ("kafka.bootstrap.servers", "say brokers"),
        ("Kafka.Bootstrap.Servers", "say brokers"),
        ("bootstrap.servers", "say brokers"),
        ("topic", "say queue"),
        ("group.id", "say subscription"),
        ("kafka.group.id", "say subscription"),
        ("groupIdPrefix", "say subscription"),
        ("auto.offset.reset", "say startingOffsets"),
        ("startingOffsetsByTimestamp", "filter by column enqueued_at"),
        ("endingOffsets", "say endingPosition"),
        ("kafka.sasl.jaas.config", "say user and passwordFile"),
        ("kafka.ssl.truststore.location", "tlsCa"),
        ("kafka.fetch.min.bytes", "leave it out"),
        ("fetchOffset.numRetries", "leave it out"),
        ("path", "say queue"),
        ("maxBytesPerTrigger", "say maxBytesPerBatch"),
        ("subscribePattern", '.option("queue", "orders")'),
        ("assign", '.option("queue", "orders")'),
    ],
)
def test_kafkas_words_are_refused_by_a_sentence_that_names_ours(option: str, ours: str) -> None:
    text = refusal(option)
    assert text.startswith(f"option {option}")
    assert ours in text
    assert "known are" not in text.lower(), "one sentence, no list"
    assert SECRET not in text


@pytest.mark.parametrize(
    ("kafkas", "ours"),
    [
        ("subscribe", "queue"),
        ("maxOffsetsPerTrigger", "maxRowsPerBatch"),
        ("minOffsetsPerTrigger", "minRowsPerBatch"),
        ("maxRecordsPerPartition", "maxRowsPerPartition"),
    ],
)
def test_kafkas_words_that_mean_the_same_are_taken(kafkas: str, ours: str) -> None:
    plain = {} if ours == "queue" else {"queue": "orders"}
    assert SourceOptions.parse(plain | {kafkas: "7"}) == SourceOptions.parse(plain | {ours: "7"})


def test_offsets_of_partitions_are_refused_with_what_there_is() -> None:
    text = refusal("startingOffsets", '{"orders":{"0":23}}')
    assert "expected earliest or latest: a queue has no partitions" in text
    assert "startingPosition" in text


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("maxRowPerBatch", "maxRowsPerBatch"),
        ("queu", "queue"),
        ("broker", "brokers"),
        ("subscripton", "subscription"),
        ("failondatalos", "failOnDataLoss"),
    ],
)
def test_a_misspelt_option_is_met_with_what_was_meant(misspelt: str, meant: str) -> None:
    guess = refusal(misspelt).split("?")[0]
    assert guess.startswith(f"unknown option {misspelt!r}: did you mean ")
    assert meant in guess


def test_what_is_like_nothing_is_met_with_the_list() -> None:
    assert refusal("xyz").startswith(
        "unknown option 'xyz'; known are queue or subscribe, exchange, bindingKey, brokers, "
    )


def test_options_of_the_other_side_are_told_as_such() -> None:
    assert "demandTimeout is one of a sink" in refusal("demandtimeout")
    with pytest.raises(OptionError, match="option minRowsPerBatch is one of a source"):
        SinkOptions.parse({"minrowsperbatch": "1"})
    with pytest.raises(OptionError, match="say brokers"):
        SinkOptions.parse({"kafka.bootstrap.servers": "a:9092"})
    with pytest.raises(OptionError, match="say queue"):
        SinkOptions.parse({"subscribe": "orders"})


def test_what_is_known_of_the_other_side_is_what_it_has() -> None:
    assert set(SINKS) == set(SINK_NAMES) - set(NAMES)


def test_no_word_of_ours_is_among_those_refused() -> None:
    ours = {name.lower() for name in (*NAMES, *SINK_NAMES)} - {"subscribe"}  # a sink's only, where it is none
    assert ours.isdisjoint(FOREIGN)


def test_all_that_is_wrong_is_told_at_once_and_what_there_is_once() -> None:
    given = {"queue": "a b", "kafka.group.id": "g", "maxRowPerBatch": "7", "xyz": "7", "ackOn": "never", "writer": "w"}
    with pytest.raises(OptionError) as caught:
        SourceOptions.parse(given)
    text = str(caught.value)
    assert text.startswith(
        "6 options are wrong: (1) option queue has 'a b': a name is printable and without white space. (2) "
    )
    for part in (
        "option ackOn has 'never'",
        "option kafka.group.id is an option of Kafka's",
        "writer is one of a sink",
    ):
        assert part in text
    assert "unknown option 'maxRowPerBatch': did you mean maxRowsPerBatch? (6) unknown option 'xyz'; known are" in text
    assert text.count("nown are") == 1
