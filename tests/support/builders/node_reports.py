"""GPUTopologies in which agents report measured pods and samples."""

from collections.abc import Iterable
from typing import Any

from gputopo.api.names import API_VERSION
from gputopo.api.topology import to_spec
from support.builders.samples import sample
from support.builders.topologies import with_uuids

Document = dict[str, Any]


def measurement(pod: str = "train-1", **fields: Any) -> Document:
    """Return an entry of ``status.measurements``: a pod of GPUProfile ``bert`` at 12.4 steps/s."""
    return {
        "namespace": "default",
        "pod": pod,
        "podUID": f"uid-{pod}",
        "container": "main",
        "gpus": 2,
        "source": "SDK",
        "state": "Steady",
        "profile": "bert",
        "microStepsPerSecond": 12_400_000,
        "ciPermille": 24,
        **fields,
    }


def node_sample(
    number: int = 0, *, profile: str = "bert", namespace: str = "default", **fields: Any
) -> Document:
    """Return an entry of ``status.samples``; ``number`` makes it unique.

    It is older than any clock, because an operator ignores samples from the future.
    """
    time = f"2026-01-02T10:{number // 60 % 60:02}:{number % 60:02}Z"
    taken = sample(number, **{"time": time, **fields})
    return {**taken.to_json(), "namespace": namespace, "profile": profile}


def reporting(
    node: str,
    *,
    measurements: Iterable[Document] = (),
    samples: Iterable[Document] = (),
    users: Iterable[str] = (),
) -> Document:
    """Return the GPUTopology of a node; each pod UID in ``users`` has one GPU."""
    gpus: list[Document] = [
        {"uuid": f"GPU-{number}", "healthy": True, "podUID": uid}
        for number, uid in enumerate(users)
    ]
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUTopology",
        "metadata": {"name": node, "uid": f"uid-{node}"},
        "spec": to_spec(with_uuids(*(gpu["uuid"] for gpu in gpus))).to_json(),
        "status": {"gpus": gpus, "measurements": [*measurements], "samples": [*samples]},
    }


def beside(workload: str, percent: int, scope: str = "Socket") -> Document:
    """Return a fact: the slowdown by one pod of ``workload``, in percent."""
    interval = {"lowPercent": percent - 2, "highPercent": percent + 2}
    return {"workload": workload, "scope": scope, "percent": percent, "samples": 9, **interval}


def learnt_profile(name: str, *neighbours: Document, sensitivity: str = "") -> Document:
    """Return a GPUProfile with facts about neighbours, and about links with 2 GPUs."""
    interval = {"percent": 20, "lowPercent": 15, "highPercent": 25, "samples": 9}
    links = [{"gpus": 2, "sensitivity": sensitivity, **interval}] if sensitivity else []
    facts = {"gpuModel": "Tesla V100", "links": links, "neighbours": [*neighbours]}
    return {**gpu_profile(name), "status": {"facts": facts}}


def gpu_profile(
    name: str = "bert", *, created: str = "2026-01-01T00:00:00Z", **spec: Any
) -> Document:
    """Return a GPUProfile that was created before all samples."""
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUProfile",
        "metadata": {"name": name, "namespace": "default", "creationTimestamp": created},
        "spec": spec,
    }
