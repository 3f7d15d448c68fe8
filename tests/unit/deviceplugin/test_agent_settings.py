import pytest

from gputopo.runtime.settings import SettingsError
from gputopo_deviceplugin.settings import AgentSettings

NODE = {"GPUTOPO_DEVICEPLUGIN_NODE": "n1"}


def test_only_the_name_of_the_node_has_no_default() -> None:
    with pytest.raises(SettingsError, match=r"^--node \(GPUTOPO_DEVICEPLUGIN_NODE\): is required$"):
        AgentSettings.load([], {})
    assert AgentSettings.load([], NODE) == AgentSettings(node="n1")


def test_device_nodes_are_injected_unless_cdi_is_chosen() -> None:
    assert AgentSettings.load(["--cdi-kind=example.org/gpu"], NODE).injected_cdi_kind is None
    chosen = AgentSettings.load(["--device-injection=CDI"], NODE)
    assert chosen.injected_cdi_kind == "nvidia.com/gpu"
    with pytest.raises(SettingsError, match=r"--device-injection .*'Hook'"):
        AgentSettings.load(["--device-injection=Hook"], NODE)


@pytest.mark.parametrize("kind", ["gpu", "nvidia.com/", "nvidia.com/gpu=0", "-a/b"])
def test_a_cdi_kind_is_vendor_and_class(kind: str) -> None:
    with pytest.raises(SettingsError, match="--cdi-kind"):
        AgentSettings.load([f"--cdi-kind={kind}"], NODE)


@pytest.mark.parametrize("url", ["http://10.0.0.1:9400/metrics", "http://[fd00::1]:80/", ""])
def test_the_exporter_of_dcgm_is_a_url(url: str) -> None:
    assert AgentSettings.load([f"--dcgm-exporter={url}"], NODE).dcgm_exporter == url


@pytest.mark.parametrize(
    "url", ["10.0.0.1:9400", "https://a:9400/metrics", "http://a/metrics", "http://a:65536/", "/"]
)
def test_another_text_than_a_url_is_rejected(url: str) -> None:
    with pytest.raises(SettingsError, match="--dcgm-exporter"):
        AgentSettings.load([f"--dcgm-exporter={url}"], NODE)


def test_competing_allocators_are_separated_by_commas() -> None:
    flags = ["--competing-resources=nvidia.com/mig-*, amd.com/gpu,", "--competing-drivers= a,b"]
    settings = AgentSettings.load(flags, NODE)
    assert settings.competitors == {"nvidia.com/mig-*", "amd.com/gpu"}
    assert settings.drivers == {"a", "b"}
