"""Compare the GPUs of every running container periodically."""

import threading
import time
from collections.abc import Iterable, Mapping

from localcluster.access import NodeAccess
from soaktest import truth
from soaktest.client import Client
from soaktest.journal import Journal
from soaktest.pod_watcher import PodWatcher
from soaktest.truth import Comparison, Running

_EVERY_SECONDS = 1.0


class Inspector:
    """Compares in its own thread.

    Attributes:
        compared: UIDs of the pods whose containers were compared.
        differences: differences from the intended GPUs, by UID of the pod.
    """

    def __init__(
        self, machines: NodeAccess, client: Client, pod_watcher: PodWatcher, journal: Journal
    ) -> None:
        self._machines, self._pod_watcher, self._journal = machines, pod_watcher, journal
        self._uuid_of_minor = {
            item["metadata"]["name"]: {gpu["minor"]: gpu["uuid"] for gpu in item["spec"]["gpus"]}
            for item in client.get("/apis/gputopo.io/v1alpha1/gputopologies")["items"]
        }
        self._suspects: set[tuple[str, str]] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="inspect", daemon=True)
        self.compared: set[str] = set()
        self.differences: dict[str, str] = {}

    @property
    def nodes(self) -> list[str]:
        """Names of the nodes with GPUs."""
        return sorted(self._uuid_of_minor)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current comparison."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_EVERY_SECONDS):
            self._compare_records(truth.running(self._machines))
            self._journal.count("checks of the nodes")

    def _compare_records(self, found: Iterable[Running]) -> None:
        checkpoints = {node: self._checkpoint(node) for node in self.nodes}
        suspects = set()
        for one in found:
            pod = self._pod_watcher.seen.get(one.pod_uid)
            if pod is None or one.node not in checkpoints:
                continue  # the API server has not reported it yet
            minors = self._uuid_of_minor[one.node]
            comparison = truth.compare(one, pod.gpus, checkpoints[one.node], minors)
            self.compared.add(one.pod_uid)
            suspects |= self._judge(one, comparison)
        self._suspects = suspects

    def _judge(self, one: Running, comparison: Comparison) -> set[tuple[str, str]]:
        """Record an error that two successive comparisons show while the pod is not deleted."""
        wrong = set()
        if not comparison.as_kubelet_recorded:
            wrong.add("containers that differ from kubelet's records")
        if not comparison.as_intended:
            wrong.add("intended/observed differences")
        name = self._name(one.pod_uid)
        for kind in wrong:
            pod = self._pod_watcher.pod(one.pod_uid)
            known = (one.container_id, kind) in self._suspects
            if known and pod is not None and not pod.leaving and truth.is_alive(one):
                self._note(kind, one.pod_uid, f"{name} on {one.node}: {comparison}")
        return {(one.container_id, kind) for kind in wrong}

    def _note(self, kind: str, pod_uid: str, text: str) -> None:
        if kind.startswith("intended"):
            if pod_uid not in self.differences:
                self._journal.write(f"DIFFERENCE {text}")
            self.differences[pod_uid] = text
        else:
            self._journal.finding(kind, text)

    def _checkpoint(self, node: str) -> Mapping[str, frozenset[str]]:
        for _ in range(5):
            try:
                return truth.checkpoint(self._machines, node)
            except (FileNotFoundError, ValueError):  # being replaced, or not yet there
                time.sleep(0.05)
        return {}

    def _name(self, pod_uid: str) -> str:
        pod = self._pod_watcher.seen.get(pod_uid)
        return pod.name if pod else pod_uid


def events_about(client: Client, namespace: str) -> dict[str, list[str]]:
    """Return the warning events of gputopo, by UID and by name of their objects."""
    found: dict[str, list[str]] = {}
    for event in client.get(f"/api/v1/namespaces/{namespace}/events")["items"]:
        source = event.get("reportingComponent") or event.get("source", {}).get("component", "")
        if event["type"] == "Warning" and "gputopo" in source:
            text = f"{event['reason']}: {event.get('message', '')}"
            about = event["involvedObject"]
            for key in (about.get("uid", ""), about.get("name", "")):
                found.setdefault(key, []).append(text)
    return found
