from collections.abc import Mapping, Sequence

import pytest

from gputopo.bandwidth.model import ModelError
from gputopo.bandwidth.models import named as model_named
from gputopo.catalogue import named
from gputopo.patterns.model import ring, tree
from gputopo.placement.model import PolicyName
from gputopo.topology.model import NodeTopology
from gputopo_simulate.errors import SimulationError
from gputopo_simulate.mapa.model import Queueing, SimulatedJob, SimulationResult
from gputopo_simulate.mapa.run import MapaSettings, run
from gputopo_simulate.mapa.timelaw import BandwidthTime
from support.builders.topologies import node

ONE = {"n": named("dgx1-v100")}


def job(
    number: int,
    gpus: int,
    service: float = 10,
    arrival: float = 0,
    *,
    sensitive: bool = True,
) -> SimulatedJob:
    return SimulatedJob(number, ring(gpus), arrival, service, sensitive)


def starts(result: SimulationResult) -> list[float]:
    return [finished.start for finished in result.jobs]


def simulate(
    jobs: Sequence[SimulatedJob], nodes: Mapping[str, NodeTopology] = ONE, **settings: object
) -> SimulationResult:
    return run(nodes, jobs, MapaSettings(**settings))  # type: ignore[arg-type]


def test_job_starts_when_it_arrives_if_it_fits() -> None:
    result = simulate([job(0, 2, arrival=5), job(1, 3, arrival=7)])
    assert starts(result) == [5, 7]
    assert [finished.end for finished in result.jobs] == [15, 17]
    assert result.makespan == 17


def test_gpus_that_become_free_are_taken_at_the_same_time() -> None:
    assert starts(simulate([job(0, 8), job(1, 8)])) == [0, 10]


def test_job_that_arrives_when_another_ends_takes_its_gpus() -> None:
    assert starts(simulate([job(0, 8), job(1, 8, arrival=10)])) == [0, 10]


def test_fifo_lets_no_job_overtake_one_that_does_not_fit() -> None:
    jobs = [job(0, 5), job(1, 5), job(2, 1)]
    assert starts(simulate(jobs)) == [0, 10, 10]


def test_skip_ahead_starts_the_job_that_waits_longest_of_those_that_fit() -> None:
    jobs = [job(0, 5), job(1, 5), job(2, 1), job(3, 2), job(4, 1)]
    assert starts(simulate(jobs, queueing=Queueing.SKIP_AHEAD)) == [0, 10, 0, 0, 10]


def test_skip_ahead_reserves_nothing_for_an_overtaken_job() -> None:
    jobs = [job(0, 5), job(1, 8), job(2, 3, arrival=5), job(3, 5, arrival=6), job(4, 3, arrival=7)]
    assert starts(simulate(jobs, queueing=Queueing.SKIP_AHEAD)) == [0, 25, 5, 10, 15]


def test_jobs_queue_by_arrival_and_not_by_list_order() -> None:
    result = simulate([job(0, 8, arrival=2), job(1, 8, arrival=1)])
    assert starts(result) == [11, 1]


def test_results_have_the_order_of_the_list() -> None:
    result = simulate([job(7, 8, arrival=2), job(3, 8, arrival=1)])
    assert [finished.job.id for finished in result.jobs] == [7, 3]


def test_policies_place_jobs_as_in_a_cluster() -> None:
    lowest = simulate([job(0, 2)], policy=PolicyName.BASELINE).jobs[0]
    best = simulate([job(0, 2)], policy=PolicyName.PRESERVE).jobs[0]
    assert (lowest.gpus, lowest.effective_mb_per_s) == ((0, 1), 27_720)
    assert (best.gpus, best.effective_mb_per_s) == ((0, 3), 58_925)


def test_one_gpu_has_no_bandwidth() -> None:
    finished = simulate([job(0, 1)]).jobs[0]
    assert finished.effective_mb_per_s is None
    assert finished.model is None


def test_sensitive_job_goes_to_the_node_with_more_bandwidth() -> None:
    nodes = {"a": named("pcie-8gpu"), "b": named("dgx1-v100")}
    assert simulate([job(0, 3)], nodes).jobs[0].node == "b"


def test_insensitive_job_goes_where_it_leaves_most_bandwidth() -> None:
    nodes = {"a": named("dgx1-v100"), "b": named("pcie-8gpu")}
    assert simulate([job(0, 3, sensitive=False)], nodes).jobs[0].node == "b"


def test_small_jobs_share_a_node_so_that_others_stay_idle() -> None:
    nodes = {name: named("dgx1-v100", node=name) for name in "abc"}
    jobs = [job(0, 4), *(job(number, 1, sensitive=False) for number in range(1, 5))]
    assert [finished.node for finished in simulate(jobs, nodes).jobs] == ["a"] * 5


def test_first_of_equal_nodes_by_name_is_chosen() -> None:
    names = ["b", "c", "a"]
    nodes = {name: named("summit", node=name) for name in names}
    jobs = [job(number, 6) for number in range(3)]
    assert [finished.node for finished in simulate(jobs, nodes).jobs] == ["a", "b", "c"]


def test_slow_links_make_a_sensitive_job_run_longer() -> None:
    on_pcie = simulate([job(0, 2)], {"n": node(0, 1)}, model=None, time_law=BandwidthTime())
    assert on_pcie.jobs[0].execution_time > 25


def test_judge_scores_the_match_that_another_model_chose() -> None:
    eq2, aggregate = model_named("eq2"), model_named("aggregate")
    finished = simulate([job(0, 2)], model=aggregate, judge=eq2).jobs[0]
    assert (finished.model, finished.effective_mb_per_s) == ("eq2", 58_925)
    assert finished.gpus == simulate([job(0, 2)], model=aggregate).jobs[0].gpus


def test_result_has_the_settings() -> None:
    result = simulate([job(0, 2)], model=model_named("aggregate"), time_law=BandwidthTime())
    settings = (result.policy, result.model, result.time_law, result.queueing)
    assert settings == (PolicyName.PRESERVE, "aggregate", "bandwidth", "fifo")


def test_progress_is_reported_after_each_job() -> None:
    reported: list[tuple[int, int]] = []
    run(
        ONE,
        [job(0, 8), job(1, 8), job(2, 8)],
        MapaSettings(),
        lambda *counts: reported.append(counts),
    )
    assert reported == [(1, 3), (2, 3), (3, 3)]


def test_run_without_jobs_takes_no_time() -> None:
    assert simulate([]).makespan == 0


def test_job_that_fits_on_no_node_is_rejected_before_the_start() -> None:
    reported: list[int] = []
    with pytest.raises(SimulationError, match=r"job 4: fits on no node: needs 9 GPUs, the node"):
        run(ONE, [job(3, 1), job(4, 9)], MapaSettings(), lambda done, _: reported.append(done))
    assert reported == []


def test_model_outside_its_domain_is_rejected_before_the_start() -> None:
    with pytest.raises(ModelError, match="eq2"):
        simulate([SimulatedJob(0, tree(3), 0, 1, sensitive=True)], model=model_named("eq2"))


def test_judge_outside_its_domain_is_rejected_before_the_start() -> None:
    with pytest.raises(ModelError, match="eq2"):
        simulate([job(0, 3)], {"n": named("pcie-8gpu")}, judge=model_named("eq2"))


def test_node_with_too_many_gpus_is_rejected() -> None:
    with pytest.raises(SimulationError, match="node 'n': gpus: 17; at most 16"):
        simulate([job(0, 1)], {"n": node(*range(17))})


def test_run_without_nodes_is_rejected() -> None:
    with pytest.raises(SimulationError, match="nodes: the list is empty"):
        simulate([job(0, 1)], {})


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ([job(1, 1), job(1, 1)], "job 1: id: used by another job"),
        ([job(1, 1, arrival=-0.5)], "job 1: arrival: -0.5"),
        ([job(1, 1, arrival=float("inf"))], "job 1: arrival: inf"),
        ([job(1, 1, service=0)], "job 1: service: 0"),
        ([job(1, 1, service=float("nan"))], "job 1: service: nan"),
        ([job(1, 1, arrival=1e16)], r"job 1: arrival: 1e\+16; must be between 0 and 1e\+15"),
        ([job(1, 1, service=5e-324)], "job 1: service: 5e-324; must be between 1e-09 and 1e.15"),
        ([job(1, 1, arrival=1e15, service=1e-3)], "job 1: service: 0.001 is lost by rounding"),
    ],
)
def test_invalid_job_is_rejected_with_field_and_value(
    jobs: list[SimulatedJob], message: str
) -> None:
    with pytest.raises(SimulationError, match=message):
        simulate(jobs)
