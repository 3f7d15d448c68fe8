"""The record of a cluster, checks of the machine, and progress lines."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from localcluster import files, hostchanges, network, preflight, state
from localcluster.api import summarise_nodes, wait_until
from localcluster.cluster import Cluster
from localcluster.errors import ClusterError
from localcluster.progress import Progress
from localcluster.settings import CLONE, Paths
from localcluster.state import Record

RECORD = Record(
    clone="/somewhere/else",
    binaries="/cache/binaries/abc",
    servers={"n2": "none", "n1": "dgx1-v100"},
    sysctls={"kernel/panic": "0"},
    folders=["/var/lib/kubelet"],
)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    (tmp_path / "state").mkdir(mode=0o700)
    return Paths(cache=tmp_path / "cache", state=tmp_path / "state")


def test_a_record_is_read_as_it_was_written(paths: Paths) -> None:
    assert state.read(paths) is None
    state.write(paths, RECORD)
    assert state.read(paths) == RECORD
    assert [node.name for node in RECORD.nodes] == ["n1", "n2"]


def test_the_programs_of_a_running_cluster_are_used_while_the_cache_has_them(
    tmp_path: Path,
) -> None:
    running = replace(RECORD, binaries=str(tmp_path / "v1.36.4-abc"))
    assert state.programs_of(None) is None
    assert state.programs_of(running) is None
    (tmp_path / "v1.36.4-abc").mkdir()
    assert state.programs_of(running) == tmp_path / "v1.36.4-abc"


@pytest.mark.parametrize("text", ["", "{", "{}", "[1]"])
def test_a_record_of_another_kind_is_rejected_with_its_file(paths: Paths, text: str) -> None:
    (paths.state / "cluster.json").write_text(text)
    with pytest.raises(ClusterError, match=r"cluster\.json"):
        state.read(paths)


def test_a_state_folder_open_to_others_is_rejected(paths: Paths) -> None:
    paths.state.chmod(0o755)
    with pytest.raises(ClusterError, match="mode 0700"):
        state.claim(paths)


def test_a_link_in_place_of_the_state_folder_is_rejected(paths: Paths, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(paths.state)
    with pytest.raises(ClusterError, match="folder of root's"):
        state.claim(Paths(cache=paths.cache, state=link))


def test_a_folder_with_other_things_is_neither_used_nor_removed(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "require_root", lambda: None)
    (paths.state / "thesis.tex").touch()
    with pytest.raises(ClusterError, match="holds files, but no cluster's"):
        state.claim(paths)
    with pytest.raises(ClusterError, match="holds files, but no cluster's"):
        Cluster(paths, Progress()).down()
    assert (paths.state / "thesis.tex").exists()


def test_the_folder_of_a_start_that_broke_off_at_once_is_removed(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "require_root", lambda: None)
    (paths.state / "cluster.json.unfinished").touch()
    state.claim(paths)
    Cluster(paths, Progress()).down()
    assert not paths.state.exists()


def test_clearing_ends_with_the_record(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    state.write(paths, RECORD)
    for name in ("bin", "pki"):
        (paths.state / name).touch()
    removed: list[str] = []
    monkeypatch.setattr(files, "remove", lambda path: removed.append(path.name))
    state.clear(paths)
    assert sorted(removed[:-1]) == ["bin", "pki"]
    assert removed[-1] == "cluster.json"


def test_a_running_cluster_is_taken_only_when_it_is_the_wanted_one() -> None:
    programs = Path(RECORD.binaries)
    assert state.difference(RECORD, programs, dict(RECORD.servers)) == ""
    assert "/cache/binaries/new" in state.difference(
        RECORD, Path("/cache/binaries/new"), RECORD.servers
    )
    assert "summit" in state.difference(RECORD, programs, {"n1": "summit"})


def test_conflict_message_names_the_other_cluster_and_how_to_remove_it() -> None:
    message = state.conflict_message(RECORD, "it differs")
    assert "/somewhere/else" in message
    assert "tools/cluster down" in message
    own = Record(str(CLONE), RECORD.binaries, RECORD.servers, {}, [])
    assert "this clone" in state.conflict_message(own, "it differs")


def test_routes_that_lead_to_the_clusters_addresses_are_found() -> None:
    routes = [
        {"dst": "default", "dev": "eth0"},
        {"dst": "192.168.0.0/16", "dev": "eth0"},
        {"dst": "10.244.1.0/24", "dev": "gputopo0"},
        {"dst": "10.0.0.0/8", "dev": "tun0"},
        {"dst": "10.96.0.7", "dev": "wg0"},
    ]
    assert network.overlapping_routes(routes) == ["10.0.0.0/8 dev tun0", "10.96.0.7 dev wg0"]


def test_only_missing_mount_points_are_made_and_only_empty_ones_removed(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    wanted = [tmp_path / "there", tmp_path / "a" / "b", tmp_path / "c"]
    made = hostchanges.missing_folders(wanted)
    assert made == [tmp_path / "a", tmp_path / "a" / "b", tmp_path / "c"]
    for folder in wanted:
        folder.mkdir(parents=True, exist_ok=True)
    (tmp_path / "c" / "somebody's").touch()
    hostchanges.remove_folders(made)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "there"]


def test_a_node_is_ready_when_its_condition_says_so() -> None:
    def node(name: str, *conditions: dict[str, str]) -> dict[str, object]:
        allocatable = {"cpu": "2", "gputopo.io/gpu": "8"}
        status = {"conditions": list(conditions), "allocatable": allocatable}
        return {"metadata": {"name": name}, "status": status}

    nodes = summarise_nodes(
        {
            "items": [
                node("n1", {"type": "Ready", "status": "True"}),
                node("n2", {"type": "Ready", "status": "Unknown"}),
                node("n3", {"type": "DiskPressure", "status": "True"}),
            ]
        }
    )
    assert [summary.ready for summary in nodes] == [True, False, False]
    assert nodes[0].resources == {"gputopo.io/gpu": "8"}


def test_waiting_in_vain_ends_with_what_was_waited_for() -> None:
    with pytest.raises(ClusterError, match="in vain for the moon"):
        wait_until(lambda: False, "the moon", 0.0)


def test_a_second_process_waits_for_a_lock(tmp_path: Path) -> None:
    order: list[str] = []
    started = threading.Event()

    def second() -> None:
        started.set()
        with files.locked(tmp_path):
            order.append("second")

    with files.locked(tmp_path):
        other = threading.Thread(target=second)
        other.start()
        started.wait()
        other.join(timeout=0.2)
        order.append("first")
    other.join()
    assert order == ["first", "second"]


def test_a_stage_is_timed_and_reported(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    with progress.stage("Do it"):
        pass
    assert 0 <= progress.seconds["Do it"] < 60
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "==> Do it" in printed.err


def test_second_cluster_takes_the_settings_that_the_first_has_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last of two clusters restores what the first has changed, in whatever order they end."""
    monkeypatch.setattr(hostchanges, "_SYSCTLS", tmp_path)
    (tmp_path / "kernel").mkdir()
    panic, pids = tmp_path / "kernel" / "panic", tmp_path / "kernel" / "pid_max"
    panic.write_text("1\n")
    pids.write_text("32768\n")
    first = hostchanges.original_sysctls(["kernel/panic", "kernel/missing"])
    assert first == {"kernel/panic": "1"}
    panic.write_text("10\n")
    second = hostchanges.original_sysctls(["kernel/panic", "kernel/pid_max"], [first])
    assert second == {"kernel/panic": "1", "kernel/pid_max": "32768"}
    pids.write_text("4194304\n")
    hostchanges.restore_sysctls(first, [second])
    assert panic.read_text().strip() == "10", "the second cluster still needs it"
    hostchanges.restore_sysctls(second)
    assert (panic.read_text(), pids.read_text()) == ("1", "32768")


def test_settings_of_another_cluster_are_read_from_its_record(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    monkeypatch.setenv("GPUTOPO_STATE", str(paths.state))
    monkeypatch.setenv("GPUTOPO_KIND_STATE", str(other))
    assert state.record_file(paths).other_sysctls() == []
    state.write(Paths(cache=paths.cache, state=other), RECORD)
    assert state.record_file(paths).other_sysctls() == [RECORD.sysctls]
