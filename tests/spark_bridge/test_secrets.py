"""Secrets that are given as options: in no plan, progress or error that a query shows, and they reach the brokers all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spark_bridge.queries import MARKS, finish, numbers, source, start
from tests.spark_bridge.sinks import contents, write_frame
from transport import Message
from transport.security.proofs import make_token

pytestmark = MARKS

TOKEN = make_token()
PASSWORD = "canary-of-a-password"


def test_no_plan_and_no_progress_of_a_query_shows_a_token(
    spark: Any, broker: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker.send("q", numbers(0, 3))
    frame = source(spark, broker, token=TOKEN).load()
    frame.explain(True)
    seen: list[int] = []
    query = finish(start(frame, tmp_path, lambda rows, _: seen.append(rows.count())))
    assert sum(seen) == 3
    query.explain(True)
    shown = capsys.readouterr()
    assert "penstock" in shown.out
    assert TOKEN not in shown.out + shown.err + str(query.recentProgress) + str(query.status)


def test_no_plan_and_no_error_shows_a_password(
    spark: Any, broker: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source(spark, broker, user="ann", password=PASSWORD).load().explain(True)
    batch = spark.read.format("penstock").options(
        queue="q", brokers=broker.receiving, user="ann", passwordFile=str(tmp_path / "missing"), password=PASSWORD
    )
    with pytest.raises(Exception, match="password and passwordFile exclude one another") as caught:
        batch.load().collect()
    shown = capsys.readouterr()
    assert PASSWORD not in shown.out + shown.err + str(caught.value)


def test_tasks_read_files_themselves_and_write_with_what_they_hold(spark: Any, broker: Any, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.touch(mode=0o600)
    frame = spark.range(3).selectExpr("string(id) AS value")
    with pytest.raises(Exception, match="is to hold one line, a password or a token, and is empty"):
        write_frame(frame, broker, tokenFile=str(file))
    file.write_text(f"{TOKEN}\n")
    write_frame(frame, broker, tokenFile=str(file))
    assert sorted(contents(broker), key=lambda message: message.payload) == [Message(each) for each in numbers(0, 3)]
