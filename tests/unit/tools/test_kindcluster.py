"""What `tools/kind` decides: which Docker, which nodes, which mounts, what it says."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gputopo import catalogue
from kindcluster import (
    checks,
    daemon,
    nodeimage,
    nodes,
    programs,
    record,
    settings,
    sources,
    status,
)
from kindcluster.__main__ import main
from kindcluster.docker import Docker, parse_nodes
from kindcluster.record import KindRecord
from localcluster import devicefiles, fakegpus, releases
from localcluster.api import NodeSummary
from localcluster.errors import ClusterError
from localcluster.progress import Progress
from localcluster.releases import Release
from localcluster.settings import CLONE, KIND_STATE_VARIABLE, Paths

OLD, NEW = Release("1.35", "v1.35.8"), Release("1.36", "v1.36.4")
RECORD = KindRecord(
    clone="/somewhere/else",
    own_docker=True,
    kubernetes="v1.36.4",
    image="localhost/gputopo-kind-node:v1.36.4-abc",
    programs=["/cache/docker/abc", "/cache/binaries/abc"],
    servers={"n1": "dgx1-v100"},
    sysctls={"kernel/panic": "0"},
    folders=["/lib/modules"],
)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(cache=tmp_path / "cache", state=tmp_path / "state")


def test_state_is_not_that_of_the_local_cluster() -> None:
    environment = {"HOME": "/home/a", "GPUTOPO_STATE": "/local"}
    paths = settings.paths_from_environment(environment)
    assert paths.cache == Path("/home/a/.cache/gputopo")
    assert paths.state.name == "gputopo-kind"
    environment[KIND_STATE_VARIABLE] = "/disk/kind"
    assert settings.paths_from_environment(environment).state == Path("/disk/kind")


@pytest.mark.parametrize(
    ("running", "build", "machine_has_docker", "own"),
    [
        (None, False, True, False),
        (None, False, False, True),
        (None, True, True, True),
        (RECORD, False, True, True),
        (replace(RECORD, own_docker=False), False, False, False),
        (replace(RECORD, own_docker=False), True, True, False),
    ],
)
def test_docker_of_the_machine_is_used_unless_a_build_is_requested(
    *, running: KindRecord | None, build: bool, machine_has_docker: bool, own: bool
) -> None:
    assert own == record.uses_own_docker(
        running, build=build, machine_has_docker=machine_has_docker
    )


def test_machine_without_a_client_has_no_docker(tmp_path: Path) -> None:
    assert not Docker({"PATH": str(tmp_path)}).responds()


def test_docker_whose_daemon_does_not_respond_is_none(tmp_path: Path) -> None:
    client = tmp_path / "docker"
    client.write_text("#!/bin/sh\nexit 1\n")
    client.chmod(0o755)
    assert not Docker({"PATH": f"{tmp_path}:/usr/bin:/bin"}).responds()
    client.write_text("#!/bin/sh\necho Version: 29\n")
    assert Docker({"PATH": f"{tmp_path}:/usr/bin:/bin"}).responds()


def test_running_cluster_is_used_only_if_it_is_the_requested_one() -> None:
    servers = dict(RECORD.servers)
    assert record.difference(RECORD, RECORD.image, servers, build=True) == ""
    assert "wanted is other" in record.difference(RECORD, "other", servers, build=False)
    assert "summit" in record.difference(RECORD, RECORD.image, {"n1": "summit"}, build=False)
    other = replace(RECORD, own_docker=False)
    assert "Docker of this machine" in record.difference(other, other.image, servers, build=True)


def test_conflict_message_names_the_clone_and_the_remedy() -> None:
    message = record.conflict_message(RECORD, "it differs")
    assert "/somewhere/else" in message
    assert "`tools/kind down`" in message
    assert "this clone" in record.conflict_message(replace(RECORD, clone=str(CLONE)), "it differs")


def test_record_is_read_as_it_was_written(paths: Paths) -> None:
    file = record.record_file(paths)
    file.claim()
    assert file.read() is None
    file.write(RECORD)
    assert file.read() == RECORD


def test_state_folder_with_other_files_is_rejected_with_the_name_of_the_variable(
    paths: Paths,
) -> None:
    paths.state.mkdir(mode=0o700)
    (paths.state / "thesis.tex").touch()
    with pytest.raises(ClusterError, match="set GPUTOPO_KIND_STATE to"):
        record.record_file(paths).claim()


def test_folder_with_a_program_is_found(tmp_path: Path) -> None:
    for name in ("docker", "cluster"):
        (tmp_path / name).mkdir()
    (tmp_path / "cluster" / "kubectl").touch()
    made = replace(RECORD, programs=[f"{tmp_path}/docker", f"{tmp_path}/cluster"])
    assert made.folder_of("kubectl") == tmp_path / "cluster"
    assert made.folder_of("kind") is None


def test_workers_have_the_names_of_kind_in_the_order_of_the_numbers() -> None:
    servers = fakegpus.parse_servers(["n4=summit", "n2=none"])
    assert nodes.by_container(servers) == {
        "gputopo-worker": "dgx1-v100",
        "gputopo-worker2": "none",
        "gputopo-worker3": "pcie-8gpu",
        "gputopo-worker4": "summit",
    }
    assert nodes.container_of_name("n2") == "gputopo-worker2"
    assert nodes.container_of_name("gputopo-control-plane") == settings.CONTROL_PLANE


def test_missing_number_of_a_worker_is_named() -> None:
    with pytest.raises(ClusterError, match=r"--gpus n5=\.\.\.: n4 is missing"):
        nodes.by_container(fakegpus.parse_servers(["n5=summit"]))


def test_workers_with_gpus_have_driver_cdi_spec_and_numa_nodes_as_mounts(paths: Paths) -> None:
    servers = {"gputopo-worker": "summit", "gputopo-worker2": "none"}
    made = nodes.configuration(servers, "image:1", NEW, paths, own_docker=True)
    control_plane, with_gpus, without = made["nodes"]
    assert control_plane == {"role": "control-plane", "image": "image:1"}
    assert without["extraMounts"] == []
    folder = paths.state / "nodes" / "gputopo-worker"
    assert {mount["containerPath"]: mount["hostPath"] for mount in with_gpus["extraMounts"]} == {
        "/run/nvidia/driver": f"{folder}/gpus",
        "/var/run/cdi/nvidia.json": f"{folder}/gpus/cdi.json",
        "/sys/devices/system/node": f"{folder}/numa",
        "/etc/containerd/cri-base.json": f"{folder}/base-spec.json",
    }
    writable = [m["containerPath"] for m in with_gpus["extraMounts"] if not m["readOnly"]]
    assert writable == ["/run/nvidia/driver"]


def test_files_of_a_worker_are_where_its_mounts_have_them(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    created: list[tuple[Path, Path]] = []
    monkeypatch.setattr(devicefiles, "create", lambda *files: created.append(files))
    servers = {"gputopo-worker": "summit", "gputopo-worker2": "none"}
    nodes.install(servers, {"mounts": []}, paths)
    made = nodes.configuration(servers, "image:1", NEW, paths, own_docker=True)
    for mount in made["nodes"][1]["extraMounts"]:
        assert Path(mount["hostPath"]).exists()
    gpus = paths.node("gputopo-worker") / "gpus"
    assert created == [(gpus / "devices", gpus / "dev")]
    assert not paths.node("gputopo-worker2").exists()
    uuids = {gpu.uuid for gpu in catalogue.named("summit", node="gputopo-worker").gpus}
    assert {
        each["name"] for each in json.loads((gpus / "cdi.json").read_text())["devices"]
    } == uuids
    spec = json.loads((paths.node("gputopo-worker") / "base-spec.json").read_text())
    assert [mount["destination"] for mount in spec["mounts"]] == ["/sys/devices/system/node"]


def test_api_server_of_an_own_docker_has_the_address_of_the_daemon(paths: Paths) -> None:
    own = nodes.configuration({}, "image:1", NEW, paths, own_docker=True)["networking"]
    assert own["apiServerAddress"] == settings.DAEMON_ADDRESS
    machine = nodes.configuration({}, "image:1", NEW, paths, own_docker=False)["networking"]
    assert "apiServerAddress" not in machine
    assert machine["podSubnet"] == own["podSubnet"] == "10.244.0.0/16"


@pytest.mark.parametrize(
    ("release", "arguments"),
    [
        (OLD, {"enable-hostpath-provisioner": "true", "node-monitor-grace-period": "20s"}),
        (NEW, {"name": "node-monitor-grace-period", "value": "20s"}),
    ],
)
def test_kubeadm_gets_arguments_in_the_form_of_its_api(
    paths: Paths, release: Release, arguments: dict[str, str]
) -> None:
    made = nodes.configuration({}, "image:1", release, paths, own_docker=True)
    kubelet, cluster = map(json.loads, made["kubeadmConfigPatches"])
    assert kubelet["failCgroupV1"] is False
    found = cluster["controllerManager"]["extraArgs"]
    assert arguments.items() <= found.items() if release == OLD else arguments in found


def test_daemon_keeps_its_files_in_the_state_folder(paths: Paths) -> None:
    made = daemon.configuration(paths, paths.state / "docker.sock")
    assert made["hosts"] == [f"unix://{paths.state}/docker.sock"]
    assert made["data-root"] == f"{paths.state}/docker"


def test_client_of_the_own_daemon_uses_no_other(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://elsewhere:2375")
    monkeypatch.setenv("DOCKER_CONTEXT", "elsewhere")
    environment = daemon.Daemon(paths, [Path("/programs")]).docker.environment
    assert environment["DOCKER_HOST"] == f"unix://{paths.state}/docker.sock"
    assert "DOCKER_CONTEXT" not in environment
    assert environment["PATH"].startswith("/programs:")


def test_nodes_are_read_from_the_list_of_containers() -> None:
    listed = "gputopo-worker running\ngputopo-control-plane exited\n"
    assert parse_nodes(listed) == {"gputopo-worker": True, "gputopo-control-plane": False}
    assert parse_nodes("\n") == {}


def test_full_disk_is_reported_with_the_space_that_is_needed() -> None:
    assert checks.lack_of_space("/a", 10 * checks.GB, 10) == ""
    message = checks.lack_of_space("/a", 9_940_000_000, 10)
    assert message.startswith("/a: 9.9 GB are free, the cluster needs 10 GB")


def test_published_image_is_known_for_the_default_version_only() -> None:
    assert sources.published_image(NEW).startswith("kindest/node:v1.36.4@sha256:")
    with pytest.raises(ClusterError, match=r"--kubernetes 1\.35: no published node image"):
        sources.published_image(OLD)


def test_image_of_the_user_needs_the_docker_of_the_machine(paths: Paths) -> None:
    with pytest.raises(ClusterError, match="--image mine:1: only with the Docker"):
        sources.ensure(NEW, "mine:1", paths, Progress(), own_docker=True)


def test_kind_is_the_one_of_this_clone(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "ensure_kind", lambda *_: Path("/cache/kind"))
    found = sources.ensure(OLD, "mine:1", paths, Progress(), own_docker=False)
    assert found == sources.Sources("mine:1", None, (Path("/cache/kind"),))


def test_node_image_is_another_for_other_programs(paths: Paths) -> None:
    one = nodeimage.plan(NEW, Path("/binaries/a"), Path("/kubeadm/a"), paths)
    assert one == nodeimage.plan(NEW, Path("/elsewhere/a"), Path("/kubeadm/a"), paths)
    assert one != nodeimage.plan(NEW, Path("/binaries/b"), Path("/kubeadm/a"), paths)
    assert one != nodeimage.plan(NEW, Path("/binaries/a"), Path("/kubeadm/b"), paths)
    assert one.reference.startswith("localhost/gputopo-kind-node:v1.36.4-")
    assert one.archive.parent == paths.cache / "kind"


@pytest.mark.parametrize(
    ("reference", "program"),
    [
        ("registry.k8s.io/etcd:3.6.8-0", "etcd"),
        ("registry.k8s.io/coredns/coredns:v1.14.2", "coredns"),
        ("registry.k8s.io/pause:3.10.2", "pause"),
    ],
)
def test_program_of_an_image_is_the_last_part_of_its_name(reference: str, program: str) -> None:
    assert nodeimage.program_of(reference) == program


def test_status_shows_each_node() -> None:
    containers = {"gputopo-control-plane": True, "gputopo-worker": False, "gputopo-worker2": True}
    summaries = [
        NodeSummary("gputopo-control-plane", ready=True, resources={}),
        NodeSummary("gputopo-worker2", ready=False, resources={"gputopo.io/gpu": "8"}),
    ]
    shown = status.KindStatus("v1.36.4", own_docker=True, containers=containers, nodes=summaries)
    lines = [" ".join(line.split()) for line in status.as_text(shown).splitlines()]
    assert lines == [
        "Kubernetes v1.36.4",
        "Docker runs; of its own",
        "gputopo-control-plane runs; Ready",
        "gputopo-worker is off; unknown to the API server",
        "gputopo-worker2 runs; NotReady gputopo.io/gpu=8",
    ]
    document = json.loads(status.as_json(shown))
    assert document["docker"] == "own"
    assert document["nodes"]["gputopo-worker2"]["resources"] == {"gputopo.io/gpu": "8"}


def test_status_of_a_docker_that_is_off_names_no_nodes() -> None:
    shown = status.KindStatus("v1.36.4", own_docker=False, containers={}, nodes=[])
    assert "is off; of this machine" in status.as_text(shown)


def test_wrong_server_is_an_error_with_the_allowed_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--gpus", "n1=toaster"]) == 1
    assert "'toaster' is not one of" in capsys.readouterr().err


@pytest.mark.parametrize("release", releases.supported(), ids=lambda release: release.minor)
def test_each_supported_version_has_kubeadm(release: Release) -> None:
    go_mod = CLONE / "tools" / "binaries" / "kubeadm" / release.minor / "go.mod"
    assert f"k8s.io/kubernetes {release.version}" in go_mod.read_text()
