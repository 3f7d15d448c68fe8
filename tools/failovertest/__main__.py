"""Kill and freeze the leading scheduler during a burst, and count errors."""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from failovertest import report
from failovertest.report import Report
from failovertest.rounds import How, Rounds
from localcluster import binaries
from localcluster.cluster import Cluster
from localcluster.progress import Progress
from localcluster.settings import current_paths
from scaletest import fleet, objects
from showcase import install
from soaktest.client import Client
from soaktest.inspect import Inspector
from soaktest.journal import Journal
from soaktest.pod_watcher import PodWatcher
from soaktest.sampler import Sampler
from soaktest.trial import trial, write

_SAMPLE_SECONDS = 0.2
_HOW: tuple[How, ...] = ("killed", "frozen")


def main(arguments: Sequence[str]) -> int:
    """Run all rounds; return 1 if an error was found."""
    options = _parser().parse_args(arguments)
    with trial():
        result = _carry_out(options)
    write(options.output, report.document(result), report.table(result))
    return 1 if result.findings else 0


def _carry_out(options: argparse.Namespace) -> Report:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    log = options.log or Path(tempfile.gettempdir()) / f"gputopo-failover-{stamp}.log"
    paths, progress = current_paths(), Progress()
    kwok = binaries.ensure_kwok(paths, progress)
    installed = install.on_local_cluster(lambda text: print(f"==> {text}", file=sys.stderr))
    rng = random.Random(options.seed)  # noqa: S311 - repeatable on purpose
    names = [f"scale-{number}" for number in range(options.nodes)]
    journal = Journal(log)
    done = []
    with Client(paths.kubeconfig) as client:
        pod_watcher = PodWatcher(client, journal)
        inspector = Inspector(installed.nodes, client, pod_watcher, journal)
        sampler = Sampler(installed.nodes, pod_watcher, journal, _SAMPLE_SECONDS)
        real = len(inspector.nodes) * objects.GPUS_PER_NODE
        rounds = Rounds(
            installed.nodes, client, pod_watcher, journal, rng, installed.workload_image
        )
        with fleet.fleet(client, Cluster(paths, progress), paths, kwok, names):
            pod_watcher.start()
            inspector.start()
            sampler.start()
            try:
                for number in range(options.rounds):
                    how = _HOW[number % len(_HOW)]
                    simulated = options.nodes * objects.GPUS_PER_NODE
                    done.append(rounds.carry_out(how, real, simulated, number))
            finally:
                sampler.stop()
                inspector.stop()
                pod_watcher.stop()
    journal.count("containers compared", len(inspector.compared))
    journal.close()
    figures = dict(sorted(journal.counts.items()))
    return Report(options.seed, done, figures, journal.findings, str(log))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tools/failover", description=__doc__)
    parser.add_argument("--rounds", type=int, default=6, help="killed and frozen in turn (6)")
    parser.add_argument("--nodes", type=int, default=100, help="simulated, of 8 GPUs each (100)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments of the faults (1)")
    parser.add_argument("--log", type=Path, help="file for every step")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
