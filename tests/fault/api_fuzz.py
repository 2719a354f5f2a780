"""``python -m tests.fault.api_fuzz``: requests of every kind to every route, by schemathesis, each answer held against the description.

As an administrator and as a user without rights: what the description allows, what it forbids, and bodies of any type. A broker in a
process of its own answers none of them with a defect (500), with anything but what its description says, or with more memory than before.
Event streams never end by themselves; they are left out by name, and ``tests/transport/gateways/http/test_events.py`` has them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import tempfile
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import requests
import schemathesis
import typer
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.fault.kill_process import Broker, ReservedPort
from transport.config.units import parse_duration
from transport.gateways.http import openapi
from transport.gateways.http.gateway import ROUTES
from transport.security.principal import Grant, Right
from transport.security.users import User, Users
from transport.security.users_file import change_users
from transport.security.verifier import LEAST_ITERATIONS, Verifier

CHECKS: Final = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
"""Of schemathesis. What is not among them: that all that fits the description is taken, for rules in words say more than a schema can."""
ENDLESS: Final = frozenset(route.path for route in ROUTES if not route.ends)
EVERYTHING: Final = Right.CONFIGURE | Right.WRITE | Right.READ
ADMINISTRATOR, NOBODY = "ann", "bob"
QUEUE: Final = "orders"
ANSWER_SECONDS: Final = 30.0
MOST_GROWTH: Final = 48 * 1024 * 1024
"""Bytes that the broker's memory may grow by, behind the first tenth of a run: what it stores is bounded by its options."""
OPTIONS: Final = ("--max-queues", "100", "--max-queue-bytes", "1MiB", "--max-queue-messages", "1000")
TYPES: Final = (
    "application/json",
    "application/problem+json",
    "application/octet-stream",
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=b",
    "application/json; charset=utf-16",
    "no type",
    "",
)

_VALUES: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**20, 10**40)
    | st.floats()
    | st.text()
    | st.sampled_from(["", "\ud800", "\0", "1h", "-1s", "orders", "1" * 5000]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


def _bodies(names: tuple[str, ...]) -> st.SearchStrategy[bytes]:
    """Of any kind: JSON with the route's own names for fields and values of any type, other JSON, what is nearly JSON, and bytes."""
    fields = st.dictionaries(st.sampled_from(names or ("payload",)), _VALUES, max_size=4)
    whole = (fields | _VALUES).map(json.dumps).map(str.encode)
    cut = st.tuples(whole, st.integers(0, 40)).map(lambda both: both[0][: -both[1] or None])
    deep = st.integers(1, 60_000).map(lambda depth: b"[" * depth)
    twice = st.sampled_from(names or ("payload",)).map(lambda name: f'{{"{name}": 1, "{name}": 2}}'.encode())
    return whole | cut | deep | twice | st.binary(max_size=300)


@dataclass
class Run:
    """What a run asked and found.

    Attributes:
        statuses: how many answers had each.
        found: what must not be, each once.
        memory: bytes of the broker after each part.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    found: list[str] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)

    def violations(self) -> list[str]:
        """What must not be."""
        early = self.memory[: max(1, len(self.memory) // 10)]
        if self.memory and self.memory[-1] - max(early) > MOST_GROWTH:
            return [*self.found, f"the broker's memory grew from {max(early)} to {self.memory[-1]} bytes"]
        return self.found


class Asker:
    """One user's requests to every route.

    Args:
        address: of the broker, host:port.
        user: who asks.
        run: where it is counted.
        examples: requests of each kind and route.
        chosen: a seed; None for the same requests each time.
        described: what the answers are held against.
    """

    def __init__(self, address: str, user: str, run: Run, examples: int, chosen: int | None, described: Any) -> None:
        self._url = f"http://{address}"
        self._run = run
        self._session = requests.Session()
        self._session.headers["Authorization"] = f"Basic {b64encode(f'{user}:secret'.encode()).decode()}"
        self._headers = {"Authorization": self._session.headers["Authorization"]}
        self._seed = chosen
        self._settings = settings(
            max_examples=examples,
            deadline=None,
            database=None,
            derandomize=chosen is None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
            verbosity=Verbosity.quiet,
        )
        self._schema = schemathesis.openapi.from_dict(closed(described))
        self._user = user

    def all(self, after: Callable[[], None]) -> None:
        """Every kind of request to every route that ends."""
        for operation in self._operations():
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                if mode is GenerationMode.NEGATIVE and not (
                    operation.body or operation.path_parameters or operation.query
                ):
                    continue  # nothing can be wrong with it
                self._renew()
                self._try(
                    operation, f"{mode.value} data", lambda operation=operation, mode=mode: self._cases(operation, mode)
                )
            if operation.body:
                self._renew()
                self._try(operation, "any body", lambda operation=operation: self._any_bodies(operation))
            after()
        self._session.close()

    # Inside

    def _operations(self) -> Iterator[Any]:
        for result in self._schema.get_all_operations():
            operation = result.ok()
            if operation.path not in ENDLESS:
                yield operation

    def _renew(self) -> None:
        """Have something there to ask for; one without rights finds it there too."""
        headers = {"Authorization": f"Basic {b64encode(f'{ADMINISTRATOR}:secret'.encode()).decode()}"}
        with requests.Session() as session:
            session.headers.update(headers)
            session.delete(f"{self._url}/api/v1/queues/{QUEUE}", timeout=ANSWER_SECONDS)
            message = {"payload": "tea", "key": "k", "headers": {"a": "b", "c": {"base64": "/w=="}}}
            body = {"messages": [message, {"payload_base64": "//8="}, {"payload": "\1" * 100}]}
            answer = session.post(f"{self._url}/api/v1/queues/{QUEUE}/messages", json=body, timeout=ANSWER_SECONDS)
        assert answer.status_code == 201, answer.text

    def _try(self, operation: Any, what: str, make: Callable[[], Callable[[], None]]) -> None:
        test = make()
        if self._seed is not None:
            test = seed(self._seed)(test)
        try:
            test()
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - whatever is found is told, and the next route is asked
            self._run.found.append(f"{self._user}, {operation.label}, {what}: {'; '.join(_texts(error))}"[:4000])

    def _cases(self, operation: Any, mode: GenerationMode) -> Callable[[], None]:
        """Requests that fit the description, or do not."""

        @self._settings
        @given(operation.as_strategy(generation_mode=mode), st.booleans())
        def ask(case: Any, there: bool) -> None:
            if mode is GenerationMode.POSITIVE and there:
                for name in ("name", "queue"):
                    if name in (case.path_parameters or {}):
                        case.path_parameters[name] = QUEUE
            for place in (case.body, case.query):
                _shorten(place)
            response = case.call(
                base_url=self._url, session=self._session, headers=self._headers, timeout=ANSWER_SECONDS
            )
            self._run.statuses[response.status_code] += 1
            case.validate_response(response, checks=CHECKS)

        return ask

    def _any_bodies(self, operation: Any) -> Callable[[], None]:
        """Bodies of any kind, under any type; the answer is to be as described all the same."""
        (route,) = [each for each in ROUTES if (each.method, each.path) == (operation.method.upper(), operation.path)]
        names = {
            "name": QUEUE,
            "queue": QUEUE,
            "exchange": "e",
            "id": 999_999,
            "version": 3,
            "subscription": "s",
            "writer": "w",
            "schedule": "s",
            "member": "a",
        }
        place = self._url + operation.path.format(**names)

        @self._settings
        @given(_bodies(tuple(route.body)), st.sampled_from(TYPES))
        def ask(body: bytes, kind: str) -> None:
            headers = {"Content-Type": kind, "Accept": "*/*"}
            if b'"wait"' in body:
                return
            response = self._session.request(route.method, place, data=body, headers=headers, timeout=ANSWER_SECONDS)
            self._run.statuses[response.status_code] += 1
            case = operation.Case(
                path_parameters={key: str(value) for key, value in names.items() if f"{{{key}}}" in route.path}
            )
            case.validate_response(response, checks=CHECKS[:-1])

        return ask


def _shorten(asked: Any) -> None:
    """Where it is to wait, it waits not at all: the rest of what is asked is as it was."""
    if not isinstance(asked, dict) or "wait" not in asked:
        return
    wait = asked["wait"]
    try:
        seconds = parse_duration(wait) if isinstance(wait, str) else float(wait)
    except (TypeError, ValueError):
        return
    if not isinstance(wait, bool) and 0 <= seconds <= 60:
        asked["wait"] = type(wait)(0)


def _texts(error: BaseException) -> Iterator[str]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _texts(each)
    else:
        yield f"{type(error).__name__}: {error}"


def closed(described: Any) -> Any:
    """The description with objects of answers that have no more fields than it says: so nothing is answered that is not described."""
    if isinstance(described, list):
        return [closed(each) for each in described]
    if not isinstance(described, dict):
        return described
    found = {key: closed(value) for key, value in described.items()}
    if {"required", "properties"} <= found.keys() and found.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found


def resident(pid: int) -> int:
    """Bytes of memory that a process has, and of those that it has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    (line,) = [each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith("VmRSS")]
    return int(line.split()[1]) * 1024 + sum(resident(int(each)) for each in children)


async def fuzz(
    examples: int,
    chosen: int | None,
    directory: Path,
    users: tuple[str, ...] = (ADMINISTRATOR, NOBODY),
    described: Any = None,
) -> Run:
    """A run with so many requests of each kind and route, by each of the users; arguments as of `Asker`."""
    run = Run()
    verifier = Verifier.of("secret", LEAST_ITERATIONS)
    everybody = Users(
        [
            User(ADMINISTRATOR, verifier, Right.MONITOR | Right.ADMINISTER, (Grant("*", EVERYTHING),)),
            User(NOBODY, verifier, Right.NONE, ()),
        ]
    )
    change_users(directory / "users.toml", lambda _: everybody)
    with closing(ReservedPort()) as port:
        options = ["--data", str(directory / "data"), "--http", port.address]
        async with Broker([*options, "--users-file", str(directory / "users.toml"), *OPTIONS]) as broker:
            await broker.start()
            for user in users:
                asker = Asker(port.address, user, run, examples, chosen, described or openapi.document(ROUTES))
                await asyncio.to_thread(asker.all, lambda: run.memory.append(resident(broker.pid)))
            run.found += broker.defects
            await broker.stop()
    return run


def main(
    examples: Annotated[int, typer.Option(min=1, help="requests of each kind and route")] = 1_000,
    chosen: Annotated[int | None, typer.Option("--seed", help="the same requests each time without it")] = None,
) -> None:
    """Run it once and say what it found."""
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="penstock-api-") as folder:
        run = asyncio.run(fuzz(examples, chosen, Path(folder)))
    counted = ", ".join(f"{count} x {status}" for status, count in sorted(run.statuses.items()))
    memory = [round(each / 1e6, 1) for each in (run.memory[0], max(run.memory), run.memory[-1])]
    typer.echo(f"{run.statuses.total()} requests: {counted}; the broker had {memory} MB first, at most and last")
    for violation in run.violations():
        typer.echo(violation)
    sys.exit(1 if run.violations() else 0)


if __name__ == "__main__":
    typer.run(main)
