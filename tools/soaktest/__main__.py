"""Create and delete GPU pods while parts of the cluster are killed at random; count errors."""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from hostiletest.neighbours import VALUES as NEIGHBOURS_VALUES
from localcluster.cluster import Cluster
from localcluster.progress import Progress
from localcluster.settings import current_paths
from showcase import install
from soaktest import report
from soaktest.run import Options, carry_out
from soaktest.trial import trial, write


def main(arguments: Sequence[str]) -> int:
    """Run the soak; return 1 if an error was found."""
    options = parser().parse_args(arguments)
    files = [NEIGHBOURS_VALUES] if options.neighbours or options.adversary else []
    with trial(), install.nominations(options.nominate_above) as values:
        installed = install.on_local_cluster(
            lambda text: print(f"==> {text}", file=sys.stderr), values, *files
        )
        result = carry_out(installed, Cluster(current_paths(), Progress()), wanted(options))
    write(options.output, report.document(result), report.table(result))
    return 0 if result.is_clean else 1


def wanted(options: argparse.Namespace) -> Options:
    """Return the options of the run."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    log = options.log or Path(tempfile.gettempdir()) / f"gputopo-soak-{stamp}.log"
    return Options(
        minutes=options.minutes,
        seed=random.SystemRandom().randrange(10**6) if options.seed is None else options.seed,
        kill_every_seconds=options.kill_every,
        pods=options.pods,
        bursts=options.bursts,
        burst_gpus=options.gpus,
        waves=options.nominate_above > 0,
        neighbours=options.neighbours or options.adversary,
        adversary=options.adversary,
        log=log,
    )


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="tools/soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30, help="how long (30)")
    parser.add_argument(
        "--pods", type=int, default=0, help="up to twice as long, until so many are made"
    )
    parser.add_argument("--seed", type=int, help="what is drawn, and in which order")
    parser.add_argument(
        "--kill-every", type=float, default=30, metavar="SECONDS", help="on average (30)"
    )
    parser.add_argument(
        "--bursts",
        type=int,
        metavar="PODS",
        help="instead: so many equal pods in bursts, bound in another order than made",
    )
    parser.add_argument("--gpus", type=int, default=1, choices=range(1, 9), help="of a burst's pod")
    parser.add_argument(
        "--nominate-above",
        type=int,
        default=0,
        metavar="PODS",
        help="extender.nominateAbove of the chart; above 0 the pods are made in waves (0)",
    )
    parser.add_argument(
        "--neighbours",
        action="store_true",
        help="on one node, run jobs whose samples and sizes are counted; the load has the others",
    )
    parser.add_argument(
        "--adversary", action="store_true", help="with --neighbours; a hostile tenant attacks them"
    )
    parser.add_argument("--log", type=Path, help="file for every step")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
