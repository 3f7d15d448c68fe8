"""Clients, their pods, and the state file."""

from pathlib import Path

from gputopo_mps import clients as module
from gputopo_mps.clients import Clients, StoredState, load_state, save_state
from gputopo_mps.control import MpsClient
from gputopo_mps.processes import Processes

POD = "0a1b2c3d-0a1b-2c3d-4e5f-0a1b2c3d4e5f"


def processes(folder: Path, **pods: str) -> Processes:
    for pid, path in pods.items():
        (folder / pid[1:]).mkdir(exist_ok=True)
        (folder / pid[1:] / "cgroup").write_text(f"0::{path}\n")
    return Processes(folder)


def test_pods_are_found_by_cgroup(tmp_path: Path) -> None:
    found = processes(
        tmp_path,
        p1=f"/kubepods/burstable/pod{POD}/abc",
        p2=f"/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/cri-1.scope",
        p3="/kubepods/pod0123456789abcdef0123456789abcdef/abc",
        p4="/system.slice/sshd.service",
        p5=f"/docker/1/kubepods/pod{POD[::-1].replace('f', 'e')}/kubepods/pod{POD}/c",
    )
    assert [found.pod_of(pid) for pid in (1, 2, 5)] == [POD, POD, POD]
    assert found.pod_of(3) == "0123456789abcdef0123456789abcdef"
    assert (found.pod_of(4), found.pod_of(6)) == (None, None)


def test_pods_of_former_clients_are_known(tmp_path: Path) -> None:
    clients = Clients(processes(tmp_path, p1=f"/kubepods/pod{POD}/abc"))
    clients.update([MpsClient(1, 9), MpsClient(2, 9)])
    assert clients.pods == {POD}
    (tmp_path / "1/cgroup").unlink()
    clients.update([MpsClient(1, 9)])
    clients.update([])
    assert clients.pods_of([1, 2, 3]) == {POD}


def test_few_former_clients_are_kept(tmp_path: Path) -> None:
    clients = Clients(processes(tmp_path))
    clients.update([MpsClient(pid, 9) for pid in range(module._MOST_FORMER + 5)])
    assert len(clients._pods) == module._MOST_FORMER


def test_state_is_written_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    clients = Clients(processes(tmp_path, p1=f"/kubepods/pod{POD}/abc"))
    assert load_state(path) is None
    clients.update([MpsClient(1, 9)])
    state = StoredState(clients=clients.stored(), log_offset=5, fault_recorded=True)
    save_state(path, state)
    written = path.stat().st_ino
    save_state(path, state)
    assert path.stat().st_ino == written
    assert load_state(path) == state
    restored = Clients(Processes(tmp_path / "none"))
    restored.restore(state)
    assert restored.current == clients.current
    path.write_text('{"clients": 1}')
    assert load_state(path) == StoredState()
