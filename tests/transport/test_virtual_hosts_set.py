"""Virtual hosts of AMQP as they are set: what is read, how it is written again, and what is said of one that cannot be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transport.config.config import BrokerConfig
from transport.config.virtual_hosts import (
    MOST_BEGINNING_BYTES,
    MOST_VIRTUAL_HOSTS,
    check_virtual_hosts,
    parse_virtual_hosts,
    show_virtual_hosts,
)
from transport.errors import LocalProtocolError

READ = {
    "": {},
    " ": {},
    "shop": {"shop": "shop/"},
    " shop , eu = europe. ": {"shop": "shop/", "eu": "europe."},
    "prod=": {"prod": ""},
    "prod=, test=": {"prod": "", "test": ""},
    "/": {"/": ""},
    "/=main/": {"/": "main/"},
    "/=//": {"/": "//"},
    "a/b": {"a/b": "a/b/"},
    "two words=w/": {"two words": "w/"},
}


@pytest.mark.parametrize(("text", "hosts"), READ.items())
def test_a_text_is_read_and_written_so_that_it_is_read_alike(text: str, hosts: dict[str, str]) -> None:
    assert parse_virtual_hosts(text) == hosts
    assert parse_virtual_hosts(show_virtual_hosts(hosts)) == hosts


NAMES = st.text(
    st.characters(min_codepoint=33, exclude_characters=",=*", categories=["L", "N", "P", "S"]), min_size=1, max_size=9
)


@given(hosts=st.dictionaries(NAMES, NAMES | st.just(""), max_size=6))
def test_whatever_can_be_set_is_written_so_that_it_is_read_alike(hosts: dict[str, str]) -> None:
    try:
        check_virtual_hosts(hosts)
    except LocalProtocolError:
        return
    assert parse_virtual_hosts(show_virtual_hosts(hosts)) == hosts


WRONG = {
    ",": "a virtual host has no name",
    "shop,": "a virtual host has no name",
    "=shop/": "a virtual host has no name",
    "shop, shop": "the virtual host 'shop' stands there twice",
    "two words": "names in virtual host 'two words' cannot begin with 'two words/'",
    "shop=a*": "names in virtual host 'shop' cannot begin with 'a\\*'",
    "shop=amq.": "names in virtual host 'shop' cannot begin with 'amq.'",
    "shop=a, eu=a/b": "the names of virtual host 'eu' begin with 'a/b', and so with 'a', as those of 'shop' do",
    "shop=a, eu=a": "begin with 'a', and so with 'a'",
    "a\tb=c": "cannot be the name of a virtual host",
    "x" * 256: "cannot be the name of a virtual host",
    "x" * MOST_BEGINNING_BYTES: f"{MOST_BEGINNING_BYTES + 1} bytes, more than MOST_BEGINNING_BYTES",
    ",".join(f"v{number}" for number in range(MOST_VIRTUAL_HOSTS + 1)): "exceed MOST_VIRTUAL_HOSTS of 1000",
}


@pytest.mark.parametrize(("text", "why"), WRONG.items(), ids=map(str, range(len(WRONG))))
def test_what_cannot_be_is_refused_with_a_word_why(text: str, why: str) -> None:
    with pytest.raises((ValueError, LocalProtocolError), match=why):
        parse_virtual_hosts(text)


def test_a_program_gives_them_as_a_mapping_which_is_judged_too() -> None:
    assert BrokerConfig(amqp_virtual_hosts={"shop": "s."}).amqp_virtual_hosts == {"shop": "s."}
    with pytest.raises(LocalProtocolError, match="cannot begin with"):
        BrokerConfig(amqp_virtual_hosts={"shop": "a b"})
