"""Run experiments, each in its own namespace."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from faulttest.scenario import Outcome
from learntest.bench import Bench, bench
from learntest.experiment import Experiment, Options
from localcluster.cluster import Cluster
from showcase.install import Installed


def carry_out(
    installed: Installed,
    cluster: Cluster,
    experiments: Sequence[Experiment],
    options: Options,
    log: Path,
    prefix: str = "gputopo-learn",
) -> list[Outcome]:
    """Return the result of each experiment; they run side by side.

    An interrupt ends a single experiment at once. Several experiments run in threads, where Python
    raises no interrupt, so the tool first waits for their end.

    Args:
        installed: the installation.
        cluster: where the parts of gputopo and of Kubernetes run.
        experiments: what to run.
        options: of each experiment.
        log: file for every step.
        prefix: of the experiments' namespaces.
    """

    def one(experiment: Experiment) -> Outcome:
        with bench(installed, cluster, f"{prefix}-{experiment.name}", log) as made:
            return _one(made, experiment, options)

    if len(experiments) == 1:
        return [one(experiments[0])]
    with ThreadPoolExecutor(len(experiments)) as pool:
        return list(pool.map(one, experiments))


def _one(made: Bench, experiment: Experiment, options: Options) -> Outcome:
    made.report(f"{experiment.name}: {experiment.summary}")
    try:
        experiment.carry_out(made, options)
    except TimeoutError as error:
        made.finding("not reached", str(error))
    journal = made.journal
    return Outcome(experiment.name, round(journal.seconds, 1), made.seen, journal.findings)
