"""Checks after the last pod: every GPU is free, and each node gives out all its GPUs."""

import re
from collections.abc import Callable

from showcase.install import NAMESPACE as SYSTEM
from showcase.install import Installed
from showcase.kubectl import KubectlError, wait_for
from showcase.truth import read_containers
from soaktest import load, manifests
from soaktest.client import Client, Object, RejectedError, UnavailableError
from soaktest.journal import Journal

_CLEANUP_SECONDS = 90.0
_EMPTY_LEDGER = {
    'gputopo_ledger_gpus{state="used"}': 0.0,
    'gputopo_ledger_reservations{progress="': 0.0,
    "gputopo_ledger_shared_gpus": 0.0,
}


class FinalCheck:
    """Checks an empty cluster."""

    def __init__(self, installed: Installed, client: Client, journal: Journal) -> None:
        self._installed, self._client, self._journal = installed, client, journal
        self._said = ""

    def run(self, nodes: list[str]) -> None:
        """Run all checks; an error becomes a finding."""
        self._leak("pods of the run are left", self._no_pods)
        self._leak("GPUTopology.status shows users", self._status_free)
        self._leak("the extender's ledger is not empty", self._ledger_free)
        self._fill(nodes)
        self._leak("GPUTopology.status shows users after full nodes", self._status_free)

    def _leak(self, what: str, is_clean: Callable[[], bool]) -> None:
        """Wait until the state is correct."""

        def look() -> bool:
            try:
                return is_clean()
            except (UnavailableError, RejectedError):
                return False

        try:
            wait_for(what, look, timeout_s=_CLEANUP_SECONDS, interval_s=1)
        except TimeoutError:
            self._journal.finding("GPUs leaked", f"{what}: {self._said}")

    def _no_pods(self) -> bool:
        pods = self._client.get(f"/api/v1/namespaces/{load.NAMESPACE}/pods")["items"]
        self._said = str([pod["metadata"]["name"] for pod in pods])
        return not pods

    def _status_free(self) -> bool:
        topologies = self._client.get("/apis/gputopo.io/v1alpha1/gputopologies")["items"]
        held = [
            (topology["metadata"]["name"], gpu)
            for topology in topologies
            for gpu in topology.get("status", {}).get("gpus", [{"healthy": False}])
            if "pod" in gpu or not gpu["healthy"]
        ]
        self._said = str(held)
        return not held

    def _ledger_free(self) -> bool:
        used = counted_as_used(self._client)
        self._said = str(used)
        return not used

    def _fill(self, nodes: list[str]) -> None:
        """Give each node's GPUs to one pod, and compare all sources."""
        path = f"/api/v1/namespaces/{load.NAMESPACE}/pods"
        for node in nodes:
            body = manifests.pod(f"all-of-{node}", 8, self._installed.workload_image, {}, node)
            self._client.create(path, body)

        def all_run() -> list[Object] | None:
            pods = self._client.get(path)["items"]
            running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
            self._said = str([(pod["metadata"]["name"], pod["status"]) for pod in pods])
            return running if len(running) == len(nodes) else None

        try:
            pods = wait_for("a full node's pod on each", all_run, timeout_s=_CLEANUP_SECONDS)
            for held in read_containers(self._installed.kubectl, pods):
                self._journal.count("full nodes that were compared")
                if not held.agrees:
                    self._journal.finding(
                        "containers that differ from kubelet's records", str(held)
                    )
        except TimeoutError:
            self._journal.finding("GPUs leaked", f"a node cannot give out all GPUs: {self._said}")
        except KubectlError as error:
            self._journal.finding("allocations unread", str(error))
        for node in nodes:
            self._client.delete(f"{path}/all-of-{node}")
        self._leak("pods of the run are left", self._no_pods)


def counted_as_used(client: Client) -> list[str]:
    """Return the metrics of ledgers that are not empty, or that no extender is ready.

    An extender keeps the GPUs of a deleted pod until its agent has reported without it.
    """
    ledgers = scheduler_metrics(client)
    used = [
        f"{replica}: {name} {value:g}"
        for replica, metrics in ledgers.items()
        for name, value in metrics.items()
        for start, wanted in _EMPTY_LEDGER.items()
        if name.startswith(start) and value != wanted
    ]
    return used if ledgers else ["no extender is ready"]


def scheduler_metrics(client: Client) -> dict[str, dict[str, float]]:
    """Return the metrics of each extender that is ready, by pod."""
    path = f"/api/v1/namespaces/{SYSTEM}/pods"
    pods = client.get(path, labelSelector="app.kubernetes.io/component=scheduler")["items"]
    ready = [
        pod["metadata"]["name"]
        for pod in pods
        if any(
            one["type"] == "Ready" and one["status"] == "True"
            for one in pod["status"].get("conditions", [])
        )
    ]
    texts = {name: client.text(f"{path}/{name}:8889/proxy/metrics") for name in ready}
    return {
        replica: {
            name: float(value)
            for name, value in re.findall(r"^(gputopo_\S+) (\S+)$", text, re.MULTILINE)
        }
        for replica, text in texts.items()
    }
