"""Addresses as text."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transport.errors import LocalProtocolError
from transport.wire.address import DEFAULT_RECEIVE_ADDRESS, DEFAULT_SEND_ADDRESS, MAX_PORT, Address, parse_address

ports = st.integers(0, MAX_PORT)
labels = st.from_regex(r"[a-z]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9182", "127.0.0.1", 9182),
        ("broker.example:0", "broker.example", 0),
        ("[::1]:65535", "::1", 65535),
        ("localhost:1", "localhost", 1),
    ],
)
def test_host_and_port_are_read(text: str, host: str, port: int) -> None:
    assert parse_address(text) == Address(host, port)


@given(st.lists(labels, min_size=1, max_size=4).map(".".join) | st.ip_addresses(v=4).map(str), ports)
def test_text_and_address_are_each_others_inverse(host: str, port: int) -> None:
    assert parse_address(str(Address(host, port))) == Address(host, port)


@given(st.ip_addresses(v=6), ports)
def test_an_ipv6_host_is_written_and_read_in_brackets(host: ipaddress.IPv6Address, port: int) -> None:
    text = str(Address(str(host), port))
    assert text == f"[{host}]:{port}"
    assert parse_address(text) == Address(str(host), port)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "broker",
        ":9182",
        "broker:",
        "broker:port",
        "broker:" + "1" * 5_000,
        "broker:-1",
        "broker:65536",
        "broker:9182x",
        "broker:\u0661\u0662",
        "[]:1",
        "broker: 1",
    ],
)
def test_what_is_no_address_is_refused_by_name(text: str) -> None:
    with pytest.raises(LocalProtocolError, match="host:port"):
        parse_address(text)


def test_an_ipv6_host_without_brackets_is_told_how_to_be_written() -> None:
    with pytest.raises(LocalProtocolError, match=r"\[::1\]:9182"):
        parse_address("::1:9182")


@given(st.text(max_size=30))
def test_any_text_is_an_address_or_our_error(text: str) -> None:
    try:
        address = parse_address(text)
    except LocalProtocolError:
        return
    assert address.host
    assert 0 <= address.port <= MAX_PORT


def test_the_default_addresses_are_those_of_the_protocol() -> None:
    assert parse_address(DEFAULT_SEND_ADDRESS) == Address("127.0.0.1", 9182)
    assert parse_address(DEFAULT_RECEIVE_ADDRESS) == Address("127.0.0.1", 9183)
