"""Lets gputopo measure workloads with several numbers of CPUs before an experiment."""

import json
from collections.abc import Sequence
from pathlib import Path

from learntest.bench import Bench
from learntest.manifests import Run
from learntest.measured import wait_measured
from soaktest.client import Object

_SECONDS = 1500.0


def learn(bench: Bench, runs: Sequence[Run]) -> dict[str, Object]:
    """Run measured jobs side by side to the end; return the status of their GPUProfiles by name."""
    bench.start(*runs)
    found: dict[str, Object] = {}
    for run in runs:
        state, fact = wait_measured(bench, run, _SECONDS)
        points = {point.milli_cpu: point.micro_steps_per_second / 1e6 for point in fact.points}
        bench.seen[f"curve of {run.name}"] = "; ".join(
            f"{limit}m: {rate:.2f}/s" for limit, rate in sorted(points.items())
        )
        bench.report(f"{run.name}: {state.result}, {state.message}")
        name = run.measuring.profile or ""
        found[name] = bench.status_of(name).to_json()
    bench.end(run.name for run in runs)
    return found


def learnt(bench: Bench, groups: Sequence[Sequence[Run]], known: Path | None) -> dict[str, Object]:
    """Return the status of the GPUProfiles that ``known`` has, or learn them and write ``known``.

    Args:
        bench: of the experiment.
        groups: what to measure; the runs of a group side by side, one group after another.
        known: file with the status of GPUProfiles by name; it need not exist.
    """
    if known is not None and known.exists():
        bench.report(f"curves from {known}")
        read: dict[str, Object] = json.loads(known.read_text())
        return read
    found: dict[str, Object] = {}
    for runs in groups:
        found |= learn(bench, runs)
    if known is not None:
        known.write_text(json.dumps(found))
    return found
