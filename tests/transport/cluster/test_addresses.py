"""What is written for ``--cluster``: both forms, and the one error of each mistake."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transport.cluster.addresses import EtcdAddress, EtcdTls, Machine, OwnEtcd, parse_cluster
from transport.errors import LocalProtocolError
from transport.wire.address import Address


def test_an_etcd_that_runs_already_is_named_by_its_endpoints_and_the_cluster() -> None:
    parsed = parse_cluster("etcd://a:2379,b:2400,[::1]/orders", "a")
    assert parsed == EtcdAddress("orders", (Address("a", 2379), Address("b", 2400), Address("::1", 2379)))
    assert parsed.key == "/penstock/orders/cluster"


def test_tls_is_a_scheme_and_its_files_stand_behind_the_name() -> None:
    assert parse_cluster("etcds://a/orders") == EtcdAddress("orders", (Address("a", 2379),), EtcdTls())
    parsed = parse_cluster(
        "etcds://a/orders?ca=/etc/ca%26.pem&certificate=c.pem&key=k.pem&user=penstock&password-file=p"
    )
    assert parsed == EtcdAddress(
        "orders", (Address("a", 2379),), EtcdTls("/etc/ca&.pem", "c.pem", "k.pem"), "penstock", "p"
    )


def test_a_password_goes_over_loopback_without_tls() -> None:
    parsed = parse_cluster("etcd://127.0.0.1,localhost/orders?user=u&password-file=p")
    assert isinstance(parsed, EtcdAddress)
    assert (parsed.user, parsed.password_file, parsed.tls) == ("u", "p", None)


def test_machines_that_run_their_etcd_are_listed_by_node() -> None:
    parsed = parse_cluster("a=10.0.0.1,b=10.0.0.2:3000,c=[fe80::1]", "b")
    assert isinstance(parsed, OwnEtcd)
    assert (parsed.name, parsed.node) == ("penstock", "b")
    assert parsed.machines == {
        "a": Machine(Address("10.0.0.1", 2379), Address("10.0.0.1", 2380)),
        "b": Machine(Address("10.0.0.2", 3000), Address("10.0.0.2", 3001)),
        "c": Machine(Address("fe80::1", 2379), Address("fe80::1", 2380)),
    }
    # Its own is asked first.
    assert parsed.register.endpoints == (
        Address("10.0.0.2", 3000),
        Address("10.0.0.1", 2379),
        Address("fe80::1", 2379),
    )


def test_machines_may_name_the_cluster_and_have_files_of_tls() -> None:
    parsed = parse_cluster("a=x/orders?ca=1&certificate=2&key=3", "a")
    assert isinstance(parsed, OwnEtcd)
    assert (parsed.name, parsed.tls) == ("orders", EtcdTls("1", "2", "3"))
    assert parsed.register.tls == parsed.tls


@pytest.mark.parametrize(
    ("text", "node", "error"),
    [
        ("", None, "lists no host: write etcd://a:2379,b:2379,c:2379/orders, or a=HOST,b=HOST,c=HOST"),
        ("http://a:2379/orders", None, "begins with 'http', and has to be etcd:// or etcds://"),
        ("etcd://a:2379", None, "names no cluster: write its name behind the endpoints, as in etcd://a:2379/orders"),
        ("etcd://a:2379/", None, "names no cluster"),
        ("etcd:///orders", None, "lists no host"),
        ("etcd://a:2379/orders/today", None, "the name 'orders/today', and a name has no '/'"),
        ("etcd://a:2379/-orders", None, "the cluster's name is '-orders', and has to be 1-63 letters"),
        ("etcd://a:2379/orders#x", None, "the cluster's name is 'orders#x'"),
        ("etcd://a:2379/orders", "a b", "--node is 'a b', and has to be 1-63 letters"),
        ("etcd://a,,b/orders", None, "an empty place between its commas"),
        ("etcd://a,b:2379,a/orders", None, "the endpoint a:2379 twice"),
        ("etcd://a#b/orders", None, "'a#b' is no host"),
        ("etcd://a:" + "1" * 5_000 + "/orders", None, "is not host:port with a port of 0-65535"),
        ("etcd://a:0/orders", None, "a:0 has port 0"),
        ("etcd://a:99999/orders", None, "is not host:port with a port of 0-65535"),
        ("etcd://::1/orders", None, "has several colons; write an IPv6 host in brackets"),
        ("etcd://" + "a," * 16 + "b/orders", None, "has 17 endpoints, and can have 16"),
        ("etcd://penstock:secret@a/orders", None, "Write .user=NAME&password-file=FILE behind"),
        ("etcd://a/orders?timeout=3", None, "has 'timeout' behind the '.', and can have ca, certificate, key, user"),
        ("etcd://a/orders?ca", None, "has 'ca' behind the '.', and has to have name=value"),
        ("etcds://a/orders?ca=", None, "has ca with no value"),
        ("etcds://a/orders?ca=1&ca=2", None, "has ca twice"),
        ("etcd://a/orders?ca=1", None, "has files of TLS: write etcds://"),
        ("etcds://a/orders?key=1", None, "has a key and no certificate"),
        ("etcds://a/orders?user=u", None, "one of user and password-file without the other"),
        ("etcd://a/orders?user=u&password-file=p", None, "its password could be read on the way: write etcds://"),
        ("etcd://a b/orders", None, "has white space"),
        ("e" * 9_000, None, "has 9000 characters, and can have 8192"),
        ("a", "a", "'a' is neither etcd://HOST:PORT,.../NAME nor a list of NODE=HOST"),
        ("a=x,b", "a", "'b' is neither"),
        ("a=x", None, "say by --node which this one is, a"),
        ("a=x,b=y,c=z", "d", "--node 'd' is not in --cluster: there are a, b, c"),
        ("a=x,a=y,c=z", "a", "has the node 'a' twice"),
        ("=x", "a", "a node is '', and has to be 1-63 letters"),
        ("a=", "a", "an empty place between its commas"),
        ("a=x:65535", "a", "leaves no port behind it"),
        ("a=x,b=y", "a", "has 2 machines: .* list an odd number, at most 7; others can join by etcd://"),
        (",".join(f"n{n}=h{n}" for n in range(9)), "n0", "has 9 machines"),
        ("a=x,b=x,c=y", "a", "the nodes 'a' and 'b' would both listen on x:2379"),
        ("a=x,b=x:2380,c=y", "a", "the nodes 'a' and 'b' would both listen on x:2380"),
        ("a=x?user=u", "a", "has user, which is for an etcd that runs already"),
        ("a=x?ca=1", "a", "needs ca, certificate and key, all three"),
    ],
)
def test_each_mistake_has_its_error(text: str, node: str | None, error: str) -> None:
    with pytest.raises(LocalProtocolError, match=error) as raised:
        parse_cluster(text, node)
    assert "secret" not in str(raised.value)
    assert len(str(raised.value)) < 400


@given(st.text("abc=:/,?&@[].1 \n", max_size=40) | st.text(max_size=40), st.none() | st.text("abc", max_size=2))
def test_whatever_is_written_is_taken_or_refused_with_one_error(text: str, node: str | None) -> None:
    for beginning in ("", "etcd://", "a="):
        try:
            parsed = parse_cluster(beginning + text, node)
        except LocalProtocolError:
            continue
        assert parsed.name
        assert isinstance(parsed, EtcdAddress) or parsed.node in parsed.machines
