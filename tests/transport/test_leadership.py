"""A broker that does not lead its cluster, by real sockets: what each protocol's clients are told, and what those inside hear."""

from __future__ import annotations

import time
from typing import Any

import aiohttp
import pytest

from tests.transport.followers import ELSEWHERE, follower, member
from tests.transport.gateways.smq_client import Source
from transport import Administration
from transport.broker.leadership import CLUSTER_SILENCE, Leadership
from transport.wire.messages import Demand, Hello, Ping

pytestmark = pytest.mark.event_loop


@pytest.mark.parametrize(
    ("role", "queue", "at", "leader"),
    [
        ("sender", "orders", "send", "10.0.0.7:9182,leader.example:9182"),
        ("admin", None, "send", "10.0.0.7:9182,leader.example:9182"),
        ("receiver", "orders", "receive", "10.0.0.7:9183"),
        ("subscription", "orders", "receive", "10.0.0.7:9183"),
    ],
)
def test_a_follower_answers_hello_with_where_its_role_is_served(
    run: Any, peers: Any, role: str, queue: str | None, at: str, leader: str
) -> None:
    async def main() -> None:
        async with member(follower()) as broker, peers() as opened:
            peer = await opened.connect(str(broker.addresses(at)[0]))
            peer.send(Hello(1, role, queue, "c", {}))
            refusal = await peer.refusal()
            assert (refusal.code, refusal.leader) == ("not-leader", leader)
            assert "10.0.0.7" in refusal.text
            assert "orders" not in list(broker.queues), "nothing is made where nobody leads"

    run(main)


def test_a_follower_that_does_not_know_its_leader_says_so(run: Any, peers: Any) -> None:
    async def main() -> None:
        async with member(Leadership()) as broker, peers() as opened:
            peer = await opened.connect(broker.send_address)
            peer.send(Hello(1, "sender", "orders", "c", {}))
            refusal = await peer.refusal()
            assert (refusal.code, refusal.leader) == ("not-leader", "")
            assert refusal.text == "this broker does not lead its cluster; its leader is not known yet: try again soon"

    run(main)


def test_a_broker_that_is_told_to_lead_lets_in_and_one_that_leads_no_more_ends_those_inside(
    run: Any, peers: Any
) -> None:
    async def main() -> None:
        leadership = Leadership()
        async with member(leadership) as broker, peers() as opened:
            leadership.lead()
            inside = await opened.open(broker.send_address, "sender", "orders", "c")
            await inside.expect(Demand)
            leadership.follow(ELSEWHERE)
            refusal = await inside.refusal()
            assert (refusal.code, refusal.leader) == ("not-leader", "10.0.0.7:9182,leader.example:9182")
            later = await opened.connect(broker.send_address)
            later.send(Hello(1, "sender", "orders", "c", {}))
            assert (await later.refusal()).code == "not-leader"
            leadership.lead()
            await opened.open(broker.send_address, "sender", "orders", "c")

    run(main)


def test_who_has_to_prove_who_they_are_learns_nothing_of_the_leader_before(run: Any, peers: Any, tmp_path: Any) -> None:
    users = tmp_path / "users.toml"
    users.write_text("version = 1\n")
    users.chmod(0o600)

    async def main() -> None:
        async with (
            member(follower(), users_file=str(users), smq_source=None, smq_sink=None) as broker,
            peers() as opened,
        ):
            peer = await opened.connect(broker.send_address)
            peer.send(Hello(1, "sender", "orders", "c", {"token": "pst_wrong"}))
            refusal = await peer.refusal()
            assert (refusal.code, refusal.leader) == ("authentication-failed", "")

    run(main)


def test_a_broker_of_a_cluster_promises_signs_and_gives_them_and_one_that_is_alone_promises_none(
    run: Any, peers: Any, serve: Any
) -> None:
    async def main() -> None:
        leadership = Leadership(silence=0.2)
        async with member(leadership) as broker, serve() as alone, peers() as opened:
            leadership.lead()
            peer = await opened.connect(broker.send_address)
            welcome = await peer.hello("admin", None)
            assert welcome.options["silent_ms"] == 200
            assert welcome.options["heartbeat_ms"] == 5000, "its patience with clients stays"
            began = time.monotonic()
            with_pings = [await peer.raw() for _ in range(3)]
            assert all(isinstance(frame, Ping) for frame in with_pings)
            assert time.monotonic() - began < 5.0, "within the heartbeat there would be none"
            welcome = await (await opened.connect(alone.send_address)).hello("admin", None)
            assert "silent_ms" not in welcome.options

    run(main)
    assert CLUSTER_SILENCE == 2.0


def test_over_http_a_follower_answers_503_with_its_leader_and_says_that_it_lives_but_is_not_ready(run: Any) -> None:
    async def main() -> None:
        leadership = follower()
        async with member(leadership) as broker, aiohttp.ClientSession(f"http://{broker.addresses('http')[0]}") as http:
            async with http.post("/api/v1/queues/orders/messages", json={"messages": [{"payload": "x"}]}) as answer:
                problem = await answer.json(content_type=None)
                assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
                assert (problem["code"], problem["leader"]) == ("not-leader", ["10.0.0.7:9180"])
            async with http.get("/health/live") as answer:
                assert answer.status == 200
            async with http.get("/metrics") as answer:
                assert answer.status == 200
            async with http.get("/health/ready") as answer:
                assert (answer.status, (await answer.json(content_type=None))["code"]) == (503, "not-leader")
            leadership.lead()
            async with http.get("/health/ready") as answer:
                assert answer.status == 200
            async with http.post("/api/v1/queues/orders/messages", json={"messages": [{"payload": "x"}]}) as answer:
                assert answer.status == 201

    run(main)


def test_the_simple_queue_of_a_follower_takes_nothing_and_closes_as_its_protocol_says_no(run: Any) -> None:
    async def main() -> None:
        leadership = follower()
        async with member(leadership) as broker:
            source = await Source.connect(broker.addresses("smq-source")[0])
            source.say(b"x")
            assert await source.rest() == b""
            await source.close()
            leadership.lead()
            source = await Source.connect(broker.addresses("smq-source")[0])
            await source.send(b"x")
            async with Administration(broker.send_address) as administration:
                assert [row["stored_messages"] for row in await administration.queues()] == [1]
            leadership.follow(ELSEWHERE)
            assert await source.rest() == b""
            await source.close()

    run(main)
