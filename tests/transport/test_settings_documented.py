"""The pages that state the settings say what the tables of the code say: names, sections, defaults and limits."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from actors.limits import MAX_TTL_SECONDS, MAX_VISIBILITY_SECONDS
from actors.queue.vocabulary.settings import ALIASES, BLOCK, MAX_RECEIVES_LIMIT, QUEUE_SETTINGS, REJECT
from transport import Administration
from transport.cli.queue import UNALTERABLE
from transport.config.config import (
    LOG_FORMATS,
    LOG_LEVELS,
    MAX_DRAIN,
    MAX_SEGMENT_BYTES,
    MAX_SYNC_INTERVAL,
    MIN_SEGMENT_BYTES,
    SYNC_POLICIES,
)
from transport.config.settings import FLAG, LEAST_SECONDS, OPTIONS, QUEUE_OPTIONS, Option, default_text
from transport.config.settings_file import SettingsFile, parse_settings
from transport.config.settings_sources import resolve
from transport.wire.arguments import DECLARED_WITH, SETTING_ARGUMENTS

DOCS = Path(__file__).resolve().parents[2] / "docs"
REFERENCE = (DOCS / "configuration.md").read_text("utf-8")
LIMITS = {
    "sync_interval": [f"at most {MAX_SYNC_INTERVAL:g} s"],
    "segment_bytes": [f"{MIN_SEGMENT_BYTES // 2**10} KiB to {MAX_SEGMENT_BYTES // 2**30} GiB"],
    "visibility_timeout": [f"at most {MAX_VISIBILITY_SECONDS / 3600:g} h", f"{LEAST_SECONDS * 1000:g} ms"],
    "delay": [f"at most {MAX_VISIBILITY_SECONDS / 3600:g} h"],
    "ttl": [f"at most {MAX_TTL_SECONDS / 86400:g} d"],
    "max_receives": [f"1 to {MAX_RECEIVES_LIMIT}"],
    "overflow": [f"`{BLOCK}`", f"`{REJECT}`"],
    "drain": [f"at most {MAX_DRAIN / 3600:g}h"],
    "log_level": [f"`{level}`" for level in LOG_LEVELS],
    "log_format": [f"`{name}`" for name in LOG_FORMATS],
    "sync": [f"`{policy}`" for policy in SYNC_POLICIES],
}
"""What a row says of a setting beside its default."""


def section(text: str, option: Option) -> str:
    """What stands under the heading of the option's section."""
    found = re.search(rf"^## \[{option.section}\].*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"[{option.section}] is not in the reference"
    return found[0]


def check_documented(text: str) -> None:
    for option in OPTIONS:
        rows = re.findall(rf"^\| `{option.key}` \|(.*)\|(.*)\|(.*)\|(.*)\|$", section(text, option), re.MULTILINE)
        assert len(rows) == 1, f"{option.path} is not in the reference"
        flag, variable, default, rest = (cell.strip() for cell in rows[0])
        assert (flag, variable) == (f"`{option.flag}`", f"`{option.variable}`"), option.path
        assert default.replace("`", "") == default_text(option), f"the default of {option.path} is another"
        for said in LIMITS.get(option.key, []):
            assert said in rest, f"{option.path} does not say {said}"


def test_the_reference_has_every_setting_with_its_names_its_default_and_its_limits() -> None:
    check_documented(REFERENCE)


@pytest.mark.parametrize(
    ("said", "instead", "found"),
    [
        ("| `sync_interval` |", "| `sync_pause` |", r"journal\.sync_interval is not in the reference"),
        ("PENSTOCK_SYNC_INTERVAL", "PENSTOCK_SYNC_PAUSE", r"journal\.sync_interval"),
        ("`4GiB`; `256MiB` in memory", "`4GiB`", r"default of queue_defaults\.max_staged_bytes is another"),
        ("at most 3660 d", "at most 365 d", r"queue_defaults\.ttl does not say at most 3660 d"),
        ("## [limits]", "## [limit]", r"\[limits\] is not in the reference"),
    ],
)
def test_a_reference_that_says_otherwise_is_found(said: str, instead: str, found: str) -> None:
    assert said in REFERENCE
    with pytest.raises(AssertionError, match=found):
        check_documented(REFERENCE.replace(said, instead))


def test_the_examples_of_the_reference_can_be_in_force() -> None:
    examples = re.findall(r"^```toml\n(.*?)^```$", REFERENCE, re.DOTALL | re.MULTILINE)
    assert examples
    for example in examples:
        file = SettingsFile(Path("penstock.toml"), tuple(parse_settings(example.encode(), "penstock.toml")))
        assert resolve({}, {}, file).config.queues != {}


def test_the_protocol_lists_the_arguments_that_declare_a_queue_and_no_others() -> None:
    words = " ".join((DOCS / "protocol.md").read_text("utf-8").split())
    found = re.search(r"`queue\.create` \(`name`, and optionally (.*?);", words)
    assert found is not None
    assert re.findall(r"`(\w+)`", re.sub(r" \([^)]*\)", "", found[1])) == [*SETTING_ARGUMENTS, DECLARED_WITH]


def test_the_page_of_the_command_line_has_every_option_of_a_queue() -> None:
    page = (DOCS / "cli.md").read_text("utf-8")
    for verb, without in (("create", set()), ("alter", UNALTERABLE)):
        found = re.search(rf"^penstock queue {verb} QUEUE (.*?)^penstock", page, re.DOTALL | re.MULTILINE)
        assert found is not None
        assert re.findall(r"\[(.*?)\]", found[1]) == [
            f"--{key.replace('_', '-')}" + ("" if option.kind is FLAG else f" {option.kind.metavar}")
            for key, option in QUEUE_OPTIONS.items()
            if key not in without
        ]


def test_administration_takes_every_setting_of_a_queue_by_its_name() -> None:
    taken = inspect.signature(Administration.create_queue).parameters
    names = [setting.name for setting in QUEUE_SETTINGS]
    assert list(taken) == ["self", "name", *names, DECLARED_WITH, *ALIASES]
    altered = inspect.signature(Administration.alter_queue).parameters
    assert list(altered) == [name for name in taken if name not in {*UNALTERABLE, DECLARED_WITH}]
