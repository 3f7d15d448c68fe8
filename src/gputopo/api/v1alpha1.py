"""pydantic models of the custom resources, equal to the schemas in ``crds/``.

Only what the components read or write is typed here. Bytes enter through
``model_validate``; a refused value is named by its field path. Unknown keys are
ignored, so that a component can be rolled back under newer objects.
"""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from gputopo.api.enums import Ancestor, LinkKind, PatternKind, PolicyName, Sensitivity
from gputopo.api.names import MAX_GPUS_PER_POD


class _Model(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True
    )

    def to_json(self) -> dict[str, Any]:
        """Return the object as the API writes it: camelCase keys, absent fields left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


Uuid = Annotated[str, Field(min_length=1, max_length=63)]
"""A GPU's UUID; kubelet's device IDs hold at most 63 characters."""


class TopologyGpu(_Model):
    """``GPUTopology.spec.gpus[]``."""

    uuid: Uuid
    index: Annotated[int, Field(ge=0, le=63)]
    minor: Annotated[int, Field(ge=0)]
    pci_bus_id: Annotated[str, Field(alias="pciBusID")]
    model: str
    memory: str
    numa_node: int | None = None


class TopologyLink(_Model):
    """``GPUTopology.spec.links[]``: the best link of one pair of GPUs."""

    a: Uuid
    b: Uuid
    kind: LinkKind
    version: Annotated[int, Field(ge=0)]
    count: Annotated[int, Field(ge=0)]
    ancestor: Ancestor
    bandwidth_mbps: Annotated[int, Field(alias="bandwidthMBps", gt=0)]


class TopologyNumaNode(_Model):
    """``GPUTopology.spec.numaNodes[]``."""

    id: Annotated[int, Field(ge=0)]
    cpus: Annotated[int, Field(ge=0)]
    memory: str


class GPUTopologySpec(_Model):
    """``GPUTopology.spec``: hardware only."""

    gpus: list[TopologyGpu] = []
    links: list[TopologyLink] = []
    numa_nodes: list[TopologyNumaNode] = []


class ObservedGpu(_Model):
    """``GPUTopology.status.gpus[]``: health, and who holds the GPU by kubelet's books."""

    uuid: Uuid
    healthy: bool
    reason: str | None = None
    pod_uid: Annotated[str | None, Field(alias="podUID")] = None
    namespace: str | None = None
    pod: str | None = None
    container: str | None = None


class Condition(_Model):
    """A Kubernetes condition."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: str
    observed_generation: int | None = None


class GPUTopologyStatus(_Model):
    """``GPUTopology.status``: what the agent sees now."""

    observed_generation: int | None = None
    fingerprint: str | None = None
    conditions: list[Condition] = []
    gpus: list[ObservedGpu] = []


class Edge(_Model):
    """One edge of a Custom pattern; vertices are ranks, from 0."""

    from_: Annotated[int, Field(alias="from", ge=0, lt=MAX_GPUS_PER_POD)]
    to: Annotated[int, Field(ge=0, lt=MAX_GPUS_PER_POD)]
    weight: Annotated[int, Field(ge=1, le=1000)] = 1


class Communication(_Model):
    """``GPUJob.spec.communication``."""

    pattern: PatternKind = PatternKind.RING
    edges: Annotated[list[Edge], Field(max_length=120)] = []
    bandwidth_sensitivity: Sensitivity = Sensitivity.AUTO


class PlacementSpec(_Model):
    """``GPUJob.spec.placement``."""

    policy: PolicyName | None = None


class Workload(_Model):
    """``GPUJob.spec.workload``."""

    profile: str | None = None


class Resources(_Model):
    """``GPUJob.spec.resources``: which container of the template gets the GPUs."""

    mode: str = "Fixed"
    container: str | None = None


class Limits(_Model):
    """``GPUJob.spec.limits``."""

    backoff_limit: Annotated[int, Field(ge=0)] = 6
    max_admission_retries: Annotated[int, Field(ge=0)] = 20
    active_deadline_seconds: Annotated[int | None, Field(ge=1)] = None


class GPUJobSpec(_Model):
    """``GPUJob.spec``."""

    suspend: bool = False
    replicas: Annotated[int, Field(ge=1, le=1)] = 1
    gpus_per_replica: Annotated[int, Field(ge=1, le=MAX_GPUS_PER_POD)]
    priority_class_name: str | None = None
    workload: Workload = Workload()
    communication: Communication = Communication()
    placement: PlacementSpec = PlacementSpec()
    resources: Resources = Resources()
    limits: Limits = Limits()
    template: dict[str, Any]


class JobPlacement(_Model):
    """``GPUJob.status.placements[]``: one pod, as annotated and as observed."""

    pod: str
    pod_uid: Annotated[str, Field(alias="podUID")]
    node: str
    topology_generation: int | None = None
    intended: list[str] = []
    observed: list[str] = []
    model: str | None = None
    effective_mbps: Annotated[int | None, Field(alias="effectiveMBps")] = None
    aggregate_mbps: Annotated[int | None, Field(alias="aggregateMBps")] = None
    preserved_mbps: Annotated[int | None, Field(alias="preservedMBps")] = None


class JobFailures(_Model):
    """``GPUJob.status.failures``: the user's own, and kubelet's admission rejections."""

    application: int = 0
    admission: int = 0


class GPUJobStatus(_Model):
    """``GPUJob.status``: conditions first, phase derived from them.

    Attributes:
        failed_pod_uids: the pods that ``failures`` counts and that still exist, so that
            none is counted twice.
    """

    observed_generation: int | None = None
    phase: str | None = None
    conditions: list[Condition] = []
    failures: JobFailures = JobFailures()
    failed_pod_uids: Annotated[list[str], Field(alias="failedPodUIDs")] = []
    placements: list[JobPlacement] = []


class GPUProfileSpec(_Model):
    """``GPUProfile.spec``: the user's word on a workload."""

    communication: Communication | None = None
    bandwidth_sensitivity_percent: Annotated[int | None, Field(ge=0, le=100)] = None
