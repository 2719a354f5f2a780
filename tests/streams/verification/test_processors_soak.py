"""Every flow as a processor, by all rules at once. The suite verifies the same flows by each rule once: as publishers, as subscribers,
and by what only a processor has.
"""

from __future__ import annotations

import pytest

from tests.streams.verification.test_processors import WITH_IDENTITY, _Flows


@pytest.mark.soak
class TestFlowsAsWholeProcessors(_Flows):
    @pytest.fixture(autouse=True, params=WITH_IDENTITY, ids=lambda case: case.name)
    def _case(self, request: pytest.FixtureRequest) -> None:
        self.case = request.param
