"""Flags and environment variables of a program."""

from pathlib import Path
from typing import Annotated, ClassVar

import pytest
from pydantic import Field

from gputopo.runtime.settings import Port, ProgramSettings, Seconds, SettingsError


class PumpSettings(ProgramSettings):
    """The settings of a program, one of each type."""

    program: ClassVar = "gputopo-tester"
    purpose: ClassVar = "Shows what settings do."

    node: Annotated[str, Field(description="name of the node")]
    probes_port: Annotated[Port, Field(description="port of the probes")] = 8888
    wait_seconds: Annotated[Seconds, Field(description="longest wait")] = 2.0
    folder: Annotated[Path, Field(description="where it works")] = Path("/run")
    namespaces: Annotated[str, Field(description="those it serves")] = ""


NODE = {"GPUTOPO_TESTER_NODE": "n1"}


def test_a_flag_wins_over_the_environment_over_the_default() -> None:
    environment = {**NODE, "GPUTOPO_TESTER_PROBES_PORT": "1", "GPUTOPO_TESTER_FOLDER": "/a"}
    settings = PumpSettings.load(["--probes-port", "2"], {**environment, "PATH": "/bin"})
    assert settings == PumpSettings(node="n1", probes_port=2, folder=Path("/a"), wait_seconds=2.0)


@pytest.mark.parametrize("variable", ["GPUTOPO_TESTER_NOED", "GPUTOPO_TESTER_node"])
def test_an_unknown_variable_is_an_error(variable: str) -> None:
    with pytest.raises(SettingsError, match=f"^{variable}: there is no such setting$"):
        PumpSettings.load([], {**NODE, variable: "x"})


def test_variables_of_other_programs_are_ignored() -> None:
    assert PumpSettings.load([], {**NODE, "GPUTOPO_OTHER_NODE": "n2", "GPUTOPO_TESTERS": "3"})


def test_a_missing_setting_is_named() -> None:
    with pytest.raises(SettingsError, match=r"^--node \(GPUTOPO_TESTER_NODE\): is required$"):
        PumpSettings.load([], {})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PROBES_PORT", "70000"),
        ("PROBES_PORT", "http"),
        ("WAIT_SECONDS", "0"),
        ("WAIT_SECONDS", "-1"),
        ("WAIT_SECONDS", "inf"),
        ("WAIT_SECONDS", "nan"),
        ("LOG_LEVEL", "loud"),
    ],
)
def test_a_wrong_value_is_named_with_flag_and_variable(name: str, value: str) -> None:
    variable, flag = f"GPUTOPO_TESTER_{name}", f"--{name.lower().replace('_', '-')}"
    wrong = rf"^{flag} \({variable}\): '{value}': \w+"
    with pytest.raises(SettingsError, match=wrong):
        PumpSettings.load([], {**NODE, variable: value})
    with pytest.raises(SettingsError, match=wrong):
        PumpSettings.load([f"{flag}={value}"], NODE)


@pytest.mark.parametrize("argument", ["--nod=n1", "--NODE=n1", "n1"])
def test_an_unknown_argument_ends_the_program(
    argument: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        PumpSettings.load([argument], NODE)
    assert ended.value.code == 2
    assert argument in capsys.readouterr().err


def test_variables_that_kubernetes_sets_for_a_service_are_ignored() -> None:
    links = {
        "GPUTOPO_TESTER_SERVICE_HOST": "10.96.0.7",
        "GPUTOPO_TESTER_SERVICE_PORT": "8889",
        "GPUTOPO_TESTER_SERVICE_PORT_METRICS": "8889",
        "GPUTOPO_TESTER_PORT": "tcp://10.96.0.7:8889",
        "GPUTOPO_TESTER_PORT_8889_TCP": "tcp://10.96.0.7:8889",
        "GPUTOPO_TESTER_PORT_8889_TCP_ADDR": "10.96.0.7",
    }
    assert PumpSettings.load([], {**NODE, **links}) == PumpSettings(node="n1")


def test_help_lists_every_setting_with_its_default(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        PumpSettings.load(["--help"], {})
    text = capsys.readouterr().out
    for words in (
        "usage: gputopo-tester",
        "Shows what settings do.",
        "--node VALUE          name of the node (required)",
        "--wait-seconds VALUE  longest wait (default 2.0)",
        "--folder VALUE        where it works (default /run)",
        "--namespaces VALUE    those it serves (default empty)",
        "--log-level VALUE     least level logged (default info)",
        "GPUTOPO_TESTER_<NAME>",
    ):
        assert words in text
