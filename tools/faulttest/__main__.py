"""Cause one fault at a time on the local cluster, and report its effect on pods and GPUs."""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from faulttest import scenario
from faulttest.catalogue import SCENARIOS
from faulttest.run import carry_out
from faulttest.scenario import Options
from localcluster.cluster import Cluster
from localcluster.progress import Progress
from localcluster.settings import current_paths
from showcase import install
from soaktest.trial import trial, write


def main(arguments: Sequence[str]) -> int:
    """Run the named scenarios; return 1 if an error was found."""
    options = _parser().parse_args(arguments)
    names = list(SCENARIOS) if "all" in options.scenarios else options.scenarios
    stamp = time.strftime("%Y%m%d-%H%M%S")
    log = options.log or Path(tempfile.gettempdir()) / f"gputopo-faults-{stamp}.log"
    with trial():
        installed = install.on_local_cluster(lambda text: print(f"==> {text}", file=sys.stderr))
        outcomes = carry_out(
            installed,
            Cluster(current_paths(), Progress()),
            [SCENARIOS[name] for name in names],
            Options(options.rounds, options.seconds),
            log,
        )
    write(
        options.output,
        scenario.document(outcomes, str(log)),
        scenario.table(outcomes, str(log)),
    )
    return 0 if all(one.is_clean for one in outcomes) else 1


def _parser() -> argparse.ArgumentParser:
    lines = "\n".join(f"  {name:<18} {one.summary}" for name, one in SCENARIOS.items())
    parser = argparse.ArgumentParser(
        prog="tools/faults",
        description=__doc__,
        epilog=f"scenarios:\n{lines}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        *("scenarios",),
        nargs="+",
        choices=[*SCENARIOS, "all"],
        metavar="SCENARIO",
        help="one or more of the names below, or `all`",
    )
    parser.add_argument("--rounds", type=int, help="how often a scenario repeats its steps")
    parser.add_argument("--seconds", type=float, help="how long its fault lasts")
    parser.add_argument("--log", type=Path, help="file for every step")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
