"""Whatever the jobs, the nodes, the policy, the queue and the time law."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from gputopo.patterns.model import all_to_all, ring
from gputopo.placement.model import PolicyName
from gputopo.topology.model import NodeTopology
from gputopo_simulate.mapa.model import FinishedJob, Queueing, Result, SimulatedJob
from gputopo_simulate.mapa.run import Settings, run
from gputopo_simulate.mapa.timelaw import ByBandwidth, FixedService
from gputopo_topologies.catalogue import named

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
    Settings,
    policy=st.sampled_from(PolicyName),
    time_law=st.sampled_from([FixedService(), ByBandwidth()]),
    queueing=st.sampled_from(Queueing),
)
runs = st.tuples(fleets(), job_lists(), settings_of_runs)
Run = tuple[Mapping[str, NodeTopology], Sequence[SimulatedJob], Settings]


def course(result: Result) -> list[tuple[float, float, tuple[int, ...]]]:
    return [(one.start, one.end, one.gpus) for one in result.jobs]


@given(runs)
def test_no_gpu_is_held_by_two_jobs_at_a_time(asked: Run) -> None:
    holds: dict[tuple[str, int], list[FinishedJob]] = {}
    for one in run(*asked).jobs:
        assert len(set(one.gpus)) == one.job.pattern.size
        for gpu in one.gpus:
            holds.setdefault((one.node, gpu), []).append(one)
    for held in holds.values():
        for before, after in pairwise(sorted(held, key=lambda one: one.start)):
            assert before.end <= after.start


@given(runs)
def test_no_job_starts_before_it_arrives_and_each_runs_as_long_as_the_law_says(asked: Run) -> None:
    for one in run(*asked).jobs:
        assert one.start >= one.job.arrival
        took = asked[2].time_law.execution_time(one.job, one.effective_mb_per_s)
        assert one.end == one.start + took
        assert took >= one.job.service


@given(fleets(), job_lists(), settings_of_runs)
def test_fifo_starts_jobs_in_order_of_arrival(
    nodes: Mapping[str, NodeTopology], jobs: Sequence[SimulatedJob], settings: Settings
) -> None:
    strict = Settings(settings.policy, time_law=settings.time_law, queueing=Queueing.FIFO)
    result = run(nodes, jobs, strict)
    queue = sorted(result.jobs, key=lambda one: one.job.arrival)
    assert all(before.start <= after.start for before, after in pairwise(queue))


@given(runs)
def test_who_waits_has_no_room_or_is_behind_one_who_has_none(asked: Run) -> None:
    nodes, _, settings = asked
    result = run(*asked)
    queue = sorted(result.jobs, key=lambda one: one.job.arrival)
    for now in {one.job.arrival for one in queue} | {one.end for one in queue}:
        held = Counter[str]()
        for one in queue:
            held[one.node] += len(one.gpus) * (one.start <= now < one.end)
        room = max(len(topology.gpus) - held[name] for name, topology in nodes.items())
        waiting = [one for one in queue if one.job.arrival <= now < one.start]
        blocked = waiting[:1] if settings.queueing is Queueing.FIFO else waiting
        assert all(one.job.pattern.size > room for one in blocked)


@given(runs)
def test_the_makespan_is_not_below_what_work_and_longest_job_need(asked: Run) -> None:
    nodes, jobs, _ = asked
    gpus = sum(len(topology.gpus) for topology in nodes.values())
    work = sum(job.pattern.size * job.service for job in jobs)
    longest = max(job.arrival + job.service for job in jobs)
    assert run(*asked).makespan >= max(longest, work / gpus) * (1 - 1e-12)


@given(runs)
def test_the_same_run_comes_out_the_same_whatever_the_order_of_the_nodes(asked: Run) -> None:
    nodes, jobs, settings = asked
    turned = {name: nodes[name] for name in reversed(list(nodes))}
    assert run(nodes, jobs, settings) == run(turned, jobs, settings)


@given(runs, st.randoms(use_true_random=False))
def test_what_equal_nodes_are_called_changes_nothing_but_names(asked: Run, random: Random) -> None:
    nodes, jobs, settings = asked
    names = [f"m{place}" for place in range(len(nodes))]
    random.shuffle(names)
    renamed = dict(zip(names, nodes.values(), strict=True))
    assert course(run(nodes, jobs, settings)) == course(run(renamed, jobs, settings))
