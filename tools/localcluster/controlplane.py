"""etcd, API server, controller manager and the default scheduler, as plain processes."""

import os
from pathlib import Path

from localcluster import processes, settings
from localcluster.api import ApiClient, wait_until
from localcluster.errors import ClusterError
from localcluster.processes import ProcessFiles
from localcluster.settings import Paths

PARTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
# A node that is switched off is noticed in 20 seconds instead of 50.
NODE_MONITOR = {"node-monitor-period": "2s", "node-monitor-grace-period": "20s"}
_START_SECONDS = 120.0


def start(paths: Paths, binaries: Path, files: ProcessFiles) -> None:
    """Start every part that does not run, and wait until the API server is ready.

    Raises:
        ClusterError: a part ended, or the API server was not ready in two minutes.
    """
    for part in PARTS[:2]:
        _start_part(part, paths, binaries, files)

    def ready() -> bool:
        for part in PARTS[:2]:
            if files.recall(part) is None:
                raise ClusterError(f"{part} has ended; see {paths.logs / part}.log")
        return ApiClient(paths).is_ready()

    wait_until(ready, "the API server", _START_SECONDS)
    for part in PARTS[2:]:
        _start_part(part, paths, binaries, files)


def stop(files: ProcessFiles) -> None:
    """Kill every part; their data is lost."""
    for part in reversed(PARTS):
        files.end(part, patience_seconds=0)


def arguments(part: str, paths: Paths, binaries: Path) -> list[str]:
    """The command line of one part."""
    builders = {
        "etcd": _etcd,
        "kube-apiserver": _api_server,
        "kube-controller-manager": _controller_manager,
        "kube-scheduler": _scheduler,
    }
    program = part if part == "etcd" else str(binaries / part)
    return [program, *builders[part](paths)]


def _start_part(part: str, paths: Paths, binaries: Path, files: ProcessFiles) -> None:
    if files.recall(part) is None:
        log = paths.logs / f"{part}.log"
        files.remember(part, processes.start(arguments(part, paths, binaries), log, os.environ))


def _etcd(paths: Paths) -> list[str]:
    client = f"https://127.0.0.1:{settings.ETCD_CLIENT_PORT}"
    peer = f"https://127.0.0.1:{settings.ETCD_PEER_PORT}"
    tls = [
        option
        for prefix in ("", "peer-")
        for option in (
            f"--{prefix}cert-file={paths.pki}/etcd.crt",
            f"--{prefix}key-file={paths.pki}/etcd.key",
            f"--{prefix}trusted-ca-file={paths.pki}/ca.crt",
            f"--{prefix}client-cert-auth",
        )
    ]
    return [
        "--name=gputopo",
        f"--data-dir={paths.state}/etcd",
        # The cluster does not outlive the machine's next boot, so neither need its data.
        "--unsafe-no-fsync",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=gputopo={peer}",
        *tls,
    ]


def _api_server(paths: Paths) -> list[str]:
    pki = paths.pki
    return [
        f"--bind-address={settings.CONTROL_PLANE_ADDRESS}",
        f"--advertise-address={settings.CONTROL_PLANE_ADDRESS}",
        f"--secure-port={settings.API_PORT}",
        f"--etcd-servers=https://127.0.0.1:{settings.ETCD_CLIENT_PORT}",
        f"--etcd-cafile={pki}/ca.crt",
        f"--etcd-certfile={pki}/etcd.crt",
        f"--etcd-keyfile={pki}/etcd.key",
        f"--service-cluster-ip-range={settings.SERVICE_NETWORK}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={pki}/sa.pub",
        f"--service-account-signing-key-file={pki}/sa.key",
        f"--client-ca-file={pki}/ca.crt",
        f"--tls-cert-file={pki}/apiserver.crt",
        f"--tls-private-key-file={pki}/apiserver.key",
        f"--kubelet-certificate-authority={pki}/ca.crt",
        f"--kubelet-client-certificate={pki}/admin.crt",
        f"--kubelet-client-key={pki}/admin.key",
        "--kubelet-preferred-address-types=InternalIP",
        # The controller manager waits for the request-header authority to be published.
        f"--requestheader-client-ca-file={pki}/ca.crt",
        "--requestheader-allowed-names=front-proxy",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
    ]


def _controller_manager(paths: Paths) -> list[str]:
    pki = paths.pki
    return [
        *_client_of_api_server(pki / "controller-manager.kubeconfig"),
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={pki}/sa.key",
        f"--root-ca-file={pki}/ca.crt",
        f"--cluster-signing-cert-file={pki}/ca.crt",
        f"--cluster-signing-key-file={pki}/ca.key",
        "--allocate-node-cidrs=false",
        # Its default lies in /usr and would be made there.
        f"--flex-volume-plugin-dir={paths.state}/volume-plugins",
        f"--service-cluster-ip-range={settings.SERVICE_NETWORK}",
        *(f"--{name}={value}" for name, value in NODE_MONITOR.items()),
    ]


def _scheduler(paths: Paths) -> list[str]:
    return [*_client_of_api_server(paths.pki / "scheduler.kubeconfig"), "--leader-elect=false"]


def _client_of_api_server(kubeconfig: Path) -> list[str]:
    return [
        "--bind-address=127.0.0.1",
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
    ]
