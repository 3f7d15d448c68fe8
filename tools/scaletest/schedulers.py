"""The three schedulers that are compared: plain, with a do-nothing extender, and gputopo's own."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import yaml

from gputopo.api.names import SCHEDULER_NAME
from localcluster import processes
from localcluster.settings import CLONE, Paths
from scaletest.measure import Latency, added, buckets, of_buckets, of_samples
from showcase.install import NAMESPACE
from showcase.kubectl import Kubectl, wait_for
from soaktest.client import Client, RejectedError, UnavailableError

PLAIN, NOTHING = "scale-plain", "scale-nothing"
PLAIN_TITLE, OUR_TITLE = "plain kube-scheduler", "gputopo"
_DEPLOYMENT = "gputopo-scheduler"
_DEPLOYMENT_PATH = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{_DEPLOYMENT}"
_SELECTOR = "app.kubernetes.io/component=scheduler"


class Scheduler(Protocol):
    """One way to place pods.

    Attributes:
        name: value of ``spec.schedulerName``.
        title: name in the table.
    """

    name: str
    title: str

    def started(self) -> AbstractContextManager[None]:
        """Run it for the duration of a block."""
        ...

    def latencies(self) -> dict[str, Latency]:
        """Return the latencies of its last run, by verb."""
        ...


class Plain:
    """kube-scheduler with the chart's plugins, and no extender.

    With ``sampling`` it looks at a part of the nodes only, as it does by default: one that places
    by links cannot.
    """

    name = PLAIN

    def __init__(self, paths: Paths, kubectl: Kubectl, *, sampling: bool = False) -> None:
        self._paths, self._kubectl, self._sampling = paths, kubectl, sampling
        self.title = "plain, sampling nodes" if sampling else PLAIN_TITLE

    @contextmanager
    def started(self) -> Iterator[None]:
        """Run it as a process of this machine."""
        configuration = _configuration(self._kubectl, self._paths, self.name)
        if self._sampling:
            del configuration["percentageOfNodesToScore"]
        with _kube_scheduler(self._paths, configuration):
            yield

    def latencies(self) -> dict[str, Latency]:
        """Return nothing: there is no extender."""
        return {}


class DoNothing:
    """The same, and an extender that decides nothing."""

    name, title = NOTHING, "do-nothing extender"

    def __init__(self, paths: Paths, kubectl: Kubectl) -> None:
        self._paths, self._kubectl = paths, kubectl
        self._milliseconds: Mapping[str, list[float]] = {}

    @contextmanager
    def started(self) -> Iterator[None]:
        """Run both as processes of this machine."""
        pki = self._paths.pki
        keys = [str(pki / name) for name in ("ca.crt", "admin.crt", "admin.key")]
        with subprocess.Popen(
            [sys.executable, "-m", "scaletest.nothing", *keys],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": str(CLONE / "tools")},
        ) as server:
            if server.stdin is None or server.stdout is None:
                raise AssertionError("both are pipes")
            port = int(server.stdout.readline())
            configuration = _configuration(self._kubectl, self._paths, self.name, port)
            with _kube_scheduler(self._paths, configuration):
                yield
            server.stdin.close()
            self._milliseconds = json.loads(server.stdout.readline())

    def latencies(self) -> dict[str, Latency]:
        """Return the latencies of its complete run, which has ended."""
        return {verb: of_samples(samples) for verb, samples in self._milliseconds.items()}


class Ours:
    """gputopo as the chart installs it, except for the number of schedulers."""

    name = SCHEDULER_NAME

    def __init__(self, client: Client, replicas: int) -> None:
        self._client = client
        self._replicas = replicas
        self._counted = buckets("")
        self.title = OUR_TITLE if replicas == 1 else f"{OUR_TITLE}, {replicas} replicas"

    @contextmanager
    def started(self) -> Iterator[None]:
        """Run its Deployment, which has no pods while the others are measured."""
        scale(self._client, self._replicas)
        try:
            yield
        finally:
            self._counted = added(map(buckets, self.metrics()))
            scale(self._client, 0)

    def latencies(self) -> dict[str, Latency]:
        """Return the latencies of its last run, whose counts began at zero."""
        return of_buckets(self._counted)

    def metrics(self) -> list[str]:
        """Return the metrics of each extender; only the leader's has counts."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        try:
            pods = self._client.get(path, labelSelector=_SELECTOR)["items"]
            return [
                self._client.text(f"{path}/{pod['metadata']['name']}:8889/proxy/metrics")
                for pod in pods
            ]
        except (UnavailableError, RejectedError):
            return []


def replicas_installed(client: Client) -> int:
    """Return how many schedulers the chart installed."""
    return int(client.get(_DEPLOYMENT_PATH)["spec"]["replicas"])


def scale(client: Client, replicas: int) -> None:
    """Scale gputopo's schedulers to this number, which may be 0."""
    client.patch(_DEPLOYMENT_PATH, {"spec": {"replicas": replicas}})
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"

    def scaled() -> bool:
        return len(client.get(pods, labelSelector=_SELECTOR)["items"]) == replicas

    wait_for(f"{replicas} pods of {_DEPLOYMENT}", scaled, timeout_s=60)


def _configuration(
    kubectl: Kubectl, paths: Paths, name: str, extender_port: int | None = None
) -> dict[str, Any]:
    """Return the chart's own configuration with another name and another or no extender."""
    document = kubectl.get("configmap", _DEPLOYMENT, NAMESPACE)["data"]["config.yaml"]
    configuration: dict[str, Any] = yaml.safe_load(document)
    configuration["clientConnection"]["kubeconfig"] = str(paths.pki / "scheduler.kubeconfig")
    configuration["leaderElection"] = {"leaderElect": False}
    configuration["profiles"][0]["schedulerName"] = name
    if extender_port is None:
        del configuration["extenders"]
    else:
        configuration["extenders"][0]["urlPrefix"] = f"http://127.0.0.1:{extender_port}"
        configuration["extenders"][0].pop("preemptVerb", None)
    return configuration


@contextmanager
def _kube_scheduler(paths: Paths, configuration: Mapping[str, Any]) -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="gputopo-scale-") as folder:
        file = Path(folder) / "scheduler.json"
        file.write_text(json.dumps(configuration))
        command: list[str | Path] = [
            paths.binaries / "kube-scheduler",
            f"--config={file}",
            "--secure-port=0",
            f"--authentication-kubeconfig={paths.pki}/scheduler.kubeconfig",
            f"--authorization-kubeconfig={paths.pki}/scheduler.kubeconfig",
        ]
        identity = processes.start(command, paths.logs / "scale-scheduler.log", {})
        try:
            yield
        finally:
            processes.end(identity, patience_seconds=2)
