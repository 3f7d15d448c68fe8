"""Decides for each node whether a pod may use it now, or waits for a better placement.

filter calls this module after the evaluation of the nodes. A pod that waits is rejected on each
node where it would fit, with one reason that names what it waits for. kube-scheduler must not
preempt other pods only to end a wait, so the extender reports these nodes as unresolvable.

The module compares placements by a :class:`WaitRule`: each policy defines the value of a placement.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace

from gputopo.api.waiting import as_fraction, parse_max_wait
from gputopo.placement.model import Match, PlacementRequest, PolicyName
from gputopo.placement.score import Candidate
from gputopo.postponement.decide import decide_wait, is_expired
from gputopo.postponement.model import (
    Outlook,
    WaitDecision,
    WaitTerms,
    WaitVerdict,
    relative_permille,
)
from gputopo.postponement.offers import WaitOrder
from gputopo.runtime.times import timestamp_of
from gputopo.topology.model import GpuMask
from gputopo.utility.utility import UNITS
from gputopo_cluster.usage import NodeState, ObstacleKind
from gputopo_kube.document import ObjectKey
from gputopo_kube.pods import PodView
from gputopo_scheduling.evaluation import (
    Evaluation,
    Misfit,
    MisfitKind,
    NodeFit,
    SurroundedState,
)
from gputopo_scheduling.surroundings import NOTHING_RUNS


@dataclass(frozen=True, slots=True)
class WaitRule:
    """What the policy of a request compares.

    Attributes:
        name: what the value is, for messages.
        minimum_permille: the value that the user requests.
        value: returns the value of a placement in any unit.
        ideal: value of an ideal placement; None if it is that of the best placement on idle GPUs.
    """

    name: str
    minimum_permille: int
    value: Callable[[Match], float]
    ideal: float | None = None


@dataclass(frozen=True, slots=True)
class PodWait:
    """The decision about the wait of one pod.

    Attributes:
        rule: what the pod waits for.
        terms: how long it waits at most.
        outlook: the best placement now, and on idle GPUs.
        decision: whether it waits.
        ideal: value of an ideal placement, in the unit of the rule.
    """

    rule: WaitRule
    terms: WaitTerms
    outlook: Outlook
    decision: WaitDecision
    ideal: float

    @property
    def waits(self) -> bool:
        """Whether no placement now is good enough for the pod."""
        return self.decision.verdict is WaitVerdict.WAITS

    def permille(self, match: Match) -> int:
        """Return the value of a placement in per mille of an ideal placement."""
        return relative_permille(self.rule.value(match), self.ideal)

    @property
    def is_expired(self) -> bool:
        """Whether the pod takes a placement below its minimum because its longest wait is over."""
        return self.decision.verdict is WaitVerdict.EXPIRED

    def is_over(self, now: float) -> bool:
        """Return whether the longest wait is over at this Unix time, or the pod never waits."""
        return is_expired(self.terms, now)

    def accepts(self, fit: NodeFit) -> bool:
        """Return whether the pod would be placed on a node with this evaluation."""
        return isinstance(fit, Candidate) and self.accepts_match(fit.match)

    def accepts_match(self, match: Match) -> bool:
        """Return whether a placement has the value that the pod accepts now."""
        return self.permille(match) >= self.decision.target_permille

    @property
    def reason(self) -> str:
        """What the pod waits for, until when, and what it would get now and then."""
        now, then = self.outlook.now_permille, self.outlook.then_permille
        until = timestamp_of(self.terms.until or 0)
        return (
            f"waiting for {self.rule.name} {as_fraction(self.decision.target_permille)}: "
            f"{as_fraction(now)} now, {as_fraction(then)} on idle GPUs; until {until} at most"
        )


def wait_rule(request: PlacementRequest) -> WaitRule | None:
    """Return what a pod with this request waits for; None if it is always placed at once."""
    percent = request.min_utility_percent
    if request.policy is not PolicyName.UTILITY or not percent:
        return None
    return WaitRule("utility", 10 * percent, _job_utility, UNITS)


def _job_utility(match: Match) -> float:
    return match.utility.job_value if match.utility is not None else 0


def wait_terms(pod: PodView, rule: WaitRule, *, default_seconds: int) -> WaitTerms:
    """Return the terms of a pod; ``default_seconds`` is the longest wait without an annotation.

    Raises:
        AnnotationError: if the annotation with the longest wait has a wrong value.
    """
    annotated = parse_max_wait(pod.annotations)
    seconds = default_seconds if annotated is None else annotated
    return WaitTerms(rule.minimum_permille, pod.created, seconds)


def wait_order(pod: PodView) -> WaitOrder:
    """Return the place of a pod among the postponed pods."""
    return WaitOrder(-pod.priority, pod.created or 0.0, pod.uid)


def idle_state(state: NodeState) -> NodeState:
    """Return the state that a node would have if all pods on it had ended.

    An obstacle of the hardware stays. Of the rules for NUMA nodes, only this is considered.
    """
    obstacle = state.obstacle
    lasts = obstacle is not None and obstacle.kind is ObstacleKind.PERMANENT
    return replace(
        state,
        free=state.healthy,
        unknown=0,
        deleted=GpuMask(0),
        obstacle=obstacle if lasts else None,
        restrictions=(),
    )


def idle_key(state: Hashable) -> NodeState | SurroundedState | None:
    """Return the key for the evaluation of a node as if all pods on it had ended.

    Return None for a node without a valid GPUTopology.
    """
    if isinstance(state, SurroundedState):
        return SurroundedState(idle_state(state.state), NOTHING_RUNS)
    return idle_state(state) if isinstance(state, NodeState) else None


def decide_pod_wait(
    rule: WaitRule,
    terms: WaitTerms,
    found: Evaluation,
    idle: Iterable[NodeFit],
    now: float,
) -> PodWait | None:
    """Return whether a pod waits; None if it fits on no node now.

    Args:
        rule: what the pod waits for.
        terms: how long it waits at most.
        found: the evaluation of the nodes now.
        idle: the evaluation of the idle states of the same nodes.
        now: Unix time in seconds.
    """
    values_now, values_then = _values(rule, found.results.values()), _values(rule, idle)
    if not values_now:
        return None
    best_now = max(values_now)
    best_then = max(best_now, max(values_then, default=best_now))
    ideal = best_then if rule.ideal is None else rule.ideal
    outlook = Outlook(relative_permille(best_now, ideal), relative_permille(best_then, ideal))
    return PodWait(rule, terms, outlook, decide_wait(terms, outlook, now), ideal)


def postponed(found: Evaluation, wait: PodWait, held: Mapping[str, ObjectKey]) -> Evaluation:
    """Return the evaluation with the nodes that the pod may not use now as misfits.

    Args:
        found: the evaluation without waiting.
        wait: the decision about the pod.
        held: by node, the earlier postponed pod to which the node is offered now.
    """
    rejected = {
        key: Misfit(MisfitKind.POSTPONED, wait.reason)
        for key, fit in found.results.items()
        if isinstance(fit, Candidate) and not wait.accepts(fit)
    }
    results: dict[Hashable, NodeFit] = {**found.results, **rejected}
    keys = [
        _held_key(results[key], held.get(node)) or key
        for node, key in zip(found.nodes, found.keys, strict=True)
    ]
    results.update((key, key) for key in keys if isinstance(key, Misfit))
    return Evaluation(found.nodes, keys, {key: results[key] for key in set(keys)})


def _held_key(fit: NodeFit, earlier: ObjectKey | None) -> Misfit | None:
    if earlier is None or not isinstance(fit, Candidate):
        return None
    return Misfit(MisfitKind.HELD, f"held for pod {earlier}, which has waited for longer")


def _values(rule: WaitRule, fits: Iterable[NodeFit]) -> list[float]:
    return [rule.value(fit.match) for fit in fits if isinstance(fit, Candidate)]
