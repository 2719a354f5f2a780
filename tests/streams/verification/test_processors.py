"""The rules for processors, over every operator in the form that lets everything through."""

from __future__ import annotations

import pytest

from streams import Processor
from streams.testkit.verification import IdentityProcessorVerification
from tests.streams.catalogue import every
from tests.streams.catalogue.case import FlowCase
from tests.streams.verification.runs import Runs


class TestFlowsAsProcessors(Runs, IdentityProcessorVerification[int]):
    case: FlowCase

    test_untested_spec202_signals_are_dispatched_asynchronously_where_they_take_long = None

    @pytest.fixture(autouse=True, params=[case for case in every.flows() if case.identity], ids=lambda case: case.name)
    def _case(self, request: pytest.FixtureRequest) -> None:
        self.case = request.param

    def create_processor(self, buffer_size: int) -> Processor[int, int]:
        assert self.case.identity is not None
        return self.processor_of(self.case.identity())

    def create_element(self, n: int) -> int:
        return n
