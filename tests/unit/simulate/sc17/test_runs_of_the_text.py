"""Runs by the text of the paper: policies, speeds, postponement."""

from dataclasses import replace
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputopo.catalogue import named
from gputopo.utility.utility import UtilityWeights
from gputopo_simulate.errors import SimulationError
from gputopo_simulate.sc17.generate import CaffeLoad, generate
from gputopo_simulate.sc17.model import CaffeJob, Sc17Result
from gputopo_simulate.sc17.policies import PAPER_POLICIES, POLICIES
from gputopo_simulate.sc17.report import decision_times, figures, figures_document, job_document
from gputopo_simulate.sc17.run import Sc17Settings, run
from support.builders.topologies import gpus
from support.sc17 import job, jobs_of, profiles

MINSKY = named("power8-minsky")
ALONE_2, SPLIT_2 = 127.415, 159.115  # AlexNet with batch 1 on 2 GPUs
BESIDE_2 = 167.87 / 159.115
ALONE_4 = 109.435  # AlexNet with batch 4 on 1 GPU, beside another
BESIDE_1_4 = 75.03 / 69.165


def simulated(
    jobs: list[CaffeJob], policy: str = "fcfs", machines: int = 1, **fields: object
) -> Sc17Result:
    settings = Sc17Settings(policy, machines, **fields)  # type: ignore[arg-type]
    return run(MINSKY, jobs, profiles(), settings)


def test_job_alone_runs_for_its_ideal_time() -> None:
    (finished,) = simulated([job(1, 2, arrival=5)]).jobs
    assert (finished.start, finished.end) == (5, 5 + ALONE_2)
    assert finished.slowdown == pytest.approx(0)
    assert finished.gpus == gpus(0, 1)


def test_job_on_two_sockets_runs_longer() -> None:
    jobs = [job(1, 1), job(2, 2), job(3, 1)]
    found = simulated(jobs, "fcfs").jobs[1]
    assert found.gpus == gpus(1, 2)
    assert found.slowdown > SPLIT_2 / ALONE_2 - 1


def test_speed_changes_when_neighbours_start_and_end() -> None:
    """Job 1 shares its socket for 40 s: from when job 2 arrives until its own end."""
    jobs = [job(1, 1, batch=1), job(2, 1, batch=4, arrival=40)]
    first, second = simulated(jobs).jobs
    assert (first.gpus, second.gpus) == (gpus(0), gpus(1))
    assert first.end == pytest.approx(40 + (69.165 - 40) * BESIDE_1_4)
    beside = 114.86 / ALONE_4  # job 2 beside job 1
    done = (first.end - 40) / beside
    assert second.end == pytest.approx(first.end + ALONE_4 - done)


def test_jobs_on_different_sockets_do_not_slow_each_other() -> None:
    first, second = simulated([job(1, 2), job(2, 2)]).jobs
    assert first.slowdown == second.slowdown == 0


def test_first_come_first_served_lets_no_job_overtake() -> None:
    jobs = [job(1, 3), job(2, 3, arrival=1), job(3, 1, arrival=2)]
    found = simulated(jobs, "fcfs").jobs
    assert found[2].start == found[1].start == found[0].end
    assert simulated(jobs, "bf").jobs[2].start == 2


def test_first_come_first_served_uses_the_first_machine() -> None:
    found = simulated([job(1, 1), job(2, 1), job(3, 2)], "fcfs", machines=2).jobs
    assert [each.machine for each in found] == [0, 0, 0]
    assert [each.gpus for each in found] == [gpus(0), gpus(1), gpus(2, 3)]


def test_best_fit_uses_the_fullest_machine_and_socket() -> None:
    jobs = [job(1, 3), job(2, 2), job(3, 1), job(4, 1)]
    found = simulated(jobs, "bf", machines=2).jobs
    assert [each.machine for each in found] == [0, 1, 0, 1]
    assert found[0].gpus == gpus(0, 1, 2)
    assert found[2].gpus == gpus(3)
    assert found[3].gpus == gpus(2)


def test_best_fit_begins_with_the_socket_in_use() -> None:
    found = simulated([job(1, 1), job(2, 2)], "bf").jobs
    assert found[1].gpus == gpus(1, 2)


def test_aware_policy_takes_a_whole_socket_for_two_gpus() -> None:
    found = simulated([job(1, 1), job(2, 2)], "topo-aware").jobs
    assert found[1].gpus == gpus(2, 3)
    assert found[1].slowdown == 0


def test_aware_policy_fills_a_started_machine_rather_than_an_idle_one() -> None:
    found = simulated([job(1, 2), job(2, 2)], "topo-aware", machines=3).jobs
    assert [each.machine for each in found] == [0, 0]


def waiting_case() -> list[CaffeJob]:
    """Job 3 finds one free GPU on each socket until job 2 ends."""
    return [
        job(1, 1, batch=4),
        job(2, 1, batch=1, arrival=1),
        job(4, 1, batch=4, arrival=2),
        job(5, 1, batch=1, arrival=3),
        job(3, 2, arrival=4),
    ]


def test_postponed_job_waits_for_a_whole_socket() -> None:
    at_once = simulated(waiting_case(), "topo-aware").jobs[4]
    waited = simulated(waiting_case(), "topo-aware-p").jobs[4]
    assert at_once.gpus.bit_count() == 2
    assert at_once.gpus not in {gpus(0, 1), gpus(2, 3)}
    assert waited.gpus in {gpus(0, 1), gpus(2, 3)}
    assert at_once.start < waited.start
    assert (waited.slowdown, waited.job_utility) == (0, 1)
    assert at_once.job_utility < 0.5 <= waited.job_utility


def test_postponed_job_waits_no_longer_than_the_bound() -> None:
    now = simulated(waiting_case(), "topo-aware").jobs[4].start
    for bound in (0.0, 5.0):
        bounded = simulated(waiting_case(), "topo-aware-p", max_wait_seconds=bound).jobs[4]
        assert bounded.start == pytest.approx(now + bound)
    late = simulated(waiting_case(), "topo-aware-p", max_wait_seconds=1e6).jobs[4]
    assert late == simulated(waiting_case(), "topo-aware-p").jobs[4]


def test_minimum_of_the_run_replaces_that_of_the_jobs() -> None:
    lenient = simulated(waiting_case(), "topo-aware-p", min_utility=0.0)
    assert lenient.jobs == simulated(waiting_case(), "topo-aware").jobs


def test_job_without_a_minimum_never_waits() -> None:
    jobs = [*waiting_case()[:4], job(3, 2, arrival=4, min_utility=0)]
    assert simulated(jobs, "topo-aware-p").jobs == simulated(jobs, "topo-aware").jobs


def test_oldest_postponed_job_is_first_when_gpus_become_free() -> None:
    jobs = [*waiting_case(), job(6, 2, arrival=5)]
    found = {each.job.id: each for each in simulated(jobs, "topo-aware-p").jobs}
    assert found[3].start <= found[6].start


def test_weights_decide_between_links_and_neighbours() -> None:
    """All weight on interference: a job alone on a socket, although the other one is in use."""
    jobs = [job(1, 1, batch=4), job(2, 1, batch=1)]
    apart = simulated(jobs, "topo-aware", weights=UtilityWeights(0.0, 1.0, 0.0)).jobs
    together = simulated(jobs, "topo-aware", weights=UtilityWeights(0.5, 0.0, 0.5)).jobs
    assert apart[1].gpus == gpus(2)
    assert together[1].gpus == gpus(1)


@pytest.mark.parametrize("policy", ["baseline", "nearest", "greedy", "preserve"])
def test_policies_of_mapa_place_all_jobs(policy: str) -> None:
    found = simulated(list(jobs_of("hundred")), policy, machines=5)
    assert len(found.jobs) == 100
    assert figures(found.jobs).slow_jobs <= 2


def test_greedy_keeps_a_sensitive_pair_on_nvlinks() -> None:
    found = simulated([job(1, 1), job(2, 2)], "greedy").jobs
    assert found[1].gpus == gpus(2, 3)


@pytest.mark.parametrize("policy", PAPER_POLICIES)
def test_order_of_the_papers_figure_8_is_repeated(policy: str) -> None:
    """BF and FCFS are slowest, TOPO-AWARE is faster, TOPO-AWARE-P is fastest."""
    makespans = {name: simulated(list(jobs_of("table1")), name).makespan for name in PAPER_POLICIES}
    assert makespans["bf"] == makespans["fcfs"] > makespans["topo-aware"]
    assert makespans["topo-aware"] > makespans["topo-aware-p"]
    assert makespans[policy] == pytest.approx(
        {"fcfs": 440.3, "bf": 440.3, "topo-aware": 400.2, "topo-aware-p": 395.0}[policy], abs=0.05
    )


def test_postponement_leaves_no_slow_job_of_the_six() -> None:
    for name in ("table1", "six"):
        assert figures(simulated(list(jobs_of(name)), "topo-aware-p").jobs).slow_jobs == 0


@pytest.mark.parametrize("policy", POLICIES)
def test_equal_inputs_have_equal_results(policy: str) -> None:
    jobs = list(generate(3, CaffeLoad(60, 30)))
    first = simulated(jobs, policy, machines=4)
    again = simulated(jobs[::-1], policy, machines=4)
    assert {each.job.id: each for each in first.jobs} == {each.job.id: each for each in again.jobs}


@given(st.integers(0, 10**6), st.sampled_from(POLICIES), st.integers(1, 4), st.floats(1, 200))
def test_no_gpu_has_two_jobs_and_no_job_is_faster_than_ideal(
    seed: int, policy: str, machines: int, rate: float
) -> None:
    jobs = list(generate(seed, CaffeLoad(25, rate)))
    found = simulated(jobs, policy, machines, max_wait_seconds=300.0)
    for position, each in enumerate(found.jobs):
        assert each.gpus.bit_count() == each.job.gpus
        assert each.start >= each.job.arrival
        assert each.slowdown >= -1e-9
        assert 0.01 <= each.job_utility <= 1 + 1e-9
        for other in found.jobs[:position]:
            overlap = min(each.end, other.end) - max(each.start, other.start)
            assert overlap <= 1e-9 or each.machine != other.machine or not each.gpus & other.gpus


def test_progress_ends_with_all_jobs() -> None:
    seen: list[tuple[int, int]] = []
    run(
        MINSKY,
        [job(1), job(2)],
        profiles(),
        Sc17Settings("fcfs", 1),
        lambda done, total: seen.append((done, total)),
    )
    assert seen[-1] == (2, 2)


def test_decisions_are_measured_with_the_given_clock() -> None:
    ticks = count()
    result = run(
        MINSKY,
        [job(1), job(2)],
        profiles(),
        Sc17Settings("topo-aware", 1),
        clock=lambda: float(next(ticks)),
    )
    assert result.decision_seconds == (1.0, 1.0)
    times = decision_times(result)
    assert times is not None
    assert (times.count, times.p50_ms, times.p99_ms) == (2, 1000, 1000)
    assert figures_document(result)["decisions"] == {"count": 2, "p50Ms": 1000, "p99Ms": 1000}
    assert figures_document(simulated([job(1)]))["decisions"] is None


def test_statistics_are_those_of_the_jobs() -> None:
    jobs = [job(1, 3), job(2, 2, arrival=10)]
    result = simulated(jobs)
    first, second = result.jobs
    found = figures(result.jobs)
    assert found.makespan == result.makespan == second.end
    assert found.max_wait == second.wait == first.end - 10
    assert found.mean_wait == second.wait / 2
    assert found.mean_slowdown == pytest.approx(0)
    assert found.mean_slowdown_with_wait == pytest.approx(second.wait / ALONE_2 / 2)
    assert found.slow_jobs == 0


def test_json_of_a_job_has_its_placement_and_utilities() -> None:
    (finished,) = simulated([job(7, 2, arrival=3)]).jobs
    assert job_document(finished) == {
        "id": 7,
        "net": "bvlc_alexnet",
        "batch": 1,
        "machine": 0,
        "gpus": [0, 1],
        "arrivalSeconds": 3,
        "startSeconds": 3,
        "endSeconds": 3 + ALONE_2,
        "slowdown": pytest.approx(0),
        "jobUtility": 1,
        "minUtility": 0.5,
        "utility": 1,
    }


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ([], "jobs: the list is empty"),
        ([job(1), job(1)], "job 1: id: used by another job"),
        ([job(1, 2, batch=3)], "job 1: batch: 3 is not one of"),
    ],
)
def test_invalid_jobs_are_rejected(jobs: list[CaffeJob], message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        simulated(jobs)


def test_job_that_would_wait_forever_is_rejected() -> None:
    """The NVLink is between two sockets, and almost all weight is on full sockets."""
    links = {(link.a, link.b): link for link in MINSKY.links}
    across = replace(links[0, 2], kind=links[0, 1].kind)  # type: ignore[index]
    inside = replace(links[0, 1], kind=links[0, 2].kind)  # type: ignore[index]
    others = [link for pair, link in links.items() if pair not in {(0, 1), (0, 2)}]
    topology = replace(MINSKY, links=(across, inside, *others))
    without_3 = replace(
        topology,
        gpus=topology.gpus[:3],
        links=tuple(link for link in topology.links if link.b < 3),
    )
    weights = UtilityWeights(0.01, 0.01, 0.98)
    settings = Sc17Settings("topo-aware-p", 1, weights=weights)
    jobs = [job(1, 2, min_utility=1.0)]
    with pytest.raises(SimulationError, match="job 1: min_utility: no placement on idle machines"):
        run(without_3, jobs, profiles(), settings)
    bounded = replace(settings, max_wait_seconds=60.0)
    assert run(without_3, jobs, profiles(), bounded).jobs[0].start == 60


def test_job_larger_than_a_machine_is_rejected() -> None:
    with pytest.raises(SimulationError, match="job 1: gpus: 3; a machine has 2"):
        run(named("rtx-a6000-2gpu"), [job(1, 3)], profiles(), Sc17Settings("fcfs", 1))
