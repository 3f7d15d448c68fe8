"""The objects of a cluster that explanations and what-if questions use, as their reader found them.

The command line reads lists, the web page watches. Both fill ``ClusterObjects``.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Final

from gputopo.api.names import RESOURCE, SCHEDULER_NAME
from gputopo.placement.model import PlacementRequest, PolicyName
from gputopo.sharing.capacities import parse_capacities
from gputopo.sharing.loadlaw import LoadCapacity
from gputopo.sharing.model import SharingError
from gputopo.sharing.policy import (
    ALL_MEMORY_PERCENT,
    MIN_GAIN_PERCENT,
    SLOWDOWN_PERCENT,
    Preference,
    SharingPolicy,
    Unknown,
)
from gputopo.utility.cost import UtilityError
from gputopo.utility.surroundings import INSTALLATION_WEIGHTS
from gputopo.utility.utility import UtilityWeights
from gputopo_cluster.usage import NodeUsage
from gputopo_explain.machines import Machine, machines_of
from gputopo_explain.snapshot import ClusterSnapshot, snapshot_of
from gputopo_kube.document import Document, ObjectKey
from gputopo_kube.pods import PodView
from gputopo_scheduling.sharing_knowledge import SharingKnowledge
from gputopo_scheduling.surroundings import (
    InterferenceFacts,
    NodeSurroundings,
    interference_facts,
    surroundings_of,
    with_surroundings,
)

_SHARING: Final = SharingPolicy.of()

OURS: Final = ("app.kubernetes.io/part-of", "gputopo")
"""Label of the objects that the chart installs."""


class LiveKind(StrEnum):
    """The kinds of objects that are read, by the name of their resource."""

    TOPOLOGIES = "gputopologies"
    PODS = "pods"
    LEASES = "leases"
    NODES = "nodes"
    GPU_JOBS = "gpujobs"
    PROFILES = "gpuprofiles"
    JOBS = "jobs"
    DEPLOYMENTS = "deployments"
    PRIORITY_CLASSES = "priorityclasses"


@dataclass(frozen=True, slots=True)
class Installation:
    """The settings of gputopo that decide where pods are placed; the defaults are the chart's.

    Attributes:
        namespace: where gputopo is installed.
        resource: extended resource that counts the GPUs.
        max_wait_seconds: longest wait for a better placement of pods that do not set it.
        queue_order: order of the queue of GPUJobs; empty if there is no queue.
        max_skip_seconds: a GPUJob that has waited longer comes first.
        utility_weights: weights of the policy Utility.
        sharing: how sharing pods get GPUs.
        assumed: why the settings are the defaults; empty if they were read.
    """

    namespace: str = "gputopo-system"
    resource: str = RESOURCE
    scheduler_name: str = SCHEDULER_NAME
    default_policy: PolicyName = PolicyName.PRESERVE
    offer_one_above: int = 100
    max_wait_seconds: int = 600
    queue_order: str = ""
    max_skip_seconds: float = 3600.0
    utility_weights: UtilityWeights = INSTALLATION_WEIGHTS
    sharing: SharingPolicy = _SHARING
    assumed: str = ""


@dataclass(frozen=True)
class ClusterObjects:
    """All objects at one moment.

    Attributes:
        documents: the objects by kind.
        unread: for each kind that could not be read, the reason.
        now: time of the lists, with a time zone.
        ended: UIDs of pods of which it is assumed that they have ended and left no process.
        namespace: only the pods of this namespace were read; None for all namespaces.
    """

    documents: Mapping[LiveKind, Sequence[Document]]
    now: datetime
    unread: Mapping[LiveKind, str] = field(default_factory=dict)
    ended: frozenset[str] = frozenset()
    namespace: str | None = None

    def __getitem__(self, kind: LiveKind) -> Sequence[Document]:
        return self.documents.get(kind, ())

    def has_all_pods(self, namespace: str) -> bool:
        """Return whether all pods of a namespace were read."""
        return LiveKind.PODS not in self.unread and self.namespace in (None, namespace)

    @cached_property
    def installation(self) -> Installation:
        """The settings, from the arguments of the installed containers."""
        if reason := self.unread.get(LiveKind.DEPLOYMENTS):
            return Installation(assumed=f"Deployments cannot be read: {reason}")
        return parse_installation(self[LiveKind.DEPLOYMENTS])

    @cached_property
    def snapshot(self) -> ClusterSnapshot:
        """The GPUs and their users."""
        found = snapshot_of(
            self[LiveKind.TOPOLOGIES],
            self[LiveKind.PODS],
            self[LiveKind.LEASES],
            resource=self.installation.resource,
            sharing=self.sharing,
        )
        return found.without_pods(self.ended) if self.ended else found

    @cached_property
    def sharing(self) -> SharingKnowledge:
        """What is known of workloads that share a GPU, and the policy."""
        return SharingKnowledge.of(self.interference, self.installation.sharing)

    @cached_property
    def machines(self) -> Mapping[str, Machine]:
        """The Nodes by name; empty if they could not be read."""
        pods = (pod for pod in self[LiveKind.PODS] if pod["metadata"].get("uid") not in self.ended)
        return machines_of(self[LiveKind.NODES], pods)

    def after(
        self, ended: Iterable[str] = (), without_nodes: Collection[str] = ()
    ) -> "ClusterObjects":
        """Return the objects as if these pods had ended and these nodes did not exist."""
        documents = dict(self.documents)
        for kind in (LiveKind.TOPOLOGIES, LiveKind.NODES):
            if kind in documents:
                names = (each["metadata"]["name"] for each in documents[kind])
                pairs = zip(documents[kind], names, strict=True)
                documents[kind] = [each for each, name in pairs if name not in without_nodes]
        return replace(self, documents=documents, ended=self.ended | frozenset(ended))

    @cached_property
    def interference(self) -> InterferenceFacts:
        """How much workloads slow each other down; unknown if GPUProfiles could not be read."""
        return interference_facts(self[LiveKind.PROFILES])

    @cached_property
    def surroundings(self) -> Mapping[str, NodeSurroundings]:
        """The workloads that run on each node; equal surroundings are the same object."""
        return surroundings_of(self.snapshot.usages, self.interference)

    def with_surroundings(self, request: PlacementRequest, pod: PodView) -> PlacementRequest:
        """Return the request as the extender makes it, with what is known of slowdowns."""
        if request.policy is not PolicyName.UTILITY:
            return request
        usages = self.snapshot.usages.values()
        return with_surroundings(
            request,
            pod,
            self.interference,
            (usage.topology for usage in usages if isinstance(usage, NodeUsage)),
            self.installation.utility_weights,
        )

    @cached_property
    def pod_documents(self) -> Mapping[ObjectKey, Document]:
        """The pods by namespace and name."""
        return {ObjectKey.of(pod): pod for pod in self[LiveKind.PODS]}

    @cached_property
    def notes(self) -> Sequence[str]:
        """What is missing or assumed, for the user."""
        effects = {
            LiveKind.NODES: "kube-scheduler's own filters are not considered",
            LiveKind.PODS: "the GPUs of pods are known only from the agents",
            LiveKind.LEASES: "pods that are being bound now are not considered",
            LiveKind.JOBS: "deadlines of Jobs are not considered",
            LiveKind.GPU_JOBS: "expected durations of GPUJobs are not considered",
            LiveKind.PROFILES: "slowdowns beside other workloads are unknown",
            LiveKind.TOPOLOGIES: "the GPUs of the nodes are unknown",
            LiveKind.PRIORITY_CLASSES: "priorities of pods that do not exist yet are unknown",
        }
        unread = [
            f"{kind}: {self.unread[kind]}: {effect}"
            for kind, effect in effects.items()
            if kind in self.unread
        ]
        if self.namespace is not None and LiveKind.PODS not in self.unread:
            unread.append(
                f"{LiveKind.PODS}: only those of namespace {self.namespace} are read: "
                "other pods are known only from the agents"
            )
        settings = self.installation
        assumed = [f"{settings.assumed}: the default settings are assumed"]
        return [*unread, *(assumed if settings.assumed else ()), *self.snapshot.faults]


def parse_installation(deployments: Iterable[Document]) -> Installation:
    """Return the settings in the arguments of the chart's Deployments."""
    ours = [each for each in deployments if _labels(each).get(OURS[0]) == OURS[1]]
    if not ours:
        return Installation(assumed=f"no Deployment has the label {'='.join(OURS)}")
    flags = dict(_flags(ours))
    default = Installation()
    policy = flags.get("default-policy", "")
    return Installation(
        namespace=str(ours[0]["metadata"]["namespace"]),
        resource=flags.get("resource") or default.resource,
        scheduler_name=flags.get("scheduler-name") or default.scheduler_name,
        default_policy=PolicyName(policy) if policy in {*PolicyName} else default.default_policy,
        offer_one_above=int(_number(flags.get("offer-one-above"), default.offer_one_above)),
        max_wait_seconds=int(_number(flags.get("max-wait-seconds"), default.max_wait_seconds)),
        queue_order=flags.get("queue-order", ""),
        max_skip_seconds=_number(flags.get("queue-max-skip-seconds"), default.max_skip_seconds),
        utility_weights=_weights(flags.get("utility-weights")),
        sharing=_sharing(flags),
    )


def _sharing(flags: Mapping[str, str]) -> SharingPolicy:
    unknown = flags.get("sharing-unknown-pairs", "")
    preference = flags.get("sharing-preference", "")
    gain = _number(flags.get("sharing-min-gain-percent"), MIN_GAIN_PERCENT)
    slowdown = _number(flags.get("sharing-max-slowdown-percent"), SLOWDOWN_PERCENT)
    memory = _number(flags.get("sharing-max-memory-percent"), ALL_MEMORY_PERCENT)
    return SharingPolicy.of(
        min_gain_percent=int(gain),
        max_slowdown_percent=int(slowdown),
        max_memory_percent=int(memory),
        unknown=Unknown(unknown) if unknown in {*Unknown} else _SHARING.unknown,
        preference=Preference(preference) if preference in {*Preference} else _SHARING.preference,
        capacities=_capacities(flags.get("sharing-load-capacity", "")),
    )


def _capacities(text: str) -> Mapping[str, LoadCapacity]:
    try:
        return parse_capacities(text)
    except SharingError:
        return {}


def _weights(text: str | None) -> UtilityWeights:
    try:
        return INSTALLATION_WEIGHTS if text is None else UtilityWeights.parse(text)
    except UtilityError:
        return INSTALLATION_WEIGHTS


def _flags(deployments: Iterable[Document]) -> Iterable[tuple[str, str]]:
    for deployment in deployments:
        pod = deployment["spec"]["template"]["spec"]
        for container in (*(pod.get("initContainers") or ()), *pod["containers"]):
            for argument in container.get("args") or ():
                name, _, value = str(argument).removeprefix("--").partition("=")
                yield name, value


def _labels(document: Document) -> Mapping[str, str]:
    return document["metadata"].get("labels") or {}


def _number(text: str | None, default: float) -> float:
    try:
        return default if text is None else float(text)
    except ValueError:
        return default
