"""Options that ``gputopo simulate`` and ``gputopo compare`` share."""

from dataclasses import dataclass
from typing import Annotated

import typer

from gputopo_cli.shared import options


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """The jobs, the nodes, and how jobs queue and run."""

    topology: options.TopologyOption = ""
    jobs: options.JobsOption = None
    generate: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=1_000_000,
            help="Instead of --jobs: generate N jobs as in the MAPA paper, rings of 1 to 5 GPUs.",
        ),
    ] = None
    nodes: Annotated[
        int, typer.Option(metavar="N", min=1, max=100_000, help="Number of nodes.")
    ] = 1
    model: options.ModelOption = None
    backfill: Annotated[
        bool,
        typer.Option(
            "--backfill", help="Let a job that fits start before earlier jobs that do not fit."
        ),
    ] = False
    wait: Annotated[
        bool,
        typer.Option(
            "--wait",
            help="Let a bandwidth-sensitive job wait for better links if its shorter run saves"
            " more GPU time than the free GPUs lose while it waits; only on one node and without"
            " --backfill.",
        ),
    ] = False
    time: Annotated[
        str,
        typer.Option(
            metavar="fixed|bandwidth|FILE",
            autocompletion=options.complete(("bandwidth", "fixed")),
            help="How long a job runs. fixed: its service time. bandwidth: longer on slow links."
            " FILE: the same, with slowdown curves from a JSON file (docs/simulate/simulator.md).",
        ),
    ] = "bandwidth"
    profiles: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Measured GPUProfiles of the jobs' workloads: the output of `kubectl get"
            " gpuprofiles -A -o json`. They decide the sensitivity and the run time.",
        ),
    ] = None
    as_released: options.AsReleasedOption = False


@dataclass(frozen=True, slots=True)
class LiveSimulationOptions:
    """A simulation that starts with the pods that a cluster runs now."""

    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="Simulate the nodes of the cluster, from the GPUs that are in use now. Times are"
            " seconds from now.",
        ),
    ] = False
    assume_seconds: Annotated[
        float | None,
        typer.Option(
            "--assume-seconds",
            metavar="SECONDS",
            min=0,
            show_default="they never end",
            help="With --live: remaining time of running pods without a known end.",
        ),
    ] = None
    context: options.ClusterContext = None
