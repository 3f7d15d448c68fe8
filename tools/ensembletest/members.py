"""Members of an ensemble whose true rates are known, and the GPUEnsemble that trains them. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gputopo.api.names import API_VERSION
from learntest.laws import NOISE
from soaktest.client import Object

OVERHEAD: Final = 0.04
"""How much longer ``m`` GPUs need than ``1 / m`` of one GPU's time, for each further GPU."""

BATCH: Final = 16
"""Images of one step."""

KNOWN_GPUS: Final = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class TrueMember:
    """A member of an ensemble.

    Attributes:
        steps_per_second: with one GPU.
        steps: until its program ends.
        declared: factor of the rates that the user declares; 1 if they are right.
    """

    name: str
    steps_per_second: float
    steps: int
    declared: float = 1.0

    def rate(self, gpus: int) -> float:
        """Return the true images per second."""
        return BATCH * self.steps_per_second * gpus / (1 + OVERHEAD * (gpus - 1))

    @property
    def law(self) -> dict[str, Any]:
        """The law of its program, see ``tools/images/trainer``."""
        seconds = 1 / self.steps_per_second
        common = {"seed": 1, "noise": NOISE, "seconds": seconds, "overhead": OVERHEAD}
        return {**common, "steps": self.steps}


def five(seconds: float) -> tuple[TrueMember, ...]:
    """Return five members, of which the fastest trains for ``seconds`` with one GPU.

    All process the same number of images, but ``early`` converges after half of them. The rates
    differ by the factor 8.4, as those of FLEET's experiment do. The user declares rates of
    ``wrong`` that are twice too high.
    """
    steps = round(8 * seconds)
    return (
        TrueMember("fast", 8.0, steps),
        TrueMember("early", 4.0, steps // 2),
        TrueMember("wrong", 2.8, steps, declared=2.0),
        TrueMember("slow", 1.9, steps),
        TrueMember("slowest", 0.95, steps),
    )


def true_rate(members: Sequence[TrueMember], name: str, gpus: int) -> float:
    """Return the true images per second of the member with a name."""
    return next(each for each in members if each.name == name).rate(gpus)


def manifest(name: str, members: Sequence[TrueMember], image: str, **spec: object) -> Object:
    """Return the GPUEnsemble; ``spec`` are further fields of its spec."""
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUEnsemble",
        "metadata": {"name": name},
        "spec": {"members": [_member(each, image) for each in members], **spec},
    }


def gpu_job(member: TrueMember, image: str, gpus: int) -> Object:
    """Return a GPUJob that trains a member with ``gpus`` GPUs, without an ensemble."""
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUJob",
        "metadata": {"name": member.name},
        "spec": {
            "gpusPerReplica": gpus,
            "template": {"spec": _pod_spec(member.law, image)},
        },
    }


def _member(member: TrueMember, image: str) -> Object:
    rates = [
        {"gpus": gpus, "itemsPerSecond": f"{member.declared * member.rate(gpus):.2f}"}
        for gpus in KNOWN_GPUS
    ]
    return {
        "name": member.name,
        "batchSize": BATCH,
        "batchOf": "Job",
        "steps": member.steps,
        "rates": rates,
        "jobTemplate": {"spec": {"template": {"spec": _pod_spec(member.law, image)}}},
    }


def _pod_spec(law: Mapping[str, Any], image: str) -> Object:
    amounts = {"cpu": "50m", "memory": "64Mi"}
    return {
        "terminationGracePeriodSeconds": 2,
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{taint}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 5,
            }
            for taint in ("not-ready", "unreachable")
        ],
        "containers": [
            {
                "name": "main",
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["python3", "/opt/trainer/train.py"],
                "env": [{"name": "LAW", "value": json.dumps(law)}],
                "resources": {"requests": amounts, "limits": {"memory": "256Mi"}},
            }
        ],
    }
