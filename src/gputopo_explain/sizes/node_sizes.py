"""Compute how the CPUs of each node are divided among the pods that gputopo sizes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from gputopo.api.names import RESOURCE
from gputopo.api.profile import Measurement
from gputopo.api.tuning import Amounts, ResourcesMode
from gputopo.sizing.marginal import marginal
from gputopo.tuning.gain import gain_percent
from gputopo.tuning.matrix import CurvePoint
from gputopo.tuning.model import Target, TunedNode, TunedPod
from gputopo.tuning.pods import amounts_of, floor_of
from gputopo.tuning.sized import SizedPod, kept_for_measured, sized_node, total
from gputopo.tuning.targets import MECHANISMS, targets
from gputopo_explain.sizes.size_state import SizeState, state_of
from gputopo_kube.document import Document, ObjectKey
from gputopo_kube.measurements import parse_measured
from gputopo_kube.podmodel import parse_pod_object
from gputopo_kube.podruntime import runtime_of
from gputopo_kube.pods import PodView
from gputopo_kube.tuned_node import (
    NodePod,
    SizingFacts,
    parse_node_pods,
    parse_sizing_facts,
    parse_tuned_node,
)


@dataclass(frozen=True, slots=True)
class SizedCluster:
    """The objects of a cluster at one moment.

    Attributes:
        pods: the pods of all namespaces; at least those of ``nodes``.
        settings: arguments of the operator by flag, without ``--``.
        now: time at which the objects were read, in UTC.
    """

    nodes: Sequence[Document]
    pods: Sequence[Document]
    profiles: Sequence[Document]
    topologies: Sequence[Document]
    settings: Mapping[str, str]
    now: datetime


@dataclass(frozen=True, slots=True)
class PodSizes:
    """CPU and memory of one sized pod, as limits of its container; 0 without a limit.

    Attributes:
        now: limits that kubelet has applied.
        target: limits of a resize that kubelet has not carried out; None if there is none.
        floor: amounts with which the pod was created.
        share: its share; None while gputopo does not resize it.
        most: the most that it may get; None while gputopo does not resize it.
        gain_percent: how much faster the pod is than before its last resize; None if unknown.
        since: RFC 3339 time of its last resize; None before the first.
        planned: limits that the operator's function chooses from the state of the node now. Pending
            pods, for which the operator keeps capacity free, are not considered.
        planned_reason: why it chooses them, in words.
        as_planned: whether the spec of the pod has these amounts.
        curve: measured rate by CPU limit from which the amounts were computed; empty if unknown.
    """

    view: PodView
    tuned: TunedPod
    now: Amounts
    target: Amounts | None
    floor: Amounts
    share: Amounts | None
    most: Amounts | None
    state: SizeState
    gain_percent: int | None
    since: str | None
    planned: Amounts
    planned_reason: str
    as_planned: bool
    curve: tuple[CurvePoint, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeSizes:
    """The sized pods of one node.

    Attributes:
        gpus: GPUs of the node without those of pods that gputopo does not size.
        capacity: CPUs and memory for sized pods, for pods that are measured, and for new pods.
        share_per_gpu: the share of one GPU.
    """

    name: str
    gpus: int
    allocatable: Amounts
    capacity: Amounts
    share_per_gpu: Amounts
    pods: tuple[PodSizes, ...]


def list_sizes(cluster: SizedCluster) -> list[NodeSizes]:
    """Return the nodes with sized pods, by name."""
    facts = {ObjectKey.of(profile): parse_sizing_facts(profile) for profile in cluster.profiles}
    topologies = {each["metadata"]["name"]: each for each in cluster.topologies}
    nodes = sorted(cluster.nodes, key=lambda node: str(node["metadata"]["name"]))
    return [
        sizes
        for node in nodes
        for sizes in _of_node(
            cluster, node, facts, parse_measured(topologies.get(node["metadata"]["name"], {}))
        )
    ]


def _of_node(
    cluster: SizedCluster,
    node: Document,
    facts: Mapping[ObjectKey, SizingFacts],
    measured: Mapping[str, Measurement],
) -> Iterator[NodeSizes]:
    name, settings = node["metadata"]["name"], cluster.settings
    resource = settings.get("resource", RESOURCE)
    namespaces = [each for each in settings.get("namespaces", "").split(",") if each]
    bound = [pod for pod in cluster.pods if pod["spec"].get("nodeName") == name]
    pods = parse_node_pods(bound, resource, namespaces, cluster.now)
    if any(pod.tuned for pod in pods):
        tuned = parse_tuned_node(node, pods, resource, facts, measured, cluster.now)
        yield _sizes(tuned, pods, settings.get("sizing-mechanism", ""))


def _sizes(node: TunedNode, pods: Sequence[NodePod], mechanism: str) -> NodeSizes:
    sized, chosen = sized_node(node), targets(node, MECHANISMS.get(mechanism, marginal))
    measured = kept_for_measured(node)
    bounds = {pod.uid: pod for pod in sized.pods}
    documents = {pod.view.uid: pod for pod in pods}
    return NodeSizes(
        name=node.name,
        gpus=node.gpus,
        allocatable=node.allocatable,
        capacity=total((sized.capacity, *measured.values())),
        share_per_gpu=sized.share_per_gpu,
        pods=tuple(
            _pod(
                documents[pod.uid],
                pod,
                bounds.get(pod.uid),
                chosen[pod.uid],
            )
            for pod in sorted(node.pods, key=lambda pod: documents[pod.uid].view.key)
        ),
    )


def _pod(document: NodePod, pod: TunedPod, bounds: SizedPod | None, target: Target) -> PodSizes:
    record = pod.record
    limits = runtime_of(parse_pod_object(document.raw)).containers[document.container]
    in_flight = record is not None and not record.done and not pod.obstacle
    return PodSizes(
        view=document.view,
        tuned=pod,
        now=Amounts(limits.milli_cpu or 0, limits.memory_bytes or 0),
        target=_limits(pod, amounts_of(pod)) if in_flight else None,
        floor=_limits(pod, _floor(pod)),
        share=_limits(pod, bounds.share) if bounds else None,
        most=_limits(pod, bounds.most) if bounds else None,
        state=state_of(pod, target, running=document.view.running),
        gain_percent=gain_percent(record, pod.measured_micro_steps_per_second or None),
        since=record.since if record else None,
        planned=_limits(pod, target.amounts),
        planned_reason=target.reason,
        as_planned=target.amounts in {amounts_of(pod), pod.spec.request},
        curve=_curve(pod),
    )


def _curve(pod: TunedPod) -> tuple[CurvePoint, ...]:
    """Return the measured rates of the pod's workload with its number of GPUs."""
    facts = pod.facts.cpus if pod.facts and pod.mode is ResourcesMode.AUTO else ()
    points = next((fact.points for fact in facts if fact.gpus == pod.gpus), ())
    return tuple(
        CurvePoint(point.milli_cpu, point.micro_steps_per_second / 1e6)
        for point in sorted(points, key=lambda point: point.milli_cpu)
    )


def _floor(pod: TunedPod) -> Amounts:
    """Return the floor of the pod; while the pod is measured, its spec has other amounts."""
    floor = floor_of(pod)
    own = min(pod.own_milli_cpu, floor.milli_cpu)
    return Amounts(own, floor.memory) if own else floor


def _limits(pod: TunedPod, amounts: Amounts) -> Amounts:
    """Return the limits that the pod has, or would have, with requests of these amounts."""
    if pod.spec.limit_memory is None:
        return Amounts(amounts.milli_cpu, 0)
    distance = pod.spec.limit_memory - pod.spec.request.memory
    return Amounts(amounts.milli_cpu, amounts.memory + distance)
