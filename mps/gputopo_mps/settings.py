"""The component's settings, from flags and environment variables; flags take precedence."""

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from gputopo.api.names import RESOURCE
from gputopo.api.shares import share_resource
from gputopo.runtime.settings import Port, ProgramSettings, Seconds
from gputopo_mps.folders import SharedMemory


class MpsSettings(ProgramSettings):
    """The component's settings. Only ``node`` has no default. Port 0 means any free port."""

    program: ClassVar = "gputopo-mps"
    purpose: ClassVar = "Runs one CUDA MPS control daemon for each shared GPU of this node."

    node: Annotated[str, Field(min_length=1, description="name of this node")]
    share_resource: Annotated[
        str, Field(min_length=1, description="extended resource that counts the shares of GPUs")
    ] = share_resource(RESOURCE)
    library_dir: Annotated[Path, Field(description="folder of the driver's libnvidia-ml.so.1")] = (
        Path("/usr/lib/x86_64-linux-gnu")
    )
    control_program: Annotated[
        str, Field(min_length=1, description="name or path of MPS's control program")
    ] = "nvidia-cuda-mps-control"
    client_user: Annotated[
        int | None,
        Field(
            ge=0,
            description="user ID of all clients; by default clients of all users share one server "
            "that runs as root",
        ),
    ] = None
    run_dir: Annotated[
        Path,
        Field(description="folder on a tmpfs of the host, the same path here as on the host"),
    ] = Path("/run/gputopo-mps")
    shared_memory_size: Annotated[
        str | None,
        Field(
            description="size of the shared memory (/dev/shm) of the containers of one GPU, as in "
            "the option of mount; by default they have the /dev/shm of this program"
        ),
    ] = None
    shared_memory_files: Annotated[
        int, Field(ge=1, description="most files in the shared memory of one GPU")
    ] = 65_536
    max_pods_per_gpu: Annotated[
        int,
        Field(ge=1, description="number of equal shares into which the memory of a GPU divides"),
    ] = 3
    cgroup_dir: Annotated[
        Path | None,
        Field(
            description="the host's /sys/fs/cgroup as this container sees it, to move daemons out "
            "of the container's cgroup; by default they end with the container"
        ),
    ] = None
    proc_dir: Annotated[
        Path, Field(description="the host's /proc, which names the cgroup of each client")
    ] = Path("/proc")
    probes_host: Annotated[
        str, Field(description="address of livez, readyz and metrics; empty for all")
    ] = ""
    probes_port: Annotated[Port, Field(description="port of livez, readyz and metrics")] = 8893
    check_seconds: Annotated[Seconds, Field(description="time between two checks of a daemon")] = (
        2.0
    )
    response_seconds: Annotated[
        Seconds,
        Field(description="time limit for a response of a daemon, after which it is replaced"),
    ] = 10.0
    start_seconds: Annotated[Seconds, Field(description="time limit for the start of a daemon")] = (
        30.0
    )
    stop_seconds: Annotated[Seconds, Field(description="time limit for the end of a daemon")] = 10.0
    recovery_seconds: Annotated[
        Seconds,
        Field(description="time for a server without clients to recover from a fatal fault"),
    ] = 30.0
    nvml_timeout_seconds: Annotated[Seconds, Field(description="time limit for a call of NVML")] = (
        20.0
    )
    api_timeout_seconds: Annotated[
        Seconds, Field(description="time limit for a response of the API server")
    ] = 10.0
    resync_seconds: Annotated[
        Seconds, Field(description="time without an event after which the pods are listed again")
    ] = 60.0
    fault_keep_seconds: Annotated[
        Seconds, Field(description="time after which a fault that was not acknowledged is deleted")
    ] = 86_400.0

    @property
    def socket(self) -> Path:
        """The socket of the node agent's requests."""
        return self.run_dir / "mps.sock"

    @property
    def shared_memory(self) -> SharedMemory | None:
        """The limits of the shared memory of one GPU; None if it is that of this program."""
        if self.shared_memory_size is None:
            return None
        return SharedMemory(self.shared_memory_size, self.shared_memory_files)
