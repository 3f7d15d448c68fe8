"""Configuration of a node's programs: containerd, kubelet, kube-proxy, the pod network."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from localcluster import settings
from localcluster.releases import Release
from localcluster.settings import Node

KUBELET_DISK = "/var/lib/kubelet"
_CRASH_LOOP_LIMIT_IS_DEFAULT = 35
"""Minor version from which the feature gate KubeletCrashLoopBackOffMax is on."""


def containerd_config(base_spec: Path) -> str:
    """Configuration of containerd 2.x, which has CDI and NRI on by default.

    It reads CDI specs from /etc/cdi and /var/run/cdi.

    Args:
        base_spec: file with the OCI spec from which it makes all containers.
    """
    return f"""\
version = 3
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{settings.PAUSE_IMAGE}"
[plugins."io.containerd.cri.v1.runtime"]
  # Lowering a process's OOM score needs CAP_SYS_RESOURCE, which root may lack in a container or VM.
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{settings.CNI_PLUGINS}"]
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    base_runtime_spec = "{base_spec}"
"""


def importing_containerd_config(root: Path, run_folder: Path) -> str:
    """Configuration of a containerd that only imports images and serves no kubelet."""
    return f"""\
version = 3
root = "{root}"
state = "{run_folder}/state"
disabled_plugins = [
  "io.containerd.grpc.v1.cri",
  "io.containerd.cri.v1.images",
  "io.containerd.cri.v1.runtime",
  "io.containerd.nri.v1.nri",
]
[grpc]
  address = "{run_folder}/socket"
[plugins."io.containerd.internal.v1.opt"]
  path = "{run_folder}/opt"
"""


def cni_config(node: Node) -> str:
    """Pods get point-to-point links; the node routes between them. No bridge, no NAT."""
    routes = [{"dst": "0.0.0.0/0"}]
    address_manager = {
        "type": "host-local",
        "ranges": [[{"subnet": node.pod_network}]],
        "routes": routes,
    }
    plugins = [
        {"type": "ptp", "ipMasq": False, "ipam": address_manager},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    return json.dumps({"cniVersion": "1.0.0", "name": "gputopo", "plugins": plugins}, indent=1)


def kubelet_config(
    node: Node, release: Release, pki: Path, config: Path, open_files_limit: int
) -> str:
    """A KubeletConfiguration (JSON, which is YAML too).

    Args:
        node: the node.
        release: version of kubelet.
        pki: folder of keys and certificates.
        config: the node's folder of configuration files.
        open_files_limit: kubelet may not request more than this process has.
    """
    document = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{pki}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{pki}/{node.name}.crt",
        "tlsPrivateKeyFile": f"{pki}/{node.name}.key",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "volumePluginDir": f"{KUBELET_DISK}/volume-plugins",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.cgroup}",
        "enforceNodeAllocatable": ["pods"],
        "failSwapOn": False,
        "maxOpenFiles": open_files_limit,
        "clusterDomain": "cluster.local",
        # Nothing answers there: names are not served, and asking fails at once.
        "clusterDNS": [settings.CONTROL_PLANE_ADDRESS],
        "resolvConf": f"{config}/resolv.conf",
        "evictionHard": {
            "memory.available": "50Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
            "nodefs.inodesFree": "1%",
        },
        **common_kubelet_fields(release),
    }
    return json.dumps(document, indent=1)


def common_kubelet_fields(release: Release) -> dict[str, Any]:
    """Fields of the KubeletConfiguration of both the local cluster and that of kind."""
    return {
        "failCgroupV1": False,
        # There is no registry to fetch a collected image from again.
        "imageGCHighThresholdPercent": 100,
        # Tests kill the same container again and again; kubelet would soon wait for minutes.
        "crashLoopBackOff": {"maxContainerRestartPeriod": "3s"},
        "featureGates": _feature_gates(release),
        "nodeStatusUpdateFrequency": "5s",
        "nodeLeaseDurationSeconds": 16,
    }


def _feature_gates(release: Release) -> dict[str, bool]:
    """Feature gates that the configuration needs and that are off by default in this version."""
    if release.number < _CRASH_LOOP_LIMIT_IS_DEFAULT:
        # Without it, kubelet does not start with the field crashLoopBackOff.
        return {"KubeletCrashLoopBackOffMax": True}
    return {}


def change_kubelet(config: Path, changes: Mapping[str, Any]) -> None:
    """Write the node's own KubeletConfiguration with other values of some fields.

    Args:
        config: the node's folder of configuration files.
        changes: new values by field; without any, the node gets its own configuration back.
    """
    current, own = config / "kubelet.json", config / "kubelet-own.json"
    if not own.exists():
        own.write_text(current.read_text())
    current.write_text(json.dumps({**json.loads(own.read_text()), **changes}, indent=1))


def kube_proxy_config(node: Node, pki: Path) -> str:
    """A KubeProxyConfiguration (JSON, which is YAML too)."""
    document = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": f"{pki}/proxy.kubeconfig"},
        "mode": "iptables",
        "clusterCIDR": settings.POD_NETWORK,
        "hostnameOverride": node.name,
        # These limits belong to the machine, and only its first network namespace may set them.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    }
    return json.dumps(document, indent=1)


def write(
    node: Node,
    release: Release,
    folder: Path,
    pki: Path,
    open_files_limit: int,
    base_spec: Mapping[str, Any],
) -> None:
    """Write every file of the node's configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "base-spec.json").write_text(json.dumps(base_spec, indent=1))
    (folder / "containerd.toml").write_text(containerd_config(folder / "base-spec.json"))
    kubelet = kubelet_config(node, release, pki, folder, open_files_limit)
    (folder / "kubelet.json").write_text(kubelet)
    (folder / "kube-proxy.json").write_text(kube_proxy_config(node, pki))
    (folder / "resolv.conf").write_text("")
    (folder / "cni").mkdir(exist_ok=True)
    (folder / "cni" / "10-gputopo.conflist").write_text(cni_config(node))
