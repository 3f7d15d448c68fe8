"""The clients of one shared GPU, their pods, and the state file that keeps both."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from gputopo_kube.json_file import read_json, write_json
from gputopo_mps.control import MpsClient
from gputopo_mps.processes import Processes

_MOST_FORMER: Final = 500


@dataclass(frozen=True, slots=True)
class PodClient:
    """A client and the UID of its pod; None if the process is in no pod."""

    client: MpsClient
    pod: str | None


class StoredClient(BaseModel):
    """A client in the state file."""

    model_config = ConfigDict(frozen=True)

    pid: int
    server: int
    pod: str | None


class StoredState(BaseModel):
    """What a restarted component cannot find out.

    Attributes:
        clients: the clients at the last check.
        log_offset: bytes of the server's log that were read.
        fault_recorded: whether the server was in a fault that was recorded.
    """

    model_config = ConfigDict(frozen=True)

    clients: tuple[StoredClient, ...] = ()
    log_offset: Annotated[int, Field(ge=0)] = 0
    fault_recorded: bool = False


class Clients:
    """The current clients of a GPU, and the pods of former ones.

    A fault can end a client before the next check, so the pods of former clients are needed too.
    """

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self.current: tuple[PodClient, ...] = ()
        self._pods: dict[int, str | None] = {}

    @property
    def pods(self) -> set[str]:
        """The UIDs of the pods of the current clients."""
        return {each.pod for each in self.current if each.pod is not None}

    def update(self, clients: Iterable[MpsClient]) -> None:
        """Replace the current clients."""
        known = {each.client: each.pod for each in self.current}
        self.current = tuple(
            PodClient(each, known[each] if each in known else self._processes.pod_of(each.pid))
            for each in clients
        )
        for each in self.current:
            self._pods.pop(each.client.pid, None)
            self._pods[each.client.pid] = each.pod
        for pid in list(self._pods)[:-_MOST_FORMER]:
            del self._pods[pid]

    def pod_of(self, pid: int) -> str | None:
        """Return the UID of the pod of a current or former client; None if it is unknown."""
        return self._pods.get(pid) or self._processes.pod_of(pid)

    def pods_of(self, pids: Iterable[int]) -> set[str]:
        """Return the UIDs of the pods of these clients."""
        return {pod for pid in pids if (pod := self.pod_of(pid)) is not None}

    def stored(self) -> tuple[StoredClient, ...]:
        """Return the current clients for the state file."""
        return tuple(
            StoredClient(pid=each.client.pid, server=each.client.server, pod=each.pod)
            for each in self.current
        )

    def restore(self, state: StoredState) -> None:
        """Take the clients of the state file."""
        self.current = tuple(
            PodClient(MpsClient(each.pid, each.server), each.pod) for each in state.clients
        )
        self.update([each.client for each in self.current])


def save_state(path: Path, state: StoredState) -> None:
    """Write the state file if the state has changed."""
    if read_json(path, StoredState.model_validate) != state:
        write_json(path, state.model_dump(mode="json"))


def load_state(path: Path) -> StoredState | None:
    """Return the state, or None if there is no state file.

    A file that is not valid still shows that the daemon must run.
    """
    if not path.exists():
        return None
    return read_json(path, StoredState.model_validate) or StoredState()
