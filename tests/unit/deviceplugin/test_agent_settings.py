from pathlib import Path

import pytest

from gputopo_deviceplugin.settings import Settings, SettingsError

NODE = {"GPUTOPO_DEVICEPLUGIN_NODE": "n1"}


def test_flags_win_over_the_environment() -> None:
    environment = {**NODE, "GPUTOPO_DEVICEPLUGIN_LIBRARY_DIR": "/a", "PATH": "/bin"}
    settings = Settings.load(["--library-dir=/b"], environment)
    assert (settings.node, settings.library_dir) == ("n1", Path("/b"))


def test_the_node_must_be_named() -> None:
    with pytest.raises(SettingsError, match=r"^--node \(GPUTOPO_DEVICEPLUGIN_NODE\): required$"):
        Settings.load([], {})


def test_unknown_variables_are_errors() -> None:
    with pytest.raises(SettingsError, match="GPUTOPO_DEVICEPLUGIN_NOED: there is no such setting"):
        Settings.load([], {**NODE, "GPUTOPO_DEVICEPLUGIN_NOED": "x"})


def test_variables_of_a_service_of_the_same_name_are_not_settings() -> None:
    links = {
        "GPUTOPO_DEVICEPLUGIN_SERVICE_HOST": "10.96.0.7",
        "GPUTOPO_DEVICEPLUGIN_PORT_8890_TCP_ADDR": "10.96.0.7",
    }
    assert Settings.load([], {**NODE, **links}).node == "n1"


@pytest.mark.parametrize("value", ["0", "-1", "inf", "soon"])
def test_a_wrong_value_is_named(value: str) -> None:
    with pytest.raises(SettingsError, match=rf"^--health-seconds .*'{value}'"):
        Settings.load([f"--health-seconds={value}"], NODE)


def test_unknown_flags_end_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        Settings.load(["--nod=n1"], NODE)
    assert "--nod=n1" in capsys.readouterr().err


def test_the_agents_own_resource_does_not_compete_with_it() -> None:
    flags = ["--resource=nvidia.com/gpu", "--competing-resources=nvidia.com/gpu, amd.com/gpu,"]
    assert Settings.load(flags, NODE).competitors == {"amd.com/gpu"}
