"""With --as-released the simulator repeats the authors' program, job by job."""

from itertools import combinations

import pytest

from gputopo.topology.model import indices_of
from gputopo_simulate.errors import SimulationError
from gputopo_simulate.sc17.generate import CaffeLoad, generate
from gputopo_simulate.sc17.model import FinishedCaffeJob, Sc17Result
from gputopo_simulate.sc17.profiles import parse_profiles
from gputopo_simulate.sc17.released.program import POLICIES, run_as_released, step_of
from gputopo_simulate.sc17.released.scores import ReleasedCosts, job_utility, system_utility
from gputopo_simulate.sc17.released.state import ReleasedCaffeJob, ReleasedMachine
from gputopo_simulate.sc17.report import figures
from support.sc17 import POLICY_OF, job, jobs_of, profiles, table

LIST_OF = {"table1": "six", "workloads-100": "hundred"}
RESULTS = [row for row in table("sc17_sim_results.csv") if row["scenario"] in LIST_OF]


def released(name: str, policy: str, machines: int, **options: object) -> Sc17Result:
    return run_as_released(jobs_of(name), profiles(), policy, machines, **options)  # type: ignore[arg-type]


def row_of(finished: FinishedCaffeJob, policy: str) -> dict[str, str]:
    return {
        "policy": policy,
        "job": str(finished.job.id),
        "start_s": f"{finished.start:.1f}",
        "end_s": f"{finished.end:.1f}",
        "gpus": ",".join(map(str, indices_of(finished.gpus))),
        "job_utility": str(round(finished.job_utility, 3)),
        "system_utility": str(round(finished.utility, 3)),
    }


@pytest.mark.parametrize(("name", "policy"), POLICY_OF.items())
def test_six_jobs_have_the_times_gpus_and_utilities_of_the_program(name: str, policy: str) -> None:
    expected = [row for row in table("sc17_table1_timeline.csv") if row["policy"] == name]
    assert len(expected) == 6
    assert [row_of(each, name) for each in released("six", policy, 1).jobs] == expected


def cells(result: Sc17Result) -> dict[str, str]:
    found = figures(result.jobs)
    return {
        "makespan_s": f"{found.makespan:.1f}",
        "mean_exec_slowdown": str(round(found.mean_slowdown, 3)),
        "mean_slowdown_with_wait": str(round(found.mean_slowdown_with_wait, 3)),
        "slow_gt10pct": str(found.slow_jobs),
        "mean_wait_s": f"{found.mean_wait:.1f}",
    }


def result_of(row: dict[str, str], **options: object) -> dict[str, str]:
    gate = row["variant"] == "as released"
    policy = POLICY_OF[row["policy"]]
    name, machines = LIST_OF[row["scenario"]], int(row["machines"])
    return cells(released(name, policy, machines, gate=gate, **options))


def test_results_have_two_lists_and_both_gates() -> None:
    assert len(RESULTS) == 4 + 4 + 4


def is_decided_by_memory(row: dict[str, str]) -> bool:
    return (row["scenario"], row["policy"], row["variant"]) == (
        *("workloads-100", "TOPO"),
        "as released",
    )


@pytest.mark.parametrize(
    "row", RESULTS, ids=lambda row: f"{row['scenario']}-{row['policy']}-{row['variant'][:4]}"
)
def test_statistics_are_those_of_the_program(row: dict[str, str]) -> None:
    """One row depends on the order of two equal sockets in the program's memory (division 36)."""
    swapped = {36} if is_decided_by_memory(row) else set()
    expected = {column: row[column] for column in cells(released("six", "fcfs", 1))}
    assert result_of(row, swapped=swapped) == expected


def test_order_of_equal_sockets_changes_only_the_waits_of_that_row() -> None:
    (row,) = filter(is_decided_by_memory, RESULTS)
    found = result_of(row)
    assert found["makespan_s"] == row["makespan_s"]
    assert found["slow_gt10pct"] == row["slow_gt10pct"]
    assert found["mean_exec_slowdown"] == row["mean_exec_slowdown"]
    assert (found["mean_wait_s"], row["mean_wait_s"]) == ("76.3", "78.3")


def test_gate_hides_idle_machines_from_waiting_jobs() -> None:
    """Machine 0 has one free GPU; the second machine is idle."""
    jobs = (job(1, 3), job(2, 2, arrival=3))
    gated = run_as_released(jobs, profiles(), "fcfs", 2)
    lifted = run_as_released(jobs, profiles(), "fcfs", 2, gate=False)
    machine = gated.jobs[0].machine
    assert machine == 1  # the last machine that fits, not the best
    assert gated.jobs[1].start == lifted.jobs[1].start < 5
    full = (job(1, 3), job(2, 3, arrival=3), job(3, 2, arrival=6))
    assert run_as_released(full, profiles(), "fcfs", 2).jobs[2].start > 100


@pytest.mark.parametrize(
    ("seconds", "step"), [(0.0, 0.0), (0.513, 1.1), (1.1, 1.1), (15.039, 15.4), (24.368, 25.3)]
)
def test_arrivals_are_rounded_to_the_next_step(seconds: float, step: float) -> None:
    assert step_of(seconds) == step


def test_only_one_arrival_time_arrives_in_a_step() -> None:
    jobs = (job(1, arrival=0.0), job(2, arrival=0.5), job(3, arrival=0.5))
    found = run_as_released(jobs, profiles(), "fcfs", 1).jobs
    assert [round(each.start, 1) for each in found] == [0.0, 1.1, 1.1]


def test_first_job_that_does_not_fit_stops_fcfs_and_not_bf() -> None:
    jobs = (job(1, 3), job(2, 2, arrival=2), job(3, 1, arrival=4))
    assert run_as_released(jobs, profiles(), "fcfs", 1).jobs[2].start > 100
    assert run_as_released(jobs, profiles(), "bf", 1).jobs[2].start < 6


def test_fcfs_stops_at_a_job_that_fits_on_no_machine() -> None:
    """The gate counts the GPUs before the first job of the iteration has got its own."""
    jobs = (job(1, 3), job(2, 2), job(3, 1))
    found = run_as_released(jobs, profiles(), "fcfs", 1).jobs
    assert found[0].start == 0
    assert found[2].start == found[1].start > 100


def test_bf_marks_gpus_of_every_machine_that_it_considers() -> None:
    """So the second job of an iteration finds no GPUs, although one machine is idle."""
    jobs = (job(1, 3), job(2, 2))
    found = run_as_released(jobs, profiles(), "bf", 2).jobs
    assert [round(each.start, 1) for each in found] == [0.0, 1.1]


def test_jobs_that_no_machine_can_take_wait_in_their_queue() -> None:
    jobs = (job(1, 3), job(2, 3, arrival=2), job(3, 1, arrival=4))
    for policy in ("topo-aware", "topo-aware-p"):
        found = run_as_released(jobs, profiles(), policy, 1).jobs
        assert found[2].start < 6
        assert found[1].start > 100


def test_aware_policy_skips_jobs_that_no_longer_fit_in_the_iteration() -> None:
    jobs = (job(1, 3), job(2, 3), job(3, 1))
    found = run_as_released(jobs, profiles(), "topo-aware", 1).jobs
    assert found[0].start == found[2].start == 0
    assert found[1].start > 100


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("gate", [True, False])
def test_random_lists_end(policy: str, gate: bool) -> None:  # noqa: FBT001 - a parameter
    jobs = generate(11, CaffeLoad(120, jobs_per_minute=20))
    found = run_as_released(jobs, profiles(), policy, 4, gate=gate).jobs
    assert [each.job for each in found] == list(jobs)
    assert all(each.end > each.start >= each.job.arrival for each in found)


def test_execution_time_only_rises() -> None:
    """Job 1 keeps the time beside job 2 although job 2 ends soon."""
    short = (job(1, 1, batch=4), job(2, 1, batch=1, arrival=3))
    found = run_as_released(short, profiles(), "fcfs", 1).jobs
    assert found[0].end - found[0].start >= 114.86
    assert found[1].end < found[0].end


def test_utility_for_the_job_is_scaled_by_that_of_an_ideal_placement() -> None:
    ideal = ReleasedCosts(2, 0.01, 0.01, 0.01)
    assert job_utility(ideal) == pytest.approx(1)
    assert system_utility(ideal) == pytest.approx(1)
    split = ReleasedCosts(2, 19.0, 0.01, 0.01)
    assert job_utility(split) == pytest.approx(0.253, abs=5e-4)


def test_stronger_slowdown_has_a_lower_cost_in_the_program() -> None:
    assert job_utility(ReleasedCosts(1, 0.01, 0.7, 0.5)) > job_utility(
        ReleasedCosts(1, 0.01, 0.95, 0.5)
    )


def test_copy_of_a_machine_shares_no_gpus() -> None:
    machine = ReleasedMachine()
    copy = machine.copy()
    copy.sockets[0].pop()
    copy.taken.add(3)
    copy.running[1] = ReleasedCaffeJob(job(1), 1.0)
    assert machine == ReleasedMachine()
    machine.taken.add(0)
    assert machine.without_taken().sockets == [[1], [2, 3]]


def test_unsupported_input_is_rejected() -> None:
    with pytest.raises(SimulationError, match="policy: 'greedy'; --as-released has fcfs, bf"):
        run_as_released([job(1)], profiles(), "greedy", 1)
    with pytest.raises(SimulationError, match="jobs: the list is empty"):
        run_as_released([], profiles(), "bf", 1)
    with pytest.raises(SimulationError, match=r"job 1: arrival_s: 1e\+12; --as-released simulates"):
        run_as_released([job(1, arrival=1e12)], profiles(), "bf", 1)


def shared_gpus(result: Sc17Result) -> list[tuple[FinishedCaffeJob, FinishedCaffeJob]]:
    """Return pairs of jobs that had the same GPU at the same time, by the later start."""
    pairs = [
        (each, other)
        for each, other in combinations(result.jobs, 2)
        if each.machine == other.machine
        and each.gpus & other.gpus
        and max(each.start, other.start) < min(each.end, other.end)
    ]
    return sorted(pairs, key=lambda pair: max(each.start for each in pair))


@pytest.mark.parametrize(
    ("policy", "pairs"), [("fcfs", 0), ("bf", 0), ("topo-aware", 15), ("topo-aware-p", 9)]
)
def test_jobs_of_one_iteration_can_get_the_same_gpu(policy: str, pairs: int) -> None:
    """The program takes the last GPU of a list although another job of the iteration has it.

    This happens in the runs whose statistics are equal to those of the program.
    """
    found = shared_gpus(released("hundred", policy, 5))
    assert len(found) == pairs
    assert all(each.start == other.start for each, other in found[:1])


def test_job_of_more_gpus_than_the_program_knows_is_rejected() -> None:
    measured = parse_profiles(
        "net,batch,gpus,placement,seconds\na,1,4,intra-socket,10\n",
        "net,batch,gpus,other_net,other_batch,other_gpus,seconds\n",
    )
    with pytest.raises(SimulationError, match="job 1: gpus: 4; --as-released has 1, 2 and 3"):
        run_as_released([job(1, 4, net="a")], measured, "bf", 1)


def test_job_that_the_program_would_postpone_forever_is_rejected() -> None:
    """Rounding makes the utility of an ideal placement slightly less than 1."""
    with pytest.raises(SimulationError, match="job 2: min_utility: no placement on idle machines"):
        run_as_released([job(1), job(2, min_utility=1.0)], profiles(), "topo-aware-p", 1)


def test_progress_is_reported_when_jobs_end() -> None:
    seen: list[tuple[int, int]] = []
    run_as_released(
        [job(1), job(2)],
        profiles(),
        "bf",
        1,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen[-1] == (2, 2)
    assert len(seen) <= 2
