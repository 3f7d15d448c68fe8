"""The authors' program, whose figures (``tests/data/mapa``) must come out to the last digit."""

import csv
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import fmean

import pytest

from gputopo.patterns.model import ring, star
from gputopo.placement.model import PolicyName
from gputopo_simulate.mapa.joblists import parse_jobs
from gputopo_simulate.mapa.model import FinishedJob, Result, SimulatedJob, SimulationError
from gputopo_simulate.mapa.released.program import run_as_released, server_named
from gputopo_simulate.mapa.released.servers import SERVERS
from gputopo_simulate.mapa.statistics import quartiles

DATA = Path(__file__).parents[3] / "data" / "mapa"

POLICIES = {
    "baseline": PolicyName.BASELINE,
    "topoAware": PolicyName.TOPO_AWARE,
    "greedy": PolicyName.GREEDY,
    "preserve": PolicyName.PRESERVE,
}
GROUPS: dict[str, Callable[[FinishedJob], bool]] = {
    "sensitive_all": lambda one: one.job.sensitive,
    "sensitive_gt1gpu": lambda one: one.job.sensitive and one.job.pattern.size > 1,
    "insensitive_all": lambda one: not one.job.sensitive,
}


def rows(name: str) -> list[dict[str, str]]:
    lines = (DATA / name).read_text().splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


@cache
def released(server: str, policy: PolicyName) -> Result:
    jobs = parse_jobs((DATA / "jobs_seed1.csv").read_text())
    return run_as_released(server, jobs, policy)


@pytest.mark.parametrize(
    "row",
    rows("released_results_seed1.csv"),
    ids=lambda row: f"{row['topology']}-{row['policy']}-{row['group']}",
)
def test_every_printed_figure_of_the_program_comes_out(row: dict[str, str]) -> None:
    result = released(row["topology"], POLICIES[row["policy"]])
    jobs = [one for one in result.jobs if GROUPS[row["group"]](one)]
    found = quartiles([(one.effective_mb_per_s or 0) / 1000 for one in jobs])
    assert found is not None
    told = [float(row[column]) for column in ("min", "p25", "p50", "p75", "max")]
    assert [found.minimum, found.lower, found.median, found.upper, found.maximum] == pytest.approx(
        told, abs=0.005001
    )
    assert fmean(one.aggregate_mb_per_s / 1000 for one in jobs) == pytest.approx(
        float(row["mean_aggbw"]), abs=0.05001
    )
    assert (len(jobs), result.makespan) == (int(row["n"]), float(row["makespan_cycles"]))


@pytest.mark.parametrize("name", SERVERS)
def test_the_servers_have_the_programs_links(name: str) -> None:
    server = SERVERS[name]
    wanted = server.name + ("_effective" if name == "cubemesh-16" else "")
    told: dict[str, dict[tuple[int, int], int]] = {"double": {}, "single": {}}
    for row in rows("topology_edges.csv"):
        if row["topology"] == wanted:
            ends = int(row["gpu_a"]) - 1, int(row["gpu_b"]) - 1
            told[row["type"]][ends] = int(row["weight_gbps"])
    assert {"double": server.double, "single": server.single} == told


def test_the_program_knows_its_servers_by_the_catalogues_names_and_by_its_own() -> None:
    assert server_named("dgx1-v100") is server_named("dgx-v")
    assert server_named("cubemesh-16") is server_named("cubeMesh-16")


def test_another_topology_is_refused() -> None:
    with pytest.raises(SimulationError, match="topology: as released there are only dgx1-v100,"):
        server_named("dgx-a100")


def job(number: int, gpus: int, *, sensitive: bool = False, service: float = 5) -> SimulatedJob:
    return SimulatedJob(number, ring(gpus), 3, service, sensitive)


def test_after_each_start_the_next_job_is_stepped_over_for_a_cycle() -> None:
    jobs = [job(number, 1) for number in range(4)]
    result = run_as_released("dgx-v", jobs, PolicyName.BASELINE)
    assert [one.start for one in result.jobs] == [0, 1, 0, 2]


def test_arrivals_are_not_looked_at() -> None:
    (one,) = run_as_released("dgx-v", [job(0, 2)], PolicyName.BASELINE).jobs
    assert (one.start, one.job.arrival, one.queueing_time) == (0, 0, 0)


def test_preserve_leaves_sensitive_jobs_waiting_for_more_than_pcie() -> None:
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


def test_preserve_does_not_give_away_the_last_linked_gpus_one_by_one() -> None:
    jobs = [job(number, 1, service=100) for number in range(10)]
    result = run_as_released("dgx-v", jobs, PolicyName.PRESERVE)
    assert sum(one.start < 100 for one in result.jobs) == 6


def test_a_gpu_of_its_own_has_the_bandwidth_of_no_links() -> None:
    (one,) = run_as_released("dgx-v", [job(0, 1)], PolicyName.GREEDY).jobs
    assert one.effective_mb_per_s == pytest.approx(12_335.1, abs=0.1)
    assert one.aggregate_mb_per_s == 0


@pytest.mark.parametrize(
    ("server", "one", "told"),
    [
        ("summit", job(4, 7), "job 4: gpus: 7: as released at most 6 on summit"),
        ("torus-2d", job(4, 6), "job 4: gpus: 6: as released at most 5 on torus-2d"),
        ("dgx-v", job(4, 2, service=2.5), "job 4: service: 2.5: as released in whole cycles"),
        ("dgx-v", SimulatedJob(4, star(3), 0, 5, sensitive=True), "job 4: pattern: Star"),
        ("dgx-v", job(4, 2, service=-1), "job 4: service: -1"),
    ],
)
def test_a_job_that_the_program_cannot_end_with_is_refused(
    server: str, one: SimulatedJob, told: str
) -> None:
    with pytest.raises(SimulationError, match=told):
        run_as_released(server, [job(0, 1), one], PolicyName.PRESERVE)


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("sensitive", [True, False])
@pytest.mark.parametrize("policy", PolicyName)
def test_an_idle_server_is_good_enough_for_every_size(
    name: str, policy: PolicyName, *, sensitive: bool
) -> None:
    sizes = range(1, SERVERS[name].most + 1)
    jobs = [job(size, size, sensitive=sensitive, service=1) for size in sizes]
    assert run_as_released(name, jobs, policy).makespan <= 2 * len(jobs)
