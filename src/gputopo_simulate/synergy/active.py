"""Unfinished jobs of a simulated queue, with their requests and progress."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gputopo.sensitivity.matrix import SensitivityMatrix
from gputopo.sizing.model import ServerCapacity, SizingRequest, proportional_throughput
from gputopo.sizing.orders import JobProgress
from gputopo_simulate.errors import SimulationError
from gputopo_simulate.synergy.model import SimulatedCluster, TrainingJob


@dataclass(slots=True, eq=False)
class ActiveJob:
    """A job that has not finished.

    Attributes:
        share_throughput: throughput with the proportional share of CPUs and memory.
        work_left: remaining work; with a throughput t, it takes ``work_left / t`` seconds.
        throughput: current throughput.
    """

    source: TrainingJob
    request: SizingRequest
    progress: JobProgress
    share_throughput: float
    work_left: float
    throughput: float = 0.0
    end_seconds: float = math.inf


def servers_of(cluster: SimulatedCluster) -> tuple[ServerCapacity, ...]:
    """Return the servers of a cluster in the form that :mod:`gputopo.sizing` uses."""
    size = cluster.gpus, cluster.cpus, cluster.memory_gb, cluster.storage_mb_per_s
    return tuple(ServerCapacity(f"s{number}", *size) for number in range(cluster.servers))


def sensitivity(job: TrainingJob, cluster: SimulatedCluster) -> SensitivityMatrix:
    """Return the throughput of the job by CPUs and memory.

    The first choice is the matrix that was measured with the job's number of GPUs, the second
    choice the matrix for the fewest GPUs, scaled to this number.

    Raises:
        SimulationError: every measurement has more CPUs or memory than the proportional share.
    """
    gpus, cpus, memory_gb = job.gpus, cluster.cpus_per_gpu, cluster.memory_gb_per_gpu
    for matrix in (job.model.matrix(gpus), job.model.scaled_matrix(gpus)):
        if matrix.at(cpus * gpus, memory_gb * gpus) > 0:
            return matrix
    raise SimulationError(
        f"job {job.id}: model: every measurement of {job.model.name} has more CPUs or memory than"
        f" the proportional share of {cpus:g} CPUs and {memory_gb:g} GB per GPU; use larger servers"
    )


def active_jobs(jobs: Sequence[TrainingJob], cluster: SimulatedCluster) -> list[ActiveJob]:
    """Return the jobs by arrival. Jobs of equal model and number of GPUs share a matrix object."""
    matrices: dict[tuple[str, int], SensitivityMatrix] = {}
    by_arrival = sorted(jobs, key=lambda job: (job.arrival_seconds, job.id))
    for job in by_arrival:
        kind = job.model.name, job.gpus
        if kind not in matrices:
            matrices[kind] = sensitivity(job, cluster)
    one_server = servers_of(replace(cluster, servers=1))
    return [_active_job(job, matrices[job.model.name, job.gpus], one_server) for job in by_arrival]


def _active_job(
    job: TrainingJob, matrix: SensitivityMatrix, servers: Sequence[ServerCapacity]
) -> ActiveJob:
    name = f"{job.id:012}"  # padded, so that jobs with equal keys are sorted by number
    is_limited = servers[0].storage_mb_per_s < math.inf
    storage = job.model.storage_mb_per_s_per_gpu * job.gpus if is_limited else 0.0
    request = SizingRequest(name, matrix, storage)
    work, share = job.iterations * job.model.step_seconds, proportional_throughput(servers, request)
    alone_seconds = work / share
    progress = JobProgress(name, job.arrival_seconds, 0.0, alone_seconds, alone_seconds)
    return ActiveJob(job, request, progress, share, work)
