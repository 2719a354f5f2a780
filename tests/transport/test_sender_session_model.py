"""A sender's session against a model of it: whatever happens, each message is stored once, in order."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from actors.batch import MessageBatch
from tests.transport.sender_sessions import FULL
from transport.clients.sender_session import Confirmation, SenderSession
from transport.wire.messages import Send, Sent


class SenderAgainstModel(RuleBasedStateMachine):
    """A broker that stores in order, rejects and drops connections at will.

    It must end up with each message once, in order, but for those that the sender was told are rejected.
    """

    def __init__(self) -> None:
        super().__init__()
        self.session = SenderSession(max_batch_messages=4, max_batch_bytes=40)
        self.session.connected(None)
        self.offered: list[bytes] = []
        self.stored: list[bytes] = []
        self.under_way: list[Send] = []
        self.unheard: list[Sent] = []
        self.refused_up_to: int | None = None
        self.rejected: list[bytes] = []
        self.granted_messages = self.granted_bytes = 0
        self.sent_messages = self.sent_bytes = 0
        self.confirmed = 0

    @rule(payload=st.binary(max_size=50))
    def offer(self, payload: bytes) -> None:
        self.session.offer(payload)
        self.offered.append(payload)

    @rule(payloads=st.lists(st.binary(max_size=10), min_size=1, max_size=6))
    def offer_batch(self, payloads: list[bytes]) -> None:
        self.session.offer(MessageBatch.from_payloads(payloads))
        self.offered += payloads

    @rule(messages=st.integers(0, 10), size=st.integers(0, 300))
    def grant(self, messages: int, size: int) -> None:
        self.session.granted(messages, size)
        self.granted_messages += messages
        self.granted_bytes += size

    @rule(complete=st.booleans())
    def send(self, complete: bool) -> None:
        for frame in self.session.sends(complete):
            count = len(frame.batch)
            assert self.sent_messages + count <= self.granted_messages
            assert self.sent_bytes + frame.batch.prefix_bytes(count - 1) < self.granted_bytes
            self.sent_messages += count
            self.sent_bytes += frame.batch.nbytes
            self.under_way.append(frame)

    @precondition(lambda self: self.under_way)
    @rule(reject=st.booleans())
    def answer(self, reject: bool) -> None:
        frame = self.under_way.pop(0)
        up_to = frame.sequence + len(frame.batch)
        if frame.sequence == self.refused_up_to:
            self.refused_up_to = up_to
            self.unheard.append(Sent(up_to, None, "it follows a batch that was rejected"))
            return
        assert frame.sequence == len(self.stored), "a gap, or a number used twice"
        self.refused_up_to = None
        if reject:
            self.refused_up_to = up_to
            self.unheard.append(Sent(up_to, None, FULL))
        else:
            self.unheard.append(Sent(up_to, len(self.stored)))
            self.stored += frame.batch.payloads.tolist()

    @precondition(lambda self: self.unheard)
    @rule()
    def hear(self) -> None:
        self.note(self.session.sent(self.unheard.pop(0)))

    @rule(forgetful=st.booleans())
    def reconnect(self, forgetful: bool) -> None:
        self.under_way.clear()
        self.unheard.clear()
        self.refused_up_to = None
        self.granted_messages = self.granted_bytes = self.sent_messages = self.sent_bytes = 0
        # A producer that the broker knows nothing of yet has stored nothing.
        known = len(self.stored) or (None if forgetful else 0)
        self.note(self.session.connected(known))

    def note(self, confirmations: list[Confirmation]) -> None:
        for confirmation in confirmations:
            if confirmation.rejected is not None:
                assert confirmation.sequence >= self.confirmed
                # The first that are neither confirmed nor rejected before are the ones this is about.
                start = self.confirmed
                self.rejected += self.offered[start : start + confirmation.count]
                del self.offered[start : start + confirmation.count]
                continue
            assert confirmation.sequence == self.confirmed, "confirmations come in order, each once"
            self.confirmed += confirmation.count

    @invariant()
    def what_is_confirmed_was_offered_and_is_stored_in_order(self) -> None:
        assert self.stored[: self.confirmed] == self.offered[: self.confirmed]

    @invariant()
    def what_is_confirmed_is_stored(self) -> None:
        assert self.confirmed <= len(self.stored)
        assert self.confirmed == self.session.confirmed_messages

    @invariant()
    def every_message_is_somewhere_once(self) -> None:
        session = self.session
        assert session.unsent_messages + session.unconfirmed_messages + self.confirmed == len(self.offered)
        assert session.idle is (self.confirmed == len(self.offered))
        assert session.unsent_bytes >= 0

    def teardown(self) -> None:
        self.reconnect(forgetful=False)
        self.grant(10_000, 1_000_000)
        self.send(complete=True)
        while self.under_way:
            self.answer(reject=False)
        while self.unheard:
            self.hear()
        assert self.session.idle
        assert self.session.rejected_messages == len(self.rejected)
        assert self.stored == self.offered


@pytest.mark.hypothesis
def test_whatever_happens_each_message_is_stored_once_in_order() -> None:
    run_state_machine_as_test(SenderAgainstModel)
