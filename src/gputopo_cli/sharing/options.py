"""Options of the commands of ``gputopo sharing``."""

from dataclasses import dataclass
from typing import Annotated

import typer

PairsOption = Annotated[
    str | None,
    typer.Option(
        "--pairs",
        metavar="FILE",
        show_default="Gavel's pairs on a V100",
        help="Measured pairs as CSV; - is standard input (docs/simulate/sharing.md).",
    ),
]

MarginOption = Annotated[
    float,
    typer.Option(metavar="X", min=1, max=100, help="Least gain above which jobs share."),
]

LimitOption = Annotated[
    int | None,
    typer.Option(
        "--max-slowdown",
        metavar="PERCENT",
        min=0,
        max=10_000,
        show_default="no limit",
        help="How much longer the steps of each job may take beside others.",
    ),
]


@dataclass(frozen=True, slots=True)
class SharingOptions:
    """Jobs, cluster, and what the policies know."""

    gpus: Annotated[
        int, typer.Option(metavar="N", min=1, max=10_000, help="Number of GPUs of the cluster.")
    ] = 8
    jobs: Annotated[int, typer.Option(metavar="N", min=1, max=100_000, help="Number of jobs.")] = (
        300
    )
    load: Annotated[
        float,
        typer.Option(
            metavar="X",
            min=0,
            max=1000,
            help="GPUs that the arriving jobs would use alone, relative to --gpus. With 0, all jobs"
            " arrive at once.",
        ),
    ] = 1.0
    steps: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=10**9,
            show_default="log-uniform durations",
            help="Each job makes N steps.",
        ),
    ] = None
    models: Annotated[
        str | None,
        typer.Option(
            metavar="LIST", show_default="all", help="Models of the jobs, such as ResNet-18/64."
        ),
    ] = None
    seeds: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, max=1000, help="Number of job lists, of the seeds 1 to N."
        ),
    ] = 10
    known: Annotated[
        int,
        typer.Option(
            metavar="PERCENT",
            min=0,
            max=100,
            help="Models whose pairs were measured before the run; which ones depends on the seed.",
        ),
    ] = 50
    margin: MarginOption = 1.05
    max_slowdown: LimitOption = None
    pairs: PairsOption = None
