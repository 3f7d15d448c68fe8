"""Configuration of the cluster's programs."""

import base64
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from localcluster import controlplane, nodeconfig, pki, settings
from localcluster.commands import run, succeeds
from localcluster.errors import ClusterError
from localcluster.releases import Release
from localcluster.settings import Node, Paths, node_of_name, paths_from_environment

PATHS = Paths(cache=Path("/cache"), state=Path("/state"))


def kubelet(node: Node) -> Any:
    release = Release("1.36", "v1.36.4")
    text = nodeconfig.kubelet_config(node, release, Path("/pki"), Path("/config"), 4096)
    return json.loads(text)


def test_two_nodes_share_no_name_address_network_interface_or_cgroup() -> None:
    first, second = Node(1), Node(2)
    for what in ("name", "address", "pod_network", "host_interface", "cgroup"):
        assert getattr(first, what) != getattr(second, what)


@pytest.mark.parametrize("name", ["", "n", "n0", "n10", "m1", "1", "n1 "])
def test_a_node_name_out_of_range_is_rejected_and_named(name: str) -> None:
    with pytest.raises(ClusterError, match=f"node name '{name}'"):
        node_of_name(name)


def test_interface_names_fit_the_kernels_limit() -> None:
    limit = 15
    assert len(settings.BRIDGE) <= limit
    assert len(Node(9).host_interface) <= limit


def test_folders_follow_the_environment() -> None:
    defaults = paths_from_environment({"HOME": "/home/a"})
    assert defaults.cache == Path("/home/a/.cache/gputopo")
    assert paths_from_environment({"XDG_CACHE_HOME": "/x"}).cache == Path("/x/gputopo")
    chosen = paths_from_environment({"GPUTOPO_CACHE": "/c", "GPUTOPO_STATE": "/s", "HOME": "/h"})
    assert (chosen.cache, chosen.state) == (Path("/c"), Path("/s"))


def test_each_kubelet_stays_in_its_own_cgroup_and_off_the_machines_own_folders() -> None:
    assert kubelet(Node(2))["cgroupRoot"] == "/gputopo-n2"
    assert kubelet(Node(2))["volumePluginDir"].startswith("/var/lib/kubelet/")


def test_a_kubelet_requests_no_more_open_files_than_its_limit() -> None:
    assert kubelet(Node(1))["maxOpenFiles"] == 4096


def test_changes_of_a_kubelet_replace_earlier_changes_and_its_own_configuration_returns(
    tmp_path: Path,
) -> None:
    file = tmp_path / "kubelet.json"
    own = {"failSwapOn": False, "nodeStatusUpdateFrequency": "5s"}
    file.write_text(json.dumps(own))
    nodeconfig.change_kubelet(tmp_path, {"failSwapOn": True})
    nodeconfig.change_kubelet(tmp_path, {"cpuManagerPolicy": "static"})
    assert json.loads(file.read_text()) == own | {"cpuManagerPolicy": "static"}
    nodeconfig.change_kubelet(tmp_path, {})
    assert json.loads(file.read_text()) == own


def test_a_kubelet_serves_with_its_own_certificate_to_authorized_callers_only() -> None:
    config = kubelet(Node(3))
    assert config["tlsCertFile"] == "/pki/n3.crt"
    assert config["authentication"]["anonymous"] == {"enabled": False}
    assert config["authorization"] == {"mode": "Webhook"}


def test_containerd_finds_the_pause_image_and_the_network_plugins() -> None:
    plugins = tomllib.loads(nodeconfig.containerd_config(Path("/config/base.json")))["plugins"]
    images = plugins["io.containerd.cri.v1.images"]
    runtime = plugins["io.containerd.cri.v1.runtime"]
    assert images["pinned_images"]["sandbox"] == settings.PAUSE_IMAGE
    assert runtime["cni"]["bin_dirs"] == [str(settings.CNI_PLUGINS)]
    assert runtime["restrict_oom_score_adj"] is True
    assert runtime["containerd"]["runtimes"]["runc"]["base_runtime_spec"] == "/config/base.json"


def test_the_importing_containerd_keeps_to_its_own_folders() -> None:
    text = nodeconfig.importing_containerd_config(Path("/root-folder"), Path("/run-folder"))
    config = tomllib.loads(text)
    assert config["root"] == "/root-folder"
    assert config["state"].startswith("/run-folder/")
    assert config["grpc"]["address"].startswith("/run-folder/")
    assert "io.containerd.nri.v1.nri" in config["disabled_plugins"], "its socket is in /var/run"


def test_pods_get_addresses_of_their_nodes_network() -> None:
    config = json.loads(nodeconfig.cni_config(Node(3)))
    assert config["plugins"][0]["ipam"]["ranges"] == [[{"subnet": "10.244.3.0/24"}]]


def test_kube_proxy_leaves_the_machines_connection_tracking_alone() -> None:
    config = json.loads(nodeconfig.kube_proxy_config(Node(1), Path("/pki")))
    assert config["conntrack"]["maxPerCore"] == 0
    assert config["hostnameOverride"] == "n1"


def test_every_control_plane_port_is_on_this_machine_only() -> None:
    for part in controlplane.PARTS:
        arguments = controlplane.arguments(part, PATHS, Path("/bin"))
        listening = [
            argument.partition("=")[2]
            for argument in arguments
            if argument.startswith(("--bind-address", "--listen-"))
        ]
        assert listening, part
        for address in listening:
            assert "127.0.0.1" in address or address == settings.CONTROL_PLANE_ADDRESS


def test_etcd_requires_a_client_certificate() -> None:
    arguments = controlplane.arguments("etcd", PATHS, Path("/bin"))
    assert {"--client-cert-auth", "--peer-client-cert-auth"} <= set(arguments)


def test_a_kubeconfig_needs_no_other_file() -> None:
    config = json.loads(pki.render_kubeconfig("https://server", b"authority", b"mine", b"secret"))
    assert config["clusters"][0]["cluster"]["server"] == "https://server"
    user = config["users"][0]["user"]
    assert base64.b64decode(user["client-certificate-data"]) == b"mine"
    assert base64.b64decode(user["client-key-data"]) == b"secret"
    assert config["contexts"][0]["name"] == config["current-context"]


def test_certificates_say_who_is_who(tmp_path: Path) -> None:
    pki.create(tmp_path, [Node(1)])
    authority = ["openssl", "verify", "-CAfile", str(tmp_path / "ca.crt")]
    for identity in pki.identities([Node(1)]):
        assert succeeds([*authority, tmp_path / f"{identity.name}.crt"]), identity
    show = ["openssl", "x509", "-noout", "-subject", "-ext", "subjectAltName"]
    shown = run([*show, "-in", tmp_path / "n1.crt"])
    assert "system:nodes" in shown
    assert "system:node:n1" in shown
    assert "10.99.0.11" in shown
    assert "10.96.0.1" in run([*show, "-in", tmp_path / "apiserver.crt"])
