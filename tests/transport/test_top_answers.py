"""What `penstock top` makes of answers over HTTP that come slowly, break off, or have no end."""

from __future__ import annotations

import http.client
import io
from itertools import count
from typing import Any

import pytest

from transport.cli import _top_sources
from transport.cli._top_sources import MAX_ANSWER_BYTES, _read_all


class Connected:
    """A connection whose other end has sent this much so far."""

    def __init__(self, sent: bytes) -> None:
        self.sent = sent

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self.sent)


def answered(sent: bytes) -> http.client.HTTPResponse:
    answer = http.client.HTTPResponse(Connected(sent))  # type: ignore[arg-type]
    answer.begin()
    return answer


HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        HEAD + b"Content-Length: 4\r\n\r\nbody",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nbo\r\n2\r\ndy\r\n0\r\n\r\n",
        HEAD + b"Connection: close\r\n\r\nbody",
    ],
)
def test_a_body_is_read_to_its_end_however_that_is_told(sent: bytes) -> None:
    assert _read_all(answered(sent), float("inf")) == b"body"


@pytest.mark.parametrize(
    "sent", [HEAD + b"Content-Length: 9\r\n\r\nbody", HEAD + b"Transfer-Encoding: chunked\r\n\r\n9\r\nbody"]
)
def test_a_body_that_breaks_off_is_no_answer(sent: bytes) -> None:
    with pytest.raises(http.client.IncompleteRead):
        _read_all(answered(sent), float("inf"))


def test_a_body_that_comes_byte_by_byte_is_waited_for_as_long_as_any_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = count(1.0)
    monkeypatch.setattr(_top_sources.time, "monotonic", lambda: next(seconds))

    class Trickling:
        length = None
        read = 0

        def read1(self, _most: int) -> bytes:
            self.read += 1
            return b"x"

    answer: Any = Trickling()
    with pytest.raises(TimeoutError, match="too slowly"):
        _read_all(answer, ends=10.0)
    assert answer.read == 11


def test_of_a_body_without_an_end_one_byte_more_is_read_than_it_may_have() -> None:
    sent = HEAD + b"Connection: close\r\n\r\n" + bytes(MAX_ANSWER_BYTES + 100)
    assert len(_read_all(answered(sent), float("inf"))) == MAX_ANSWER_BYTES + 1
