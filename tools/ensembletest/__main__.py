"""Train five models as an ensemble and in simple ways on the local cluster; compare the times."""

import argparse
import dataclasses
import sys
from collections.abc import Sequence

from ensembletest.members import five
from ensembletest.trial import Trial
from ensembletest.ways import Way, table
from showcase import install
from soaktest.trial import trial, write


def main(arguments: Sequence[str]) -> int:
    """Train the models in each way."""
    options = _parser().parse_args(arguments)

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    with trial():
        if options.installed:
            installed = install.on_running_cluster()
        else:
            installed = install.on_local_cluster(say, install.SHORT_SAMPLES)
        # The slowest member needs 8.4 times as long as the fastest with one GPU.
        limit = 60 + 12 * options.seconds
        trials = Trial(installed, five(options.seconds), options.most_gpus, limit, say)
        outcomes = []
        for way in options.ways:
            say(f"==> {way}")
            outcomes.append(trials.carry_out(Way(way)))
    documents = [
        {**dataclasses.asdict(each), "makespan": each.makespan, "idle": each.idle}
        for each in outcomes
    ]
    write(options.output, {"seconds": options.seconds, "ways": documents}, table(outcomes))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tools/ensemble", description=__doc__)
    ways = [each.value for each in Way]
    parser.add_argument("--ways", nargs="+", choices=ways, default=ways)
    parser.add_argument(
        "--seconds", type=float, default=60, help="of the fastest model with one GPU (60)"
    )
    parser.add_argument("--most-gpus", type=int, default=16, help="of all models together (16)")
    parser.add_argument("--installed", action="store_true", help="install nothing")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
