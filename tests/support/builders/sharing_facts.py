"""GPUProfiles with facts about workloads that share a GPU."""

from typing import Any

from gputopo.sharing.policy import SharingPolicy
from gputopo_scheduling.sharing_knowledge import SharingKnowledge
from gputopo_scheduling.surroundings import interference_facts
from support.builders.objects import Document

MODEL = "Tesla V100-SXM2-16GB"


def sharing_profile(
    name: str, *beside: tuple[str, int], model: str = MODEL, samples: int = 5
) -> Document:
    """Return a profile in namespace ``default``.

    Args:
        name: name of the workload.
        beside: workloads on the same GPU, separated by spaces, each with the speed in thousandths.
        model: GPU model of the measurements.
        samples: samples of each fact.
    """
    facts: Document = {
        "gpuModel": model,
        "imageDigest": f"sha256:{name}",
        "alone": {"microStepsPerSecond": 10_000_000, "ciPermille": 20, "samples": 5},
        "sharing": [
            {
                "beside": sorted(f"default/{each}" for each in others.split()),
                "speedPermille": speed,
                "ciPermille": 10,
                "samples": samples,
            }
            for others, speed in beside
        ],
    }
    return {
        "metadata": {"namespace": "default", "name": name},
        "spec": {},
        "status": {"facts": facts},
    }


def knowledge(*profiles: Document, **policy: Any) -> SharingKnowledge:
    """Return what the profiles show, with these settings of the installation."""
    return SharingKnowledge.of(interference_facts(profiles), SharingPolicy(**policy))


def pairs(model: str = MODEL) -> tuple[Document, ...]:
    """Return workloads: a and b gain beside each other, c loses beside both, d is not measured.

    Three pods of a gain too.
    """
    return (
        sharing_profile("a", ("b", 800), ("c", 400), ("a", 900), ("a a", 700), model=model),
        sharing_profile("b", ("a", 700), ("c", 300), model=model),
        sharing_profile("c", ("a", 400), ("b", 300), model=model),
        sharing_profile("d", model=model),
    )
