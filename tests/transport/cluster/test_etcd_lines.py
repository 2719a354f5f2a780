"""What an etcd says on its output: lines of bounded length, in our levels, and nothing in them that acts."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transport.cluster.etcd_lines import LineCutter, read_line_of_etcd
from transport.wire.shown import MAX_LINE_BYTES


@given(st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b""))), st.data())
def test_lines_are_cut_wherever_the_blocks_end(lines: list[bytes], data: st.DataObject) -> None:
    content = b"\n".join(lines)
    cutter = LineCutter()
    found = []
    while content:
        size = data.draw(st.integers(1, len(content)))
        found += cutter.feed(content[:size])
        content = content[size:]
    found += cutter.rest()
    assert found == [line for line in lines if line]


def test_a_line_without_an_end_takes_no_memory_without_end() -> None:
    cutter = LineCutter()
    for _ in range(10):
        assert cutter.feed(b"x" * MAX_LINE_BYTES) == []
    assert [len(line) for line in cutter.feed(b"\nnext\n")] == [MAX_LINE_BYTES, 4]


@pytest.mark.parametrize(
    ("line", "level", "text"),
    [
        ('{"level":"info","ts":"x","caller":"a.go:1","msg":"ready"}', logging.DEBUG, "ready"),
        ('{"level":"warn","msg":"slow","took":"1s","to":2}', logging.INFO, "slow (took: 1s, to: 2)"),
        ('{"level":"error","msg":"x","stacktrace":"y"}', logging.WARNING, "x"),
        ('{"level":"fatal","msg":"x\\n\\u001b[2J"}', logging.ERROR, r"x\n\x1b[2J"),
        ('{"level":"new","msg":"x"}', logging.WARNING, "x"),
        ("WARNING: 2026/11/27 [core] grpc: x", logging.INFO, "WARNING: 2026/11/27 [core] grpc: x"),
        ("panic: no such luck", logging.WARNING, "panic: no such luck"),
        ('{"msg":1}', logging.WARNING, '{"msg":1}'),
        ("[" * 5000, logging.WARNING, "[" * 5000),
    ],
)
def test_a_line_has_our_level_and_what_it_says(line: str, level: int, text: str) -> None:
    assert read_line_of_etcd(line.encode()) == (level, text, False)


def test_a_certificate_that_is_refused_is_a_warning_that_is_told_once_and_a_connection_that_only_ended_is_none() -> (
    None
):
    rejected = '{"level":"warn","msg":"rejected connection","remote-addr":"10.0.0.1:%d","error":"%s"}'
    wrong = "x509: certificate is valid for 10.0.0.3, not 10.0.0.1"
    lines = [read_line_of_etcd((rejected % (port, wrong)).encode()) for port in (38680, 38694)]
    assert lines[0] == lines[1], "the port is another at each try, and is not shown"
    assert (lines[0].level, lines[0].once) == (logging.WARNING, True)
    assert "takes no connection from 10.0.0.1" in lines[0].text
    assert wrong in lines[0].text
    expired = "x509: certificate has expired or is not yet valid: current time %s is after 2026-11-01T00:00:00Z"
    first, second = (
        read_line_of_etcd((rejected % (1, expired % f"2026-11-28T07:00:0{each}Z")).encode()) for each in range(2)
    )
    assert first == second, "nor when it was tried"
    assert "not yet valid: the time is after 2026-11-01" in first.text
    ended = read_line_of_etcd((rejected % (1, "EOF")).encode())
    assert (ended.level, ended.once) == (logging.INFO, False)


@given(st.binary(max_size=300))
def test_whatever_it_says_is_one_printable_line(line: bytes) -> None:
    assert read_line_of_etcd(line).text.isprintable()
