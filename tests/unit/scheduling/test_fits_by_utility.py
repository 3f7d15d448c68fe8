"""Nodes are evaluated with the jobs that run there, for the policy Utility."""

from dataclasses import replace

from gputopo.catalogue import named
from gputopo.patterns.model import ring
from gputopo.placement.model import PlacementRequest, PolicyName
from gputopo.placement.score import Candidate
from gputopo.topology.model import GpuMask
from gputopo.utility.interference import RunningNeighbour
from gputopo.utility.surroundings import job_surroundings
from gputopo_cluster.usage import NodeState
from gputopo_scheduling.best_nodes import best_nodes
from gputopo_scheduling.evaluation import SurroundedState, evaluation
from gputopo_scheduling.node_fits import evaluate_states, match_on
from gputopo_scheduling.surroundings import NodeSurroundings
from support.builders.topologies import gpus
from support.mapping import NOISY, QUIET, SLOWDOWNS

MINSKY = named("power8-minsky")
REQUEST = PlacementRequest(
    ring(1),
    sensitive=False,
    policy=PolicyName.UTILITY,
    surroundings=job_surroundings(QUIET, SLOWDOWNS, [MINSKY]),
)
NOISY_ON_0 = NodeSurroundings((RunningNeighbour(NOISY, gpus(0)),))
QUIET_ON_0 = NodeSurroundings((RunningNeighbour(QUIET, gpus(0)),))
BUSY_0 = NodeState(MINSKY, MINSKY.mask, GpuMask(MINSKY.mask & ~gpus(0)), 0, None)
ALL_BUT_SOCKET_1 = replace(BUSY_0, free=gpus(1))


def test_nodes_rank_by_the_jobs_that_run_there() -> None:
    keys = {
        "beside a noisy job": SurroundedState(ALL_BUT_SOCKET_1, NOISY_ON_0),
        "beside a quiet job": SurroundedState(ALL_BUT_SOCKET_1, QUIET_ON_0),
    }
    found = evaluation([*keys], [*keys.values()], evaluate_states(keys.values(), REQUEST))
    assert found.scores(sensitive=False) == {"beside a noisy job": 9, "beside a quiet job": 10}
    assert best_nodes(found, 1, {}, sensitive=False) == ["beside a quiet job"]
    full = {"beside a quiet job": 1}
    assert best_nodes(found, 1, full, sensitive=False) == ["beside a noisy job"]


def test_equal_states_with_equal_jobs_share_one_result() -> None:
    keys = [SurroundedState(BUSY_0, NOISY_ON_0), SurroundedState(BUSY_0, NOISY_ON_0)]
    assert len(evaluate_states(keys, REQUEST)) == 1


def test_state_without_jobs_is_a_node_on_which_no_other_job_runs() -> None:
    alone, beside = (
        evaluate_states([key], REQUEST)[key]
        for key in (ALL_BUT_SOCKET_1, SurroundedState(ALL_BUT_SOCKET_1, NOISY_ON_0))
    )
    assert isinstance(alone, Candidate)
    assert isinstance(beside, Candidate)
    assert alone.match.utility is not None
    assert beside.match.utility is not None
    assert alone.match.utility.job_value > beside.match.utility.job_value


def test_match_of_bind_is_that_of_the_evaluation() -> None:
    key = SurroundedState(BUSY_0, NOISY_ON_0)
    fit = evaluate_states([key], REQUEST)[key]
    assert isinstance(fit, Candidate)
    assert match_on(BUSY_0, REQUEST, NOISY_ON_0) == fit.match
