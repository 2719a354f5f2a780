"""Sessions by themselves, on a clock that stands still until it is moved."""

from __future__ import annotations

from itertools import islice

import pytest

from transport.errors import LimitExceededError
from transport.gateways.http.console import sessions as module
from transport.gateways.http.console.sessions import MOST_OF_ONE, SESSION_SECONDS, Sessions
from transport.security.principal import Principal


class Clock:
    """Seconds, as they are set."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Gone:
    """Who is a user no longer."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def __call__(self, before: Principal) -> Principal | None:
        return None if before.name in self.names else before


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gone() -> Gone:
    return Gone()


@pytest.fixture
def sessions(clock: Clock, gone: Gone) -> Sessions:
    return Sessions(clock, gone)


ANN, BOB = Principal("ann"), Principal("bob")


def test_a_session_is_found_by_its_name_alone(sessions: Sessions) -> None:
    name, session = sessions.begin(ANN)
    assert sessions.of(name) is session
    assert sessions.of(name[:-1]) is None
    assert sessions.of(session.token) is None
    assert sessions.of("\udcff") is None


def test_neither_the_name_nor_the_token_is_kept_or_shown_where_it_could_be_read(sessions: Sessions) -> None:
    name, session = sessions.begin(ANN)
    assert name.encode() not in sessions._open
    assert session.token not in repr(session)


def test_names_and_tokens_have_256_random_bits(sessions: Sessions) -> None:
    made = [sessions.begin(ANN) for _ in range(8)]
    texts = {text for name, session in made for text in (name, session.token)}
    assert len(texts) == 16
    assert {len(text) for text in texts} == {43}  # 32 bytes in base64


def test_a_session_ends_after_eight_hours_however_it_is_used(sessions: Sessions, clock: Clock) -> None:
    name, session = sessions.begin(ANN)
    clock.now += SESSION_SECONDS - 1
    assert sessions.of(name) is session
    clock.now += 1
    assert sessions.of(name) is None
    assert session.over
    assert len(sessions) == 0
    assert SESSION_SECONDS == 8 * 3600


def test_a_session_ends_when_its_user_is_gone_and_has_the_rights_of_now_while_they_are_not(clock: Clock) -> None:
    now = {"ann": Principal("ann"), "bob": Principal("bob")}
    sessions = Sessions(clock, lambda before: now.get(before.name))
    name, session = sessions.begin(now["ann"])
    now["ann"] = Principal("ann")
    assert sessions.of(name) is session
    assert session.principal is now["ann"]
    del now["ann"]
    assert sessions.of(name) is None
    assert session.over


def test_who_signs_in_too_often_ends_their_own_oldest_and_nobody_elses(sessions: Sessions) -> None:
    other, _ = sessions.begin(BOB)
    names = [sessions.begin(ANN)[0] for _ in range(MOST_OF_ONE)]
    assert sessions.of(names[0]) is not None
    sessions.begin(ANN)
    assert sessions.of(names[0]) is None
    assert all(sessions.of(name) for name in (*names[1:], other))
    assert len(sessions) == MOST_OF_ONE + 1


def test_sessions_are_bounded_and_those_whose_time_is_over_make_room(
    sessions: Sessions, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_SESSIONS", 3)
    for who in islice((Principal(str(each)) for each in range(9)), 3):
        sessions.begin(who)
    with pytest.raises(LimitExceededError, match="MOST_SESSIONS"):
        sessions.begin(ANN)
    clock.now += SESSION_SECONDS
    sessions.begin(ANN)
    assert len(sessions) == 1


@pytest.mark.parametrize("token", ["", "x", "\udcff", "é"])
def test_another_token_is_not_the_sessions(sessions: Sessions, token: str) -> None:
    _, session = sessions.begin(ANN)
    assert not session.is_told(token)
    assert not session.is_told(session.token + token + "x")
    assert session.is_told(session.token)
