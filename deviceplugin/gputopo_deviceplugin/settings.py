"""The agent's settings, from flags and environment variables; flags take precedence."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gputopo.api.names import RESOURCE
from gputopo.api.profile import MAX_SHARES
from gputopo.runtime.settings import Port, ProgramSettings, Seconds
from gputopo.throughput.phases import DEFAULT_RULES, PhaseRules
from gputopo_kube.kubelet_config import SERVICE_ACCOUNT, KubeletCredentials

_PORT = "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"


class AgentSettings(ProgramSettings):
    """The agent's settings. Only ``node`` has no default. Port 0 means any free port."""

    program: ClassVar = "gputopo-deviceplugin"
    purpose: ClassVar = "Publishes this node's GPU topology and serves its GPUs to kubelet."

    node: Annotated[str, Field(min_length=1, description="name of this node")]
    resource: Annotated[
        str, Field(min_length=1, description="extended resource that counts the GPUs")
    ] = RESOURCE
    shares_per_gpu: Annotated[
        int,
        Field(ge=0, le=MAX_SHARES, description="most pods that share a GPU; 0 offers no shares"),
    ] = 0
    mps_socket: Annotated[
        Path, Field(description="socket of the component that runs MPS on this node")
    ] = Path("/run/gputopo-mps/mps.sock")
    mps_timeout_seconds: Annotated[
        Seconds, Field(description="time limit for one request to that component")
    ] = 15.0
    competing_resources: Annotated[
        str,
        Field(
            description="resources of other plugins for the same GPUs, separated by commas; "
            "a trailing * matches any end of the name"
        ),
    ] = "nvidia.com/gpu,nvidia.com/gpu.shared,nvidia.com/mig-*,nvidia.com/pgpu"
    competing_drivers: Annotated[
        str,
        Field(description="DRA drivers that allocate the same GPUs, separated by commas"),
    ] = "gpu.nvidia.com"
    library_dir: Annotated[Path, Field(description="folder of the driver's libnvidia-ml.so.1")] = (
        Path("/usr/lib/x86_64-linux-gnu")
    )
    device_dir: Annotated[
        Path,
        Field(description="folder of nvidia0, nvidiactl and so on, on the host"),
    ] = Path("/dev")
    device_mount: Annotated[
        Path | None,
        Field(description="path of device_dir in this container; by default the same path"),
    ] = None
    device_injection: Annotated[
        Literal["DeviceNodes", "CDI"],
        Field(description="how containers get GPUs: DeviceNodes, or CDI by the container runtime"),
    ] = "DeviceNodes"
    cdi_kind: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z][A-Za-z0-9_.-]*/[A-Za-z][A-Za-z0-9_-]*$",
            description="vendor/class of the node's CDI specs, whose devices are named by UUID",
        ),
    ] = "nvidia.com/gpu"
    system_dir: Annotated[Path, Field(description="mount point of sysfs")] = Path("/sys")
    cgroup_dir: Annotated[
        Path, Field(description="the host's /sys/fs/cgroup as this container sees it")
    ] = Path("/sys/fs/cgroup")
    state_dir: Annotated[
        Path, Field(description="folder on a tmpfs for state that survives a restart of the agent")
    ] = Path("/run/gputopo")
    plugin_dir: Annotated[Path, Field(description="kubelet's folder of device-plugin sockets")] = (
        Path("/var/lib/kubelet/device-plugins")
    )
    pod_resources_socket: Annotated[Path, Field(description="kubelet's pod-resources socket")] = (
        Path("/var/lib/kubelet/pod-resources/kubelet.sock")
    )
    probes_host: Annotated[
        str, Field(description="address of livez, readyz and metrics; empty for all")
    ] = ""
    probes_port: Annotated[Port, Field(description="port of livez, readyz and metrics")] = 8890
    health_seconds: Annotated[Seconds, Field(description="time between two reads of NVML")] = 5.0
    retry_seconds: Annotated[
        Seconds, Field(description="time between two attempts to open NVML on a node without NVML")
    ] = 30.0
    xid_quiet_seconds: Annotated[
        Seconds,
        Field(description="time from the last critical XID until a GPU is healthy again"),
    ] = 300.0
    nvml_timeout_seconds: Annotated[
        Seconds,
        Field(description="time limit for a call of NVML, after which all GPUs are unhealthy"),
    ] = 5.0
    nvml_open_timeout_seconds: Annotated[
        Seconds,
        Field(description="time limit for opening NVML and for the first read of all GPUs"),
    ] = 60.0
    publish_numa: Annotated[
        Literal["Never", "PolicyNone", "AnyPolicy"],
        Field(
            description="when kubelet gets the NUMA nodes of the GPUs: Never, PolicyNone while "
            "its topologyManagerPolicy is none, or AnyPolicy, which limits the choice of GPUs"
        ),
    ] = "Never"
    nri_socket: Annotated[
        Path | None,
        Field(
            description="NRI socket of the container runtime, by which the agent limits containers "
            "to the CPUs near their GPUs; by default the agent does not"
        ),
    ] = None
    kubelet_tls: Annotated[
        Literal["ClusterCA", "Insecure"],
        Field(
            description="how the agent verifies kubelet's certificate before it reads the policy: "
            "ClusterCA, or Insecure for any certificate"
        ),
    ] = "ClusterCA"
    service_account_dir: Annotated[
        Path, Field(description="folder with token and ca.crt of the agent's service account")
    ] = SERVICE_ACCOUNT
    observe_seconds: Annotated[
        Seconds, Field(description="time between two reads of kubelet's pod-resources list")
    ] = 5.0
    resync_seconds: Annotated[
        Seconds, Field(description="time between two reads of the Node and the GPUTopology")
    ] = 30.0
    drain_seconds: Annotated[
        Seconds,
        Field(description="time after SIGTERM in which pods bound before still get their GPUs"),
    ] = 2.0
    api_timeout_seconds: Annotated[
        Seconds,
        Field(description="time limit for a response of the API server outside of admission"),
    ] = 10.0
    admission_timeout_seconds: Annotated[
        Seconds,
        Field(description="time limit for all reads from the API server in one call of kubelet"),
    ] = 1.5
    sample_seconds: Annotated[
        Seconds, Field(description="shortest measurement of a rate that gives a sample")
    ] = DEFAULT_RULES.sample_seconds
    warm_up_seconds: Annotated[
        Seconds,
        Field(description="time that is not measured after a job starts or its neighbours change"),
    ] = DEFAULT_RULES.warm_up_seconds
    resample_seconds: Annotated[
        Seconds, Field(description="time between two samples of a job while nothing changes")
    ] = DEFAULT_RULES.resample_seconds
    measure_publish_seconds: Annotated[
        Seconds, Field(description="shortest time between two published changes of rates")
    ] = 30.0
    pod_logs_dir: Annotated[
        Path | None,
        Field(
            description="the host's /var/log/pods as this container sees it, to count steps in "
            "logs; by default the agent reads no logs"
        ),
    ] = None

    counters: Annotated[
        Literal["On", "Off"],
        Field(description="whether the agent reads the hardware counters of the GPUs"),
    ] = "On"
    dcgm_exporter: Annotated[
        str,
        Field(
            pattern=r"^(http://[A-Za-z0-9.:\[\]-]{1,253}:" + _PORT + r"/[!-~]{0,256})?$",
            description="URL of DCGM's exporter on this node, for GPUs whose load NVML does not "
            "measure; by default the agent reads no exporter",
        ),
    ] = ""

    @property
    def phase_rules(self) -> PhaseRules:
        """How long a training program warms up, and for how long each sample is measured."""
        return PhaseRules(
            warm_up_seconds=self.warm_up_seconds,
            sample_seconds=self.sample_seconds,
            resample_seconds=self.resample_seconds,
        )

    @property
    def injected_cdi_kind(self) -> str | None:
        """The CDI kind; None if containers get device nodes instead of CDI devices."""
        return self.cdi_kind if self.device_injection == "CDI" else None

    @property
    def kubelet_credentials(self) -> KubeletCredentials:
        """How the agent identifies to kubelet's HTTPS server, and verifies it."""
        folder = self.service_account_dir
        verified = self.kubelet_tls == "ClusterCA"
        return KubeletCredentials(folder / "token", folder / "ca.crt" if verified else None)

    @property
    def competitors(self) -> frozenset[str]:
        """Resources of other device plugins for this node's GPUs; a final ``*`` is a wildcard."""
        return _split(self.competing_resources)

    @property
    def drivers(self) -> frozenset[str]:
        """Names of DRA drivers that allocate this node's GPUs too."""
        return _split(self.competing_drivers)


def _split(names: str) -> frozenset[str]:
    return frozenset(filter(None, (name.strip() for name in names.split(","))))
