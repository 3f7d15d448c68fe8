"""A real API server, without nodes, for tests that the fake server cannot replace.

etcd and kube-apiserver run on free ports of the loopback address, with RBAC on, and
any user can be impersonated. The binaries are those of the local cluster.
"""

import json
import secrets
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from support import features
from support.features import MUTATING_POLICIES, Feature
from support.ports import free_ports

START_SECONDS = 120

PODS = "/api/v1/namespaces/default/pods"
TOPOLOGIES = "/apis/gputopo.io/v1alpha1/gputopologies"
JOBS = "/apis/gputopo.io/v1alpha1/namespaces/default/gpujobs"
PROFILES = "/apis/gputopo.io/v1alpha1/namespaces/default/gpuprofiles"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/gputopo-system/leases"
ONE_GPU = {"limits": {"gputopo.io/gpu": "1"}}
_FLOW_SCHEMA = "X-Kubernetes-PF-FlowSchema-UID"
_ALL_GPUS = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}


@dataclass(frozen=True, slots=True)
class User:
    """The user of a request, by impersonation."""

    name: str
    groups: Sequence[str] = ("system:authenticated",)
    extra: Mapping[str, str] = field(default_factory=dict)

    def headers(self) -> dict[str, str]:
        """Return the impersonation headers; one group only, urllib cannot repeat a header."""
        headers = {"Impersonate-User": self.name, "Impersonate-Group": self.groups[0]}
        for key, value in self.extra.items():
            headers[f"Impersonate-Extra-{quote(key, safe='')}"] = value
        return headers


ADMIN = User("admin", ("system:masters",))


def service_account(name: str, node: str = "", namespace: str = "gputopo-system") -> User:
    """Return a service account; ``node`` is where the pod that holds its token runs."""
    extra = {"authentication.kubernetes.io/node-name": node} if node else {}
    return User(f"system:serviceaccount:{namespace}:{name}", extra=extra)


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """A response of the server.

    Attributes:
        flow_schema: UID of the FlowSchema to which the server has assigned the request.
    """

    status: int
    body: dict[str, Any]
    flow_schema: str = ""

    @property
    def accepted(self) -> bool:
        """Whether the server carried out the request."""
        return self.status < 300

    @property
    def message(self) -> str:
        """The reason of a rejection."""
        return str(self.body.get("message", ""))


class ApiServer:
    """A running API server."""

    def __init__(self, url: str, token: str, certificate: Path, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self._url = url
        self._token = token
        # The address is this machine's own: a proxy from the environment has no part in it.
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=certificate)),
        )

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        user: User = ADMIN,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> ApiResponse:
        """Send one request as ``user``; return the response."""
        request = urllib.request.Request(  # noqa: S310 - https, written above
            self._url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self._token}",
                "Content-Type": content_type,
                "Accept": accept,
                **user.headers(),
            },
        )
        try:
            with self._opener.open(request, timeout=30) as response:
                flow = str(response.headers[_FLOW_SCHEMA])
                return ApiResponse(response.status, _decode(response.read()), flow)
        except urllib.error.HTTPError as error:
            with error:
                flow = str(error.headers[_FLOW_SCHEMA])
                return ApiResponse(error.code, _decode(error.read()), flow)

    def watch(self, path: str, seconds: float) -> Iterator[dict[str, Any]]:
        """Yield the changes of a kind from now on, for ``seconds``."""
        version = self.get(path).body["metadata"]["resourceVersion"]
        query = f"watch=true&resourceVersion={version}&timeoutSeconds={int(seconds)}"
        request = urllib.request.Request(  # noqa: S310 - https, written above
            f"{self._url}{path}?{query}",
            headers={"Authorization": f"Bearer {self._token}", **ADMIN.headers()},
        )
        return self._events(request, seconds + 30)

    def _events(self, request: urllib.request.Request, timeout: float) -> Iterator[dict[str, Any]]:
        with self._opener.open(request, timeout=timeout) as response:
            for line in response:
                yield json.loads(line)

    def kubeconfig_of(self, account: str, path: Path, pod: Mapping[str, Any] | None = None) -> Path:
        """Write a kubeconfig with a token of a service account of the installation.

        The token of a ``pod`` names the pod's node too.
        """
        tokens = f"/api/v1/namespaces/gputopo-system/serviceaccounts/{account}/token"
        spec: dict[str, Any] = {}
        if pod is not None:
            bound = {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
            spec["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", **bound}
        response = self.create(tokens, {"spec": spec})
        assert response.accepted, response.message
        config = json.loads(self.kubeconfig.read_text())
        config["users"] = [{"name": "admin", "user": {"token": response.body["status"]["token"]}}]
        path.touch(mode=0o600)
        path.write_text(json.dumps(config))
        return path

    def create(self, path: str, body: object, user: User = ADMIN) -> ApiResponse:
        """Create an object with strict field validation, as kubectl does."""
        return self.request("POST", f"{path}?fieldValidation=Strict", body, user=user)

    def merge(self, path: str, body: object, user: User = ADMIN) -> ApiResponse:
        """Change an object by a JSON merge patch."""
        content_type = "application/merge-patch+json"
        return self.request("PATCH", path, body, user=user, content_type=content_type)

    def get(self, path: str, user: User = ADMIN) -> ApiResponse:
        """Read an object."""
        return self.request("GET", path, user=user)

    def serves(self, feature: Feature) -> bool:
        """Return whether the server has a feature that only newer versions of Kubernetes have."""
        version = self.get("/version").body["gitVersion"]
        kinds = {each["kind"] for each in self.get(feature.path).body.get("resources", [])}
        return features.is_served(version, kinds, feature)

    def table(self, path: str) -> dict[str, Any]:
        """Read what kubectl shows of an object."""
        table = "application/json;as=Table;v=v1;g=meta.k8s.io"
        return self.request("GET", path, accept=table).body

    def delete(self, path: str, user: User = ADMIN) -> ApiResponse:
        """Delete an object at once."""
        return self.request("DELETE", path, {"gracePeriodSeconds": 0}, user=user)


def wait_for_policies(server: ApiServer) -> None:
    """Wait until the chart's policies are enforced: the server compiles them at some time after."""
    container = {"name": "main", "image": "busybox"}
    forged = {"name": "probe", "annotations": {"gputopo.io/gpus": "x"}}
    recorded = {"name": "probe", "annotations": {"gputopo.io/resources": "x"}}
    agent = service_account("gputopo-deviceplugin", "other")
    topology = {"apiVersion": "gputopo.io/v1alpha1", "kind": "GPUTopology", "spec": {}}
    probes = [
        (PODS, {"metadata": forged, "spec": {"containers": [container]}}, ADMIN),
        (PODS, {"metadata": recorded, "spec": {"containers": [container]}}, ADMIN),
        (
            PODS,
            {
                "metadata": {"name": "probe"},
                "spec": {"containers": [{**container, "resources": ONE_GPU}]},
            },
            ADMIN,
        ),
        (
            PODS,
            {
                "metadata": {"name": "probe"},
                "spec": {
                    "schedulerName": "gputopo",
                    "containers": [{**container, "resources": ONE_GPU, "env": [_ALL_GPUS]}],
                },
            },
            ADMIN,
        ),
        (TOPOLOGIES, {**topology, "metadata": {"name": "probe"}}, agent),
        (LEASES, {"metadata": {"name": "probe"}}, service_account("gputopo-extender")),
    ]
    deadline = time.monotonic() + START_SECONDS
    for path, body, user in probes:
        while server.request("POST", f"{path}?dryRun=All", body, user=user).accepted:
            if time.monotonic() > deadline:
                raise RuntimeError(f"no policy rejects {body}")
            time.sleep(0.2)
    if server.serves(MUTATING_POLICIES):
        _wait_for_label(server, deadline)


def _wait_for_label(server: ApiServer, deadline: float) -> None:
    """Wait until the server adds the label to pods that the operator resizes."""
    annotations = {"gputopo.io/resources-mode": "Auto"}
    pod = {
        "metadata": {"name": "probe", "annotations": annotations},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    }
    while not (response := server.request("POST", f"{PODS}?dryRun=All", pod)).accepted:
        if time.monotonic() > deadline:
            raise RuntimeError(response.message)
        time.sleep(0.2)


@dataclass(frozen=True, slots=True)
class AuditedRequest:
    """One request in the audit log.

    Attributes:
        resource: with its subresource, as in a rule: ``pods/binding``.
        reason: which binding of which role allowed it.
    """

    user: str
    verb: str
    group: str
    resource: str
    name: str
    status: int
    reason: str


def audited(folder: Path) -> list[AuditedRequest]:
    """Return the requests for objects in the audit log of a server that ran in ``folder``."""
    events = [json.loads(line) for line in (folder / "audit.log").read_text().splitlines()]
    return [_audited(event) for event in events if "resource" in event.get("objectRef", {})]


def _audited(event: dict[str, Any]) -> AuditedRequest:
    ref = event["objectRef"]
    subresource = f"/{ref['subresource']}" if "subresource" in ref else ""
    return AuditedRequest(
        user=event["user"]["username"],
        verb=event["verb"],
        group=ref.get("apiGroup", ""),
        resource=ref["resource"] + subresource,
        name=ref.get("name", ""),
        status=event.get("responseStatus", {}).get("code", 0),
        reason=event.get("annotations", {}).get("authorization.k8s.io/reason", ""),
    )


@contextmanager
def running(binaries: Path, folder: Path, *, audit: bool = False) -> Iterator[ApiServer]:
    """Start etcd and the API server with their data in ``folder``; end them afterwards.

    ``audit`` writes an audit log of all requests; see ``audited``.
    """
    etcd_port, peer_port, port = free_ports(3)
    token = secrets.token_urlsafe()
    _write_credentials(folder, token, port)
    with (
        process(_etcd(folder, etcd_port, peer_port), folder / "etcd.log"),
        process(
            [*_api_server(binaries, folder, etcd_port, port), *(_audit(folder) if audit else [])],
            folder / "apiserver.log",
        ) as server,
    ):
        deadline = time.monotonic() + START_SECONDS
        while not _is_ready(folder, port, token):
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((folder / "apiserver.log").read_text()[-3000:])
            time.sleep(0.2)
        yield _client(folder, port, token)


def _client(folder: Path, port: int, token: str) -> ApiServer:
    url = f"https://127.0.0.1:{port}"
    return ApiServer(url, token, folder / "apiserver.crt", folder / "kubeconfig")


def _is_ready(folder: Path, port: int, token: str) -> bool:
    if not (folder / "apiserver.crt").exists():
        return False
    try:
        client = _client(folder, port, token)
        return client.get("/readyz").accepted
    except (urllib.error.URLError, ConnectionError, ssl.SSLError):
        return False


@contextmanager
def process(
    argv: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a program, which writes into ``log``, while the block runs."""
    with (
        log.open("wb") as output,
        subprocess.Popen(argv, stdout=output, stderr=output, env=environment) as running_one,
    ):
        try:
            yield running_one
        finally:
            running_one.send_signal(signal.SIGCONT)
            running_one.terminate()
            try:
                running_one.wait(10)
            except subprocess.TimeoutExpired:
                running_one.kill()


def _etcd(folder: Path, port: int, peer_port: int) -> list[str]:
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
    return [
        "etcd",
        "--name=test",
        f"--data-dir={folder / 'etcd'}",
        "--unsafe-no-fsync",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=test={peer}",
    ]


def _api_server(binaries: Path, folder: Path, etcd_port: int, port: int) -> list[str]:
    return [
        str(binaries / "kube-apiserver"),
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder}",
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        # As in most clusters; otherwise the server accepts no DaemonSet with a privileged agent.
        "--allow-privileged=true",
        "--authorization-mode=Node,RBAC",
        # The strictest of what clusters have: an owner reference that blocks needs more rights.
        "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
        # Nothing here makes the service account "default" of a new namespace.
        "--disable-admission-plugins=ServiceAccount",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder / 'accounts.pub'}",
        f"--service-account-signing-key-file={folder / 'accounts.key'}",
        "--service-cluster-ip-range=10.96.0.0/16",
    ]


def _audit(folder: Path) -> list[str]:
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy"}
    rules = {"omitStages": ["RequestReceived"], "rules": [{"level": "Metadata"}]}
    path = folder / "audit-policy.json"
    path.write_text(json.dumps({**policy, **rules}))
    return [
        f"--audit-policy-file={path}",
        f"--audit-log-path={folder / 'audit.log'}",
        "--audit-log-mode=blocking",
    ]


def _write_credentials(folder: Path, token: str, port: int) -> None:
    (folder / "tokens.csv").write_text(f'{token},admin,admin,"system:masters"\n')
    key, public = str(folder / "accounts.key"), str(folder / "accounts.pub")
    curve = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
    for words in (
        ["genpkey", *curve, "-out", key],
        ["pkey", "-in", key, "-pubout", "-out", public],
    ):
        subprocess.run(["openssl", *words], check=True, capture_output=True)
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        "clusters": [
            {
                "name": "test",
                "cluster": {
                    "server": f"https://127.0.0.1:{port}",
                    "certificate-authority": str(folder / "apiserver.crt"),
                },
            }
        ],
        "users": [{"name": "admin", "user": {"token": token}}],
    }
    path = folder / "kubeconfig"
    path.touch(mode=0o600)
    path.write_text(json.dumps(kubeconfig))


def _decode(body: bytes) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(body)
    except ValueError:
        return {"message": body.decode(errors="replace")}
    return document
