"""Run experiments, each in its own namespace."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from faulttest.scenario import Outcome
from learntest.bench import bench
from learntest.experiment import Experiment, Options
from localcluster.cluster import Cluster
from showcase.install import Installed


def carry_out(
    installed: Installed,
    cluster: Cluster,
    experiments: Sequence[Experiment],
    options: Options,
    log: Path,
) -> list[Outcome]:
    """Return the result of each experiment; they run side by side."""
    with ThreadPoolExecutor(len(experiments)) as pool:
        return list(pool.map(lambda one: _one(installed, cluster, one, options, log), experiments))


def _one(
    installed: Installed, cluster: Cluster, experiment: Experiment, options: Options, log: Path
) -> Outcome:
    with bench(installed, cluster, experiment.name, log) as made:
        made.report(f"{experiment.name}: {experiment.summary}")
        try:
            experiment.carry_out(made, options)
        except TimeoutError as error:
            made.finding("not reached", str(error))
    journal = made.journal
    return Outcome(experiment.name, round(journal.seconds, 1), made.seen, journal.findings)
