"""Processes of the command line that declare exchanges and bindings, list them, and say where a message would go."""

from __future__ import annotations

import json
import re
from itertools import count

import pytest

from tests.transport.programs import BrokerProcess
from transport.cli._completion_names import exchange_names

_names = count()


@pytest.fixture
def exchange(broker: BrokerProcess) -> str:
    """A topic exchange."""
    name = f"exchange-{next(_names)}"
    told = broker.run("exchange create", name, "--kind", "topic")
    assert told == (0, f"exchange {name} created at {broker.sending}\n".encode(), "")
    return name


def made(broker: BrokerProcess, queue: str) -> str:
    assert broker.run("queue create", queue)[0] == 0
    return queue


def test_an_exchange_that_is_there_is_left_and_one_that_is_another_is_refused(
    broker: BrokerProcess, exchange: str
) -> None:
    again = broker.run("exchange create", exchange, "--kind", "topic")
    assert again == (0, f"exchange {exchange} is there already at {broker.sending}\n".encode(), "")
    code, out, err = broker.run("exchange create", exchange, "--kind", "fanout")
    assert (code, out) == (1, b"")
    assert "is there with kind 'topic', and is declared with 'fanout'" in err
    assert err.count("\n") == 1


def test_an_exchange_that_has_messages_wait_is_shown_with_its_kind_and_how_many_do(broker: BrokerProcess) -> None:
    name = f"later-{next(_names)}"
    declare = ("exchange create", name, "--kind", "topic", "--delayed")
    assert broker.run(*declare) == (0, f"exchange {name} created at {broker.sending}\n".encode(), "")
    assert "is there already" in broker.run(*declare)[1].decode()
    code, _, err = broker.run("exchange create", name, "--kind", "topic")
    assert (code, "is there with kind 'x-delayed-message'" in err) == (1, True)
    code, _, err = broker.run("exchange create", name, "--kind", "direct", "--delayed")
    assert (code, "is there with x-delayed-type 'topic', and is declared with 'direct'" in err) == (1, True)
    assert broker.run("send", "--exchange", name, "--routing-key", "a.b", "--delay", "1h", stdin=b"m")[0] == 0
    lines = [line.split() for line in broker.run("exchange show", name)[1].decode().splitlines()]
    assert ["kind", "topic"] in lines
    assert ["delayed", "yes"] in lines
    assert ["waiting", "1"] in lines
    (row,) = [line for line in broker.run("exchange list")[1].decode().splitlines() if line.startswith(name)]
    assert "x-delayed-message  delays topic" in row
    assert f"{name} delayed" not in broker.run("queue list")[1].decode()
    made(broker, f"{name}-q")
    assert broker.run("binding create", name, f"{name}-q", "a.*")[0] == 0
    route = broker.run("exchange route", name, "a.b", "--header", "x-delay=5")
    assert route == (0, f"{name}-q\n".encode(), "")


def test_what_is_declared_of_an_exchange_is_listed(broker: BrokerProcess) -> None:
    flags = ("--not-durable", "--auto-delete", "--internal", "--alternate", "amq.fanout")
    assert broker.run("exchange create", "flagged", "--kind", "headers", *flags)[0] == 0
    found = {row["name"]: row for row in json.loads(broker.run("exchange list", "--json")[1])}
    assert found["flagged"] | {"published": 0} == {
        "name": "flagged",
        "kind": "headers",
        "durable": False,
        "auto_delete": True,
        "internal": True,
        "arguments": {"alternate-exchange": "amq.fanout"},
        "bindings": 0,
        "published": 0,
        "unroutable": 0,
        "returned": 0,
        "waiting": 0,
    }
    lines = broker.run("exchange list")[1].decode().splitlines()
    assert lines[3].split() == ["(default)", "direct", "-", "0", "0", "0"]
    (row,) = [line for line in lines if line.startswith("flagged")]
    assert "not durable, auto-delete, internal, alternate amq.fanout" in row
    (row,) = [line for line in broker.run("exchange list", "--wide")[1].decode().splitlines() if "flagged" in line]
    assert row.split() == ["flagged", "headers", "no", "yes", "yes", *"00000", "alternate-exchange=amq.fanout"]


def test_a_binding_leads_where_it_says_and_is_deleted_as_it_was_created(
    broker: BrokerProcess, exchange: str, queue: str
) -> None:
    made(broker, queue)
    said = f"from exchange {exchange} to queue {queue} by eu.*"
    told = broker.run("binding create", exchange, queue, "eu.*")
    assert told == (0, f"binding {said} created at {broker.sending}\n".encode(), "")
    told = broker.run("binding create", exchange, queue, "eu.*")
    assert told == (0, f"binding {said} is there already at {broker.sending}\n".encode(), "")
    assert broker.run("exchange route", exchange, "eu.tea") == (0, f"{queue}\n".encode(), "")
    assert json.loads(broker.run("exchange route", exchange, "eu.tea", "--json")[1]) == [queue]
    none = f"penstock exchange route: no queue gets that: exchange {exchange} would drop it\n"
    assert broker.run("exchange route", exchange, "us.tea") == (0, b"", none)
    told = broker.run("binding delete", exchange, queue, "eu.*")
    assert told == (0, f"binding {said} deleted at {broker.sending}\n".encode(), "")
    told = broker.run("binding delete", exchange, queue, "eu.*")
    nothing = f"nothing to delete: there is no binding {said}; `penstock binding list` shows what there is\n"
    assert told == (0, nothing.encode(), "")
    assert broker.run("exchange route", exchange, "eu.tea")[1] == b""


def test_headers_and_how_many_of_them_decide_where_a_message_goes(broker: BrokerProcess, queue: str) -> None:
    made(broker, queue)
    given = ("--argument", "kind=tea", "--argument", "size=x=l")
    assert broker.run("binding create", "amq.headers", queue, *given)[0] == 0
    route = ("amq.headers", "", "--header", "kind=tea")
    assert broker.run("exchange route", *route)[1] == b""
    assert broker.run("exchange route", *route, "--header", "size=x=l")[1] == f"{queue}\n".encode()
    assert broker.run("binding create", "amq.headers", queue, *given, "--match", "any")[0] == 0
    assert broker.run("exchange route", *route)[1] == f"{queue}\n".encode()
    rows = broker.run("binding list", "--queue", queue)[1].decode().splitlines()
    assert rows[0] == "2 bindings"
    assert [row.rpartition("  ")[2] for row in rows[3:5]] == [
        "kind=tea, size=x=l",
        "x-match=any, kind=tea, size=x=l",
    ]
    told = broker.run("binding delete", "amq.headers", queue, *given, "--match", "any")[1].decode()
    by = "by x-match=any, kind=tea, size=x=l"
    assert told == f"binding from exchange amq.headers to queue {queue} {by} deleted at {broker.sending}\n"
    assert f"to queue {queue}; " in broker.run("binding delete", "amq.headers", queue)[1].decode()


def test_what_receive_prints_of_an_exchange_is_published_again_by_the_same_key(
    broker: BrokerProcess, exchange: str, queue: str
) -> None:
    assert broker.run("binding create", exchange, made(broker, queue), "eu.*")[0] == 0
    sent = broker.run("send", "--exchange", exchange, "--routing-key", "eu.tea", "--quiet", stdin=b"tea\n")
    assert sent == (0, b"", "")
    code, line, _ = broker.run("receive", "--queue", queue, "--count", "1", "--jsonl")
    assert code == 0
    again = broker.run("send", "--exchange", exchange, "--mandatory", "--jsonl", "--quiet", stdin=line)
    assert again == (0, b"", "")
    assert broker.run("receive", "--queue", queue, "--count", "1", "--quiet") == (0, b"tea\n", "")


def test_stats_has_a_line_of_what_exchanges_did(broker: BrokerProcess, exchange: str, queue: str) -> None:
    made(broker, queue)
    assert broker.run("binding create", exchange, queue, "#")[0] == 0
    sent = broker.run("send", "--exchange", exchange, "--routing-key", "a", stdin=b"1\n2\n3\n")
    assert sent[0] == 0, sent
    sums = json.loads(broker.run("stats", "--json")[1])["exchanges"]
    assert sums["exchanges"] > 0 < sums["bindings"]
    assert sums["published"] >= 3
    (line,) = [each for each in broker.run("stats")[1].decode().splitlines() if " published, " in each]
    assert [int(figure) for figure in re.findall(r"\d+", line)] == [
        figure for each, figure in sums.items() if each != "waiting" or figure
    ]


def test_one_exchange_leads_to_another_and_both_ends_are_shown(
    broker: BrokerProcess, exchange: str, queue: str
) -> None:
    made(broker, queue)
    inner = f"{exchange}.inner"
    assert broker.run("exchange create", inner, "--kind", "fanout", "--internal")[0] == 0
    assert broker.run("binding create", exchange, inner, "#", "--to-exchange")[0] == 0
    assert broker.run("binding create", inner, queue)[0] == 0
    assert broker.run("exchange route", exchange, "any.thing")[1] == f"{queue}\n".encode()
    code, out, err = broker.run("exchange show", inner)
    assert (code, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.decode().splitlines() if line and not set(line) <= {"─"}]
    assert lines == [
        f"exchange {inner}",
        "kind fanout",
        "durable yes",
        "auto-delete no",
        "internal yes",
        "published 0",
        "unroutable 0",
        "returned 0",
        "1 binding",
        "to name key arguments",
        f"queue {queue} - -",
        "1 binding leads to it",
        "exchange key arguments",
        f"{exchange} # -",
    ]
    rows = broker.run("binding list", "--exchange", exchange, "--wide")[1].decode().splitlines()
    assert rows[3].split() == [exchange, "exchange", inner, "#", "-", "yes"]
    seen = json.loads(broker.run("exchange show", exchange, "--json")[1])
    assert (seen["exchange"]["name"], seen["bindings"][0]["destination"], seen["bound_to"]) == (exchange, inner, [])


def test_an_exchange_with_bindings_is_deleted_with_them_but_not_if_it_is_to_be_unused(
    broker: BrokerProcess, exchange: str, queue: str
) -> None:
    made(broker, queue)
    assert broker.run("binding create", exchange, queue, "#")[0] == 0
    code, _, err = broker.run("exchange delete", exchange, "--if-unused")
    assert (code, "in-use" in err, err.count("\n")) == (1, True, 1)
    told = broker.run("exchange delete", exchange)
    assert told == (0, f"exchange {exchange} deleted at {broker.sending}\n".encode(), "")
    assert broker.run("binding list", "--queue", queue)[1] == b"0 bindings\n\n"


def test_the_default_exchange_is_shown_and_routes_by_the_name_of_a_queue(broker: BrokerProcess, queue: str) -> None:
    made(broker, queue)
    assert broker.run("exchange route", "", queue)[1] == f"{queue}\n".encode()
    assert "exchange (default) would drop it" in broker.run("exchange route", "", f"{queue}-not")[2]
    out = broker.run("exchange show", "")[1].decode()
    assert out.startswith("exchange (default)\n")
    assert "every queue is bound to it by its name" in out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["exchange show", "none"], "there is no exchange 'none'; `penstock exchange list` shows what there is"),
        (["exchange delete", "none"], "there is, and `penstock exchange create` makes one"),
        (["exchange route", "none", "k"], "`penstock exchange list` shows what there is"),
        (["binding create", "none", "none"], "`penstock exchange list` shows what there is"),
        (["binding create", "amq.topic", "none"], "that could be bound; `penstock queue list` shows what there is"),
        (["exchange create", "amq.mine"], "which the broker keeps for itself: use another name"),
        (["exchange delete", "amq.topic"], "cannot be deleted: unbind what is bound to it"),
    ],
)
def test_a_refusal_is_one_line_that_says_what_to_do(broker: BrokerProcess, words: list[str], text: str) -> None:
    code, out, err = broker.run(*words)
    assert (code, out) == (1, b"")
    assert text in err
    assert err.count("\n") == 1
    assert "user grant" not in err


def test_a_shell_is_offered_exchanges_but_the_default_one_and_those_that_it_would_act_on(
    broker: BrokerProcess, exchange: str
) -> None:
    assert broker.run("exchange create", "$(touch-x)")[0] == 0
    names = exchange_names({"address": broker.sending})
    assert {exchange, "amq.topic"} <= set(names)
    assert not {"", "$(touch-x)"} & set(names)


def test_what_is_sent_to_an_exchange_is_in_each_queue_that_is_bound_to_it(
    broker: BrokerProcess, exchange: str, queue: str
) -> None:
    for each in (made(broker, queue), made(broker, f"{queue}.all")):
        assert broker.run("binding create", exchange, each, "#" if each.endswith("all") else "eu.*")[0] == 0
    code, out, err = broker.run("send", "--exchange", exchange, "--routing-key", "eu.tea", stdin=b"a\nb\n")
    assert (code, out) == (0, b"")
    assert err.startswith(f"penstock send: 2 messages confirmed by exchange {exchange} at {broker.sending}, 2 B in ")
    lines = b'{"payload":"c","key":"us.soup"}\n{"payload":"d"}\n'
    assert broker.run("send", "--exchange", exchange, "--routing-key", "eu.d", "--jsonl", stdin=lines)[0] == 0
    assert broker.run("send", "--exchange", exchange, "--key", "eu.e", stdin=b"e\n")[0] == 0
    assert broker.run("receive", "--queue", queue, "--count", "4")[:2] == (0, b"a\nb\nd\ne\n")
    assert broker.run("receive", "--queue", f"{queue}.all", "--count", "5")[:2] == (0, b"a\nb\nc\nd\ne\n")
    assert broker.run("send", "--exchange", "", "--key", queue, stdin=b"f\n")[0] == 0
    assert broker.run("receive", "--queue", queue, "--count", "1")[:2] == (0, b"f\n")


def test_what_no_queue_takes_is_dropped_in_silence_unless_it_is_mandatory(
    broker: BrokerProcess, exchange: str, queue: str
) -> None:
    assert broker.run("binding create", exchange, made(broker, queue), "eu.*")[0] == 0
    lines = b"".join(b'{"payload":"x","key":"%s"}\n' % key for key in (b"eu.tea", b"us.tea", b"us.tea", b"us.soup"))
    assert broker.run("send", "--exchange", exchange, "--jsonl", stdin=lines)[0] == 0
    code, out, err = broker.run("send", "--exchange", exchange, "--jsonl", "--mandatory", stdin=lines)
    assert (code, out) == (1, b"")
    reason = f"no queue is bound to exchange '{exchange}' that takes the routing key 'us.tea'"
    *told, summary = err.splitlines()
    assert told == [
        f"penstock send: message 2, key us.tea, came back: {reason}",
        f"penstock send: message 3, key us.tea, came back: {reason}",
        "penstock send: message 4, key us.soup, came back too",
    ]
    assert summary.startswith(f"penstock send: 4 messages confirmed by exchange {exchange} at ")
    assert summary.endswith("; 3 of them came back, for no queue took them")
    code, out, err = broker.run("send", "--exchange", exchange, "--mandatory", "--quiet", stdin=b"x\n")
    assert (code, err.count("\n")) == (1, 1)
    assert err.startswith("penstock send: message 1 came back: ")


def test_of_very_many_that_come_back_ten_are_named_and_the_others_counted(broker: BrokerProcess, exchange: str) -> None:
    code, _, err = broker.run("send", "--exchange", exchange, "--mandatory", stdin=b"x\n" * 5000)
    assert code == 1
    *told, rest, summary = err.splitlines()
    assert [line.split()[3] for line in told] == [str(number) for number in range(1, 11)]
    assert rest == "penstock send: 4,990 more came back"
    assert summary.endswith("; 5,000 of them came back, for no queue took them")


def test_an_exchange_that_there_is_not_and_a_full_queue_behind_one_are_told(
    broker: BrokerProcess, exchange: str, queue: str
) -> None:
    code, _, err = broker.run("send", "--exchange", "none", stdin=b"x\n")
    assert (code, err.count("\n")) == (1, 1)
    assert "there is no exchange 'none'; `penstock exchange list` shows what there is" in err
    assert broker.run("queue create", queue, "--max-messages", "1", "--overflow", "reject")[0] == 0
    assert broker.run("binding create", exchange, queue, "#")[0] == 0
    code, _, err = broker.run("send", "--exchange", exchange, stdin=b"x\n" * 10)
    assert (code, "or `penstock queue alter QUEUE --max-messages N`" in err) == (1, True)
    assert f"than queue '{queue}' may hold" in err


def test_a_receiver_of_an_exchange_has_its_queue_bound_and_gets_what_is_published_from_then_on(
    broker: BrokerProcess, exchange: str, queue: str
) -> None:
    binding = ("--queue", queue, "--exchange", exchange, "--binding-key", "eu.*", "--binding-key", "us.*")
    assert broker.run("receive", *binding, "--idle-exit", "100ms", "--quiet")[:2] == (0, b"")
    for key in ("eu.tea", "asia.tea", "us.tea"):
        assert broker.run("send --exchange", exchange, "--routing-key", key, "--quiet", stdin=key.encode())[0] == 0
    code, out, err = broker.run("receive", *binding, "--count", "2")
    assert (code, out) == (0, b"eu.tea\nus.tea\n")
    assert f"received from queue {queue}" in err


def test_a_receiver_of_an_exchange_without_a_queue_has_one_of_its_own_that_goes_with_it(
    broker: BrokerProcess, exchange: str
) -> None:
    code, out, err = broker.run("receive", "--exchange", exchange, "--binding-key", "#", "--idle-exit", "100ms")
    assert (code, out) == (0, b"")
    assert f"0 messages (0 B) received from exchange {exchange} at" in err
    rows = json.loads(broker.run("binding list --exchange", exchange, "--json")[1])
    assert rows == []
