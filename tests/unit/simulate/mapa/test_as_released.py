"""The authors' released program: its figures (``tests/data/mapa``) are reproduced exactly."""

import csv
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import fmean

import pytest

from gputopo.patterns.model import ring, star
from gputopo.placement.model import MAPA_POLICIES, PolicyName
from gputopo_simulate.errors import SimulationError
from gputopo_simulate.mapa.joblists import parse_jobs
from gputopo_simulate.mapa.model import FinishedSimulatedJob, SimulatedJob, SimulationResult
from gputopo_simulate.mapa.released.program import find_server, run_as_released
from gputopo_simulate.mapa.released.servers import SERVERS
from gputopo_simulate.mapa.summary import quartiles

DATA = Path(__file__).parents[3] / "data" / "mapa"

POLICIES = {
    "baseline": PolicyName.BASELINE,
    "topoAware": PolicyName.TOPO_AWARE,
    "greedy": PolicyName.GREEDY,
    "preserve": PolicyName.PRESERVE,
}
GROUPS: dict[str, Callable[[FinishedSimulatedJob], bool]] = {
    "sensitive_all": lambda one: one.job.sensitive,
    "sensitive_gt1gpu": lambda one: one.job.sensitive and one.job.pattern.size > 1,
    "insensitive_all": lambda one: not one.job.sensitive,
}


def rows(name: str) -> list[dict[str, str]]:
    lines = (DATA / name).read_text().splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


@cache
def released(server: str, policy: PolicyName) -> SimulationResult:
    jobs = parse_jobs((DATA / "jobs_seed1.csv").read_text())
    return run_as_released(server, jobs, policy)


@pytest.mark.parametrize(
    "row",
    rows("released_results_seed1.csv"),
    ids=lambda row: f"{row['topology']}-{row['policy']}-{row['group']}",
)
def test_every_printed_figure_of_the_program_is_reproduced(row: dict[str, str]) -> None:
    result = released(row["topology"], POLICIES[row["policy"]])
    jobs = [one for one in result.jobs if GROUPS[row["group"]](one)]
    found = quartiles([(one.effective_mb_per_s or 0) / 1000 for one in jobs])
    assert found is not None
    printed = [float(row[column]) for column in ("min", "p25", "p50", "p75", "max")]
    assert [found.minimum, found.lower, found.median, found.upper, found.maximum] == pytest.approx(
        printed, abs=0.005001
    )
    assert fmean(one.aggregate_mb_per_s / 1000 for one in jobs) == pytest.approx(
        float(row["mean_aggbw"]), abs=0.05001
    )
    assert (len(jobs), result.makespan) == (int(row["n"]), float(row["makespan_cycles"]))


@pytest.mark.parametrize("name", SERVERS)
def test_servers_have_the_links_of_the_program(name: str) -> None:
    server = SERVERS[name]
    wanted = server.name + ("_effective" if name == "cubemesh-16" else "")
    links: dict[str, dict[tuple[int, int], int]] = {"double": {}, "single": {}}
    for row in rows("topology_edges.csv"):
        if row["topology"] == wanted:
            ends = int(row["gpu_a"]) - 1, int(row["gpu_b"]) - 1
            links[row["type"]][ends] = int(row["weight_gbps"])
    assert {"double": server.double, "single": server.single} == links


def test_server_is_found_by_its_name_in_the_catalogue_and_in_the_program() -> None:
    assert find_server("dgx1-v100") is find_server("dgx-v")
    assert find_server("cubemesh-16") is find_server("cubeMesh-16")


def test_other_topology_is_rejected() -> None:
    with pytest.raises(
        SimulationError,
        match="topology: 'dgx-a100' is not one of the released servers: dgx1-v100,",
    ):
        find_server("dgx-a100")


def job(number: int, gpus: int, *, sensitive: bool = False, service: float = 5) -> SimulatedJob:
    return SimulatedJob(number, ring(gpus), 3, service, sensitive)


def test_job_after_a_started_job_is_skipped_for_a_cycle() -> None:
    jobs = [job(number, 1) for number in range(4)]
    result = run_as_released("dgx-v", jobs, PolicyName.BASELINE)
    assert [one.start for one in result.jobs] == [0, 1, 0, 2]


def test_arrivals_are_ignored() -> None:
    (one,) = run_as_released("dgx-v", [job(0, 2)], PolicyName.BASELINE).jobs
    assert (one.start, one.job.arrival) == (0, 0)


def test_preserve_lets_sensitive_jobs_wait_for_more_than_pcie() -> None:
    jobs = [job(number, 2, sensitive=True) for number in range(8)]
    ends = {
        policy: run_as_released("summit", jobs, policy).makespan
        for policy in (PolicyName.GREEDY, PolicyName.PRESERVE)
    }
    assert ends[PolicyName.PRESERVE] > ends[PolicyName.GREEDY]
    worst = min(
        one.effective_mb_per_s or 0
        for one in run_as_released("summit", jobs, PolicyName.PRESERVE).jobs
    )
    assert worst > 12_335


def test_preserve_lets_jobs_of_one_gpu_wait_if_no_nvlink_would_stay_free() -> None:
    jobs = [job(number, 1, service=100) for number in range(10)]
    result = run_as_released("dgx-v", jobs, PolicyName.PRESERVE)
    assert sum(one.start < 100 for one in result.jobs) == 6


def test_single_gpu_has_the_bandwidth_of_no_links() -> None:
    (one,) = run_as_released("dgx-v", [job(0, 1)], PolicyName.GREEDY).jobs
    assert one.effective_mb_per_s == pytest.approx(12_335.1, abs=0.1)
    assert one.aggregate_mb_per_s == 0


@pytest.mark.parametrize(
    ("server", "one", "message"),
    [
        ("summit", job(4, 7), "job 4: gpus: 7; --as-released allows at most 6 on summit"),
        ("torus-2d", job(4, 6), "job 4: gpus: 6; --as-released allows at most 5 on torus-2d"),
        ("dgx-v", job(4, 2, service=2.5), "job 4: service: 2.5; --as-released needs whole cycles"),
        ("dgx-v", SimulatedJob(4, star(3), 0, 5, sensitive=True), "job 4: pattern: Star"),
        ("dgx-v", job(4, 2, service=-1), "job 4: service: -1"),
    ],
)
def test_job_that_the_program_does_not_support_is_rejected(
    server: str, one: SimulatedJob, message: str
) -> None:
    with pytest.raises(SimulationError, match=message):
        run_as_released(server, [job(0, 1), one], PolicyName.PRESERVE)


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("sensitive", [True, False])
@pytest.mark.parametrize("policy", MAPA_POLICIES)
def test_job_of_every_size_starts_on_an_idle_server(
    name: str, policy: PolicyName, *, sensitive: bool
) -> None:
    sizes = range(1, SERVERS[name].max_job_gpus + 1)
    jobs = [job(size, size, sensitive=sensitive, service=1) for size in sizes]
    assert run_as_released(name, jobs, policy).makespan <= 2 * len(jobs)


def test_policy_that_the_program_does_not_have_is_rejected() -> None:
    with pytest.raises(SimulationError, match="policy: Weakest; --as-released allows Baseline"):
        run_as_released("dgx-v", [job(0, 2)], PolicyName.WEAKEST)
