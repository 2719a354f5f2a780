"""The API and its description hold each other: whatever is asked, the answer is one that the description has.

The same for longer, with other requests: ``python -m tests.fault.api_fuzz``.
"""

from __future__ import annotations

import asyncio
import copy
from pathlib import Path
from typing import Any

import pytest

from tests.fault.api_fuzz import ADMINISTRATOR, ENDLESS, fuzz
from transport.gateways.http import openapi
from transport.gateways.http.gateway import ROUTES
from transport.gateways.http.problems import STATUSES

EXAMPLES = 2
"""Of each kind and route: their number is what takes the time."""


def test_whatever_is_asked_of_any_route_is_answered_as_described_and_costs_no_memory(tmp_path: Path) -> None:
    run = asyncio.run(fuzz(EXAMPLES, None, tmp_path))
    assert run.violations() == []
    assert {200, 201, 400, 403, 404} <= run.statuses.keys()


def whoami(described: Any) -> Any:
    return described["paths"]["/api/v1/whoami"]["get"]["responses"]


def without_a_field(described: Any) -> None:
    shape = whoami(described)["200"]["content"]["application/json"]["schema"]
    shape["required"].remove("proof")
    del shape["properties"]["proof"]


def with_another_type(described: Any) -> None:
    whoami(described)["200"]["content"]["application/json"]["schema"]["properties"]["user"] = {"type": "integer"}


def without_the_status(described: Any) -> None:
    del whoami(described)["200"]


def with_another_media_type(described: Any) -> None:
    content = whoami(described)["200"]["content"]
    content["text/html"] = content.pop("application/json")


@pytest.mark.parametrize(
    "spoil",
    [without_a_field, with_another_type, without_the_status, with_another_media_type],
    ids=lambda each: each.__name__,
)
def test_an_answer_that_is_not_described_is_found(tmp_path: Path, spoil: Any) -> None:
    described = copy.deepcopy(openapi.document(ROUTES))
    described["paths"] = {"/api/v1/whoami": described["paths"]["/api/v1/whoami"]}
    spoil(described)
    run = asyncio.run(fuzz(1, None, tmp_path, (ADMINISTRATOR,), described))
    assert [each for each in run.violations() if each.startswith("ann, GET /api/v1/whoami, positive data: ")]


def test_every_route_says_what_it_answers_and_only_the_stream_of_events_never_ends() -> None:
    assert [route.path for route in ROUTES if not route.answers] == []
    assert {"/api/v1/events"} == ENDLESS


def test_every_code_that_a_route_says_has_a_status() -> None:
    for route in ROUTES:
        assert openapi.codes_of(route) <= STATUSES.keys(), route.path
