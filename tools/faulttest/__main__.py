"""Cause one fault at a time on the local cluster, and report its effect on pods and GPUs."""

import sys
from collections.abc import Sequence

from faulttest import command
from faulttest.catalogue import SCENARIOS
from faulttest.run import carry_out
from faulttest.scenario import Options
from showcase import install

_TOOL = "faults"
_ALL = "all"


def main(arguments: Sequence[str]) -> int:
    """Run the named scenarios; return 1 if an error was found."""
    parser = command.parser(_TOOL, __doc__, "scenario", SCENARIOS, "or `all`", more=[_ALL])
    parser.add_argument("--seconds", type=float, help="how long its fault lasts")
    options = parser.parse_args(arguments)
    names = SCENARIOS if _ALL in options.cases else options.cases
    return command.run(
        _TOOL,
        options,
        install.on_local_cluster,
        lambda installed, cluster, log: carry_out(
            installed,
            cluster,
            [SCENARIOS[name] for name in names],
            Options(options.rounds, options.seconds),
            log,
        ),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
