"""Run training jobs whose speed is known, and compare what gputopo learns with the truth."""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from faulttest import scenario
from learntest.catalogue import EXPERIMENTS
from learntest.experiment import Options
from learntest.run import carry_out
from localcluster.cluster import Cluster
from localcluster.progress import Progress
from localcluster.settings import CLONE, current_paths
from showcase import install
from soaktest.trial import trial, write

_SHORT = CLONE / "tests" / "e2e" / "values.yaml"


def main(arguments: Sequence[str]) -> int:
    """Run the named experiments; return 1 if an error was found."""
    options = _parser().parse_args(arguments)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    log = options.log or Path(tempfile.gettempdir()) / f"gputopo-learn-{stamp}.log"
    with trial():
        installed = install.on_local_cluster(
            lambda text: print(f"==> {text}", file=sys.stderr), *([_SHORT] if options.short else [])
        )
        outcomes = carry_out(
            installed,
            Cluster(current_paths(), Progress()),
            [EXPERIMENTS[name] for name in options.experiments],
            Options(options.rounds, options.seconds, options.seed),
            log,
        )
    write(
        options.output,
        scenario.document(outcomes, str(log)),
        scenario.table(outcomes, str(log)),
    )
    return 0 if all(one.is_clean for one in outcomes) else 1


def _parser() -> argparse.ArgumentParser:
    lines = "\n".join(f"  {name:<10} {one.summary}" for name, one in EXPERIMENTS.items())
    parser = argparse.ArgumentParser(
        prog="tools/learn",
        description=__doc__,
        epilog=f"experiments:\n{lines}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        *("experiments",),
        nargs="+",
        choices=[*EXPERIMENTS],
        metavar="EXPERIMENT",
        help="one or more of the names below, which run side by side",
    )
    parser.add_argument("--rounds", type=int, help="how often an experiment repeats its steps")
    parser.add_argument("--seconds", type=float, help="how long one step of it lasts")
    parser.add_argument("--seed", type=int, default=1, help="what is drawn, and in which order")
    parser.add_argument(
        "--short",
        action="store_true",
        help="samples of 30 s as in the end-to-end tests, and not the agent's default times",
    )
    parser.add_argument("--log", type=Path, help="file for every step")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
