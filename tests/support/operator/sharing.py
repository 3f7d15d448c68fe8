"""A node whose first GPU several pods share, as objects of the fake API server."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from gputopo.api.names import PROFILE_ANNOTATION, RESOURCE
from gputopo.api.shares import share_id, share_resource
from gputopo.catalogue import named
from support.api.server import ApiServer
from support.builders.objects import Document, pod, topology_object

DGX = named("dgx1-v100", node="n1")
GPU = DGX.gpus[0]
NOTHING: Mapping[str, str] = MappingProxyType({})


class SharedGpuOfNode:
    """The pods of the first GPU of node n1, their rates and their profiles."""

    def __init__(self, api: ApiServer) -> None:
        self.api = api
        self.rates: dict[str, int] = {}

    def add(
        self,
        name: str,
        rate: int | None,
        annotations: Mapping[str, str] = NOTHING,
        *,
        solo: int | None = 10,
    ) -> None:
        """Add a pod with steps per second now and alone on the GPU; None if not measured."""
        amounts = {share_resource(RESOURCE): "1"}
        container = {"name": "main", "image": "train", "resources": {"limits": amounts}}
        written = {PROFILE_ANNOTATION: name} if solo else {}
        document = pod(
            name,
            node="n1",
            phase="Running",
            annotations={**written, **annotations},
            containers=[container],
        )
        seconds = len(self.rates)
        document["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{seconds:02}Z"
        self.rates[name] = rate or 0
        self.api.put("pods", document)
        if solo:
            self.api.put("gpuprofiles", profile_of(name, solo))
        self.publish()

    def publish(self) -> None:
        """Publish the shares and the rates of all pods."""
        topology = topology_object("n1", DGX)
        topology["status"]["gpus"][0]["shares"] = [
            {"id": share_id(GPU.uuid, number), "podUID": f"uid-{name}", "pod": name}
            for number, name in enumerate(self.rates)
        ]
        topology["status"]["measurements"] = [
            measurement(name, rate) for name, rate in self.rates.items()
        ]
        self.api.put("gputopologies", topology)

    @property
    def pods(self) -> list[str]:
        return sorted(each["metadata"]["name"] for each in self.api.all("pods"))

    @property
    def events(self) -> list[tuple[str, str, str]]:
        return [
            (each["regarding"]["name"], each["reason"], each["note"])
            for each in self.api.all("events")
        ]


def profile_of(name: str, solo: int) -> Document:
    alone = {"microStepsPerSecond": solo * 10**6, "ciPermille": 10, "samples": 3}
    facts: dict[str, Any] = {"gpuModel": GPU.model, "alone": alone}
    return {
        "apiVersion": "gputopo.io/v1alpha1",
        "kind": "GPUProfile",
        "metadata": {"name": name, "namespace": "default", "uid": f"profile-{name}"},
        "status": {"facts": facts},
    }


def measurement(name: str, rate: int) -> Document:
    found = {
        "namespace": "default",
        "pod": name,
        "podUID": f"uid-{name}",
        "container": "main",
        "gpus": 1,
        "source": "SDK",
        "state": "Steady" if rate else "NoData",
    }
    return found | ({"microStepsPerSecond": rate * 10**6, "ciPermille": 10} if rate else {})
