"""What is built, when it is built again, and how long old results are kept."""

import json
import os
import re
from pathlib import Path

import pytest

from gputopo import catalogue
from kindcluster import programs
from localcluster import binaries, fakegpus, files, images, releases
from localcluster.commands import run
from localcluster.errors import ClusterError
from localcluster.gomodules import MODULES, required_version
from localcluster.progress import Progress
from localcluster.settings import Paths


def test_a_key_changes_with_names_and_contents_and_with_nothing_else() -> None:
    key = files.content_key({"a": b"1", "b": b"2"})
    assert key == files.content_key({"b": b"2", "a": b"1"})
    assert key != files.content_key({"a": b"1", "b": b"3"})
    assert key != files.content_key({"a": b"1", "c": b"2"})
    assert files.content_key({"ab": b"c"}) != files.content_key({"a": b"bc"})


def test_compiled_python_is_no_part_of_a_key(tmp_path: Path) -> None:
    (tmp_path / "package" / "__pycache__").mkdir(parents=True)
    (tmp_path / "package" / "module.py").write_text("x = 1")
    (tmp_path / "package" / "__pycache__" / "module.pyc").write_bytes(b"\0")
    (tmp_path / "single").write_text("y")
    found = files.files_below(tmp_path, ["package", "single"])
    assert found == {"package/module.py": b"x = 1", "single": b"y"}


def test_only_the_most_lately_used_are_kept(tmp_path: Path) -> None:
    for age, name in enumerate(["a.tar", "b.tar", "c.tar", "other"]):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    files.mark_used(tmp_path / "c.tar")
    files.keep_newest(tmp_path, "*.tar", 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar", "c.tar", "other"]


def test_an_image_is_made_of_what_its_dockerfile_copies_from_the_context() -> None:
    dockerfile = """\
FROM base AS build
COPY pyproject.toml uv.lock ./
COPY --chown=0:0 src \\
     other src/
COPY ${COMPONENT}/package ${COMPONENT}/package
RUN cp a b
FROM base
COPY --from=build /opt/venv /opt/venv
copy LICENSE /
"""
    assert images.copied_paths(dockerfile, {"COMPONENT": "extender"}) == [
        *("pyproject.toml", "uv.lock"),
        *("src", "other"),
        "extender/package",
        "LICENSE",
    ]


def test_the_version_is_said_once_in_go_mod() -> None:
    assert required_version("require k8s.io/kubernetes v1.36.2\n", "k8s.io/kubernetes")
    block = "require (\n\tk8s.io/api v0.36.2\n\thelm.sh/helm/v4 v4.2.4 // indirect\n)\n"
    assert required_version(block, "helm.sh/helm/v4") == "v4.2.4"
    with pytest.raises(ClusterError, match="example"):
        required_version(block, "example")


def test_kubernetes_programs_know_their_version() -> None:
    flags = binaries.linker_flags(binaries.kubernetes("1.36"), "v1.36.2")
    assert "-X k8s.io/component-base/version.gitVersion=v1.36.2" in flags
    assert "-X k8s.io/component-base/version.gitMinor=36" in flags


def test_build_tags_are_passed_to_go() -> None:
    target = Path("/target")
    words = binaries.build_command(Path("go"), binaries.CONTAINERD, "v2.4.2", target)
    assert "-tags=no_btrfs,no_devmapper,no_zfs" in words
    assert "-X github.com/containerd/containerd/v2/version.Version=v2.4.2" in " ".join(words)
    words = binaries.build_command(Path("go"), binaries.kubernetes("1.36"), "v1.36.2", target)
    assert not any(word.startswith("-tags") for word in words)


ALL_GROUPS = [
    *(binaries.kubernetes(release.minor) for release in releases.supported()),
    *(binaries.kubeadm(release.minor) for release in releases.supported()),
    *(binaries.CONTAINERD, binaries.HELM, binaries.KWOK),
    *(*programs.of_machine(), programs.ETCD, programs.COREDNS),
]


@pytest.mark.parametrize("group", ALL_GROUPS, ids=lambda group: group.name)
def test_each_go_module_requires_what_is_built_from_it(group: binaries.BinaryGroup) -> None:
    go_mod = (MODULES / group.name / "go.mod").read_text()
    version = required_version(go_mod, group.module)
    own = re.findall(r"^module (\S+)", go_mod)
    tools = go_mod.partition("\ntool")[2].partition("require")[0].replace("(", " ").split()
    assert set(group.packages) <= {*own, *tools}
    checksums = (MODULES / group.name / "go.sum").read_text()
    assert f"{group.module} {version} h1:" in checksums


def test_programs_of_several_versions_stay_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for Go writes the version that it is to link into each program."""
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(STAND_IN_FOR_GO)
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{go.parent}:/usr/bin:/bin")
    paths = Paths(cache=tmp_path / "cache", state=tmp_path / "state")
    built = {each: binaries.ensure(each, paths, Progress()) for each in releases.supported()}
    for release, folder in built.items():
        assert folder.name.startswith(f"{release.version}-")
        assert releases.built_version(folder) == release.version
        assert binaries.ensure(release, paths, Progress()) == folder
    calls = (tmp_path / "bin" / "builds").read_text().splitlines()
    assert len(calls) == len(built) * 3, "Kubernetes, containerd and Helm, once for each version"


STAND_IN_FOR_GO = """\
#!/bin/sh
[ "$1" = version ] && { echo go version go1.26.8 linux/amd64; exit; }
here=$(dirname "$0")
echo "$PWD" >> "$here/builds"
for word; do
  case $word in
    -ldflags=*) version=${word#*Version=}; version=${version%% *} ;;
    */) target=$word ;;
  esac
done
printf '#!/bin/sh\\necho Kubernetes %s\\n' "$version" > "$target/kube-scheduler.$$"
chmod 755 "$target/kube-scheduler.$$"
case $PWD in */kubernetes/*) mv "$target/kube-scheduler.$$" "$target/kube-scheduler" ;; esac
"""


@pytest.mark.parametrize("version", ["1.27.0", "1.26.5"])
def test_without_a_go_of_the_right_series_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    other = tmp_path / "go"
    other.write_text(f"#!/bin/sh\necho go version go{version} linux/amd64\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(ClusterError, match="run tools/setup"):
        binaries.find_go(tmp_path / "cache")


def test_the_go_of_the_cache_is_taken_when_the_machines_own_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, version in (("own", "1.27.0"), ("cache/toolchain/bin", "1.26.9")):
        program = tmp_path / folder / "go"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\necho go version go{version} linux/amd64\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/own:/usr/bin:/bin")
    assert binaries.find_go(tmp_path / "cache") == tmp_path / "cache/toolchain/bin/go"


def test_nodes_play_the_wanted_servers_and_the_rest_the_usual_ones() -> None:
    servers = fakegpus.parse_servers(["n2=none", "n4=summit"])
    assert servers == {"n1": "dgx1-v100", "n2": "none", "n3": "pcie-8gpu", "n4": "summit"}


@pytest.mark.parametrize(
    ("word", "complaint"),
    [("n1", "NODE=SERVER"), ("n1=toaster", "toaster"), ("x=summit", "node name 'x'")],
)
def test_a_wrong_choice_of_server_is_rejected_and_named(word: str, complaint: str) -> None:
    with pytest.raises(ClusterError, match=complaint):
        fakegpus.parse_servers([word])


def test_a_gpu_node_gets_a_library_its_facts_and_its_devices(tmp_path: Path) -> None:
    fakegpus.install({"n1": "dgx1-v100"}, "n1", tmp_path)
    assert (tmp_path / "lib" / "libnvidia-ml.so.1").exists()
    assert (tmp_path / "bin" / "nvidia-cuda-mps-control").exists()
    assert (tmp_path / "lib" / "topology.conf").read_text().count("\ngpu ") == 8
    devices = (tmp_path / "devices").read_text().splitlines()
    assert devices[:2] == ["nvidia0 195 0", "nvidia1 195 1"]
    assert "nvidiactl 195 255" in devices


def test_a_gpu_node_gets_a_cdi_spec_with_a_device_for_each_gpu(tmp_path: Path) -> None:
    fakegpus.install({"n3": "pcie-8gpu"}, "n3", tmp_path)
    spec = json.loads((tmp_path / "cdi.json").read_text())
    gpus = catalogue.named("pcie-8gpu", node="n3").gpus
    assert spec["kind"] == "nvidia.com/gpu"
    assert [device["name"] for device in spec["devices"]] == [gpu.uuid for gpu in gpus]
    nodes = [device["containerEdits"]["deviceNodes"] for device in spec["devices"]]
    host = "/run/nvidia/driver/dev"
    assert nodes[5] == [{"path": "/dev/nvidia5", "hostPath": f"{host}/nvidia5"}]
    common = spec["containerEdits"]["deviceNodes"]
    assert {"path": "/dev/nvidiactl", "hostPath": f"{host}/nvidiactl"} in common


def test_a_node_without_gpus_gets_no_driver(tmp_path: Path) -> None:
    fakegpus.install({"n1": "none"}, "n1", tmp_path / "gpus")
    assert not (tmp_path / "gpus").exists()


def test_a_failed_command_is_named_with_the_end_of_its_output() -> None:
    with pytest.raises(ClusterError, match=r"(?s)sh -c .* failed with status 3.*it hurts"):
        run(["sh", "-c", "echo it hurts >&2; exit 3"])


def test_a_missing_program_sends_to_setup() -> None:
    with pytest.raises(ClusterError, match="no-such-program: not installed; run tools/setup"):
        run(["no-such-program"])
