"""What the nodes report of pods and workloads, and the GPUProfiles that are updated from it."""

from collections.abc import Mapping
from dataclasses import dataclass

from gputopo.api.profile import GPUProfileSpec, GPUProfileStatus, Measurement, Sample
from gputopo_kube.document import ObjectKey
from gputopo_operator.model import ObjectEvent


@dataclass(frozen=True, slots=True)
class PodReport:
    """What the agent of a node reports of one pod: its GPUs, and its speed if it is measured."""

    gpus: tuple[str, ...]
    measured: Measurement | None


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What the GPUTopology of a node reports of pods and workloads.

    Attributes:
        pods: by UID of the pod.
        running: UIDs of the measured pods that name each GPUProfile.
        samples: the samples of each GPUProfile as JSON texts. Parsed samples of 1,000 nodes would
            need 120 MB, the texts need 20 MB.
    """

    pods: Mapping[str, PodReport]
    running: Mapping[ObjectKey, frozenset[str]]
    samples: Mapping[ObjectKey, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class ReportChanges:
    """The pods and GPUProfiles that a new report may concern."""

    pods: frozenset[str] = frozenset()
    profiles: frozenset[ObjectKey] = frozenset()


@dataclass(frozen=True, slots=True)
class ProfileEvidence:
    """What all nodes report of one workload now.

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
