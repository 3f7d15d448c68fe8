"""Properties of every simulation, for any jobs, nodes, policy, queue and time law."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from gputopo.catalogue import named
from gputopo.patterns.model import all_to_all, ring
from gputopo.placement.model import PolicyName
from gputopo.topology.model import NodeTopology
from gputopo_simulate.mapa.model import (
    FinishedSimulatedJob,
    Queueing,
    SimulatedJob,
    SimulationResult,
)
from gputopo_simulate.mapa.run import MapaSettings, run
from gputopo_simulate.mapa.timelaw import BandwidthTime, FixedTime

KINDS = ("dgx1-v100", "summit", "pcie-8gpu")


@st.composite
def job_lists(draw: st.DrawFn) -> list[SimulatedJob]:
    time = st.floats(0, 50) | st.integers(0, 20).map(float)
    return [
        SimulatedJob(
            id=number,
            pattern=draw(st.sampled_from([ring, all_to_all]))(draw(st.integers(1, 6))),
            arrival=draw(time),
            service=draw(time) + 1,
            sensitive=draw(st.booleans()),
            workload=draw(st.sampled_from([None, "vgg16", "gmm"])),
        )
        for number in range(draw(st.integers(1, 25)))
    ]


@st.composite
def fleets(draw: st.DrawFn) -> dict[str, NodeTopology]:
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))
    return {f"n{place}": named(kind, node=str(place)) for place, kind in enumerate(kinds)}


settings_of_runs = st.builds(
    MapaSettings,
    policy=st.sampled_from(PolicyName),
    time_law=st.sampled_from([FixedTime(), BandwidthTime()]),
    queueing=st.sampled_from(Queueing),
)
runs = st.tuples(fleets(), job_lists(), settings_of_runs)
RunInput = tuple[Mapping[str, NodeTopology], Sequence[SimulatedJob], MapaSettings]


def timeline(result: SimulationResult) -> list[tuple[float, float, tuple[int, ...]]]:
    return [(one.start, one.end, one.gpus) for one in result.jobs]


@given(runs)
def test_no_gpu_is_used_by_two_jobs_at_a_time(given_run: RunInput) -> None:
    users: dict[tuple[str, int], list[FinishedSimulatedJob]] = {}
    for one in run(*given_run).jobs:
        assert len(set(one.gpus)) == one.job.pattern.size
        for gpu in one.gpus:
            users.setdefault((one.node, gpu), []).append(one)
    for jobs in users.values():
        for before, after in pairwise(sorted(jobs, key=lambda one: one.start)):
            assert before.end <= after.start


@given(runs)
def test_no_job_starts_before_it_arrives_and_each_runs_for_its_time(given_run: RunInput) -> None:
    for one in run(*given_run).jobs:
        assert one.start >= one.job.arrival
        took = given_run[2].time_law.execution_time(one.job, one.effective_mb_per_s)
        assert one.end == one.start + took
        assert took >= one.job.service


@given(fleets(), job_lists(), settings_of_runs)
def test_fifo_starts_jobs_in_order_of_arrival(
    nodes: Mapping[str, NodeTopology], jobs: Sequence[SimulatedJob], settings: MapaSettings
) -> None:
    strict = MapaSettings(settings.policy, time_law=settings.time_law, queueing=Queueing.FIFO)
    result = run(nodes, jobs, strict)
    queue = sorted(result.jobs, key=lambda one: one.job.arrival)
    assert all(before.start <= after.start for before, after in pairwise(queue))


@given(runs)
def test_job_waits_only_if_it_or_one_before_it_does_not_fit(given_run: RunInput) -> None:
    nodes, _, settings = given_run
    result = run(*given_run)
    queue = sorted(result.jobs, key=lambda one: one.job.arrival)
    for now in {one.job.arrival for one in queue} | {one.end for one in queue}:
        used = Counter[str]()
        for one in queue:
            used[one.node] += len(one.gpus) * (one.start <= now < one.end)
        free = max(len(topology.gpus) - used[name] for name, topology in nodes.items())
        waiting = [one for one in queue if one.job.arrival <= now < one.start]
        blocked = waiting[:1] if settings.queueing is Queueing.FIFO else waiting
        assert all(one.job.pattern.size > free for one in blocked)


@given(runs)
def test_makespan_is_at_least_the_total_work_and_the_longest_job(given_run: RunInput) -> None:
    nodes, jobs, _ = given_run
    gpus = sum(len(topology.gpus) for topology in nodes.values())
    work = sum(job.pattern.size * job.service for job in jobs)
    longest = max(job.arrival + job.service for job in jobs)
    assert run(*given_run).makespan >= max(longest, work / gpus) * (1 - 1e-12)


@given(runs)
def test_order_of_the_nodes_does_not_change_the_result(given_run: RunInput) -> None:
    nodes, jobs, settings = given_run
    turned = {name: nodes[name] for name in reversed(list(nodes))}
    assert run(nodes, jobs, settings) == run(turned, jobs, settings)


@given(runs, st.randoms(use_true_random=False))
def test_names_of_equal_nodes_do_not_change_the_result(given_run: RunInput, random: Random) -> None:
    nodes, jobs, settings = given_run
    names = [f"m{place}" for place in range(len(nodes))]
    random.shuffle(names)
    renamed = dict(zip(names, nodes.values(), strict=True))
    assert timeline(run(nodes, jobs, settings)) == timeline(run(renamed, jobs, settings))
