"""Which Kubernetes versions the cluster can run, and what each needs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from localcluster import binaries, nodeconfig, pin, releases
from localcluster.errors import ClusterError
from localcluster.releases import Release
from localcluster.settings import Node

OLD, NEW = Release("1.34", "v1.34.10"), Release("1.36", "v1.36.4")
BOTH = [OLD, NEW]

GO_MOD = """\
module k8s.io/kubernetes

go 1.25.0

godebug default=go1.25

require (
	github.com/moby/term v0.5.0
	k8s.io/api v0.0.0
	k8s.io/kubelet v0.0.0 // indirect
	k8s.io/utils v0.0.0-20251002143259-bc988d571ff4
)

replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/kubelet => ./staging/src/k8s.io/kubelet
	k8s.io/sample-controller => ./staging/src/k8s.io/sample-controller
)
"""


def test_four_versions_of_kubernetes_can_be_started() -> None:
    assert [each.minor for each in releases.supported()] == ["1.34", "1.35", "1.36", "1.37"]
    for release in releases.supported():
        assert release.version.startswith(f"v{release.minor}.")


def test_versions_are_ordered_by_number_and_not_by_text(tmp_path: Path) -> None:
    for minor in ("1.100", "1.99", "1.101"):
        (tmp_path / minor).mkdir()
        (tmp_path / minor / "go.mod").write_text(f"require k8s.io/kubernetes v{minor}.0\n")
    assert [each.minor for each in releases.supported(tmp_path)] == ["1.99", "1.100", "1.101"]


@pytest.mark.parametrize("text", ["1.34", "v1.34", "1.34.10", "v1.34.10"])
def test_a_version_is_given_with_or_without_its_patch_release(text: str) -> None:
    assert releases.find(text, BOTH) == OLD


@pytest.mark.parametrize("text", ["", "v", "1", "1.3", "34", "1.34.1", "1.35", "v1.34.10-rc.1"])
def test_another_version_is_rejected_with_the_supported_ones(text: str) -> None:
    message = f"kubernetes: {text!r} is not supported; give one of 1.34 (v1.34.10), 1.36 (v1.36.4)"
    with pytest.raises(ClusterError, match=re.escape(message)):
        releases.find(text, BOTH)


def test_the_running_cluster_decides_where_the_user_does_not() -> None:
    assert releases.choose("1.36", "v1.34.10", BOTH) == NEW
    assert releases.choose(None, "v1.34.10", BOTH) == OLD
    assert releases.choose(None, None, BOTH) == NEW
    assert releases.choose(None, "v1.33.0", BOTH) == NEW, "another clone may support it"


def test_a_pinned_go_mod_takes_the_published_modules_of_the_same_release() -> None:
    text = pin.module_file(GO_MOD, "v1.35.8", "kubernetes", binaries.KUBERNETES_PACKAGES)
    assert "\ngo 1.25.0\n" in text
    assert "\ngodebug default=go1.25\n" in text
    assert "\tk8s.io/kubernetes/cmd/kubelet\n" in text
    assert "require k8s.io/kubernetes v1.35.8\n" in text
    replaced = text.partition("replace (\n")[2].split("\n)")[0].splitlines()
    assert replaced == [
        "\tk8s.io/api => k8s.io/api v0.35.8",
        "\tk8s.io/kubelet => k8s.io/kubelet v0.35.8",
    ]


@pytest.mark.parametrize("version", ["1.35.8", "v1.35", "v1.35.8-rc.0", "v2.0.0", ""])
def test_only_a_release_is_pinned(version: str) -> None:
    with pytest.raises(ClusterError, match=re.escape(repr(version))):
        pin.module_file(GO_MOD, version, "kubernetes", binaries.KUBERNETES_PACKAGES)


def test_a_go_mod_of_something_else_is_not_pinned() -> None:
    with pytest.raises(ClusterError, match="go VERSION"):
        pin.module_file("module example\n", "v1.35.8", "kubernetes", binaries.KUBERNETES_PACKAGES)


def test_pinning_without_a_version_shows_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert pin.main([]) == 2
    assert "usage: tools/pin-kubernetes VERSION" in capsys.readouterr().err


@pytest.mark.parametrize("release", releases.supported(), ids=lambda release: release.minor)
def test_each_version_takes_its_siblings_at_its_own_patch_release(release: Release) -> None:
    text = (releases.FOLDER / release.minor / "go.mod").read_text()
    block = text.partition("replace (\n")[2].split("\n)")[0].splitlines()
    versions = {line.split()[-1] for line in block}
    assert versions == {release.version.replace("v1.", "v0.", 1)}
    assert "k8s.io/kubelet" in {line.split()[0] for line in block}


def kubelet(release: Release) -> Any:
    text = nodeconfig.kubelet_config(Node(1), release, Path("/pki"), Path("/config"), 4096)
    return json.loads(text)


@pytest.mark.parametrize(
    ("minor", "gates"), [("1.34", ["KubeletCrashLoopBackOffMax"]), ("1.35", [])]
)
def test_kubelet_1_34_needs_a_feature_gate_for_the_limit_of_restarts(
    minor: str, gates: list[str]
) -> None:
    config = kubelet(Release(minor, f"v{minor}.0"))
    assert config["crashLoopBackOff"] == {"maxContainerRestartPeriod": "3s"}
    assert [name for name, on in config["featureGates"].items() if on] == gates
