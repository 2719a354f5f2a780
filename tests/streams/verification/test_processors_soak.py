"""Every flow as a processor, by all rules at once. The suite verifies the same flows by each rule once: as publishers, as subscribers,
and by what only a processor has.
"""

from __future__ import annotations

import pytest

from tests.streams.catalogue.case import FlowCase
from tests.streams.verification.runs import verify_each_rule
from tests.streams.verification.test_processors import WITH_IDENTITY, _Flows


@pytest.mark.soak
@pytest.mark.parametrize("case", WITH_IDENTITY, ids=lambda case: case.name)
def test_a_flow_as_a_processor_keeps_all_rules(case: FlowCase) -> None:
    verify_each_rule(_Flows, case)
