import pytest

from gputopo.runtime.settings import SettingsError
from gputopo_deviceplugin.settings import Settings

NODE = {"GPUTOPO_DEVICEPLUGIN_NODE": "n1"}


def test_the_node_must_be_named_and_alone_has_no_default() -> None:
    with pytest.raises(SettingsError, match=r"^--node \(GPUTOPO_DEVICEPLUGIN_NODE\): required$"):
        Settings.load([], {})
    assert Settings.load([], NODE) == Settings(node="n1")


def test_the_agents_own_resource_does_not_compete_with_it() -> None:
    flags = ["--resource=nvidia.com/gpu", "--competing-resources=nvidia.com/gpu, amd.com/gpu,"]
    assert Settings.load(flags, NODE).competitors == {"amd.com/gpu"}
