"""Jobs of another tenant beside the load of a soak: what they are measured and sized at.

A taint reserves one node for a job that is measured and a job that is sized, because each change of
the pods of a node begins a new measurement. On another node, a pod shares a GPU for some seconds,
again and again.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gputopo.api.measuring import MeasuringRequest
from gputopo.api.names import JOB_LABEL
from gputopo.api.tuning import ResourcesMode
from hostiletest import manifests
from learntest import laws
from learntest import manifests as runs
from learntest.manifests import Run
from resizetest import amounts
from resizetest import manifests as sized_runs
from resizetest.manifests import Sizing
from soaktest import namespace
from soaktest.client import Client, Object, RejectedError, UnavailableError
from soaktest.journal import Journal

VALUES: Final = Path(__file__).with_name("values.yaml")
"""Values of the chart."""

NAMESPACE: Final = "gputopo-neighbours"
LATE: Final = "sharing pods of the neighbours that did not start"
_KEY: Final = "gputopo.io/soak"
_TAINT: Final = {"key": _KEY, "value": "neighbours", "effect": "NoSchedule"}
_PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
_JOBS: Final = f"/apis/gputopo.io/v1alpha1/namespaces/{NAMESPACE}/gpujobs"
_PROFILE: Final = f"/apis/gputopo.io/v1alpha1/namespaces/{NAMESPACE}/gpuprofiles/measured"
_EVERY_SECONDS: Final = 2.0
_LATE_SECONDS: Final = 240.0
"""A sharing pod waits for a GPU of the load, and for a node that was stopped."""

_SHARING_SECONDS: Final = 5.0


def tolerating(pod: Object) -> Object:
    """Return a pod, or a template of one, that may use the reserved node."""
    pod["spec"]["tolerations"] = [{"key": _KEY, "operator": "Exists"}]
    return pod


@dataclass(slots=True)
class _Sharing:
    """The sharing pod of the neighbours: its number, and since when it is awaited or runs."""

    number: int = 0
    since: float = 0.0
    running: bool = False


class Neighbours:
    """Keeps the jobs running, and counts what they get, in a thread."""

    def __init__(self, client: Client, journal: Journal, nodes: list[str], image: str) -> None:
        """Reserve the last of the nodes."""
        self._client, self._journal, self._image = client, journal, image
        self.reserved, self._other = nodes[-1], nodes[0]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="neighbours", daemon=True)
        self._sharing = _Sharing()
        self._samples: set[str] = set()
        self._limit = -1

    def start(self) -> None:
        """Create the jobs and begin."""
        self._journal.expect_none(LATE)
        namespace.create(self._client, NAMESPACE)
        self._reserve()
        request = MeasuringRequest(profile="measured")
        measured = Run("measured", laws.plain_law(1), self.reserved, 1, measuring=request)
        sized = Run("sized", laws.plain_law(2), self.reserved, 2)
        for job in (
            runs.job(measured, self._image),
            sized_runs.job(sized, Sizing(ResourcesMode.PROPORTIONAL), self._image),
        ):
            tolerating(job["spec"]["template"])
            self._client.create(_JOBS, job)
        self._thread.start()

    def stop(self) -> None:
        """Remove the jobs and the taint."""
        self._ended.set()
        self._thread.join()
        namespace.remove(self._client, NAMESPACE)
        self._client.patch(f"/api/v1/nodes/{self.reserved}", {"spec": {"taints": None}})

    def _run(self) -> None:
        while not self._ended.wait(_EVERY_SECONDS):
            for step in (self._reserve, self.count, self._share):
                try:
                    step()
                except (UnavailableError, RejectedError) as error:
                    self._journal.note(f"neighbours: {error}")

    def count(self) -> None:
        """Count the sizes and the new samples now."""
        self._count_sizes()
        self._count_samples()

    def _reserve(self) -> None:
        """Set the taint, also after the Node was deleted and registered again."""
        path = f"/api/v1/nodes/{self.reserved}"
        taints: list[Any] = self._client.get(path)["spec"].get("taints") or []
        if _TAINT not in taints:
            self._client.patch(path, {"spec": {"taints": [*taints, _TAINT]}})

    def _count_sizes(self) -> None:
        """Count the CPU limits in effect, in hundredths of a CPU."""
        for pod in self._client.get(_PODS, labelSelector=f"{JOB_LABEL}=sized")["items"]:
            if pod["status"].get("phase") == "Running":
                limit = 10 * round(amounts.read(pod).limits.milli_cpu / 10)
                self._journal.count(f"neighbours: checks with a limit of {limit}m CPU")
                if limit != self._limit:
                    self._limit = limit
                    self._journal.note(f"neighbours: limit {limit}m CPU, {self._beside()}")

    def _beside(self) -> str:
        """Return what decides the size: the capacity of the node, and the pods on it."""
        topology = self._client.get(f"/apis/gputopo.io/v1alpha1/gputopologies/{self.reserved}")
        on_node = f"spec.nodeName={self.reserved}"
        pods = self._client.get("/api/v1/pods", fieldSelector=on_node)["items"]
        names = sorted(f"{it['metadata']['namespace']}/{it['metadata']['name']}" for it in pods)
        return f"capacity {topology.get('status', {}).get('sizedCapacity')} with {names}"

    def _count_samples(self) -> None:
        """Count each sample of the measured job once."""
        status = self._client.get(_PROFILE).get("status", {})
        new = {each["time"] for each in status.get("samples", [])} - self._samples
        self._samples |= new
        self._journal.count("neighbours: samples of a measured job", len(new))

    def _share(self) -> None:
        """Create a sharing pod, and delete it some seconds after it has started."""
        now, sharing = time.monotonic(), self._sharing
        name = f"sharing-{sharing.number}"
        if not sharing.since:
            self._client.create(_PODS, manifests.sharing_pod(name, self._image, self._other, ""))
            sharing.since = now
            return
        phase = self._client.get(f"{_PODS}/{name}")["status"].get("phase")
        if phase == "Running" and not sharing.running:
            self._journal.count("neighbours: sharing pods that ran")
            sharing.running, sharing.since = True, now
        late = not sharing.running and now - sharing.since > _LATE_SECONDS
        if late:
            self._journal.finding(LATE, f"{name} is {phase} after {_LATE_SECONDS:.0f} s")
        over = sharing.running and now - sharing.since > _SHARING_SECONDS
        if over or late or phase == "Failed":
            self._client.delete(f"{_PODS}/{name}", gracePeriodSeconds="0")
            self._sharing = _Sharing(sharing.number + 1)


@contextmanager
def beside(neighbours: Neighbours) -> Iterator[None]:
    """Run the neighbours while the context is open."""
    neighbours.start()
    try:
        yield
    finally:
        neighbours.stop()
