"""Options that ``gputopo sc17 simulate`` and ``gputopo sc17 compare`` share."""

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from gputopo_cli.shared import options

AuthorsList = Literal["table1", "six", "hundred"]


@dataclass(frozen=True, slots=True)
class CaffeOptions:
    """The jobs, the machines, and what decides when a job waits."""

    jobs: options.JobsOption = None
    authors: Annotated[
        AuthorsList | None,
        typer.Option(
            "--list",
            metavar="table1|six|hundred",
            help="Instead of --jobs: a list of the paper's authors. table1 is that of the paper,"
            " six the same as released, hundred that of section 5.5.1.",
        ),
    ] = None
    generate: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=100_000,
            help="Instead of --jobs: generate N jobs (section 5.3).",
        ),
    ] = None
    jobs_per_minute: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            min=0.001,
            max=1e6,
            show_default="10",
            help="Arrival rate of the generated jobs.",
        ),
    ] = None
    seed: options.SeedOption = None
    machines: Annotated[
        int, typer.Option(metavar="N", min=1, max=10_000, help="Number of equal machines.")
    ] = 1
    topology: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            autocompletion=options.complete_topologies,
            help="Topology of each machine: a name from `gputopo topology list`, or a file.",
        ),
    ] = "power8-minsky"
    min_utility: Annotated[
        float | None,
        typer.Option(
            metavar="X", min=0, max=1, show_default="of each job", help="Minimum for all jobs."
        ),
    ] = None
    max_wait: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0,
            max=1e9,
            show_default="no limit",
            help="Longest time for which topo-aware-p postpones a job that could start.",
        ),
    ] = None
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,C",
            show_default="a third each",
            help="Percentages of communication, interference and fragmentation in the utility.",
        ),
    ] = None
    decision_times: Annotated[
        bool, typer.Option("--decision-times", help="Measure the time of each decision.")
    ] = False
    gate: Annotated[
        bool | None,
        typer.Option(
            "--gate/--no-gate",
            show_default="gate",
            help="With --as-released: the free GPUs of machine 0 decide which jobs are tried.",
        ),
    ] = None
