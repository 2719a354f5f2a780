"""How a connection ends: what is refused, the last word, closing, aborting, and what is left behind."""

from __future__ import annotations

import errno

import pytest

from streams.testkit import settle
from tests.transport.connection_bench import HELLO, SEND, Bench, run
from transport.errors import (
    BrokerError,
    LimitExceededError,
    LocalProtocolError,
    RemoteProtocolError,
    TruncatedFrameError,
)
from transport.shell.connection import (
    CLOSE_TIMEOUT,
    LINGER,
)
from transport.wire.messages import MAX_ERROR_TEXT, Demand, Error, Welcome


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RemoteProtocolError("why"), "protocol-error"),
        (LimitExceededError("why"), "limit-exceeded"),
        (BrokerError("demand-exceeded", "why"), "demand-exceeded"),
    ],
)
def test_what_the_handler_raises_ends_the_connection_with_its_code(error: Exception, code: str) -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        bench.handler.refuses = error
        bench.receive(SEND, SEND)
        assert len(bench.handler.frames) == 2, "what follows a refused frame is not handed on"
        assert (bench.said().code, bench.said().close) == (code, True)
        assert bench.transport.eof
        bench.lose()
        assert bench.handler.closed == [error]

    run(main)


def test_a_defect_of_ours_is_logged_and_tells_the_peer_no_more_than_that(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        bench.handler.refuses = ZeroDivisionError("division by zero")
        bench.receive(SEND)
        assert bench.said().code == "internal-error"
        bench.lose()

    run(main)
    assert "192.0.2.1:4711 ends on a defect of ours" in caplog.text


def test_a_connection_refused_at_once_is_told_why() -> None:
    async def main() -> None:
        bench = Bench()
        bench.handler.refuses_connection = LimitExceededError("10 connections are open")
        bench.connect()
        assert bench.said() == Error("limit-exceeded", "10 connections are open", close=True)
        bench.lose()

    run(main)


def test_an_error_is_the_last_word_and_said_once() -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        bench.connection.fail(RemoteProtocolError("first"))
        bench.connection.fail(RemoteProtocolError("second"))
        bench.connection.send(Demand(1, 1))
        bench.connection.close()
        await settle(0.1)
        assert [frame for frame in bench.transport.frames if isinstance(frame, Error)] == [
            Error("protocol-error", "first", close=True)
        ]
        assert isinstance(bench.transport.frames[-1], Error)
        bench.lose()
        assert [str(error) for error in bench.handler.closed] == ["first"]

    run(main)


def test_what_a_refused_peer_still_sends_is_discarded_whatever_it_is() -> None:
    async def main() -> None:
        bench = Bench()
        bench.connect()
        bench.receive_bytes(b"\x00\x00\x00")
        bench.receive_bytes(b"\x00\x00\x00")
        assert bench.said().code == "protocol-error"
        bench.receive_bytes(b"\xff" * 1_000_000)
        assert len(bench.transport.frames) == 1
        assert bench.transport.reading
        bench.lose()

    run(main)


def test_a_refused_peer_that_does_not_close_is_cut_off_after_the_linger() -> None:
    async def main() -> None:
        bench = Bench()
        bench.connect()
        bench.receive_bytes(b"\x00" * 7)
        await settle(LINGER - 0.1)
        assert bench.over() == (True, False)
        await settle(0.2)
        assert bench.over() == (True, True)
        bench.lose()

    run(main)


def test_a_peer_that_has_reset_the_connection_meanwhile_is_no_defect() -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        # What asyncio answers when the reset has arrived and was not read yet.
        bench.transport.eof_error = OSError(errno.ENOTCONN, "Transport endpoint is not connected")
        bench.connection.fail(RemoteProtocolError("why"))
        await settle(LINGER + 0.1)
        assert bench.transport.aborted
        bench.lose()
        assert [str(error) for error in bench.handler.closed] == ["why"]

    run(main)


def test_a_peer_that_ends_with_an_error_gets_none_back() -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        await settle()
        bench.receive(Error("internal-error", "sorry", close=True))
        await settle()
        assert [type(frame) for frame in bench.transport.frames] == [Welcome]
        assert bench.transport.eof
        bench.lose()
        assert isinstance(bench.handler.closed[0], BrokerError)

    run(main)


def test_the_text_of_an_error_is_bounded() -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        bench.connection.fail(RemoteProtocolError("\U0001f600" * 5000))
        assert len(bench.said().text) == MAX_ERROR_TEXT
        bench.lose()

    run(main)


def test_closing_writes_what_is_pending_first() -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        bench.connection.send(Demand(3, 3))
        bench.connection.close()
        assert bench.transport.frames[-1] == Demand(3, 3)
        assert bench.transport.closing
        bench.lose()
        assert bench.handler.closed == [None]

    run(main)


def test_what_is_written_last_and_does_not_leave_is_given_up() -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        bench.connection.close()
        await settle(CLOSE_TIMEOUT - 0.1)
        assert bench.over() == (False, False)
        await settle(0.2)
        assert bench.over() == (False, True)
        bench.lose()

    run(main)


def test_aborting_ends_at_once_and_tells_the_handler_why() -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        bench.connection.abort(LocalProtocolError("enough"))
        assert bench.transport.aborted
        bench.receive(SEND)
        bench.lose()
        assert [str(error) for error in bench.handler.closed] == ["enough"]
        assert bench.handler.frames == [HELLO]

    run(main)


def test_a_stream_that_ends_inside_a_frame_is_told_from_one_that_ends_between() -> None:
    async def main() -> None:
        between = Bench()
        between.open()
        assert between.connection.eof_received() is False
        between.lose()
        inside = Bench()
        inside.open()
        inside.receive_bytes(b"\x00\x00\x00")
        assert inside.connection.eof_received() is False
        inside.lose()
        assert between.handler.closed == [None]
        assert isinstance(inside.handler.closed[0], TruncatedFrameError)

    run(main)


def test_nothing_is_left_ticking_once_the_connection_is_lost() -> None:
    async def main() -> None:
        bench = Bench()
        bench.open()
        bench.lose(ConnectionResetError("reset"))
        bench.connection.send(Demand(1, 1))
        await settle(100.0)
        assert [str(error) for error in bench.handler.closed] == ["reset"]
        assert all(isinstance(frame, Welcome) for frame in bench.transport.frames)

    run(main)
