"""Run training jobs whose speed is known, and compare what gputopo learns with the truth."""

import sys
from collections.abc import Sequence
from pathlib import Path

from faulttest import command
from learntest import experiment
from learntest.catalogue import EXPERIMENTS
from learntest.run import carry_out
from showcase import install

_TOOL = "learn"


def main(arguments: Sequence[str]) -> int:
    """Run the named experiments; return 1 if an error was found."""
    parser = command.parser(_TOOL, __doc__, "experiment", EXPERIMENTS, "which run side by side")
    experiment.add_options(parser)
    parser.add_argument(
        "--short",
        action="store_true",
        help="samples of 30 s as in the end-to-end tests, and not the agent's default times",
    )
    parser.add_argument("--node", help="where the jobs of `interference` run")
    parser.add_argument(
        "--profiles",
        type=Path,
        help="file for what `interference` learns; if it exists, only missing pairs are learnt",
    )
    options = parser.parse_args(arguments)
    values = [install.SHORT_SAMPLES] if options.short else []
    return command.run(
        _TOOL,
        options,
        lambda say: install.on_local_cluster(say, *values),
        lambda installed, cluster, log: carry_out(
            installed,
            cluster,
            [EXPERIMENTS[name] for name in options.cases],
            experiment.options_of(options),
            log,
        ),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
