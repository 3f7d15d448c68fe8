"""Where this machine finds the processes, cgroups and files of kind's nodes."""

from pathlib import Path

import pytest

from kindcluster.machines import cgroup_of, on_volume, parse_cgroup

NODE, OTHER, CONTAINER = "a" * 64, "b" * 64, "c" * 64
POD = "11111111-2222-3333-4444-555555555555"
NAMES = {NODE: "gputopo-worker", OTHER: "gputopo-worker2"}
BEST_EFFORT = "kubelet-kubepods-besteffort"
OF_SYSTEMD = (
    f"kubelet.slice/kubelet-kubepods.slice/{BEST_EFFORT}.slice"
    f"/{BEST_EFFORT}-pod{POD.replace('-', '_')}.slice/cri-containerd-{CONTAINER}.scope"
)
OF_CGROUPFS = f"kubelet/kubepods/burstable/pod{POD}/{CONTAINER}"


@pytest.mark.parametrize("parent", [f"gputopo-kind/{NODE}", f"docker/{NODE}"])
@pytest.mark.parametrize("below", [OF_SYSTEMD, OF_CGROUPFS])
def test_process_of_a_pod_is_found_with_its_node(parent: str, below: str) -> None:
    text = f"12:cpuset:/{parent}/{below}\n0::/\n"
    assert parse_cgroup(text, NAMES) == ("gputopo-worker", POD, CONTAINER)
    assert cgroup_of(NODE, text) == parent
    assert cgroup_of(OTHER, text) == ""


def test_docker_with_systemd_has_a_scope_for_each_node() -> None:
    text = f"0::/system.slice/docker-{OTHER}.scope/{OF_SYSTEMD}\n"
    assert parse_cgroup(text, NAMES) == ("gputopo-worker2", POD, CONTAINER)
    assert cgroup_of(OTHER, text) == f"system.slice/docker-{OTHER}.scope"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0::/\n",
        f"0::/gputopo-kind/{NODE}/init.scope\n",
        f"0::/gputopo-kind/{NODE}/kubelet.slice/kubelet.service\n",
        f"0::/docker/{CONTAINER}/{OF_CGROUPFS}\n",
        f"0::/gputopo-n1/kubepods/burstable/pod{POD}/{CONTAINER}\n",
    ],
)
def test_processes_outside_of_the_nodes_pods_are_left_out(text: str) -> None:
    assert parse_cgroup(text, NAMES) is None


def test_file_of_a_node_is_on_the_volume_that_docker_has_made() -> None:
    mounts = [
        {"Type": "bind", "Source": "/state/gpus", "Destination": "/run/nvidia/driver"},
        {"Type": "volume", "Source": "/docker/volumes/1/_data", "Destination": "/var"},
    ]
    found = on_volume(Path("/var/lib/kubelet/config.yaml"), mounts)
    assert found == Path("/docker/volumes/1/_data/lib/kubelet/config.yaml")
    assert on_volume(Path("/etc/hosts"), mounts) is None
    assert on_volume(Path("/run/nvidia/driver/lib"), mounts) is None
