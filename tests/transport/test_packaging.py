"""The unit and the container file name what there is: verbs, options, settings, folders, exit codes."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

from transport.cli.app import app
from transport.cli.exit_codes import EXIT_STORAGE, EXIT_USAGE
from transport.config.settings import OPTIONS
from transport.config.settings_file import SettingsError
from transport.config.settings_sources import resolve
from transport.config.units import parse_duration

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "packaging" / "penstock.service"
CONTAINER = ROOT / "packaging" / "Containerfile"


def unit_values(key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", UNIT.read_text(), re.MULTILINE)


def check_command(words: list[str]) -> dict[str, str]:
    """Each word is a verb or an option of it; the options that are settings, by name."""
    verb, *rest = words
    group = typer.main.get_command(app)
    command = group.commands[verb]  # type: ignore[attr-defined]  # of a group
    # click's own parser: an option that there is not, or a value that is missing, raises.
    context = command.make_context(verb, list(rest), resilient_parsing=True)
    known = {flag for parameter in command.params for flag in parameter.opts}
    assert {word for word in rest if word.startswith("--")} <= known, rest
    return {
        name: str(value) for name, value in context.params.items() if value not in (None, False) and name != "check"
    }


def stated() -> dict[str, str]:
    """The container's environment."""
    [block] = re.findall(r"^ENV (.*?[^\\])$", CONTAINER.read_text(), re.MULTILINE | re.DOTALL)
    return dict(word.split("=", 1) for word in block.replace("\\\n", " ").split())


def unit_environment() -> dict[str, str]:
    """What the unit itself sets."""
    [words] = unit_values("Environment")
    return dict(word.split("=", 1) for word in shlex.split(words))


def test_the_unit_runs_a_verb_with_settings_that_there_are() -> None:
    [line] = unit_values("ExecStart")
    program, *words = shlex.split(line)
    assert Path(program).name == "penstock"
    check_command(words)
    settings = resolve({}, unit_environment())
    assert settings.ignored == ()
    [folder] = unit_values("StateDirectory")
    assert settings.config.directory == f"/var/lib/{folder}"


def test_the_units_settings_give_way_to_those_of_its_environment_file() -> None:
    [line] = unit_values("ExecStart")
    # An option would count before each variable. Of two settings of one variable systemd takes the file's.
    assert {option.name for option in OPTIONS}.isdisjoint(check_command(shlex.split(line)[1:]))
    assert unit_values("EnvironmentFile") == ["-/etc/penstock/environment"]


def test_the_unit_gives_a_drain_the_time_that_it_has_and_starts_nothing_again_that_would_fail_again() -> None:
    drain = resolve({}, unit_environment()).config.drain
    [stop], [watchdog] = unit_values("TimeoutStopSec"), unit_values("WatchdogSec")
    assert parse_duration(stop) > drain + 5
    # systemd looks at the code of ExecStart alone: what fails before it is started again for ever.
    assert unit_values("ExecStartPre") == []
    assert parse_duration(watchdog) >= 10
    assert unit_values("RestartPreventExitStatus") == [f"{EXIT_USAGE} {EXIT_STORAGE}"]
    assert unit_values("Type") == ["notify"]
    assert unit_values("ExecReload") == ["/bin/kill -HUP $MAINPID"]


def test_the_containers_environment_is_settings_that_can_be() -> None:
    environment = stated()
    environment.pop("PATH")
    with pytest.raises(SettingsError, match="no users and no TLS"):
        resolve({}, environment)
    settings = resolve({}, environment | {"PENSTOCK_INSECURE": "true"})
    assert settings.ignored == ()
    assert settings.config.log_format == "json"
    assert str(settings.config.directory) in CONTAINER.read_text().split("VOLUME ")[1].split("\n")[0]
    ports = {address.rpartition(":")[2] for address in settings.config.addresses().values()}
    assert set(re.findall(r"^EXPOSE (.*)$", CONTAINER.read_text(), re.MULTILINE)[0].split()) == ports


def test_the_containers_commands_have_options_that_there_are_and_it_runs_as_nobody_special() -> None:
    text = CONTAINER.read_text()
    [health] = re.findall(r"^HEALTHCHECK .*CMD (\[.*\])$", text, re.MULTILINE)
    program, *words = json.loads(health)
    assert program == "penstock"
    check_command(words)
    [command] = re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)
    check_command(json.loads(command))
    assert re.findall(r"^STOPSIGNAL (.*)$", text, re.MULTILINE) == ["SIGTERM"]
    assert re.findall(r"^USER (.*)$", text, re.MULTILINE) == ["10182"]


def test_the_container_gets_every_package_of_the_distribution() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    [packages] = re.findall(
        r"^packages = (\[.*\])$", project.split("[tool.hatch.build.targets.wheel]")[1], re.MULTILINE
    )[:1]
    copied = re.findall(r"^COPY (\w+) \1$", CONTAINER.read_text(), re.MULTILINE)
    assert copied == json.loads(packages)


def test_the_container_with_tls_says_by_which_name_its_check_knows_the_broker() -> None:
    [recipe] = [text for text in CONTAINER.read_text().split("docker run ")[1:] if "PENSTOCK_TLS_CERTIFICATE" in text]
    assert "PENSTOCK_TLS_SERVER_NAME=" in recipe.partition("\n#\n")[0]


def test_the_documentation_that_the_unit_names_is_what_its_installation_puts_there() -> None:
    [page] = unit_values("Documentation")
    [(source, target)] = re.findall(r"^#   install -D -m 644 (\S+) (\S+)$", UNIT.read_text(), re.MULTILINE)
    assert page == f"file://{target}"
    assert (ROOT / source).is_file()


def test_the_containers_check_fails_where_no_broker_answers() -> None:
    result = CliRunner().invoke(app, ["stats", "--json", "--connect-timeout", "0.001", "--address", "127.0.0.1:1"])
    assert result.exit_code == 1


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_finds_nothing_to_complain_of_in_the_unit(tmp_path: Path) -> None:
    # Its programs are not on this machine; everything else is as it is installed.
    unit = tmp_path / "penstock.service"
    text = re.sub(r"^(Exec\w+=)/opt\S+", r"\1/bin/true", UNIT.read_text(), flags=re.MULTILINE)
    unit.write_text(text.replace("User=penstock", "User=root").replace("Group=penstock", "Group=root"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=60, check=False
    )
    about = [line for line in done.stderr.splitlines() if "penstock" in line]
    assert about == []
