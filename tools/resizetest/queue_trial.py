"""One run of the ten jobs through the queue, from the first creation to the last end."""

import time
from dataclasses import dataclass, replace

from learntest.bench import Bench
from localcluster import access
from resizetest import queue_definition
from resizetest.queue_api import QueueApi
from resizetest.queue_definition import JobRun, QueuedJob
from resizetest.queue_jobs import GPUS, JOBS
from resizetest.queue_watch import QueueWatch
from showcase.kubectl import wait_for

_HOLD = QueuedJob("hold", GPUS, 600, 600)
_CREATE_SECONDS = 1.1
"""Creation times have whole seconds, so each job gets its own."""

_POSITIONS_SECONDS = 5.0
"""Positions are written once a second, so they are complete after some seconds."""

_CHECK_SECONDS = 60

_POSITIONS_TOLERANCE_SECONDS = 1.0
"""The times of the API have whole seconds."""

_RELEASE_SECONDS = 3.0
"""From the end of a pod until the next pod starts: the agent reports, then the operator decides."""

_LONGEST_SECONDS = 300.0
_STARTS_PER_KILL = 3


@dataclass(frozen=True, slots=True)
class Trial:
    """The run of all jobs in one order.

    Attributes:
        begin: time at which the first job started, in seconds since 1970.
        runs: in the order of their starts.
        expected: by the definition, with the observed creation and run times.
        positions: names by ``status.queue.position`` before the first job started.
        positions_agree: whether the definition gives these positions at one of the seconds since
            they were checked for the last time: FTF changes them with time, and they are checked
            each minute.
    """

    begin: float
    runs: list[JobRun]
    expected: list[JobRun]
    positions: str
    positions_agree: bool


def carry_out_trial(bench: Bench, watch: QueueWatch, node: str, order: str, kills: int) -> Trial:
    """Fill the queue while one job has all GPUs, then let it run empty."""
    api = QueueApi(bench, node)
    jobs = _fill(bench, api, watch)
    positions, now = api.positions(), time.time()
    watch.forget()
    api.delete(_HOLD.name)
    _run_empty(bench, api, watch, kills)
    runs = _runs(bench, watch, jobs)
    for run in runs:
        times = f"from {run.start - runs[0].start:.1f} to {run.end - runs[0].start:.1f} s"
        bench.journal.note(f"{order}: {run.job.name} with {run.job.gpus} GPUs {times}")
    bench.end(job.name for job in JOBS)
    by_name, in_order = (
        {job.name: job for job in jobs},
        sorted(positions, key=positions.__getitem__),
    )
    observed = [replace(run.job, seconds=run.end - run.start) for run in runs]
    return Trial(
        runs[0].start,
        runs,
        queue_definition.expected_runs(order, observed, GPUS, runs[0].start, _RELEASE_SECONDS),
        " ".join(in_order),
        any(
            queue_definition.agrees(
                order, [by_name[name] for name in in_order], now - age, _POSITIONS_TOLERANCE_SECONDS
            )
            for age in range(_CHECK_SECONDS)
        ),
    )


def _fill(bench: Bench, api: QueueApi, watch: QueueWatch) -> list[QueuedJob]:
    """Return the waiting jobs with the observed times of creation and of former runs."""
    ran = _run_and_suspend(bench, api, watch)
    api.create(_HOLD)
    bench.await_run(_HOLD.name)
    for job in JOBS:
        if job.name in ran:
            api.suspend(job.name, suspended=False)
        else:
            api.create(job)
        time.sleep(_CREATE_SECONDS)
    wait_for("all jobs have a position", lambda: len(api.positions()) == len(JOBS))
    time.sleep(_POSITIONS_SECONDS)
    created = api.created()
    return [
        replace(job, created=created[job.name], ran_seconds=ran.get(job.name, 0.0)) for job in JOBS
    ]


def _run_and_suspend(bench: Bench, api: QueueApi, watch: QueueWatch) -> dict[str, float]:
    """Run the first jobs for some time and suspend them; return for how long each ran."""
    ran = {}
    for job in (job for job in JOBS if job.ran_seconds):
        api.create(job)
        bench.await_run(job.name)
        since = {run.job: run.accepted or time.time() for run in watch.runs.values()}[job.name]
        time.sleep(max(0.0, since + job.ran_seconds - time.time()))
        api.suspend(job.name, suspended=True)
        ran[job.name] = time.time() - since
    wait_for("the suspended jobs have no pods", lambda: not any(map(bench.pod_of, ran)))
    return ran


def _run_empty(bench: Bench, api: QueueApi, watch: QueueWatch, kills: int) -> None:
    """Wait until all jobs have ended; kill the operator after every third start."""
    killed, deadline = 0, time.monotonic() + _LONGEST_SECONDS
    while len(phases := api.phases()) > len(JOBS) or {*phases.values()} != {"Succeeded"}:
        if killed < kills and len(watch.starts) > killed * _STARTS_PER_KILL:
            killed += 1
            access.kill(bench.machines, "gputopo-operator")
            bench.report(f"operator killed after {len(watch.starts)} starts")
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {_LONGEST_SECONDS:g} s: all jobs succeed: {phases}")
        time.sleep(0.5)


def _runs(bench: Bench, watch: QueueWatch, jobs: list[QueuedJob]) -> list[JobRun]:
    """Return the observed runs in the order of their starts; report jobs that started twice."""
    by_name, starts = {job.name: job for job in jobs}, watch.started()
    ends = {run.job: run.ended for run in watch.runs.values()}
    for name in by_name:
        pods = sum(run.job == name for run in watch.runs.values())
        if (starts.count(name), pods) != (1, 1):
            bench.finding("not started once", f"{name}: {starts.count(name)} starts, {pods} pods")
    return [
        JobRun(by_name[name], at, ends.get(name) or time.time())
        for at, name in watch.starts
        if name in by_name
    ]
