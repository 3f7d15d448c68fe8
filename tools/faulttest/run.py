"""Run scenarios one after another, each beginning with all GPUs free."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from faulttest.bench import Bench
from faulttest.pods import NAMESPACE
from faulttest.scenario import Options, Outcome, Scenario
from localcluster import stuck
from localcluster.cluster import Cluster
from localcluster.settings import current_paths
from showcase.install import Installed
from soaktest import namespace
from soaktest.client import Client
from soaktest.journal import Journal, failures_of_threads
from soaktest.pod_watcher import PodWatcher
from soaktest.sampler import Sampler

_SAMPLE_SECONDS = 0.05
_CLEANUP_SECONDS = 120.0


def carry_out(
    installed: Installed,
    cluster: Cluster,
    scenarios: Sequence[Scenario],
    options: Options,
    log: Path,
) -> list[Outcome]:
    """Return the result of each scenario."""
    outcomes = []
    for scenario in scenarios:
        with own_namespace():
            outcomes.append(one(installed, cluster, scenario, options, log))
    return outcomes


@contextmanager
def own_namespace() -> Iterator[None]:
    """Have the namespace of the scenarios for the duration of a block."""
    with Client(current_paths().kubeconfig) as client:
        namespace.create(client, NAMESPACE)
        try:
            yield
        finally:
            namespace.remove(client, NAMESPACE)


def one(
    installed: Installed, cluster: Cluster, scenario: Scenario, options: Options, log: Path
) -> Outcome:
    """Return the result of a scenario in the namespace, which has no pods before and after it."""
    with _bench(installed, cluster, log) as bench:
        bench.report(f"{scenario.name}: {scenario.summary}")
        try:
            scenario.carry_out(bench, options)
        except TimeoutError as error:
            bench.finding("not reached", str(error))
        except Exception as error:
            # The clean-up may fail as well, and hide this error.
            bench.report(f"aborted: {type(error).__name__}: {error}")
            raise
        bench.remove_pods()
        bench.reach("all GPUs are free, healthy and allocatable", bench.is_idle, _CLEANUP_SECONDS)
        shared = bench.sampler.shared_seconds
        bench.seen["samples of all containers"] = bench.journal.counts["samples of all containers"]
        bench.seen["longest time between two samples"] = bench.sampler.longest_gap
        bench.seen["pairs of pods with a GPU in common"] = len(shared)
        if shared:
            bench.seen["longest time in common"] = max(shared.values())
    return Outcome(
        scenario.name, round(bench.journal.seconds, 1), bench.seen, bench.journal.findings
    )


@contextmanager
def _bench(installed: Installed, cluster: Cluster, log: Path) -> Iterator[Bench]:
    stuck.remove_leftovers()
    paths, journal = current_paths(), Journal(log, append=True)
    with failures_of_threads(journal), Client(paths.kubeconfig) as client:
        pod_watcher = PodWatcher(client, journal)
        sampler = Sampler(installed.nodes, pod_watcher, journal, _SAMPLE_SECONDS)
        topologies = client.get("/apis/gputopo.io/v1alpha1/gputopologies")["items"]
        nodes = sorted(item["metadata"]["name"] for item in topologies)
        pod_watcher.start()
        sampler.start()
        try:
            yield Bench(installed, cluster, paths, client, pod_watcher, sampler, journal, nodes)
        finally:
            sampler.stop()
            pod_watcher.stop()
            stuck.remove_leftovers()
            journal.close()
