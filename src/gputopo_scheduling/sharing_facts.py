"""What GPUProfiles show about workloads that share a GPU.

Each profile has the speeds of its own workload beside others. A prediction needs the speeds of all
workloads of a set, so a set counts as measured if the profiles of all its members have it.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from gputopo.api.profile import SharingFact, WorkloadFacts
from gputopo.sharing.facts import sharing_workload
from gputopo.sharing.model import MeasuredSharing, SharingWorkload

_PERMILLE = 1000
_USED = ("gpuModel", "imageDigest", "alone", "load", "sharing")


@dataclass(frozen=True, slots=True)
class KnownSharing:
    """What one GPUProfile shows.

    Attributes:
        gpu_model: GPU model of the measurements.
        workload: the workload alone.
        beside: its speeds beside others.
    """

    gpu_model: str
    workload: SharingWorkload
    beside: tuple[SharingFact, ...] = ()


def parse_sharing_facts(name: str, facts: Mapping[str, Any]) -> KnownSharing | None:
    """Return what the facts of a GPUProfile show; None if they are empty or cannot be parsed.

    Only the facts about sharing are parsed: others may be in the format of a newer operator.
    """
    with suppress(ValidationError):
        known = WorkloadFacts.model_validate({key: facts[key] for key in _USED if key in facts})
        return KnownSharing(known.gpu_model, sharing_workload(name, known), tuple(known.sharing))
    return None


def measured_sharings(profiles: Iterable[KnownSharing]) -> dict[str, tuple[MeasuredSharing, ...]]:
    """Return the measured sets of workloads by GPU model."""
    by_model: dict[str, dict[str, KnownSharing]] = {}
    for profile in profiles:
        by_model.setdefault(profile.gpu_model, {})[profile.workload.name] = profile
    return {model: tuple(_sets(known)) for model, known in by_model.items()}


def _sets(known: Mapping[str, KnownSharing]) -> Iterator[MeasuredSharing]:
    facts = {
        (name, tuple(sorted(fact.beside))): fact
        for name, profile in known.items()
        for fact in profile.beside
        if fact.samples
    }
    for names in sorted({tuple(sorted((name, *beside))) for name, beside in facts}):
        of_members = [facts.get((name, _without(names, name))) for name in names]
        found = [fact for fact in of_members if fact is not None]
        if len(found) == len(names):
            speeds = (fact.speed_permille / _PERMILLE for fact in found)
            yield MeasuredSharing.of(
                list(zip(names, speeds, strict=True)), min(fact.samples for fact in found)
            )


def _without(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    position = names.index(name)
    return names[:position] + names[position + 1 :]
