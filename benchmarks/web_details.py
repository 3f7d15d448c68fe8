"""A measured workload and sized pods, for the pictures of the page."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from benchmarks.web_cluster import Document
from gputopo.api.names import API_VERSION, RESOURCES_ANNOTATION
from gputopo.api.tuning import Amounts, TunedRecord

_GIB: Final = 2**30
_Pair: TypeAlias = tuple[int, int]
_SIZES: Final[Sequence[tuple[_Pair, _Pair, _Pair, str, dict[str, bool]]]] = (
    # cores and GiB: floor, before, newest; what the operator has written
    ((4, 16), (4, 16), (11, 24), "9 % faster with 11 CPUs than with its proportional share", {}),
    ((4, 16), (8, 32), (4, 20), "4 CPUs are enough for its measured rate", {"done": True}),
    ((2, 8), (2, 8), (6, 8), "kubelet: not enough CPUs on the node", {"rejected": True}),
)


def operator() -> Document:
    """Return the Deployment of the operator, in whose arguments the page reads the settings."""
    container = {"name": "operator", "args": ["--resource=gputopo.io/gpu"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "gputopo-operator",
            "namespace": "gputopo-system",
            "uid": "operator",
            "labels": {"app.kubernetes.io/part-of": "gputopo"},
        },
        "spec": {"template": {"spec": {"containers": [container]}}},
    }


def profile() -> Document:
    """Return a GPUProfile with measured facts: links, CPUs, neighbours and numbers of GPUs."""
    links = {"gpus": 2, "percent": 45, "lowPercent": 40, "highPercent": 50, "samples": 8}
    beside = {"workload": "speech/asr", "scope": "Socket", "percent": 12}
    rates = {1: 4.1, 2: 7.9, 3: 10.6, 4: 11.8, 6: 12.1, 8: 12.1}
    scaling = {1: 4.2, 2: 8.1, 4: 14.9, 8: 25.0}
    facts = {
        "gpuModel": "Tesla V100-SXM2-32GB",
        "links": [{**links, "sensitivity": "Sensitive"}],
        "cpus": [
            {
                "gpus": 2,
                "demandMilliCPU": 4000,
                "points": [_rate(rate, milliCPU=1000 * cpus) for cpus, rate in rates.items()],
            }
        ],
        "neighbours": [{**beside, "lowPercent": 8, "highPercent": 16, "samples": 3}],
        "scaling": [
            _rate(rate, gpus=gpus, extrapolated=gpus == max(scaling))
            for gpus, rate in scaling.items()
        ],
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUProfile",
        "metadata": {"name": "resnet50-b256", "namespace": "vision", "uid": "profile"},
        "spec": {},
        "status": {"facts": facts, "sampleCount": 64},
    }


def _rate(steps_per_second: float, **fields: object) -> Document:
    return {"microStepsPerSecond": int(steps_per_second * 1e6), "ciPermille": 100, **fields}


def resize(pods: list[Document]) -> None:
    """Give the first pods the annotation in which the operator records their sizes."""
    for minutes, (pod, size) in enumerate(zip(pods, _SIZES, strict=False), 2):
        floor, last, target, reason, more = size
        record = TunedRecord.model_validate(
            {
                "uid": pod["metadata"]["uid"],
                "since": (datetime.now(UTC) - timedelta(minutes=7 * minutes)).strftime(
                    "%Y-%m-%dT%H:%M:%SZ"
                ),
                "reason": reason,
                "floor": _amounts(*floor),
                "last": _amounts(*last),
                "target": _amounts(*target),
                **more,
            }
        )
        pod["metadata"]["annotations"][RESOURCES_ANNOTATION] = record.dump()


def _amounts(cores: int, gib: int) -> Amounts:
    return Amounts(1000 * cores, gib * _GIB)
