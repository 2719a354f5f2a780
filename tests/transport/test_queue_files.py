"""Declarations of queues as files: what is exported is what is imported, and nothing is changed before everything is checked."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from transport import Administration
from transport.cli import _declarations as declarations
from transport.cli._declarations import JSON, TOML, declarations_of, dump, load
from transport.cli.app import app
from transport.config.settings_file import SettingsError, parse_settings
from transport.config.settings_sources import SettingsFile, resolve

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40).filter(
    lambda name: name.isprintable() and " " not in name and len(name.encode()) <= 250
)
TIMES = st.integers(1, 40_000_000).map(lambda milliseconds: milliseconds / 1000)
SETTINGS = st.fixed_dictionaries(
    {
        "max_messages": st.integers(1, 10**12) | st.just(inf),
        "max_bytes": st.integers(1, 2**50) | st.just(inf),
        "visibility_timeout": TIMES,
        "overflow": st.sampled_from(["block", "reject"]),
        "max_receives": st.none() | st.integers(1, 1000),
        "dead_letter_queue": st.none() | NAMES.map(lambda name: name + ".dead"),
        "delay": st.just(0.0) | TIMES,
        "ttl": st.none() | TIMES,
        "exclusive": st.booleans(),
        "max_staged_messages": st.integers(1, 10**12),
        "max_staged_bytes": st.integers(1, 2**50),
        "durable": st.booleans(),
    }
)
DECLARED = st.dictionaries(NAMES, SETTINGS, max_size=4)


@given(DECLARED, st.sampled_from([TOML, JSON]))
def test_what_is_written_is_read_as_it_was(declared: dict[str, dict[str, Any]], form: str) -> None:
    text = dump(declarations_of([{"name": name} | settings for name, settings in declared.items()]), form)
    again = load(text.encode(), "file", form)
    assert again == declared
    assert dump(dict(sorted(again.items())), form) == text


@given(st.binary(max_size=200), st.sampled_from([TOML, JSON]))
def test_any_bytes_are_declarations_or_a_clear_refusal(data: bytes, form: str) -> None:
    refused: SettingsError | None = None
    try:
        load(data, "file", form)
    except SettingsError as error:
        refused = error
    assert refused is None or all(problem.startswith("file") for problem in refused.problems)


def test_a_broker_takes_an_export_in_at_its_start() -> None:
    settings = {"max_messages": 7, "max_receives": 3, "dead_letter_queue": None, "ttl": 86_400.0}
    text = dump({"orders.eu": settings}, TOML)
    file = SettingsFile(Path("export.toml"), tuple(parse_settings(text.encode(), "export.toml")))
    taken = resolve({}, {}, file).config.queues["orders.eu"]
    assert {key: getattr(taken, key) for key in settings} == settings


@pytest.mark.parametrize(
    ("text", "form", "problem"),
    [
        ("[broker]\n", TOML, "file:1: broker is no declaration of a queue"),
        ("[queues.a]\nttll = 5\n", TOML, "file:2: unknown key queues.a.ttll; did you mean ttl?"),
        ("[queues.a]\nttl = 'soon'\n", TOML, "file:2: queues.a.ttl: 'soon' is no duration"),
        ("[queues.'two words']\n", TOML, "white space"),
        ("[queues.a", TOML, "file:1: "),
        ('{"queues": {"a": {"ttl": null}}}', JSON, "queues.a.ttl: null is no value"),
        ('{"queues": {"a": {}, "a": {}}}', JSON, "'a' stands twice in one object"),
        ("[]", JSON, "is no JSON object"),
        ("{" * 100_000, JSON, "is no JSON"),
        ('{"queues": {"a": {"max_messages": [1]}}}', JSON, "[1] is not a whole number"),
    ],
)
def test_a_file_that_cannot_be_is_refused_with_its_place(text: str, form: str, problem: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(text.encode(), "file", form)
    assert problem in str(caught.value)


def test_a_file_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declarations, "MAX_FILE_BYTES", 10)
    with pytest.raises(SettingsError, match="larger than 10 bytes"):
        load(b"#" * 11, "file", TOML)


# Over a broker


async def penstock(address: str, *words: str, stdin: str = "") -> Result:
    command = [*words, "--address", address]
    environment = {"COLUMNS": "80", "TERM": "dumb", "NO_COLOR": "1"}
    return await asyncio.to_thread(lambda: CliRunner().invoke(app, command, input=stdin, env=environment))


def test_an_export_that_fails_leaves_the_file_of_before_and_nothing_beside_it(
    run: Any, serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> int:
        with path.open("wb") as file:
            file.write(data[:5])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            await administration.create_queue("orders", 5)
            file, there = tmp_path / "queues.toml", tmp_path / "there.toml"
            there.symlink_to(file)
            file.write_text("before", "utf-8")
            file.chmod(0o600)
            # What another export is writing at the time.
            (tmp_path / "queues.toml.partial").write_text("another's", "utf-8")
            with monkeypatch.context() as patch:
                patch.setattr(Path, "write_bytes", full)
                failed = await penstock(broker.send_address, "queue", "export", str(there))
            assert failed.exit_code != 0
            assert "No space left on device" in failed.stderr
            assert file.read_text("utf-8") == "before"
            assert (await penstock(broker.send_address, "queue", "export", str(there))).exit_code == 0
            assert "orders" in file.read_text("utf-8")
            assert there.is_symlink()
            assert file.stat().st_mode & 0o777 == 0o600
            assert sorted(os.listdir(tmp_path)) == ["queues.toml", "queues.toml.partial", "there.toml"]
            assert (tmp_path / "queues.toml.partial").read_text("utf-8") == "another's"

    run(main)


def test_an_export_to_a_link_that_leads_to_itself_is_one_line_and_leaves_it(
    run: Any, serve: Any, tmp_path: Path
) -> None:
    async def main() -> None:
        async with serve() as broker:
            loop = tmp_path / "loop"
            loop.symlink_to(loop)
            failed = await penstock(broker.send_address, "queue", "export", str(loop))
            assert failed.exit_code == 1
            assert failed.stderr == f"penstock queue export: {loop}: Too many levels of symbolic links\n"
            assert os.listdir(tmp_path) == ["loop"]

    run(main)


def test_an_export_that_is_imported_elsewhere_is_exported_as_the_same_file(
    run: Any, serve: Any, tmp_path: Path
) -> None:
    async def main() -> None:
        async with serve() as one, serve(max_receives=9, ttl=7.0) as other:
            async with Administration(one.send_address) as administration:
                await administration.create_queue("orders.eu", 5, ttl=1.5, max_receives=3, dead_letter_queue="😀")
                await administration.create_queue('"quoted"\\', exclusive=True)
            for name in ("a.toml", "a.json"):
                first, second = tmp_path / name, tmp_path / f"again-{name}"
                exported = await penstock(one.send_address, "queue", "export", str(first))
                assert (exported.exit_code, exported.stderr) == (0, "penstock queue export: 2 queues exported\n")
                imported = await penstock(other.send_address, "queue", "import", str(first))
                assert imported.exit_code == 0, imported.stderr
                assert (await penstock(other.send_address, "queue", "export", str(second))).exit_code == 0
                assert second.read_text("utf-8") == first.read_text("utf-8")
            assert imported.stdout.splitlines() == ['queue "quoted"\\ unchanged', "queue orders.eu unchanged"]

    run(main)


def test_nothing_is_changed_where_anything_is_wrong(run: Any, serve: Any) -> None:
    text = "[queues.new]\n[queues.old]\nmax_messages = 7\n[queues.alone]\nexclusive = true\n"
    text += '[queues.bad]\ndead_letter_queue = "x"\ndrop_failed = true\n'

    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            await administration.create_queue("old", 5)
            await administration.create_queue("alone")
            before = await administration.queues()
            result = await penstock(broker.send_address, "queue", "import", "-", "--alter", stdin=text)
            assert result.exit_code == 1
            assert result.stdout == ""
            exclusive, bad, last = result.stderr.splitlines()
            assert "queue alone: exclusive is false, the file has true, and it cannot be altered" in exclusive
            assert "queue bad: drop_failed is set, and a place for dead letters is named" in bad
            assert last == "penstock queue import: nothing is changed, for 2 problems"
            assert [row["name"] for row in await administration.queues()] == [row["name"] for row in before]

    run(main)


def test_what_differs_is_named_and_altered_only_where_that_is_asked_for(run: Any, serve: Any) -> None:
    text = '{"queues": {"old": {"max_messages": 7}, "new": {}}}'

    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            await administration.create_queue("old", 5)
            command = (broker.send_address, "queue", "import", "-", "--format", "json")
            refused = await penstock(*command, stdin=text)
            assert (refused.exit_code, refused.stdout) == (1, "")
            assert "queue old differs: max_messages is 5, the file has 7; --alter alters it" in refused.stderr
            planned = await penstock(*command, "--alter", "--dry-run", stdin=text)
            assert planned.stdout.splitlines() == [
                "queue old would be altered: max_messages from 5 to 7",
                "queue new would be created",
            ]
            assert [row["max_messages"] for row in await administration.queues()] == [5]
            done = await penstock(*command, "--alter", stdin=text)
            assert done.stdout.splitlines() == ["queue old altered: max_messages from 5 to 7", "queue new created"]
            assert {row["name"]: row["max_messages"] for row in await administration.queues()}["old"] == 7

    run(main)


def test_no_limit_and_no_time_to_live_are_said_shown_written_and_read_as_such(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            words = ("--max-messages", "none", "--max-bytes", "none", "--ttl", "0")
            made = await penstock(broker.send_address, "queue", "create", "endless", *words)
            assert made.exit_code == 0, made.stderr
            row = await administration.queue("endless")
            assert (row["max_messages"], row["max_bytes"], row["ttl"]) == (None, None, 0.0)
            shown = (await penstock(broker.send_address, "queue", "show", "endless")).stdout
            assert "0, without a limit" in shown
            assert "max messages" in shown
            assert " none" in shown
            text = (await penstock(broker.send_address, "queue", "export")).stdout
            assert 'max_messages = "none"' in text
            assert 'ttl = "0s"' in text
            same = await penstock(broker.send_address, "queue", "import", "-", stdin=text)
            assert same.stdout == "queue endless unchanged\n", same.stderr
            altered = text.replace('"none"', "5", 2).replace('ttl = "0s"', 'ttl = "never"')
            done = await penstock(broker.send_address, "queue", "import", "-", "--alter", stdin=altered)
            assert "max_messages from none to 5" in done.stdout
            assert "ttl from 0s to never" in done.stdout
            row = await administration.queue("endless")
            assert (row["max_messages"], row["ttl"]) == (5, None)
            done = await penstock(broker.send_address, "queue", "import", "-", "--alter", stdin=text)
            assert done.exit_code == 0
            row = await administration.queue("endless")
            assert (row["max_messages"], row["ttl"]) == (None, 0.0)

    run(main)


def test_more_queues_than_there_is_room_for_are_refused_together(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve(max_queues=2) as broker, Administration(broker.send_address) as administration:
            text = "[queues.a]\n[queues.b]\n[queues.c]\n"
            result = await penstock(broker.send_address, "queue", "import", "-", stdin=text)
            assert result.exit_code == 1
            assert "the file has 3 queues that are missing, and the broker takes 2 more" in result.stderr
            assert await administration.queues() == []

    run(main)


def test_a_queue_that_nobody_declared_is_left_out_unless_all_are_asked_for(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration, peers() as clients:
            await clients.open(broker.send_address, "sender", "used", "s")
            row = await administration.queue("used")
            assert (row["declared"], row["paused"]) == (False, None)
            result = await penstock(broker.send_address, "queue", "export")
            assert (result.stdout, "1 left out that nobody declared" in result.stderr) == ("", True)
            result = await penstock(broker.send_address, "queue", "export", "--all", "--format", "json")
            assert list(json.loads(result.stdout)["queues"]) == ["used"]
            taken = await penstock(broker.send_address, "queue", "import", "-", stdin=result.stdout)
            assert taken.exit_code == 2, "JSON is no TOML"
            form = ("--format", "json")
            taken = await penstock(broker.send_address, "queue", "import", "-", *form, stdin=result.stdout)
            assert taken.stdout == "queue used declared as it is\n"
            assert (await administration.queue("used"))["declared"] is True

    run(main)


def test_a_queue_that_is_not_there_is_one_line(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            for words in (("queue", "show", "gone"), ("queue", "export", "--queue", "gone*")):
                result = await penstock(broker.send_address, *words)
                assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)

    run(main)


def test_lists_are_json_documents_with_the_figures_of_the_protocol(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            await administration.create_queue("orders", 5)
            listed = json.loads((await penstock(broker.send_address, "queue", "list", "--json")).stdout)
            there = await administration.queues()
            assert listed == there
            for noun in ("subscription", "transaction"):
                assert json.loads((await penstock(broker.send_address, noun, "list", "--json")).stdout) == []

    run(main)
