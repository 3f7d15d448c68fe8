"""Pods per second on simulated nodes: plain kube-scheduler, a do-nothing extender, gputopo."""

import argparse
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from localcluster import binaries
from localcluster.cluster import Cluster
from localcluster.progress import Progress
from localcluster.settings import current_paths
from scaletest import fleet, objects, report
from scaletest.rounds import Round, take_turn
from scaletest.schedulers import (
    DoNothing,
    Ours,
    Plain,
    Scheduler,
    replicas_installed,
    scale,
)
from showcase import install
from soaktest.client import Client
from soaktest.trial import trial, write

_VALUES = Path(__file__).with_name("values.yaml")


def main(arguments: Sequence[str]) -> int:
    """Run all rounds; return 1 if a goal was missed."""
    options = _parser().parse_args(arguments)
    mixed = objects.sizes(options.mixed, mixed=True, seed=options.seed)
    sets = [
        (f"{options.pods} equal of 1", objects.sizes(options.pods, mixed=False, seed=0)),
        (f"{options.mixed} mixed of 1 to 8", mixed),
    ]
    wanted = {title: len(sizes) for title, sizes in sets}
    missed: list[str] = []

    def conclude(rounds: Sequence[Round]) -> None:
        missed.extend(report.shortcomings(rounds, wanted))
        lines = [*report.table(rounds), *(f"MISSED: {text}" for text in missed)]
        write(options.output, report.document(rounds, missed), lines)

    with trial():
        _measure(options, sets, conclude)
    return 1 if missed else 0


def _measure(
    options: argparse.Namespace,
    sets: Sequence[tuple[str, Sequence[int]]],
    conclude: Callable[[Sequence[Round]], None],
) -> None:
    """Run all turns; compute the results before the clean-up, which may fail."""
    began = time.monotonic()

    def report(text: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {text}", file=sys.stderr, flush=True)

    paths, progress = current_paths(), Progress()
    kwok = binaries.ensure_kwok(paths, progress)
    install.start_cluster()
    with install.nominations(options.nominate_above) as values:
        installed = install.install_chart(_VALUES, values)
    kubectl = installed.kubectl
    rounds: list[Round] = []
    with Client(paths.kubeconfig) as client:
        installed_replicas = replicas_installed(client)
        alone: deque[Scheduler] = deque([Plain(paths, kubectl), Ours(client, 1)])
        once: list[Scheduler] = []
        if not options.plain_only:
            alone.insert(1, DoNothing(paths, kubectl))
            once = [Plain(paths, kubectl, sampling=True), Ours(client, installed_replicas)]
        try:
            report(f"{options.nodes} nodes")
            names = [f"scale-{number}" for number in range(options.nodes)]
            with fleet.fleet(client, Cluster(paths, progress), paths, kwok, names):
                scale(client, 0)
                for turn in range(options.rounds):
                    for scheduler in alone:
                        rounds += take_turn(client, scheduler, turn, sets, report)
                    alone.rotate(1)
                for scheduler in once:
                    rounds += take_turn(client, scheduler, options.rounds, sets, report)
                conclude(rounds)
        finally:
            scale(client, installed_replicas)
            install.install_chart()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tools/scale", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000, help="of 8 GPUs each (1000)")
    parser.add_argument("--pods", type=int, default=3000, help="of one GPU (3000)")
    parser.add_argument("--mixed", type=int, default=1000, help="then of 1 to 8 GPUs (1000)")
    parser.add_argument("--seed", type=int, default=1, help="of the mix")
    parser.add_argument(
        "--rounds",
        type=_positive,
        default=1,
        help="turns of each scheduler; medians are compared (1)",
    )
    parser.add_argument(
        "--plain-only", action="store_true", help="compare with the plain kube-scheduler only"
    )
    parser.add_argument(
        "--nominate-above", type=int, default=0, help="extender.nominateAbove of the chart (0)"
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    return parser


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text}: at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
