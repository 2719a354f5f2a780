"""Bodies of JSON: how they are read while others have their turns, and what is refused before it takes long."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from transport.clients.json_messages import message_of
from transport.gateways.http import requests
from transport.gateways.http.held import Held
from transport.gateways.http.problems import ProblemError

Q = "/api/v1/queues/orders"
LARGE = b'{"payload":"%s"}' % (b"a" * requests.ASIDE_BYTES)
MEDIUM = b'{"payload":"%s"}' % (b"a" * requests.AT_ONCE_BYTES)

pytestmark = pytest.mark.event_loop


def call_of(held: Held) -> Any:
    return SimpleNamespace(share=held.share())


def test_large_bodies_are_looked_at_one_at_a_time_and_those_whose_client_has_gone_not_at_all(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[bytes] = []
    goes_on, there = threading.Event(), threading.Event()

    def look(body: bytes) -> bytes:
        began.append(body)
        there.set()
        assert goes_on.wait(30)
        return body

    monkeypatch.setattr(requests, "_bounded", look)

    async def main() -> None:
        held = Held()
        first, second, third = (
            asyncio.create_task(requests.parsed_aside(call_of(held), b"%d" % number + LARGE)) for number in range(3)
        )
        assert await asyncio.get_running_loop().run_in_executor(None, there.wait, 30)
        for each in (first, second):
            each.cancel()
        await asyncio.wait((first, second))
        assert [body[:1] for body in began] == [b"0"], "it goes on, and nothing beside it"
        goes_on.set()
        assert (await third)[:1] == b"2"
        assert [body[:1] for body in began] == [b"0", b"2"]
        assert not held.aside.locked()

    run(main)


def test_one_that_cannot_be_leaves_its_place_to_the_next(run: Any) -> None:
    async def main() -> None:
        held = Held()
        for _ in range(2):
            with pytest.raises(ProblemError, match="the body is no JSON"):
                await requests.parsed_aside(call_of(held), LARGE[:-1])
        assert await requests.parsed_aside(call_of(held), LARGE)

    run(main)


def test_of_bodies_that_take_a_while_each_has_a_turn_of_its_own(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []
    monkeypatch.setattr(requests, "parsed", read.append)

    async def main() -> None:
        held = Held()
        asked = [asyncio.create_task(requests.parsed_aside(call_of(held), MEDIUM)) for _ in range(5)]
        while not all(each.done() for each in asked):
            before = len(read)
            await asyncio.sleep(0)
            assert len(read) <= before + 1
        assert len(read) == 5

    run(main)


def test_a_large_body_without_messages_is_read_by_another_thread_too(
    run: Any, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    as_ever = requests.parsed

    def parsed(body: bytes) -> Any:
        threads.append(threading.current_thread())
        return as_ever(body)

    monkeypatch.setattr(requests, "parsed", parsed)

    async def main() -> None:
        async with api() as http:
            await http.publish("small")
            status, problem = await http.ask("POST", f"{Q}/acknowledge", {"receipts": ["a" * requests.ASIDE_BYTES]})
            assert (status, problem["code"]) == (400, "invalid-receipt")
        assert [each is threading.current_thread() for each in threads] == [True, False]

    run(main)


@pytest.mark.parametrize("number", ["9" * 4000, "-" + "9" * 200, "1." + "9" * 200, "9" * 100_000 + "e5"])
def test_a_number_of_very_many_digits_is_refused_before_it_is_read(number: str) -> None:
    with pytest.raises(ProblemError, match="digits, and 100 are the most"):
        requests.parsed(b'{"wait": %s}' % number.encode())


def test_numbers_as_anybody_writes_them_are_read() -> None:
    text = b"[0, -1, 1.5, 1e3, 9007199254740993, 0.1000000000000000055511151231257827021181583404541015625]"
    assert requests.parsed(text) == [0, -1, 1.5, 1000.0, 9007199254740993, 0.1]


class _Unseen(dict[str, Any]):
    """Of very many entries none is looked at."""

    def items(self) -> Any:
        pytest.fail("they were looked at")


def test_very_many_headers_are_refused_by_their_number_alone() -> None:
    headers = _Unseen.fromkeys((f"h{number}" for number in range(65)), "a")
    with pytest.raises(ValueError, match="65 headers on one message exceed 64"):
        message_of({"payload": "a", "headers": headers})


def test_of_very_many_fields_that_cannot_be_the_first_is_told_and_no_other_looked_for() -> None:
    fields = dict.fromkeys(("payload", "zebra", *(f"a{number}" for number in range(9))), "a")
    with pytest.raises(ValueError, match="'zebra' is no field of a message"):
        message_of(fields)
    with pytest.raises(ProblemError, match="'zebra' is no field of the body"):
        requests.check_fields(fields, ("payload",), "the body")
