"""Format a run as JSON, for ``gputopo simulate -o json``."""

from typing import Final

from gputopo_simulate.mapa.model import FinishedSimulatedJob, SimulationResult
from gputopo_simulate.mapa.summary import summarize

_MB_PER_GB: Final = 1000


def document(result: SimulationResult) -> dict[str, object]:
    """Return settings, makespan, throughput and jobs of a run.

    Times are in the unit of the job list. A job of one GPU has no link, so its effective bandwidth
    is null. For this job, the released simulator gives 12.34 GB/s.
    """
    return {
        "policy": result.policy.value,
        "model": result.model,
        "timeLaw": result.time_law,
        "queueing": result.queueing,
        "waiting": result.waiting,
        "makespan": result.makespan,
        "throughput": summarize(result).throughput,
        "jobs": [_job_document(finished) for finished in result.jobs],
    }


def _job_document(finished: FinishedSimulatedJob) -> dict[str, object]:
    effective = finished.effective_mb_per_s
    return {
        "id": finished.job.id,
        "node": finished.node,
        "gpus": list(finished.gpus),
        "arrival": finished.job.arrival,
        "start": finished.start,
        "end": finished.end,
        "aggregateBandwidthGBps": finished.aggregate_mb_per_s / _MB_PER_GB,
        "effectiveBandwidthGBps": None if effective is None else effective / _MB_PER_GB,
        "model": finished.model,
        "sensitive": finished.job.sensitive,
        "workload": finished.job.workload,
    }
