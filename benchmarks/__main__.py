"""Runs the benchmarks: ``python -m benchmarks [NAME...] [--quick]``."""

import argparse
import os
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from benchmarks import (
    agent,
    compare_bandwidth_models,
    counter_reads,
    counters,
    decisions,
    ensembles,
    extender,
    facts,
    growth,
    mapping,
    memory,
    profiling,
    simulator,
    sizing,
    startup,
    steps,
    web,
)
from benchmarks.options import Options


def models(_: Options) -> None:
    """Compare the bandwidth models."""
    compare_bandwidth_models.main()


BENCHMARKS: Final[Mapping[str, Callable[[Options], None]]] = {
    "decisions": decisions.run,
    "memory": memory.run,
    "extender": extender.run,
    "mapping": mapping.run,
    "simulator": simulator.run,
    "models": models,
    "sizing": sizing.run,
    "profiling": profiling.run,
    "steps": steps.run,
    "agent": agent.run,
    "counter-reads": counter_reads.run,
    "facts": facts.run,
    "counters": counters.run,
    "startup": startup.run,
    "ensembles": ensembles.run,
    "web": web.run,
    "growth": growth.run,
}


def main() -> None:
    """Run the benchmarks that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--quick", action="store_true", help="tiny, to see that they run")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw decision times there")
    parser.add_argument("--seed", type=int, default=1, help="of the simulated fleets")
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="pictures of the page there")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in BENCHMARKS]:
        parser.error(f"{unknown[0]!r} is not one of {', '.join(BENCHMARKS)}")
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs, load {load}")
    for name in options.names or BENCHMARKS:
        began = time.perf_counter()
        BENCHMARKS[name](Options(options.quick, options.plot, options.seed, options.pictures))
        print(f"({name}: {time.perf_counter() - began:.0f} s)")


if __name__ == "__main__":
    main()
