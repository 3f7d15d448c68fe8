"""A simulated node: its pods, kubelet's part in resizes, and an operator that can be killed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from gputopo.api.names import RESOURCES_ANNOTATION
from gputopo.api.tuning import Amounts, ResourcesMode, parse_tuned_record
from gputopo.tuning.decide import next_steps
from gputopo.tuning.model import (
    ContainerAmounts,
    NodePlan,
    PodResize,
    ResizeState,
    Target,
    TunedNode,
    TunedPod,
)
from gputopo.tuning.pods import amounts_of, floor_of, held_by, left_alone_because, most_of
from support.tuning.nodes import dataset_of

START: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOTHING: Final = Amounts(0, 0)
STATIC: Final = 'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"'


@dataclass(slots=True)
class SimulatedPod:
    """One pod on the node: what the API server stores, and what kubelet and the container do.

    ``usage`` is the memory that the container uses; ``weight`` is its priority in the allocation.
    """

    uid: str
    spec: ContainerAmounts
    allocated: Amounts
    applied: Amounts
    floor: Amounts
    usage: int = 0
    weight: int = 1
    tunes_memory: bool = False
    is_static: bool = False
    is_measured: bool = False
    most_milli_cpu: int | None = None
    annotation: str | None = None
    problem: Literal["Deferred", "Infeasible", "Error"] | None = None
    rejection: str = ""
    out_of_memory_at: int = 0
    was_resized_by_other: bool = False
    amounts: list[Amounts] = field(default_factory=list)

    @classmethod
    def created(
        cls, uid: str, milli_cpu: int, memory: int = 10, *, burst: int = 0
    ) -> "SimulatedPod":
        """Return a pod as its user creates it; its CPU limit is ``burst`` above the request."""
        request = Amounts(milli_cpu, memory)
        spec = ContainerAmounts(request, milli_cpu + burst, memory)
        pod = cls(uid, spec, request, request, request)
        pod.floor = amounts_of(pod.view())
        return pod

    def view(self) -> TunedPod:
        """Return what the operator parses from the pod."""
        annotations = {} if self.annotation is None else {RESOURCES_ANNOTATION: self.annotation}
        message = STATIC if self.problem == "Infeasible" else "kubelet's text"
        return TunedPod(
            uid=self.uid,
            name=self.uid,
            mode=ResourcesMode.AUTO,
            gpus=1,
            spec=self.spec,
            state=ResizeState(self.allocated, self.applied, self.problem, message),
            record=parse_tuned_record(annotations, self.uid),
            most_milli_cpu=self.most_milli_cpu,
            dataset=dataset_of(100) if self.tunes_memory else None,
            measuring=self.is_measured,
            rejection=self.rejection,
            out_of_memory_at=self.out_of_memory_at,
        )


@dataclass(slots=True)
class SimulatedNode:
    """A node with kubelet, and the operator's loop. ``hidden`` is used but in no pod's spec."""

    allocatable: Amounts
    others: Amounts = NOTHING
    hidden: Amounts = NOTHING
    now: datetime = START
    pods: dict[str, SimulatedPod] = field(default_factory=dict)

    def view(self) -> TunedNode:
        """Return the input of the decision."""
        return TunedNode(
            now=self.now,
            name="n1",
            gpus=8,
            allocatable=self.allocatable,
            others=self.others,
            pods=[pod.view() for pod in self.pods.values()],
        )

    def run(self, seconds: int = 5) -> None:
        """Let time pass; kubelet then accepts, defers and applies resizes."""
        self.now += timedelta(seconds=seconds)
        for pod in self.pods.values():
            self._accept(pod)
        for pod in self.pods.values():
            _apply(pod)

    def _accept(self, pod: SimulatedPod) -> None:
        wanted = pod.spec.request
        if wanted == pod.allocated:
            pod.problem = None
            return
        others = [each.allocated for each in self.pods.values() if each is not pod]
        used = [*others, self.others, self.hidden, wanted]
        if pod.is_static and pod.spec.limit_milli_cpu == wanted.milli_cpu:
            pod.problem = "Infeasible"
        elif _fits(used, self.allocatable) or _is_cut(pod.allocated, wanted):
            pod.allocated, pod.problem = wanted, None
        else:
            pod.problem = "Deferred"

    def decide(self, writes: int = 1000) -> NodePlan:
        """Decide and carry out the plan; the operator is killed after some writes."""
        node = self.view()
        plan = next_steps(node, allocate(node, self._weights()))
        for pod in self.pods.values():  # the operator keeps rejections in its memory only
            pod.rejection = ""
        for _ in zip(range(writes), self._writes(plan), strict=False):
            pass
        return plan

    def _weights(self) -> Mapping[str, int]:
        return {uid: pod.weight for uid, pod in self.pods.items()}

    def _writes(self, plan: NodePlan) -> Iterator[None]:
        for step in plan.steps:
            pod = self.pods[step.uid]
            pod.annotation = step.record.dump()
            yield
            if isinstance(step, PodResize):
                self._patch(pod, step)
                yield

    def _patch(self, pod: SimulatedPod, step: PodResize) -> None:
        assert not pod.was_resized_by_other
        assert not pod.is_measured
        amounts = step.record.target
        assert amounts.milli_cpu >= pod.floor.milli_cpu
        assert amounts.memory >= pod.floor.memory
        assert is_guaranteed(step.spec) == is_guaranteed(pod.spec)
        if step.spec.request.milli_cpu > self.allocatable.milli_cpu:
            pod.rejection = "more than the node's allocatable"
            return
        pod.spec = step.spec
        pod.amounts.append(amounts)

    def until_quiet(self, decisions: int = 60) -> None:
        """Run until a decision changes nothing and waits for nothing."""
        for _ in range(decisions):
            plan = self.decide()
            if not plan.steps and plan.check_after_seconds is None:
                return
            self.run(max(1, round(plan.check_after_seconds or 0)))
        message = f"no end: {plan}"
        raise AssertionError(message)


def is_guaranteed(spec: ContainerAmounts) -> bool:
    """Return whether requests equal limits."""
    return spec.request == Amounts(spec.limit_milli_cpu or 0, spec.limit_memory or 0)


def _apply(pod: SimulatedPod) -> None:
    """Apply what kubelet has accepted, if the container does not use the memory."""
    if pod.allocated.memory < pod.applied.memory and pod.usage > pod.allocated.memory:
        pod.problem = "Error"
        return
    pod.applied = pod.allocated
    if pod.usage > pod.applied.memory:
        pod.out_of_memory_at = pod.applied.memory
        pod.usage = 0


def _fits(amounts: list[Amounts], capacity: Amounts) -> bool:
    return (
        sum(each.milli_cpu for each in amounts) <= capacity.milli_cpu
        and sum(each.memory for each in amounts) <= capacity.memory
    )


def _is_cut(before: Amounts, after: Amounts) -> bool:
    return after.milli_cpu <= before.milli_cpu and after.memory <= before.memory


def allocate(node: TunedNode, weights: Mapping[str, int]) -> dict[str, Target]:
    """Divide the node by weights: a trivial allocation within the bounds of each pod."""
    alone = [held_by(pod) for pod in node.pods if left_alone_because(pod)]
    tuned = [pod for pod in node.pods if not left_alone_because(pod)]
    highest = {pod.uid: most_of(pod, node.allocatable, node.now) for pod in tuned}
    amounts = {pod.uid: floor_of(pod) for pod in tuned}
    free = [
        capacity - others - sum(each[axis] for each in (*alone, *amounts.values()))
        for axis, (capacity, others) in enumerate(zip(node.allocatable, node.others, strict=True))
    ]
    for uid in sorted(amounts, key=lambda uid: (-weights[uid], uid)):
        most, before = highest[uid], amounts[uid]
        wanted = (before.milli_cpu + 500 * weights[uid], before.memory + 4 * weights[uid])
        given = [
            max(low, min(want, high, low + max(0, left)))
            for low, want, high, left in zip(before, wanted, most, free, strict=True)
        ]
        free = [left - (new - old) for left, new, old in zip(free, given, before, strict=True)]
        amounts[uid] = Amounts(*given)
    return {uid: Target(each, "its weight") for uid, each in amounts.items()}
