"""Pairs of kube-scheduler and extender, as real processes, on a real API server without kubelets.

Nodes are only objects, so pods that are bound to them stay pending. Tests see what schedulers and
extenders do.
"""

import itertools
import json
import os
import re
import signal
import ssl
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen
from typing import Any

import yaml

from gputopo.catalogue import named
from support.builders.objects import Document, topology_object
from support.control_plane.api_server import (
    ONE_GPU,
    PODS,
    TOPOLOGIES,
    ApiServer,
    process,
)
from support.extender.service import uuids_of
from support.helm_chart import Helm, find
from support.ports import free_ports

LEASE = "/apis/coordination.k8s.io/v1/namespaces/gputopo-system/leases/gputopo-scheduler"
_PATIENCE = 3
_BOUND = re.compile(r'^gputopo_extender_binds_total\{outcome="bound"\} (\S+)$', re.MULTILINE)


@dataclass(slots=True, eq=False)
class Pair:
    """A kube-scheduler and the extender that it calls."""

    extender: Popen[bytes]
    scheduler: Popen[bytes]
    probes_port: int
    scheduler_port: int
    folder: Path

    @property
    def pod(self) -> str:
        """The pair's pod name, which is the host name of its kube-scheduler."""
        return self.folder.name

    def send(self, number: signal.Signals) -> None:
        """Send a signal to both processes, as if their pod or node failed."""
        self.scheduler.send_signal(number)
        self.extender.send_signal(number)

    def metrics(self) -> str:
        """Return the metrics of the extender."""
        return read_url(f"http://127.0.0.1:{self.probes_port}/metrics")

    def bound(self) -> int:
        """Return how many pods the extender has bound."""
        found = _BOUND.search(self.metrics())
        return int(float(found[1])) if found else 0

    def logged(self, words: str) -> int:
        """Return how often the extender has logged a text."""
        return (self.folder / "extender.log").read_text().count(words)

    def logs_secrets(self, server: ApiServer) -> bool:
        """Return whether one of the two logs contains a token of this test."""
        logs = "".join(path.read_text() for path in self.folder.glob("*.log"))
        files = (server.kubeconfig, self.folder.parent / "kubeconfig")
        tokens = [json.loads(path.read_text())["users"][0]["user"]["token"] for path in files]
        # Of a token that is a JWT the signature alone would do; the rest is no secret.
        return any(token.rpartition(".")[2] in logs for token in tokens)

    def is_ready(self) -> bool:
        """Return the result of kubelet's readiness probe."""
        try:
            read_url(f"http://127.0.0.1:{self.probes_port}/readyz")
            read_url(f"https://127.0.0.1:{self.scheduler_port}/readyz")
        except OSError:
            return False
        return True


@dataclass(slots=True)
class Pods:
    """What a watch of all pods has shown.

    Attributes:
        bound_at: when each pod was seen bound, in seconds of a monotonic clock.
        shared: GPUs that two live pods had in their annotations after some event.
    """

    bound_at: dict[str, float] = field(default_factory=dict)
    shared: list[tuple[str, str, str]] = field(default_factory=list)
    live: dict[str, Document] = field(default_factory=dict)

    def see(self, event: dict[str, Any]) -> None:
        """Process an event of the watch."""
        document = event["object"]
        name = document["metadata"]["name"]
        ended = document["status"].get("phase") in {"Succeeded", "Failed"}
        if event["type"] == "DELETED" or ended:
            self.live.pop(name, None)
            return
        document["metadata"].setdefault("annotations", {})
        if uuids_of(document) and name not in self.bound_at:
            self.bound_at[name] = time.monotonic()
        mine = set(uuids_of(document))
        self.shared += [
            (name, other, uuid)
            for other, known in self.live.items()
            if other != name
            for uuid in mine & set(uuids_of(known))
        ]
        self.live[name] = document

    def longest_gap_seconds(self, since: float, until: float) -> float:
        """Return the longest time without a binding."""
        times = [since, *sorted(at for at in self.bound_at.values() if since < at < until), until]
        return max(later - earlier for earlier, later in itertools.pairwise(times))


@contextmanager
def watched(server: ApiServer) -> Iterator[Pods]:
    """Watch all pods from now on, for ten minutes at most."""
    seen = Pods()
    over = threading.Event()
    events = server.watch(PODS, seconds=600)

    def follow() -> None:
        for event in events:
            if over.is_set():
                return
            seen.see(event)

    thread = threading.Thread(target=follow)
    thread.start()
    yield seen
    over.set()
    # One more change ends the wait for the next event.
    put_pod(server, "last")
    thread.join()
    server.delete(f"{PODS}/last")


def put_nodes(server: ApiServer, count: int) -> None:
    """Create nodes of 8 GPUs each, as kubelet and agent publish them."""
    # The API server serves a new CustomResourceDefinition some time after it was created.
    wait_until(lambda: server.get(TOPOLOGIES).accepted, seconds=60)
    for number in range(count):
        name = f"node-{number}"
        amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", "gputopo.io/gpu": "8"}
        labels = {"kubernetes.io/hostname": name}
        node = {"metadata": {"name": name, "labels": labels}}
        assert server.create("/api/v1/nodes", node).accepted
        ready = {"type": "Ready", "status": "True"}
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
        assert server.merge(f"/api/v1/nodes/{name}/status", {"status": status}).accepted
        # The API server taints new nodes, and no controller runs here to remove the taint.
        assert server.merge(f"/api/v1/nodes/{name}", {"spec": {"taints": None}}).accepted
        topology = topology_object(name, named("dgx1-v100", node=name))
        del topology["metadata"]["uid"]
        assert server.create(TOPOLOGIES, {**topology, "status": {}}).accepted
        response = server.merge(f"{TOPOLOGIES}/{name}/status", {"status": topology["status"]})
        assert response.accepted, response.message


def put_pod(server: ApiServer, name: str, gpus: int = 1, priority: str = "") -> None:
    """Create a pod that requests GPUs."""
    container = {"name": "main", "image": "busybox", "resources": ONE_GPU}
    if gpus != 1:
        container["resources"] = {"limits": {"gputopo.io/gpu": str(gpus)}}
    # Deleted pods are gone at once, as if a kubelet had ended them.
    spec = {"schedulerName": "gputopo", "terminationGracePeriodSeconds": 0}
    spec["containers"] = [container]
    if priority:
        spec["priorityClassName"] = priority
    response = server.create(PODS, {"metadata": {"name": name}, "spec": spec})
    assert response.accepted, response.message


@contextmanager
def running_pairs(
    server: ApiServer,
    helm: Helm,
    binaries: Path,
    folder: Path,
    *,
    count: int,
    lease_seconds: int,
    extender: Sequence[str] = (),
) -> Iterator[list[Pair]]:
    """Run pairs with the rights and the configuration of the chart, until all are ready.

    ``extender`` are further flags of the extender.
    """
    election = {"leaseSeconds": lease_seconds, "renewSeconds": lease_seconds - 1, "retrySeconds": 1}
    rendered = helm.render({"scheduler": {"leaderElection": election}})
    text = find(rendered, "ConfigMap", "gputopo-scheduler")["data"]["config.yaml"]
    configuration = yaml.safe_load(text)
    access = server.kubeconfig_of("gputopo-extender", folder / "kubeconfig")
    server.delete(LEASE)  # of the schedulers of an earlier test: it would have to expire first
    with ExitStack() as stack:
        pairs = [
            _started(stack, configuration, access, binaries, folder / f"pair-{number}", extender)
            for number in range(count)
        ]
        wait_until(lambda: all(pair.is_ready() for pair in pairs), seconds=60)
        yield pairs


def wait_until(holds: Callable[[], bool], seconds: float) -> None:
    """Wait until a condition holds: for these seconds, and longer on a machine with other work."""
    deadline = time.monotonic() + _PATIENCE * seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come to hold in time"
        time.sleep(0.05)


def _started(
    stack: ExitStack,
    configuration: Document,
    access: Path,
    binaries: Path,
    folder: Path,
    extra: Sequence[str],
) -> Pair:
    folder.mkdir()
    verbs, probes, secure = free_ports(3)
    flags = [f"--verbs-port={verbs}", "--probes-host=127.0.0.1", f"--probes-port={probes}"]
    flags += [f"--pod={folder.name}", f"--lease-blocked-seconds={_blocked(configuration)}", *extra]
    extender = stack.enter_context(
        process(
            [sys.executable, "-m", "gputopo_extender", "--log-level=debug", *flags],
            folder / "extender.log",
            {**os.environ, "KUBECONFIG": str(access)},
        )
    )
    own = json.loads(json.dumps(configuration))
    own["clientConnection"]["kubeconfig"] = str(access)
    own["extenders"][0]["urlPrefix"] = f"http://127.0.0.1:{verbs}"
    (folder / "config.json").write_text(json.dumps(own))
    words = [f"--config={folder / 'config.json'}", f"--secure-port={secure}", "--v=2"]
    words.append(f"--cert-dir={folder}")
    # In a pod these are found by themselves.
    words += [f"--{part}-kubeconfig={access}" for part in ("authentication", "authorization")]
    # Its identity in the Lease begins with the host name, which in a pod is the pod's name.
    named = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', folder.name]
    argv = [*named, str(binaries / "kube-scheduler"), *words]
    scheduler = stack.enter_context(process(argv, folder / "scheduler.log"))
    return Pair(extender, scheduler, probes, secure, folder)


def _blocked(configuration: Document) -> int:
    """Return the chart's value in seconds; see ``lease_blocked_seconds``."""
    return int(configuration["leaderElection"]["renewDeadline"].removesuffix("s")) + 1


def read_url(url: str, access: Path | None = None) -> str:
    """Return what a port of this machine serves, with the token of a kubeconfig if there is one."""
    trusting = ssl.create_default_context()
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    handlers = (urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusting))
    request = urllib.request.Request(url)  # noqa: S310 - a port of this machine
    if access is not None:
        token = json.loads(access.read_text())["users"][0]["user"]["token"]
        request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.build_opener(*handlers).open(request, timeout=60) as response:
        return str(response.read().decode())
