"""A profiler with a fake API server, and how it runs."""

from gputopo_kube.document import ObjectKey
from gputopo_kube.sync import SyncApi
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.profiler import Profiler
from gputopo_operator.controller.profiling_api import ProfilingApi
from gputopo_operator.settings import OperatorSettings
from support.profiling.cluster import NAME, MeasuredCluster

KEY = ObjectKey("default", NAME)
RESIZE = "/pods/train-1/resize"


def profiler_of(connection: SyncApi, cluster: MeasuredCluster) -> Profiler:
    """Return a profiler whose clock is that of the cluster."""
    apis = ProfilingApi(connection), JobApi(connection)
    return Profiler(*apis, OperatorSettings(), lambda: cluster.now)


def reasons(cluster: MeasuredCluster) -> list[str]:
    """Return the reasons of all events."""
    return [reason for reason, _ in cluster.events()]


def run(profiler: Profiler, cluster: MeasuredCluster, steps: int = 40) -> list[str]:
    """Measure until the pod has its own CPUs back; return the limits that it had."""
    limits: list[str] = []
    for _ in range(steps):
        before = cluster.cpu()
        profiler.advance(KEY)
        state = cluster.state()
        if state is not None and state.restored:
            return limits
        if cluster.cpu() != before:
            limits.append(cluster.cpu()[1])
        else:
            cluster.measure()
    raise AssertionError(f"never restored: {cluster.state()}")
