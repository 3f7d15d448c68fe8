"""What is known of pods that share GPUs: the policy, and the facts of the GPUProfiles."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from gputopo.api.annotations import AnnotationError
from gputopo.api.shares import SharingLimits, parse_sharing
from gputopo.sharing.model import MeasuredSharing, SharingJob, SharingWorkload
from gputopo.sharing.policy import SharingPolicy
from gputopo.sharing.predictor import SharingPredictor
from gputopo_kube.pods import PodView
from gputopo_kube.workload import workload_name
from gputopo_scheduling.sharing_facts import KnownSharing, measured_sharings
from gputopo_scheduling.surroundings import InterferenceFacts

_DEFAULT: Final = SharingPolicy()


@dataclass(frozen=True)
class SharingKnowledge:
    """The policy, and what GPUProfiles show about workloads that share a GPU.

    Attributes:
        profiles: what the GPUProfile of each workload shows, by name.
        measured: the measured sharings by GPU model.
    """

    policy: SharingPolicy = _DEFAULT
    profiles: Mapping[str, KnownSharing] = field(default_factory=dict)
    measured: Mapping[str, tuple[MeasuredSharing, ...]] = field(default_factory=dict)
    _predictors: dict[str, SharingPredictor] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def of(cls, facts: InterferenceFacts, policy: SharingPolicy) -> "SharingKnowledge":
        """Return the knowledge from the facts of all GPUProfiles."""
        known = [each.sharing for each in facts.workloads.values() if each.sharing is not None]
        return cls(policy, {each.workload.name: each for each in known}, measured_sharings(known))

    def predictor(self, model: str) -> SharingPredictor:
        """Return the predictor for GPUs of a model."""
        if model not in self._predictors:
            self._predictors[model] = SharingPredictor(
                self.measured.get(model, ()),
                [each.workload for each in self.profiles.values()],
                self.policy.capacities.get(model),
            )
        return self._predictors[model]

    def job(self, pod: PodView, model: str) -> SharingJob:
        """Return a pod as a job that shares a GPU of a model."""
        name = workload_name(pod)
        limit = sharing_limits(pod).max_slowdown_percent
        return SharingJob(
            str(pod.key),
            self._workload("" if name.endswith("/") else name, model),
            max_slowdown_percent=self.policy.max_slowdown_percent if limit is None else limit,
        )

    def _workload(self, name: str, model: str) -> SharingWorkload:
        known = self.profiles.get(name)
        if known is None:
            return SharingWorkload(name)
        # The occupancy of a kernel on another GPU model shows nothing about this one.
        of_model = known.gpu_model == model
        return known.workload if of_model else replace(known.workload, load=None)


def sharing_limits(pod: PodView) -> SharingLimits:
    """Return the limits that a pod declares; without limits if an annotation is wrong.

    The extender rejects a pod with a wrong annotation before it places the pod. A user can change
    the annotation of a running pod.
    """
    try:
        return parse_sharing(pod.annotations)
    except AnnotationError:
        return SharingLimits()
