"""One run from its beginning to its end."""

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from hostiletest import adversary
from hostiletest.neighbours import Neighbours
from hostiletest.neighbours import beside as neighbours_beside
from localcluster import stuck
from localcluster.cluster import Cluster
from localcluster.settings import current_paths
from showcase.install import Installed
from soaktest import namespace
from soaktest.bursts import Bursts
from soaktest.client import Client
from soaktest.faults import Killer
from soaktest.final_check import FinalCheck
from soaktest.inspect import Inspector, events_about
from soaktest.journal import Journal, failures_of_threads
from soaktest.load import NAMESPACE, WANTED_GPUS, Load
from soaktest.pod_watcher import PodWatcher
from soaktest.report import Report
from soaktest.sampler import Sampler

_PROGRESS_SECONDS = 15.0
_DRAIN_SECONDS = 240.0
_SAMPLE_SECONDS = 0.2
_WANTED_GPUS_BESIDE_NEIGHBOURS = 14
"""Two nodes have 16 GPUs. Sharing pods of the neighbours need a free one."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a run.

    Attributes:
        kill_every_seconds: on average.
        pods: the least number to create, in up to twice the time.
        bursts: create so many equal pods in bursts; None for load and faults.
        burst_gpus: GPUs of each of them.
        waves: create the pods of the load in waves.
        neighbours: run jobs on one node whose samples and sizes are counted.
        adversary: attack the load and the neighbours.
    """

    minutes: float
    seed: int
    log: Path
    kill_every_seconds: float = 30.0
    pods: int = 0
    bursts: int | None = None
    burst_gpus: int = 1
    waves: bool = False
    neighbours: bool = False
    adversary: bool = False


def carry_out(installed: Installed, cluster: Cluster, options: Options) -> Report:
    """Load the cluster, cause faults, wait for recovery, and return the findings."""
    journal = Journal(options.log)
    stuck.remove_leftovers()
    with failures_of_threads(journal), Client(current_paths().kubeconfig) as client:
        namespace.create(client, NAMESPACE)
        pod_watcher = PodWatcher(client, journal)
        inspector = Inspector(installed.nodes, client, pod_watcher, journal)
        sampler = Sampler(installed.nodes, pod_watcher, journal, _SAMPLE_SECONDS)
        pod_watcher.start()
        inspector.start()
        sampler.start()
        try:
            if options.bursts is not None:
                rng = random.Random(options.seed)  # noqa: S311 - repeatable on purpose
                bursts = Bursts(
                    installed.nodes, client, pod_watcher, journal, rng, installed.workload_image
                )
                bursts.run(options.bursts, options.burst_gpus, inspector.nodes)
            else:
                with _beside(installed, client, journal, options, inspector.nodes):
                    _churn(
                        installed, cluster, client, pod_watcher, journal, options, inspector.nodes
                    )
            _judge_differences(client, inspector, pod_watcher, journal)
            FinalCheck(installed, client, journal).run(inspector.nodes)
        finally:
            sampler.stop()
            inspector.stop()
            pod_watcher.stop()
            stuck.remove_leftovers()
            namespace.remove(client, NAMESPACE)
    journal.count("containers compared", len(inspector.compared))
    journal.count("intended/observed differences (swaps)", len(inspector.differences))
    figures = dict(sorted(journal.counts.items()))
    journal.note(f"figures {figures}")
    journal.note(f"findings {journal.findings}")
    journal.close()
    return Report(
        seed=options.seed,
        seconds=round(journal.seconds, 1),
        figures=figures,
        findings=journal.findings,
        log=str(options.log),
    )


def _churn(
    installed: Installed,
    cluster: Cluster,
    client: Client,
    pod_watcher: PodWatcher,
    journal: Journal,
    options: Options,
    nodes: list[str],
) -> None:
    """Load and cause faults for the time, then wait until all pods have ended."""
    # Two streams, so that the kills are the same however many pods there was time for.
    load_rng, kill_rng = random.Random(options.seed), random.Random(options.seed + 1)  # noqa: S311
    image = installed.workload_image
    load = Load(
        installed.nodes,
        client,
        pod_watcher,
        journal,
        load_rng,
        image,
        waves=options.waves,
        wanted_gpus=_WANTED_GPUS_BESIDE_NEIGHBOURS if options.neighbours else WANTED_GPUS,
    )
    killer = Killer(cluster, client, journal, kill_rng)
    killer.start(nodes, options.kill_every_seconds)
    reported = journal.seconds
    try:
        while _goes_on(options, journal):
            load.step()
            time.sleep(0.05)
            if journal.seconds - reported > _PROGRESS_SECONDS:
                reported = journal.seconds
                journal.write(_progress(journal, load))
    finally:
        killer.stop()
    journal.write("no more kills and pods; waiting for the rest to end")
    # GPUJobs also wait behind those of the adversary.
    if not load.drain(_DRAIN_SECONDS * (2 if options.adversary else 1)):
        journal.finding("pods that do not end", f"{load.wanted_gpus} GPUs are still wanted")


@contextmanager
def _beside(
    installed: Installed, client: Client, journal: Journal, options: Options, nodes: list[str]
) -> Iterator[None]:
    """Run the neighbours and the adversary while the context is open."""
    images = (installed.workload_image, installed.trainer_image)
    with ExitStack() as stack:
        if options.neighbours:
            neighbours = Neighbours(client, journal, nodes, installed.trainer_image)
            stack.enter_context(neighbours_beside(neighbours))
        if options.adversary:
            rng = random.Random(options.seed + 2)  # noqa: S311 - repeatable on purpose
            where = (installed.nodes, nodes)
            stack.enter_context(adversary.beside(client, journal, rng, images, where))
        yield


def _goes_on(options: Options, journal: Journal) -> bool:
    minutes = journal.seconds / 60
    lacks = journal.counts["pods created"] < options.pods
    return minutes < options.minutes or (lacks and minutes < 2 * options.minutes)


def _progress(journal: Journal, load: Load) -> str:
    counts = journal.counts
    return (
        f"{counts['pods created']} pods and {counts['GPUJobs created']} GPUJobs made, "
        f"{counts['pods that ran']} pods ran, {counts['GPUJobs succeeded']} jobs succeeded, "
        f"{load.wanted_gpus} GPUs wanted now, {counts['kills']} kills, "
        f"{sum(map(len, journal.findings.values()))} findings"
    )


def _judge_differences(
    client: Client, inspector: Inspector, pod_watcher: PodWatcher, journal: Journal
) -> None:
    """Check that warning events report all differences between intended and observed GPUs."""
    warnings = events_about(client, NAMESPACE) if inspector.differences else {}
    for pod_uid, text in inspector.differences.items():
        pod = pod_watcher.seen[pod_uid]
        events = warnings.get(pod_uid, []) + warnings.get(pod.job or "", [])
        journal.note(f"difference {text}: warnings {events}")
        journal.count("intended/observed differences that were reported", bool(events))
        if not events:
            journal.finding("differences not reported", text)
