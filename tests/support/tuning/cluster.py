"""A simulated node: its pods, kubelet's part in resizes, and an operator that can be killed."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple

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
from support.tuning.nodes import GIB, dataset_of, facts

START: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
ALL: Final = 1000
"""More writes than any plan has."""

NOTHING: Final = Amounts(0, 0)
_DEFERRED_POLLS: Final = 3
STATIC: Final = 'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"'


@dataclass(slots=True)
class SimulatedPod:
    """One pod on the node: what the API server stores, and what kubelet and the container do.

    ``usage`` is the memory that the container uses. With ``weight`` CPUs, the pod reaches its full
    speed. ``infeasible_above`` is the CPU limit above which kubelet can carry out no resize, and
    ``rejected_above`` that above which the API server rejects it. ``version`` counts the changes.
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
    infeasible_above: int = 10**6
    rejected_above: int = 10**6
    is_measured: bool = False
    most_milli_cpu: int | None = None
    annotation: str | None = None
    problem: Literal["Deferred", "Infeasible", "Error"] | None = None
    rejection: str = ""
    out_of_memory_at: int = 0
    was_resized_by_other: bool = False
    amounts: list[Amounts] = field(default_factory=list)
    version: int = 0

    @classmethod
    def created(
        cls, uid: str, milli_cpu: int, memory_gib: int, *, burst: int = 0
    ) -> "SimulatedPod":
        """Return a pod as its user creates it; its CPU limit is ``burst`` above the request."""
        request = Amounts(milli_cpu, memory_gib * GIB)
        spec = ContainerAmounts(request, milli_cpu + burst, request.memory)
        pod = cls(uid, spec, request, request, request)
        pod.floor = amounts_of(pod.view())
        return pod

    def view(self) -> TunedPod:
        """Return what the operator parses from the pod."""
        annotations = {} if self.annotation is None else {RESOURCES_ANNOTATION: self.annotation}
        full = 5 + 5 * self.weight
        message = STATIC if self.is_static else "limit below current usage"
        return TunedPod(
            uid=self.uid,
            name=self.uid,
            mode=ResourcesMode.AUTO,
            gpus=1,
            spec=self.spec,
            state=ResizeState(self.allocated, self.applied, self.problem, message),
            record=parse_tuned_record(annotations, self.uid),
            most_milli_cpu=self.most_milli_cpu,
            facts=facts({500: 5, 500 + 500 * self.weight: full, 8000: full}),
            dataset=dataset_of(50 * GIB) if self.tunes_memory else None,
            measuring=self.is_measured,
            rejection=self.rejection,
            out_of_memory_at=self.out_of_memory_at,
        )


class SeenNode(NamedTuple):
    """What an operator has read, and the versions of the pods at this time."""

    node: TunedNode
    versions: dict[str, int]


@dataclass(slots=True)
class SimulatedNode:
    """A node with kubelet, and the operator's loop. ``hidden`` is used but in no pod's spec."""

    allocatable: Amounts
    choose: Callable[[TunedNode], Mapping[str, Target]]
    others: Amounts = NOTHING
    hidden: Amounts = NOTHING
    now: datetime = START
    pods: dict[str, SimulatedPod] = field(default_factory=dict)

    def see(self) -> SeenNode:
        """Return the input of a decision now."""
        node = TunedNode(
            now=self.now,
            name="n1",
            gpus=8,
            allocatable=self.allocatable,
            others=self.others,
            pods=[pod.view() for pod in self.pods.values()],
        )
        return SeenNode(node, {uid: pod.version for uid, pod in self.pods.items()})

    def run(self, seconds: int = 5) -> None:
        """Let time pass; kubelet then accepts, defers and applies resizes."""
        self.now += timedelta(seconds=seconds)
        before = {uid: pod.view() for uid, pod in self.pods.items()}
        for pod in self.pods.values():
            self._accept(pod)
        for pod in self.pods.values():
            _apply(pod)
            pod.version += pod.view() != before[pod.uid]

    def _accept(self, pod: SimulatedPod) -> None:
        wanted = pod.spec.request
        if wanted == pod.allocated:
            pod.problem = None
            return
        others = [each.allocated for each in self.pods.values() if each is not pod]
        if _is_infeasible(pod):
            pod.problem = "Infeasible"
        elif self.has_capacity([*others, self.hidden, wanted]):  # for a cut, too
            pod.allocated, pod.problem = wanted, None
        else:
            pod.problem = "Deferred"

    def has_capacity(self, amounts: Iterable[Amounts]) -> bool:
        """Return whether pods with these amounts, and the other pods, fit on the node."""
        return all(
            sum(used) <= capacity
            for *used, capacity in zip(*amounts, self.others, self.allocatable, strict=True)
        )

    def is_overcommitted(self) -> bool:
        """Return whether the node has less than kubelet counts for its pods."""
        return not self.has_capacity([self.hidden, *(it.allocated for it in self.pods.values())])

    def decide(self, writes: int = ALL, seen: SeenNode | None = None) -> NodePlan:
        """Decide and carry out the plan; the operator is killed after some writes."""
        node, versions = seen or self.see()
        plan = next_steps(node, self.choose(node))
        fits_before = self.has_capacity(_counted(self.pods))
        for pod in self.pods.values():  # the operator keeps rejections in its memory only
            pod.rejection = ""
        for _ in zip(range(writes), self._writes(plan, versions), strict=False):
            pass
        if seen is None and writes == ALL:
            assert self.has_capacity(_counted(self.pods)) or not fits_before
        return plan

    def _writes(self, plan: NodePlan, versions: Mapping[str, int]) -> Iterator[None]:
        """Carry out the steps, each write after a yield. A changed pod ends the plan: Conflict."""
        for step in plan.steps:
            pod = self.pods.get(step.uid)
            if pod is None or pod.version != versions[step.uid]:
                return
            yield
            pod.annotation, pod.version = step.record.dump(), pod.version + 1
            if isinstance(step, PodResize):
                yield
                self._patch(pod, step)

    def _patch(self, pod: SimulatedPod, step: PodResize) -> None:
        assert not pod.was_resized_by_other
        assert not pod.is_measured
        amounts = step.record.target
        assert amounts.milli_cpu >= pod.floor.milli_cpu
        assert amounts.memory >= pod.floor.memory
        assert is_guaranteed(step.spec) == is_guaranteed(pod.spec)
        if amounts.milli_cpu > min(self.allocatable.milli_cpu, pod.rejected_above):
            pod.rejection = "more CPUs than allowed"
            return
        pod.spec, pod.version = step.spec, pod.version + 1
        pod.amounts.append(amounts)

    def until_quiet(self, decisions: int = 100) -> None:
        """Run until a decision changes nothing and waits for nothing.

        On an overcommitted node kubelet may defer all cuts; then the operator waits for ever.
        """
        waits = 0
        for _ in range(decisions):
            plan = self.decide()
            waits = 0 if plan.steps or not self.is_overcommitted() else waits + 1
            if not plan.steps and (plan.check_after_seconds is None or waits > _DEFERRED_POLLS):
                return
            self.run(max(1, round(plan.check_after_seconds or 0)))
        message = f"no end: {plan}"
        raise AssertionError(message)


def _counted(pods: Mapping[str, SimulatedPod]) -> Iterable[Amounts]:
    """Return what kubelet counts in the end, without cuts of memory that are not in effect."""
    for pod in pods.values():
        memory = max(pod.spec.request.memory, pod.allocated.memory, pod.applied.memory)
        yield Amounts(pod.spec.request.milli_cpu, memory)


def _is_infeasible(pod: SimulatedPod) -> bool:
    limit = pod.spec.limit_milli_cpu or 0
    has_static_cpus = pod.is_static and limit == pod.spec.request.milli_cpu
    return has_static_cpus or limit > max(pod.infeasible_above, pod.allocated.milli_cpu + 1)


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


def by_weights(node: TunedNode) -> dict[str, Target]:
    """Divide the node in the order of the pods' full speeds: a trivial allocation."""
    alone = [held_by(pod) for pod in node.pods if left_alone_because(pod)]
    tuned = [pod for pod in node.pods if not left_alone_because(pod)]
    amounts = {pod.uid: floor_of(pod) for pod in tuned}
    for pod in sorted(tuned, key=lambda pod: (-_weight(pod), pod.uid)):
        low, most = amounts[pod.uid], most_of(pod, node.allocatable, node.now)
        used = zip(*alone, *amounts.values(), node.others, strict=True)
        free = [each - sum(part) for each, part in zip(node.allocatable, used, strict=True)]
        more = [500 * _weight(pod), 4 * GIB * _weight(pod)]
        amounts[pod.uid] = Amounts(
            *(
                max(least, min(least + extra, high, least + left))
                for least, extra, high, left in zip(low, more, most, free, strict=True)
            )
        )
    return {uid: Target(each, "its weight") for uid, each in amounts.items()}


def _weight(pod: TunedPod) -> int:
    assert pod.facts is not None
    points = pod.facts.cpus[0].points
    return round(points[-1].micro_steps_per_second / 5e6) - 1
