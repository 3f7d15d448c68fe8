import pytest

from gputopo.runtime.settings import SettingsError
from gputopo_deviceplugin.settings import Settings

NODE = {"GPUTOPO_DEVICEPLUGIN_NODE": "n1"}


def test_the_node_must_be_named_and_alone_has_no_default() -> None:
    with pytest.raises(SettingsError, match=r"^--node \(GPUTOPO_DEVICEPLUGIN_NODE\): required$"):
        Settings.load([], {})
    assert Settings.load([], NODE) == Settings(node="n1")


def test_competing_allocators_are_lists_with_commas() -> None:
    flags = ["--competing-resources=nvidia.com/mig-*, amd.com/gpu,", "--competing-drivers= a,b"]
    settings = Settings.load(flags, NODE)
    assert settings.competitors == {"nvidia.com/mig-*", "amd.com/gpu"}
    assert settings.drivers == {"a", "b"}
