"""Whatever happens to a node's pods, the operator converges and violates no floor."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gputopo.api.tuning import Amounts
from gputopo.tuning.model import ContainerAmounts, Target, TunedNode
from gputopo.tuning.targets import targets
from support.property_settings import LONG, tried
from support.tuning.cluster import (
    ALL,
    NOTHING,
    SeenNode,
    SimulatedNode,
    SimulatedPod,
    by_weights,
)
from support.tuning.nodes import GIB

CAPACITY = Amounts(8000, 100 * GIB)
MOST_RESIZES = 8
"""Of one pod after the last disturbance: reverts of two resources, and new targets after each."""

choices = st.integers(0, 10**6)


class TunedNodeMachine(RuleBasedStateMachine):
    """Users, kubelet, other clients and two operators that are killed change one node."""

    choose: Callable[[TunedNode], Mapping[str, Target]] = staticmethod(by_weights)

    def __init__(self) -> None:
        super().__init__()
        self.node = SimulatedNode(CAPACITY, self.choose)
        self.created = 0
        self.seen: SeenNode | None = None

    def _pod(self, choice: int) -> SimulatedPod:
        return list(self.node.pods.values())[choice % len(self.node.pods)]

    def _has_pods(self) -> bool:
        return bool(self.node.pods)

    @initialize(weights=st.lists(st.integers(0, 8), min_size=1, max_size=4))
    def start(self, weights: list[int]) -> None:
        for weight in weights:
            self.arrive(1000, 10, weight, {})

    @rule(
        milli_cpu=st.integers(100, 2500),
        memory=st.integers(1, 30),
        weight=st.integers(0, 8),
        kind=st.fixed_dictionaries(
            {},
            optional={
                "burst": st.sampled_from([1, 4000]),
                "tunes_memory": st.just(True),
                "is_static": st.just(True),
                "infeasible_above": st.integers(100, 3000),
                "rejected_above": st.integers(100, 3000),
                "most_milli_cpu": st.integers(100, 5000),
            },
        ),
    )
    def arrive(self, milli_cpu: int, memory: int, weight: int, kind: dict[str, Any]) -> None:
        node, kind = self.node, dict(kind)
        pod = SimulatedPod.created(
            f"pod-{self.created}", milli_cpu, memory, burst=kind.pop("burst", 0)
        )
        held = [(max(each.spec.request, each.allocated)) for each in node.pods.values()]
        if not node.has_capacity([*held, node.hidden, pod.allocated]):
            return
        pod.weight = weight
        for name, value in kind.items():
            setattr(pod, name, value)
        node.pods[pod.uid] = pod
        self.created += 1

    @precondition(_has_pods)
    @rule(choice=choices)
    def leave(self, choice: int) -> None:
        del self.node.pods[self._pod(choice).uid]

    @rule(seconds=st.sampled_from([1, 5, 59, 61, 4000]))
    def time_passes(self, seconds: int) -> None:
        self.node.run(seconds)

    @rule(seconds=st.sampled_from([10, 100, 10**5]))
    def clock_is_set_back(self, seconds: int) -> None:
        self.node.now -= timedelta(seconds=seconds)

    @rule(writes=st.integers(0, 6) | st.just(ALL))
    def operator_decides_and_may_be_killed(self, writes: int) -> None:
        self.node.decide(writes)

    @rule()
    def second_operator_reads_the_node(self) -> None:
        self.seen = self.node.see()

    @precondition(lambda self: self.seen is not None)
    @rule(writes=st.integers(0, 6) | st.just(ALL))
    def second_operator_decides_late(self, writes: int) -> None:
        self.node.decide(writes, self.seen)
        self.seen = None

    @precondition(_has_pods)
    @rule(choice=choices, weight=st.integers(0, 8))
    def facts_change(self, choice: int, weight: int) -> None:
        self._pod(choice).weight = weight

    @precondition(_has_pods)
    @rule(choice=choices, usage=st.integers(0, 60))
    def container_uses_memory(self, choice: int, usage: int) -> None:
        pod = self._pod(choice)
        pod.usage = usage * GIB if pod.tunes_memory else 0

    @precondition(_has_pods)
    @rule(choice=choices, milli_cpu=st.integers(100, 3000))
    def other_client_resizes(self, choice: int, milli_cpu: int) -> None:
        pod = self._pod(choice)
        request = Amounts(milli_cpu, pod.spec.request.memory)
        if request == pod.spec.request or pod.is_measured or pod.annotation is None:
            return
        view = pod.view()
        if view.record is None or not view.record.done:
            return  # not distinguishable from a resize of an operator that was killed
        pod.spec = ContainerAmounts(request, milli_cpu, pod.spec.limit_memory)
        pod.was_resized_by_other = True
        pod.version += 1

    @precondition(_has_pods)
    @rule(choice=choices)
    def measurement_begins_or_ends(self, choice: int) -> None:
        pod = self._pod(choice)
        pod.is_measured = not pod.is_measured
        pod.version += 1

    @rule(part=st.sampled_from([0.5, 0.8, 1]))
    def allocatable_changes(self, part: float) -> None:
        self.node.allocatable = Amounts(*(round(part * each) for each in CAPACITY))

    @rule(milli_cpu=st.sampled_from([0, 0, 1000, 3000]))
    def node_has_load_that_no_pod_reports(self, milli_cpu: int) -> None:
        self.node.hidden = Amounts(milli_cpu, 0)

    @invariant()
    def no_pod_has_less_than_its_floor(self) -> None:
        for pod in self.node.pods.values():
            if not pod.was_resized_by_other:
                assert pod.spec.request.milli_cpu >= pod.floor.milli_cpu - 1
                assert pod.spec.request.memory >= pod.floor.memory

    def teardown(self) -> None:
        """Without further disturbances, the operator stops to resize pods."""
        tried("histories of a node with tuned pods")
        node = self.node
        node.hidden = NOTHING
        for pod in node.pods.values():
            pod.is_measured = False
            pod.amounts.clear()
        node.until_quiet()
        for pod in node.pods.values():
            assert len(pod.amounts) <= MOST_RESIZES, pod.amounts
            if node.is_overcommitted():
                continue  # kubelet defers all cuts, because no single one is large enough
            assert pod.spec.request == pod.allocated or pod.was_resized_by_other
            record = pod.view().record
            assert record is None or record.done or record.pinned


class CurvesMachine(TunedNodeMachine):
    """The same, with the targets from measured curves."""

    choose = staticmethod(targets)


_SETTINGS = settings(max_examples=3000 if LONG else 50, stateful_step_count=40, deadline=None)

TestTunedNode = TunedNodeMachine.TestCase
TestTunedNode.settings = _SETTINGS
TestCurves = CurvesMachine.TestCase
TestCurves.settings = _SETTINGS
