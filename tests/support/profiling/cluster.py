"""A measured pod on a node, as objects of the fake API server."""

from datetime import UTC, datetime, timedelta
from typing import Any

from gputopo.api.names import (
    API_VERSION,
    PROFILE_ANNOTATION,
    PROFILING_ANNOTATION,
    PROFILING_LABEL,
    PROFILING_SECONDS_ANNOTATION,
    PROFILING_STATE_ANNOTATION,
    RESOURCE,
)
from gputopo.api.profile import NodeSample
from gputopo.api.profiling import ProfilingState
from support.api.server import ApiServer
from support.builders.node_reports import gpu_profile
from support.builders.objects import pod
from support.profiling.pods import sample, saturating

Document = dict[str, Any]

NAME, NODE, PROFILE = "train-1", "n1", "resnet50"
ANNOTATIONS = {
    PROFILE_ANNOTATION: PROFILE,
    PROFILING_ANNOTATION: "CPUs",
    PROFILING_SECONDS_ANNOTATION: "3600",
}


def measured_container(
    name: str = "main", cpu: str = "4", request: str = "", **more: Any
) -> Document:
    """Return a container with a GPU, CPUs and memory."""
    limits = {"cpu": cpu, "memory": "8Gi", RESOURCE: "1"}
    resources = {"limits": limits, "requests": {**limits, "cpu": request or cpu}}
    return {"name": name, "image": "train", "resources": resources, **more}


class MeasuredCluster:
    """One node with one measured pod; kubelet applies each resize at once.

    Attributes:
        now: time of the operator and of the agent.
    """

    def __init__(self, api: ApiServer, **container: Any) -> None:
        self.api = api
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        node = {"metadata": {"name": NODE}, "status": {"allocatable": {"cpu": "8"}}}
        api.create("nodes", node)
        api.create("gpuprofiles", gpu_profile(PROFILE))
        topology = {"apiVersion": API_VERSION, "kind": "GPUTopology", "metadata": {"name": NODE}}
        api.create("gputopologies", {**topology, "spec": {}, "status": {}})
        containers = [measured_container(**container)]
        document = pod(NAME, node=NODE, phase="Running", containers=containers)
        document["metadata"]["annotations"] = dict(ANNOTATIONS)
        api.create("pods", document)

    @property
    def pod(self) -> Document:
        return self.api.pod(NAME)

    def cpu(self) -> tuple[str, str]:
        """Return CPU request and limit in the pod's spec."""
        resources = self.pod["spec"]["containers"][0]["resources"]
        return resources["requests"]["cpu"], resources["limits"]["cpu"]

    def state(self) -> ProfilingState | None:
        """Return the annotation of the pod."""
        text = self.pod["metadata"]["annotations"].get(PROFILING_STATE_ANNOTATION)
        return None if text is None else ProfilingState.model_validate_json(text)

    def is_active(self) -> bool:
        """Return whether the pod has the label of a pod without its own CPUs."""
        return PROFILING_LABEL in (self.pod["metadata"].get("labels") or {})

    def measure(self, seconds: int = 100) -> None:
        """Let the agent take a sample with the current limit."""
        self.now += timedelta(seconds=seconds)
        text = self.cpu()[1]
        limit = int(text[:-1]) if text.endswith("m") else int(text) * 1000
        taken = sample(limit, saturating(limit), pod_uid=self.pod["metadata"]["uid"])
        owned = NodeSample(
            **{**taken.model_dump(), "time": self.now.strftime("%Y-%m-%dT%H:%M:%SZ")},
            namespace="default",
            profile=PROFILE,
        )
        self.api.change("gputopologies", NODE, lambda found: _add(found, owned.to_json()))

    def request(self) -> None:
        """Let the agent report what the pod requests to measure."""
        measurement = {
            "namespace": "default",
            "pod": NAME,
            "podUID": self.pod["metadata"]["uid"],
            "container": "main",
            "gpus": 1,
            "source": "SDK",
            "state": "Steady",
            "profile": PROFILE,
            "profiling": ["CPUs"],
        }
        status = {"measurements": [measurement]}
        self.api.change("gputopologies", NODE, lambda found: found["status"].update(status))

    def change(self, **parts: Document) -> None:
        """Merge fields into metadata, spec or status of the pod."""

        def merge(document: Document) -> None:
            for part, fields in parts.items():
                document[part] |= fields

        self.api.change("pods", NAME, merge)

    def annotate(self, **annotations: str | None) -> None:
        """Set or remove annotations of the pod, named as in ``gputopo.io/NAME`` with ``_``."""

        def write(document: Document) -> None:
            for name, text in annotations.items():
                key = f"gputopo.io/{name.replace('_', '-')}"
                document["metadata"]["annotations"].pop(key, None)
                if text is not None:
                    document["metadata"]["annotations"][key] = text

        self.api.change("pods", NAME, write)

    def events(self) -> list[tuple[str, str]]:
        """Return reason and note of the pod's events."""
        found = [each for each in self.api.all("events") if each["regarding"]["name"] == NAME]
        return [(each["reason"], each["note"]) for each in found]


def _add(topology: Document, taken: Document) -> None:
    topology["status"].setdefault("samples", []).append(taken)
