"""Parses a node, its pods and their GPUProfiles into the input of sizing its running pods."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from pydantic import ValidationError

from gputopo.api.annotations import AnnotationError
from gputopo.api.measuring import parse_profile_name
from gputopo.api.names import TUNED_LABEL
from gputopo.api.profile import GPUProfileSpec, Measurement, WorkloadFacts
from gputopo.api.quantity import parse_bytes
from gputopo.api.tuning import Amounts
from gputopo.errors import InvalidInputError
from gputopo.tuning.gain import current_rate
from gputopo.tuning.model import Dataset, TunedNode, TunedPod
from gputopo_kube.document import Document, ObjectKey
from gputopo_kube.podmodel import PodError, parse_pod_object, valid_parts
from gputopo_kube.podrequests import CPU, MEMORY, counted_requests, thousandths
from gputopo_kube.pods import PodView, view_of
from gputopo_kube.tuned_pod import held_beside_sizing, is_tuned, parse_tuned_pod, restarts_for


@dataclass(frozen=True, slots=True)
class NodePod:
    """A pod on a node that has not ended.

    Attributes:
        raw: the object, whose UID and resource version a patch names.
        counted: what kube-scheduler counts for the pod, in thousandths, by resource.
        held: the part of ``counted`` that gputopo does not size.
        container: name of the container that is resized; empty if gputopo does not size the pod.
        memory_restarts: whether a resize of the container's memory would restart it.
        tuned: the parsed pod, whose facts and rate are not set yet; None if gputopo does not size
            the pod.
        invalid: why the object is not a valid pod; empty if it is valid. gputopo does not size an
            invalid pod, but counts those of its requests that can be parsed.
        labelled: whether the pod has the label of sized pods.
    """

    raw: Document
    view: PodView
    counted: Counter[str]
    held: Counter[str]
    container: str = ""
    memory_restarts: bool = False
    tuned: TunedPod | None = None
    invalid: str = ""
    labelled: bool = False

    @property
    def obstacle(self) -> str:
        """Why the pod cannot be sized; empty if it can."""
        return self.invalid or (self.tuned.obstacle if self.tuned else "")

    @property
    def profile(self) -> ObjectKey | None:
        """The GPUProfile that the pod names; None if it names none, or if the name is not valid."""
        with suppress(AnnotationError):
            if name := parse_profile_name(self.view.annotations):
                return ObjectKey(self.view.namespace, name)
        return None

    @property
    def profile_error(self) -> str:
        """Why the name of the GPUProfile is not valid; empty if it is valid or missing."""
        try:
            parse_profile_name(self.view.annotations)
        except AnnotationError as error:
            return str(error)
        return ""


@dataclass(frozen=True, slots=True)
class SizingFacts:
    """What the GPUProfile of a pod contributes to the size of the pod."""

    facts: WorkloadFacts | None = None
    dataset: Dataset | None = None


_NO_FACTS: Final = SizingFacts()


def parse_node_pods(
    pods: Iterable[Document], resource: str, namespaces: Sequence[str], now: datetime
) -> list[NodePod]:
    """Parse the pods that are bound to a node; leave out those that have ended.

    Args:
        pods: all pods of the node.
        resource: extended resource that counts the GPUs.
        namespaces: only pods in these namespaces are sized; if empty, pods in all namespaces.
        now: time in UTC.
    """
    parsed = (_node_pod(raw, resource, namespaces, now) for raw in pods)
    return [each for each in parsed if each.view.live]


def parse_sizing_facts(profile: Document | None) -> SizingFacts:
    """Return the facts and the data set of a GPUProfile; parts in an unknown format are missing."""
    facts, dataset, found = None, None, profile or {}
    status = found.get("status")
    raw_facts = status.get("facts") if isinstance(status, dict) else None
    with suppress(ValidationError):
        facts = WorkloadFacts.model_validate(raw_facts) if raw_facts else None
    with suppress(InvalidInputError, ValidationError):
        dataset = _dataset(GPUProfileSpec.model_validate(found.get("spec") or {}))
    return SizingFacts(facts, dataset)


def parse_tuned_node(
    node: Document,
    pods: Sequence[NodePod],
    resource: str,
    facts: Mapping[ObjectKey, SizingFacts],
    measured: Mapping[str, Measurement],
    now: datetime,
) -> TunedNode:
    """Return the input of the decision about a node, without pending pods.

    Args:
        node: the Node.
        pods: those of this node.
        resource: extended resource that counts the GPUs.
        facts: facts by GPUProfile.
        measured: the agent's newest measurements, by UID of the pod.
        now: time in UTC.
    """
    tuned = tuple(
        _with_facts(each, each.tuned, facts, measured) for each in pods if each.tuned is not None
    )
    amounts = allocatable(node)
    gpus_of_others = sum(each.view.most_gpus for each in pods if each.tuned is None)
    return TunedNode(
        now=now,
        name=node["metadata"]["name"],
        # A GPU that became unhealthy is not allocatable, but its pod may still run.
        gpus=max(amounts[resource] // 1000 - gpus_of_others, sum(each.gpus for each in tuned)),
        allocatable=to_amounts(amounts),
        others=to_amounts(sum((each.held for each in pods), Counter())),
        pods=tuned,
    )


def has_unknown_gpus(node: Document, pods: Iterable[NodePod], resource: str) -> bool:
    """Return whether kubelet offers no GPUs, although sized pods use GPUs of the node.

    A node offers no GPUs for some seconds after kubelet or the agent has started. The share of a
    GPU is unknown until the node offers GPUs again.
    """
    return not allocatable(node)[resource] and any(each.tuned and each.tuned.gpus for each in pods)


def allocatable(node: Document) -> Counter[str]:
    """Return the allocatable amounts of a node, in thousandths; empty if they cannot be parsed."""
    status = node.get("status")
    found = status.get("allocatable") if isinstance(status, dict) else None
    return thousandths(found if isinstance(found, dict) else {})


def to_amounts(counted: Mapping[str, int]) -> Amounts:
    """Return CPUs and memory from thousandths by resource."""
    return Amounts(counted.get(CPU, 0), -(-counted.get(MEMORY, 0) // 1000))


def _node_pod(raw: Document, resource: str, namespaces: Sequence[str], now: datetime) -> NodePod:
    labels = raw["metadata"].get("labels") or {}
    try:
        pod, invalid = parse_pod_object(raw), ""
    except PodError as error:
        pod, invalid = valid_parts(raw), str(error)
    view, counted = view_of(pod, resource), counted_requests(pod)
    if invalid:
        labelled = labels.get(TUNED_LABEL) == "true"
        return NodePod(raw, view, counted, counted, invalid=invalid, labelled=labelled)
    served = not namespaces or view.namespace in namespaces
    if not served or not view.live or view.deleting or not is_tuned(view, labels):
        return NodePod(raw, view, counted, counted)
    try:
        container, tuned = parse_tuned_pod(raw, pod, view, now)
    except Exception as error:  # noqa: BLE001 - the other pods of the node are sized
        invalid = f"the pod cannot be parsed: {type(error).__name__}: {error}"
        return NodePod(raw, view, counted, counted, invalid=invalid, labelled=True)
    held = held_beside_sizing(pod, view, sized=True)
    restarts = restarts_for(container, MEMORY)
    return NodePod(raw, view, counted, held, container.name, restarts, tuned)


def _with_facts(
    pod: NodePod,
    tuned: TunedPod,
    facts: Mapping[ObjectKey, SizingFacts],
    measured: Mapping[str, Measurement],
) -> TunedPod:
    found = facts.get(pod.profile, _NO_FACTS) if pod.profile else _NO_FACTS
    rate = current_rate(measured.get(tuned.uid), tuned.spec.limit_milli_cpu)
    return replace(
        tuned,
        facts=found.facts,
        dataset=None if pod.memory_restarts else found.dataset,
        measured_micro_steps_per_second=rate or 0,
    )


def _dataset(spec: GPUProfileSpec) -> Dataset | None:
    if spec.dataset is None or spec.memory_floor is None:
        return None
    return Dataset(
        size=parse_bytes(spec.dataset.size, "dataset.size"),
        storage_mb_per_s=spec.dataset.storage_mb_per_s,
        memory_floor=parse_bytes(spec.memory_floor, "memoryFloor"),
        bytes_per_step=spec.dataset.bytes_per_step,
    )
