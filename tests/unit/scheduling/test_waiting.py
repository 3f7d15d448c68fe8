"""Which nodes a waiting pod may use, and the reasons for the others."""

from dataclasses import replace

import pytest

from gputopo.catalogue import named
from gputopo.placement.model import Match
from gputopo.placement.score import Candidate
from gputopo.postponement.model import WaitTerms, WaitVerdict
from gputopo.topology.model import GpuMask
from gputopo.utility.utility import permille
from gputopo_cluster.topologies import UnreadableTopology
from gputopo_cluster.usage import NodeState, NumaObstacle, ObstacleKind
from gputopo_kube.document import ObjectKey
from gputopo_scheduling.evaluation import (
    Evaluation,
    Misfit,
    MisfitKind,
    NodeFit,
    SurroundedState,
)
from gputopo_scheduling.node_fits import evaluate_states
from gputopo_scheduling.surroundings import NOTHING_RUNS, NodeSurroundings
from gputopo_scheduling.wait_record import begun, ended
from gputopo_scheduling.waiting import (
    PodWait,
    WaitRule,
    decide_pod_wait,
    idle_key,
    idle_state,
    postponed,
    wait_order,
    wait_rule,
    wait_terms,
)
from support.builders.objects import pod
from support.builders.requests import pod_view, request_in

BUSY = Misfit(MisfitKind.BUSY, "too few free GPUs")
RULE = WaitRule("bandwidth", 700, lambda match: match.common_mb_per_s or 0)
TERMS = WaitTerms(700, created=0.0, max_wait_seconds=600)
EARLIER = ObjectKey("default", "earlier")


def fit(mb_per_s: int) -> Candidate:
    match = Match((), mb_per_s, mb_per_s, "physical", mb_per_s, 0, mb_per_s)
    return Candidate(match=match, lost_mb_per_s=0)


def evaluated(**results: NodeFit) -> Evaluation:
    nodes = [*results]
    return Evaluation(nodes, nodes, dict(zip(nodes, results.values(), strict=True)))


def decided(found: Evaluation, *idle: NodeFit, now: float = 10.0) -> PodWait:
    wait = decide_pod_wait(RULE, TERMS, found, idle, now)
    assert wait is not None
    return wait


def test_pod_waits_on_all_nodes_with_the_same_reason_and_others_keep_theirs() -> None:
    found = evaluated(n1=fit(40), n2=fit(30), n3=BUSY)
    wait = decided(found, fit(100), BUSY)
    result = postponed(found, wait, {})
    reason = (
        "waiting for bandwidth 0.7: 0.4 now, 1 on idle GPUs; until 1970-01-01T00:10:00Z at most"
    )
    assert wait.waits
    assert result.unresolvable() == {"n1": reason, "n2": reason}
    assert result.failed() == {"n3": "too few free GPUs"}


def test_pod_uses_only_nodes_that_reach_its_target() -> None:
    found = evaluated(n1=fit(40), n2=fit(80), n3=fit(70))
    result = postponed(found, decided(found, fit(100)), {})
    assert result.fitting() == ["n2", "n3"]
    assert [*result.unresolvable()] == ["n1"]


def test_pod_whose_longest_wait_is_over_uses_every_node() -> None:
    found = evaluated(n1=fit(40), n2=fit(30))
    wait = decided(found, fit(100), now=600.0)
    assert wait.is_expired
    assert postponed(found, wait, {}) == found


def test_pod_does_not_wait_if_idle_gpus_are_not_better() -> None:
    found = evaluated(n1=fit(40))
    wait = decided(found, BUSY)
    assert wait.decision.verdict is WaitVerdict.REACHED
    assert postponed(found, wait, {}) == found


def test_pod_that_fits_on_no_node_does_not_wait() -> None:
    assert decide_pod_wait(RULE, TERMS, evaluated(n1=BUSY), [fit(1)], 0.0) is None


def test_node_is_held_for_an_earlier_pod_only_if_the_pod_could_use_it() -> None:
    found = evaluated(n1=fit(90), n2=fit(90), n3=BUSY, n4=fit(10))
    held = dict.fromkeys(("n1", "n3", "n4"), EARLIER)
    result = postponed(found, decided(found, fit(100)), held)
    assert result.fitting() == ["n2"]
    assert result.unresolvable()["n1"] == (
        "held for pod default/earlier, which has waited for longer"
    )
    assert result.failed() == {"n3": "too few free GPUs"}
    assert result.misfit_counts == {
        MisfitKind.HELD: 1,
        MisfitKind.BUSY: 1,
        MisfitKind.POSTPONED: 1,
    }


def test_idle_state_has_all_healthy_gpus_and_keeps_what_blocks_the_node() -> None:
    topology = named("dgx1-v100", node="n1")
    healthy = GpuMask(0b1111_1110)
    used = NodeState(
        topology, healthy, GpuMask(0b10), 1, "blocked", "not ready", deleted=GpuMask(0b100)
    )
    idle = idle_state(used)
    assert (idle.free, idle.unknown, idle.deleted) == (healthy, 0, 0)
    assert (idle.structure, idle.blocked, idle.not_ready) == (topology, "blocked", "not ready")


@pytest.mark.parametrize("kind", [*ObstacleKind])
def test_idle_state_keeps_only_an_obstacle_of_the_hardware(kind: ObstacleKind) -> None:
    topology = named("dgx1-v100", node="n1")
    obstacle = NumaObstacle(kind, "kubelet would reject the pod")
    busy = NodeState(topology, topology.mask, GpuMask(0), 0, None, obstacle=obstacle)
    kept = obstacle if kind is ObstacleKind.PERMANENT else None
    assert idle_state(busy).obstacle == kept


@pytest.mark.parametrize(("annotation", "seconds"), [(None, 600), ("0", 0), ("30", 30)])
def test_terms_come_from_the_pod(annotation: str | None, seconds: int) -> None:
    annotations = {} if annotation is None else {"gputopo.io/max-wait-seconds": annotation}
    document = pod("a", 2, annotations=annotations)
    document["metadata"]["creationTimestamp"] = "1970-01-01T00:00:10Z"
    document["spec"]["priority"] = 7
    view = pod_view(document)
    assert wait_terms(view, RULE, default_seconds=600) == WaitTerms(700, 10.0, seconds)
    assert wait_order(view) == wait_order(view)
    assert (wait_order(view).rank, wait_order(view).created) == (-7, 10.0)


def test_record_has_the_begin_and_the_end_of_the_wait() -> None:
    wait = decided(evaluated(n1=fit(40)), fit(100))
    record = begun("u", wait, 20.0)
    assert record.wait_text() == (
        "waiting for bandwidth 0.7: 0.4 at first, 1 on idle GPUs; until 1970-01-01T00:10:00Z at "
        "most"
    )
    end = ended(record, 800, 57.9, expired=False).end
    assert end is not None
    assert (end.seconds, end.permille) == (37, 800)
    earlier = ended(record, 800, 0.0, expired=False).end
    assert earlier is not None
    assert earlier.seconds == 0, "the clock was set back"


@pytest.mark.parametrize(
    ("annotations", "minimum"),
    [
        ({"gputopo.io/policy": "Utility", "gputopo.io/min-utility-percent": "70"}, 700),
        ({"gputopo.io/policy": "Utility", "gputopo.io/min-utility-percent": "0"}, None),
        ({"gputopo.io/policy": "Utility"}, None),
        ({}, None),
    ],
)
def test_only_a_least_utility_lets_a_pod_wait(
    annotations: dict[str, str], minimum: int | None
) -> None:
    rule = wait_rule(request_in(pod_view(pod("a", 2, annotations=annotations))))
    assert (None if rule is None else rule.minimum_permille) == minimum


def test_value_of_the_policy_utility_is_the_utility_for_the_job() -> None:
    annotations = {"gputopo.io/policy": "Utility", "gputopo.io/min-utility-percent": "90"}
    request = request_in(pod_view(pod("a", 4, annotations=annotations)))
    rule = wait_rule(request)
    assert rule is not None
    topology = named("dgx1-v100", node="n1")
    busy = NodeState(topology, topology.mask, GpuMask(0b1100_0011), 0, None)
    surrounded = SurroundedState(busy, NodeSurroundings())
    idle = idle_key(surrounded)
    assert isinstance(idle, SurroundedState)
    assert (idle.state.free, idle.running) == (topology.mask, NOTHING_RUNS)
    results = evaluate_states([surrounded, idle], request)
    found = Evaluation(["n1"], [surrounded], {surrounded: results[surrounded]})
    wait = decide_pod_wait(rule, WaitTerms(900, 0.0, 600), found, [results[idle]], 10.0)
    assert wait is not None
    best = results[idle]
    assert isinstance(best, Candidate)
    assert best.match.utility is not None
    assert wait.outlook.then_permille == permille(best.match.utility.job_value)
    assert wait.outlook.now_permille < wait.outlook.then_permille
    assert wait.waits
    without = replace(best.match, utility=None)
    assert wait.permille(without) == 0


def test_node_without_a_topology_has_no_idle_state() -> None:
    assert idle_key(None) is None
    assert idle_key(UnreadableTopology("n1", "no GPUs")) is None
