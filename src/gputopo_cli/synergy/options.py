"""Options that ``gputopo synergy simulate`` and ``gputopo synergy compare`` share."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

from gputopo_cli.shared import options


def _amount(text: str, *, show_default: bool | str = True) -> Any:  # noqa: ANN401 - as typer
    return typer.Option(metavar="X", min=0.001, max=1_000_000, help=text, show_default=show_default)


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """The jobs, the servers, and the jobs whose statistics are shown."""

    jobs: options.JobsOption = None
    generate: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=100_000,
            help="Instead of --jobs: generate N jobs of one GPU each, as Synergy's authors did.",
        ),
    ] = None
    jobs_per_hour: Annotated[
        float | None, _amount("Arrival rate of the generated jobs.", show_default="9")
    ] = None
    split: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,C",
            show_default="20,70,10",
            help="Percentages of image, language and speech models among the generated jobs.",
        ),
    ] = None
    seed: Annotated[int | None, options.seed_option(42)] = None
    models: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            show_default="the authors' measurements",
            help="CSV of each model's step time, CPU and memory demand (docs/simulate/synergy.md).",
        ),
    ] = None
    profiles: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Instead of --models: measured GPUProfiles, the output of `kubectl get"
            " gpuprofiles -A -o json`. A model is the name of a profile.",
        ),
    ] = None
    servers: Annotated[
        int, typer.Option(metavar="N", min=1, max=10_000, help="Number of equal servers.")
    ] = 16
    gpus: Annotated[int, typer.Option(metavar="N", min=1, max=64, help="GPUs of a server.")] = 8
    cpus: Annotated[float, _amount("CPUs of a server.")] = 24
    memory_gb: Annotated[float, _amount("Memory of a server, in 10^9 bytes.")] = 500
    storage_mb_per_s: Annotated[
        float | None,
        _amount("Storage bandwidth of a server, shared by its jobs.", show_default="no limit"),
    ] = None
    decide: Annotated[
        Literal["rounds", "events"],
        typer.Option(
            metavar="rounds|events",
            help="Assign servers to jobs every 300 s, or whenever a job arrives or ends.",
        ),
    ] = "rounds"
    monitor: Annotated[
        str | None,
        typer.Option(
            metavar="FIRST:LAST",
            show_default="all",
            help="Show statistics only of jobs with IDs from FIRST to LAST - 1.",
        ),
    ] = None
