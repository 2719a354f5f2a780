"""Passwords that come as they are: two threads, a bounded line, and a memory of who was right a moment ago."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.transport.conftest import until
from transport.broker import passwords
from transport.broker.passwords import MOST_WAITING, REMEMBERED_SECONDS, THREADS, PasswordChecker
from transport.errors import LimitExceededError
from transport.security import changes
from transport.security.principal import Grant, Principal, Proof, Right
from transport.security.users import User, Users
from transport.security.verifier import LEAST_ITERATIONS, Verifier

MOST = MOST_WAITING + THREADS
"""So many are under way at most."""
NOW = datetime(2026, 11, 23, tzinfo=UTC)


def users() -> Users:
    return Users([User("alice", Verifier.of("pencil", LEAST_ITERATIONS)), User("bob", None)])


class Counting(Users):
    """Users whose passwords are checked when the test lets them be, and counted."""

    def __init__(self, given: Users) -> None:
        super().__init__(given)
        self.asked = self.at_once = self.most_at_once = 0
        self.order: list[str] = []
        self.free = threading.Event()
        self.free.set()
        self._lock = threading.Lock()

    def of_password(self, name: str, password: str) -> Principal | None:
        with self._lock:
            self.asked += 1
            self.order.append(password)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        assert self.free.wait(20.0)
        try:
            return super().of_password(name, password)
        finally:
            with self._lock:
                self.at_once -= 1


class Bench:
    def __init__(self) -> None:
        self.users = Counting(users())
        self.seconds = 0.0
        self.checker = PasswordChecker(lambda: self.users, lambda: NOW, lambda: self.seconds)

    async def check(self, name: str = "alice", password: str = "pencil", host: str = "") -> Principal | None:
        return await self.checker.check(name, password, host)

    async def fill_the_line(self, host: str) -> list[asyncio.Task[Principal | None]]:
        """Guesses of one address have both threads and all places, and none is found out before the test lets it be."""
        self.users.free.clear()
        guesses = [asyncio.create_task(self.check("alice", f"guess {number}", host)) for number in range(MOST)]
        await until(lambda: self.users.at_once == THREADS and len(self.checker._line) == MOST_WAITING)
        return guesses


@pytest.fixture
def with_checker(run: Any) -> Callable[[Callable[[Bench], Any]], None]:
    def act(test: Callable[[Bench], Any]) -> None:
        async def main() -> None:
            bench = Bench()
            try:
                await test(bench)
            finally:
                bench.users.free.set()
                bench.checker.close()

        run(main)

    return act


def test_the_right_password_is_somebodys_and_every_other_nobodys(with_checker: Any) -> None:
    async def test(bench: Bench) -> None:
        found = await bench.check()
        assert found is not None
        assert (found.name, found.proof) == ("alice", Proof.PASSWORD)
        for name, password in (("alice", "pen"), ("bob", ""), ("bob", "pencil"), ("mallory", "pencil"), ("\0", "x")):
            assert await bench.check(name, password) is None, name

    with_checker(test)


def test_without_users_no_password_is_right(run: Any) -> None:
    async def main() -> None:
        assert await PasswordChecker(lambda: None, lambda: NOW).check("alice", "pencil") is None

    run(main)


def test_who_was_right_is_not_checked_again_for_five_minutes_and_who_was_wrong_always(with_checker: Any) -> None:
    async def test(bench: Bench) -> None:
        for _ in range(3):
            assert await bench.check() is not None
        assert bench.users.asked == 1
        bench.seconds = REMEMBERED_SECONDS - 1
        assert await bench.check() is not None
        assert bench.users.asked == 1
        bench.seconds = REMEMBERED_SECONDS
        assert await bench.check() is not None
        assert bench.users.asked == 2
        for _ in range(2):
            assert await bench.check("alice", "pen") is None
        assert bench.users.asked == 4

    with_checker(test)


def test_no_password_is_remembered_only_a_mark_that_another_process_cannot_make(with_checker: Any) -> None:
    async def test(bench: Bench) -> None:
        await bench.check()
        assert "pencil" not in repr(vars(bench.checker))
        assert bench.checker._mark("a", "bc") != bench.checker._mark("ab", "c")
        assert bench.checker._mark("a", "b") != Bench().checker._mark("a", "b")

    with_checker(test)


def test_what_is_remembered_is_bounded_and_the_oldest_goes(with_checker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "MOST_REMEMBERED", 2)

    async def test(bench: Bench) -> None:
        names = ("a", "b", "c")
        bench.users = Counting(Users(User(name, Verifier.of("x", LEAST_ITERATIONS)) for name in names))
        for name in names:
            assert await bench.check(name, "x") is not None
        assert len(bench.checker._right) == 2
        await bench.check("c", "x")
        assert bench.users.asked == 3
        await bench.check("a", "x")
        assert bench.users.asked == 4

    with_checker(test)


def test_a_change_of_the_user_ends_what_is_remembered_and_of_others_does_not(with_checker: Any) -> None:
    async def test(bench: Bench) -> None:
        assert await bench.check() is not None
        bench.users = Counting(changes.granted(bench.users, "alice", Right.READ, "orders"))
        bench.checker.forget()
        found = await bench.check()
        assert found is not None
        assert found.may(Right.READ, "orders"), "the rights are those of now"
        assert bench.users.asked == 0
        bench.users = Counting(changes.with_password(bench.users, "alice", Verifier.of("pen", LEAST_ITERATIONS)))
        assert await bench.check() is None
        bench.users = Counting(changes.removed(bench.users, "alice"))
        bench.checker.forget()
        assert not bench.checker._right

    with_checker(test)


def test_users_that_change_during_a_check_are_those_that_count(with_checker: Any) -> None:
    async def test(bench: Bench) -> None:
        bench.users.free.clear()
        before = bench.users
        checking = asyncio.create_task(bench.check())
        await until(lambda: before.asked > 0)
        bench.users = Counting(changes.removed(before, "alice"))
        before.free.set()
        assert await checking is None
        assert not bench.checker._right

    with_checker(test)


def test_two_are_checked_at_one_time_the_others_wait_and_beyond_the_line_they_are_refused(with_checker: Any) -> None:
    async def test(bench: Bench) -> None:
        bench.users.free.clear()
        checks = [asyncio.create_task(bench.check("alice", f"guess {number}")) for number in range(MOST)]
        await until(lambda: bench.users.at_once == THREADS)
        with pytest.raises(LimitExceededError, match=f"{MOST_WAITING} passwords wait to be checked"):
            await bench.check("bob", "one more")
        bench.users.free.set()
        assert await asyncio.gather(*checks) == [None] * MOST
        assert bench.users.most_at_once == THREADS
        assert await bench.check() is not None

    with_checker(test)


def test_many_who_ask_the_same_at_once_are_one_check(with_checker: Any) -> None:
    async def test(bench: Bench) -> None:
        found = await asyncio.gather(*(bench.check() for _ in range(10 * MOST_WAITING)))
        assert {each.name for each in found if each} == {"alice"}
        assert bench.users.asked == 1

    with_checker(test)


def test_a_check_that_takes_too_long_is_given_up_by_who_waits(
    with_checker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passwords, "CHECK_SECONDS", 0.01)

    async def test(bench: Bench) -> None:
        bench.users.free.clear()
        with pytest.raises(LimitExceededError, match="could not be checked within"):
            await bench.check()

    with_checker(test)


def test_one_address_that_fills_the_line_shuts_nobody_else_out_and_is_passed_by_all_that_come(
    with_checker: Any,
) -> None:
    async def test(bench: Bench) -> None:
        guesses = await bench.fill_the_line("192.0.2.1")
        right = asyncio.create_task(bench.check(host="192.0.2.2"))
        other = asyncio.create_task(bench.check("alice", "pen", host="192.0.2.3"))
        await until(lambda: sum(guess.done() for guess in guesses) == 2)
        for guess in guesses[-2:]:
            # The last two of them made room.
            with pytest.raises(LimitExceededError):
                await guess
        bench.users.free.set()
        assert await right is not None
        assert await other is None
        await asyncio.gather(*guesses[:-2])
        # Two were being checked, and of that address one was next.
        assert set(bench.users.order[:5]) == {"guess 0", "guess 1", "guess 2", "pencil", "pen"}

    with_checker(test)


def test_a_line_full_of_many_addresses_refuses_one_more_which_counts_as_they_do(with_checker: Any) -> None:
    async def test(bench: Bench) -> None:
        guesses = await bench.fill_the_line("192.0.2.1")
        others = [asyncio.create_task(bench.check("alice", f"{n}", f"198.51.100.{n}")) for n in range(MOST_WAITING - 1)]
        await until(lambda: sum(guess.done() for guess in guesses) == MOST_WAITING - 1)
        with pytest.raises(LimitExceededError):
            await bench.check(host="203.0.113.1")
        bench.users.free.set()
        await asyncio.gather(*guesses, *others, return_exceptions=True)
        assert not bench.checker._under_way
        assert not len(bench.checker._line)

    with_checker(test)


def test_who_was_right_before_is_checked_again_before_all_strangers_in_a_full_line_too(with_checker: Any) -> None:
    async def test(bench: Bench) -> None:
        assert await bench.check() is not None
        bench.seconds = REMEMBERED_SECONDS
        guesses = await bench.fill_the_line("192.0.2.1")
        assert bench.checker.knows("alice", "pencil")
        assert not bench.checker.knows("alice", "guess 0")
        known = asyncio.create_task(bench.check(host="192.0.2.1"))
        await until(lambda: len(bench.checker._line) == MOST_WAITING + 1)
        first = bench.checker._line.take()
        assert first is not None
        assert first.password == "pencil"
        bench.checker._line.go_first(first)
        assert not any(guess.done() for guess in guesses), "nobody had to make room"
        bench.users.free.set()
        assert await known is not None
        await asyncio.gather(*guesses)

    with_checker(test)


def test_a_right_password_that_is_found_out_too_late_is_remembered_all_the_same(
    with_checker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passwords, "CHECK_SECONDS", 0.01)

    async def test(bench: Bench) -> None:
        bench.users.free.clear()
        with pytest.raises(LimitExceededError, match="could not be checked within"):
            await bench.check()
        bench.users.free.set()
        await until(lambda: not bench.checker._under_way)
        assert await bench.check() is not None
        assert bench.users.asked == 1

    with_checker(test)


def test_a_checker_that_closes_cancels_those_who_wait(with_checker: Any) -> None:
    async def test(bench: Bench) -> None:
        guesses = await bench.fill_the_line("192.0.2.1")
        bench.checker.close()
        bench.users.free.set()
        found = await asyncio.gather(*guesses, return_exceptions=True)
        assert sum(isinstance(each, asyncio.CancelledError) for each in found) == MOST_WAITING
        assert len(bench.checker._line) == 0

    with_checker(test)


def test_the_loop_goes_on_while_a_password_is_checked(with_checker: Any) -> None:
    async def test(bench: Bench) -> None:
        bench.users.free.clear()
        checking = asyncio.create_task(bench.check())
        turns = 0
        began = time.monotonic()
        while not bench.users.asked or turns < 10:
            await asyncio.sleep(0)
            turns += 1
        assert time.monotonic() - began < 20.0
        bench.users.free.set()
        assert await checking is not None

    with_checker(test)


def test_a_grant_is_no_part_of_a_password() -> None:
    user = User("alice", None, Right.NONE, (Grant("orders", Right.READ),))
    assert Users([user]).of_password("alice", "") is None
