from collections.abc import Mapping, Sequence

import pytest

from builders import node
from gputopo.bandwidth.model import ModelError
from gputopo.bandwidth.models import named as model_named
from gputopo.patterns.model import ring, tree
from gputopo.placement.model import PolicyName
from gputopo.topology.model import NodeTopology
from gputopo_simulate.mapa.model import Queueing, Result, SimulatedJob, SimulationError
from gputopo_simulate.mapa.run import Settings, run
from gputopo_simulate.mapa.timelaw import ByBandwidth
from gputopo_topologies.catalogue import named

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


def starts(result: Result) -> list[float]:
    return [finished.start for finished in result.jobs]


def simulate(
    jobs: Sequence[SimulatedJob], nodes: Mapping[str, NodeTopology] = ONE, **settings: object
) -> Result:
    return run(nodes, jobs, Settings(**settings))  # type: ignore[arg-type]


def test_a_job_starts_when_it_arrives_if_it_fits() -> None:
    result = simulate([job(0, 2, arrival=5), job(1, 3, arrival=7)])
    assert starts(result) == [5, 7]
    assert [finished.end for finished in result.jobs] == [15, 17]
    assert result.makespan == 17


def test_gpus_that_come_free_are_taken_at_that_same_time() -> None:
    assert starts(simulate([job(0, 8), job(1, 8)])) == [0, 10]


def test_a_job_that_arrives_as_another_ends_takes_its_gpus() -> None:
    assert starts(simulate([job(0, 8), job(1, 8, arrival=10)])) == [0, 10]


def test_fifo_lets_nothing_pass_a_job_that_does_not_fit() -> None:
    jobs = [job(0, 5), job(1, 5), job(2, 1)]
    assert starts(simulate(jobs)) == [0, 10, 10]


def test_skip_ahead_starts_the_longest_waiting_of_those_that_fit() -> None:
    jobs = [job(0, 5), job(1, 5), job(2, 1), job(3, 2), job(4, 1)]
    assert starts(simulate(jobs, queueing=Queueing.SKIP_AHEAD)) == [0, 10, 0, 0, 10]


def test_skip_ahead_reserves_nothing_for_a_job_that_is_overtaken() -> None:
    jobs = [job(0, 5), job(1, 8), job(2, 3, arrival=5), job(3, 5, arrival=6), job(4, 3, arrival=7)]
    assert starts(simulate(jobs, queueing=Queueing.SKIP_AHEAD)) == [0, 25, 5, 10, 15]


def test_jobs_queue_by_arrival_and_not_by_place_in_the_list() -> None:
    result = simulate([job(0, 8, arrival=2), job(1, 8, arrival=1)])
    assert starts(result) == [11, 1]


def test_results_stand_in_the_order_of_the_list() -> None:
    result = simulate([job(7, 8, arrival=2), job(3, 8, arrival=1)])
    assert [finished.job.id for finished in result.jobs] == [7, 3]


def test_each_policy_places_as_it_does_in_a_cluster() -> None:
    lowest = simulate([job(0, 2)], policy=PolicyName.BASELINE).jobs[0]
    best = simulate([job(0, 2)], policy=PolicyName.PRESERVE).jobs[0]
    assert (lowest.gpus, lowest.effective_mb_per_s) == ((0, 1), 27_720)
    assert (best.gpus, best.effective_mb_per_s) == ((0, 3), 58_925)


def test_one_gpu_has_no_bandwidth() -> None:
    finished = simulate([job(0, 1)]).jobs[0]
    assert finished.effective_mb_per_s is None
    assert finished.model is None


def test_a_sensitive_job_goes_to_the_node_of_more_bandwidth() -> None:
    nodes = {"a": named("pcie-8gpu"), "b": named("dgx1-v100")}
    assert simulate([job(0, 3)], nodes).jobs[0].node == "b"


def test_an_insensitive_job_goes_where_it_costs_the_others_least() -> None:
    nodes = {"a": named("dgx1-v100"), "b": named("pcie-8gpu")}
    assert simulate([job(0, 3, sensitive=False)], nodes).jobs[0].node == "b"


def test_whole_nodes_stay_whole() -> None:
    nodes = {name: named("dgx1-v100", node=name) for name in "abc"}
    jobs = [job(0, 4), *(job(number, 1, sensitive=False) for number in range(1, 5))]
    assert [finished.node for finished in simulate(jobs, nodes).jobs] == ["a"] * 5


def test_the_first_by_name_of_equal_nodes_is_taken_whatever_their_order() -> None:
    names = ["b", "c", "a"]
    nodes = {name: named("summit", node=name) for name in names}
    jobs = [job(number, 6) for number in range(3)]
    assert [finished.node for finished in simulate(jobs, nodes).jobs] == ["a", "b", "c"]


def test_slow_links_lengthen_a_sensitive_job() -> None:
    on_pcie = simulate([job(0, 2)], {"n": node(0, 1)}, model=None, time_law=ByBandwidth())
    assert on_pcie.jobs[0].execution_time > 25


def test_the_judge_values_what_the_policy_chose_by_another_model() -> None:
    eq2, aggregate = model_named("eq2"), model_named("aggregate")
    finished = simulate([job(0, 2)], model=aggregate, judge=eq2).jobs[0]
    assert (finished.model, finished.effective_mb_per_s) == ("eq2", 58_925)
    assert finished.gpus == simulate([job(0, 2)], model=aggregate).jobs[0].gpus


def test_the_outcome_says_how_it_was_set() -> None:
    result = simulate([job(0, 2)], model=model_named("aggregate"), time_law=ByBandwidth())
    told = (result.policy, result.model, result.time_law, result.queueing)
    assert told == (PolicyName.PRESERVE, "aggregate", "bandwidth", "fifo")


def test_progress_is_told_after_each_job() -> None:
    told: list[tuple[int, int]] = []
    run(ONE, [job(0, 8), job(1, 8), job(2, 8)], Settings(), lambda *counts: told.append(counts))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_no_jobs_take_no_time() -> None:
    assert simulate([]).makespan == 0


def test_a_job_that_never_fits_is_refused_by_name_before_the_start() -> None:
    told: list[int] = []
    with pytest.raises(SimulationError, match=r"job 4: fits on no node: needs 9 GPUs, the node"):
        run(ONE, [job(3, 1), job(4, 9)], Settings(), lambda done, _: told.append(done))
    assert told == []


def test_a_model_outside_its_domain_is_refused_before_the_start() -> None:
    with pytest.raises(ModelError, match="eq2"):
        simulate([SimulatedJob(0, tree(3), 0, 1, sensitive=True)], model=model_named("eq2"))


def test_a_judge_outside_its_domain_is_refused_before_the_start() -> None:
    with pytest.raises(ModelError, match="eq2"):
        simulate([job(0, 3)], {"n": named("pcie-8gpu")}, judge=model_named("eq2"))


def test_a_node_of_too_many_gpus_is_refused() -> None:
    with pytest.raises(SimulationError, match="node 'n': 17 GPUs, at most 16"):
        simulate([job(0, 1)], {"n": node(*range(17))})


def test_no_node_is_refused() -> None:
    with pytest.raises(SimulationError, match="nodes: there is none"):
        simulate([job(0, 1)], {})


@pytest.mark.parametrize(
    ("jobs", "told"),
    [
        ([job(1, 1), job(1, 1)], "job 1: id: another job has it"),
        ([job(1, 1, arrival=-0.5)], "job 1: arrival: -0.5"),
        ([job(1, 1, arrival=float("inf"))], "job 1: arrival: inf"),
        ([job(1, 1, service=0)], "job 1: service: 0"),
        ([job(1, 1, service=float("nan"))], "job 1: service: nan"),
        ([job(1, 1, arrival=1e16)], r"job 1: arrival: 1e\+16 is no time of 0..1e\+15"),
        ([job(1, 1, service=5e-324)], "job 1: service: 5e-324 is no time of 1e-09..1e.15"),
        ([job(1, 1, arrival=1e15, service=1e-3)], "job 1: service: 0.001 is too short to count"),
    ],
)
def test_nonsense_is_refused_with_job_field_and_value(jobs: list[SimulatedJob], told: str) -> None:
    with pytest.raises(SimulationError, match=told):
        simulate(jobs)
