"""Run jobs whose CPUs and memory gputopo decides, and check that it keeps its promises."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from faulttest import command
from learntest import experiment
from learntest.run import carry_out
from resizetest import soak
from resizetest.catalogue import EXPERIMENTS
from resizetest.reserved import reserved
from showcase import install
from showcase.install import Installed

_TOOL = "resize"


def main(arguments: Sequence[str]) -> int:
    """Run the named experiments; return 1 if an error was found."""
    parser = command.parser(
        _TOOL, __doc__, "experiment", EXPERIMENTS, "which run side by side on different nodes"
    )
    experiment.add_options(parser)
    parser.add_argument(
        "--node", help="where the jobs run; by default one that the experiment fits"
    )
    parser.add_argument("--kills", type=int, default=0, help="how often the operator is killed")
    parser.add_argument(
        "--profiles", type=Path, help="file for what is learnt; if it exists, it is used instead"
    )
    parser.add_argument(
        "--parts",
        nargs="+",
        choices=soak.PARTS,
        default=(),
        help="which parts of the cluster the soak kills; all of them by default",
    )
    parser.add_argument(
        "--installed",
        action="store_true",
        help="use the running cluster and the gputopo on it; start, install and remove nothing",
    )
    options = parser.parse_args(arguments)
    with reserved(options.node, _say):
        return _run(options)


def _run(options: argparse.Namespace) -> int:
    return command.run(
        _TOOL,
        options,
        _running if options.installed else _install,
        lambda installed, cluster, log: carry_out(
            installed,
            cluster,
            [EXPERIMENTS[name] for name in options.cases],
            experiment.options_of(options),
            log,
            prefix="gputopo-resize",
        ),
        keep_cluster=options.installed,
    )


def _say(text: str) -> None:
    print(f"==> {text}", file=sys.stderr, flush=True)


def _install(say: Callable[[str], None]) -> Installed:
    return install.on_local_cluster(say, install.SHORT_SAMPLES)


def _running(_: Callable[[str], None]) -> Installed:
    return install.on_running_cluster()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
