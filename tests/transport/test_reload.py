"""What a broker reads anew: each thing by itself, and what cannot be is told."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from transport.broker.reload import Reloads, texts
from transport.cli._reloading import Reloading
from transport.cli._supervisor import Supervisor
from transport.config.config import BrokerConfig
from transport.config.settings_file import SettingsError
from transport.config.settings_sources import Resolved, resolve
from transport.errors import LocalProtocolError


def settings(**said: str) -> Resolved:
    return resolve(said, {})


@pytest.fixture(autouse=True)
def _heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock")


def test_each_thing_gets_the_settings_of_now_and_those_it_follows_are_in_force() -> None:
    reloads, seen = Reloads(), []
    reloads.add("log level", lambda config: seen.append(config.log_level), "broker.log_level")
    before = texts(settings(log_level="info"))
    after = asyncio.run(reloads.reload(before, settings(log_level="debug")))
    assert seen == ["debug"]
    assert after == before | {"broker.log_level": "debug"}


def test_what_nothing_follows_is_told_with_both_values_and_again_at_each_time(caplog: Any) -> None:
    reloads = Reloads()
    in_force = texts(settings(max_queues="5"))
    for _ in range(2):
        caplog.clear()
        in_force = asyncio.run(reloads.reload(in_force, settings(max_queues="6")))
        assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
            "limits.max_queues is 5 now and 6 after a restart: it cannot be changed while the broker runs"
        ]
    assert in_force["limits.max_queues"] == "5"


@pytest.mark.parametrize("error", [LocalProtocolError("no"), OSError("no"), ValueError("no"), MemoryError("no")])
def test_one_that_fails_is_as_before_and_the_others_are_read(error: Exception, caplog: Any) -> None:
    reloads, seen = Reloads(), []

    async def fail(_config: BrokerConfig) -> None:
        await asyncio.sleep(0)
        raise error

    reloads.add("users", fail, "limits.max_queues")
    reloads.add("log level", lambda config: seen.append(config.log_level), "broker.log_level")
    before = texts(settings())
    after = asyncio.run(reloads.reload(before, settings(log_level="debug", max_queues="6")))
    assert seen == ["debug"]
    assert after["limits.max_queues"] == before["limits.max_queues"]
    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    if isinstance(error, MemoryError):
        assert told.pop(0) == ("ERROR", "reading the users again fails on a defect of ours")
    # What it follows is not told as what takes a restart: the next time it may well be read.
    assert told == [
        ("ERROR", "users: not read again, and as before: no"),
        ("INFO", "read again: log level"),
    ]


def test_whatever_goes_wrong_once_the_next_time_is_read_again_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    now = settings()
    said: list[Exception] = [ZeroDivisionError("once"), OverflowError("twice"), SettingsError(["thrice"])]
    read = asyncio.Event()

    def again() -> Resolved:
        if said:
            raise said.pop(0)
        return now

    async def main() -> None:
        supervisor = Supervisor({})
        reloading = Reloading(now, again, supervisor)
        reloads = Reloads()
        reloads.add("it", lambda _: read.set())
        ready = asyncio.Event()
        supervisor.ready = ready.set  # type: ignore[method-assign]

        async def there() -> Reloads:
            return reloads

        going_on = asyncio.create_task(reloading.whenever_asked(there))
        for _ in range(4):
            ready.clear()
            reloading.ask()
            await ready.wait()
        assert read.is_set()
        going_on.cancel()

    asyncio.run(main())
    assert [record.exc_info is not None for record in caplog.records if record.levelname == "ERROR"] == [
        True,
        True,
        False,
    ]
    assert "ZeroDivisionError: once" in caplog.text
