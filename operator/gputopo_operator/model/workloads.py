"""Types for the reports of GPUTopologies, updates of GPUProfiles, and pods that wait for CPUs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gputopo.api.profile import GPUProfileSpec, GPUProfileStatus, Measurement, Sample
from gputopo.api.tuning import Amounts
from gputopo.api.v1alpha1 import SizedCapacity
from gputopo_cluster.topologies import GpuNode, UnreadableTopology
from gputopo_kube.document import Document, ObjectKey
from gputopo_operator.model.jobs import ObjectEvent


@dataclass(frozen=True, slots=True)
class PodReport:
    """What a GPUTopology reports of one pod: its GPUs, and its rate if the agent measures one."""

    gpus: tuple[str, ...]
    measured: Measurement | None


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What the GPUTopology of a node reports of its GPUs, of pods and of workloads.

    Attributes:
        pods: the reports by UID of the pod.
        profiled: the pods whose CPUs are to be measured; see ``profiled_pods``.
        sized_capacity: that of ``gpus``, which a comparison of two ``GpuNode`` leaves out.
        running: for each GPUProfile, the UIDs of the measured pods that name it.
        samples: for each GPUProfile, its samples as JSON texts. For 1,000 nodes the texts need
            20 MB of memory, parsed samples 120 MB.
    """

    gpus: GpuNode | UnreadableTopology
    pods: Mapping[str, PodReport]
    running: Mapping[ObjectKey, frozenset[str]]
    samples: Mapping[ObjectKey, tuple[str, ...]]
    profiled: Mapping[ObjectKey, frozenset[str]]
    sized_capacity: SizedCapacity | None = None

    @property
    def measured(self) -> dict[str, Measurement]:
        """The newest measurements, by UID of the pod."""
        return {uid: pod.measured for uid, pod in self.pods.items() if pod.measured}

    @property
    def used(self) -> dict[str, tuple[str, ...]]:
        """The GPUs of each pod, or its share of a GPU, by UID of the pod."""
        return {uid: pod.gpus for uid, pod in self.pods.items() if pod.gpus}


NO_REPORT: Final = NodeReport(UnreadableTopology("", "no GPUTopology"), {}, {}, {}, {})


@dataclass(frozen=True, slots=True)
class ReportChanges:
    """What to update after a new report: ``profiles``, and the GPUJobs of ``pods`` (UIDs)."""

    pods: frozenset[str] = frozenset()
    profiles: frozenset[ObjectKey] = frozenset()


@dataclass(frozen=True, slots=True)
class ProfileEvidence:
    """What all nodes report now of the workload of one GPUProfile.

    Attributes:
        running: UIDs of the measured pods that name the GPUProfile.
    """

    samples: tuple[Sample, ...] = ()
    running: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ProfileState:
    """A GPUProfile.

    Attributes:
        created: RFC 3339 time of its creation.
    """

    key: ObjectKey
    generation: int
    created: str
    deleting: bool
    spec: GPUProfileSpec
    status: GPUProfileStatus


@dataclass(frozen=True, slots=True)
class ProfileUpdate:
    """The writes that a GPUProfile needs now: its complete new status, and events."""

    status: GPUProfileStatus
    events: tuple[ObjectEvent, ...]


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pending pod. At least one node rejects the pod only for CPU or memory.

    Attributes:
        requests: what the pod requests, in thousandths, by resource.
        spec: the fields of the pod's spec that decide which nodes it may use.
        created: RFC 3339 time.
    """

    uid: str
    key: ObjectKey
    requests: Mapping[str, int]
    gpus: int
    spec: Document
    priority: int
    created: str


@dataclass(frozen=True, slots=True)
class NodeOffer:
    """What a node with sized pods can give to a pending pod, computed in the node's last decision.

    Attributes:
        node: name, labels and taints of the Node.
        free: allocatable amounts minus all requests, in thousandths, by resource.
        spare: CPUs and memory that are left if each sized pod is cut to its guaranteed amounts.
    """

    node: Document
    free: Mapping[str, int]
    spare: Amounts


@dataclass(frozen=True, slots=True)
class WatchedPod:
    """A pod with the label ``gputopo.io/tuned``. If a field changes, its node must decide again.

    Attributes:
        node: empty before the pod is bound.
        fingerprint: hash of the other fields of the pod that the decision depends on.
    """

    uid: str
    node: str
    profile: ObjectKey | None
    fingerprint: int
