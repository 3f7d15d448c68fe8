"""Normalised throughput of a mix as gputopo predicts it from measured curves.

Two predictions: that of the operator's decision, and that of the simulator on the command line.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from gputopo.api.profile import CpuFact, WorkloadFacts
from gputopo.api.tuning import Amounts, ResourcesMode
from gputopo.tuning.matrix import matrix_of_fact
from gputopo.tuning.model import ContainerAmounts, Target, TunedNode, TunedPod
from gputopo.tuning.targets import targets
from resizetest.mixes import CAPACITY_MILLI_CPU, FLOOR_MILLI_CPU, GPUS, NODE_GPUS, Mix

_MEMORY = 2**30
_ARRIVAL_SECONDS = 300
_RUN_SECONDS = 100
"""All jobs of a simulation arrive at the start of a round of 300 s, and end within it."""


def predicted(mix: Mix, facts: Mapping[str, CpuFact]) -> list[Target]:
    """Return what the operator would decide for each job of a mix, from the curves by workload."""
    floor = Amounts(FLOOR_MILLI_CPU, _MEMORY)
    pods = [
        TunedPod(
            uid=str(number),
            name=workload.name,
            mode=ResourcesMode.AUTO,
            gpus=GPUS,
            spec=ContainerAmounts(floor, FLOOR_MILLI_CPU, _MEMORY),
            facts=WorkloadFacts(gpu_model="any", cpus=[facts[workload.name]]),
        )
        for number, workload in enumerate(mix.workloads)
    ]
    node = TunedNode(
        now=datetime.now(UTC),
        name="node",
        gpus=NODE_GPUS,
        allocatable=Amounts(CAPACITY_MILLI_CPU, len(pods) * _MEMORY),
        others=Amounts(0, 0),
        pods=pods,
    )
    decided = targets(node)
    return [decided[pod.uid] for pod in pods]


def job_list(mix: Mix, facts: Mapping[str, CpuFact]) -> str:
    """Return the jobs of a mix for ``gputopo synergy``; each takes 100 s with its share."""
    lines = ["job,model,gpus,arrival_s,iterations"]
    for number, workload in enumerate(mix.workloads):
        steps = round(_RUN_SECONDS * share_rate(facts[workload.name]))
        lines.append(f"{number},{workload.name},{GPUS},{_ARRIVAL_SECONDS},{steps}")
    return "\n".join(lines) + "\n"


def share_rate(fact: CpuFact) -> float:
    """Return the steps per second with the proportional share, by the measured curve."""
    share = CAPACITY_MILLI_CPU * GPUS // NODE_GPUS
    matrix = matrix_of_fact(fact, [share])
    if matrix is None:
        raise ValueError(f"the curve has {len(fact.points)} points; two are needed")
    return matrix.at(share / 1000, _MEMORY)


def simulated(folder: Path, mix: Mix, facts: Mapping[str, CpuFact], profiles: Path) -> list[float]:
    """Return the normalised throughput of each job by ``gputopo synergy simulate``."""
    jobs = folder / f"{mix.name}.csv"
    jobs.write_text(job_list(mix, facts))
    share, marginal = (_hours(jobs, profiles, each) for each in ("proportional", "marginal"))
    return [before / after for before, after in zip(share, marginal, strict=True)]


def simulation(jobs: Path, profiles: Path, allocation: str) -> Sequence[str]:
    """Return the options of ``gputopo synergy simulate`` for the node of the experiment."""
    return [
        *("--jobs", str(jobs), "--profiles", str(profiles), "--servers", "1"),
        *("--gpus", str(NODE_GPUS), "--cpus", str(CAPACITY_MILLI_CPU / 1000)),
        *("--allocation", allocation, "-o", "json"),
    ]


def _hours(jobs: Path, profiles: Path, allocation: str) -> list[float]:
    options = simulation(jobs, profiles, allocation)
    command = [sys.executable, "-m", "gputopo_cli", "synergy", "simulate", *options]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return [job["jctHours"] for job in json.loads(done.stdout)["jobs"]]
