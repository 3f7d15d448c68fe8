"""``gputopo synergy``."""

from typing import Annotated, Final

import typer

from gputopo_cli.shared import options
from gputopo_cli.shared.words import each_once

app = typer.Typer(
    no_args_is_help=True,
    help="CPUs and memory by each job's sensitivity, rather than by its GPUs.",
)

ORDERS: Final = ("fifo", "srtf", "las", "ftf")
ALLOCATIONS: Final = ("proportional", "greedy", "tune", "marginal", "opt", "drf", "tetris")

Generate = Annotated[
    str | None,
    typer.Option(
        "--generate",
        metavar="N",
        help="Instead of --jobs: draw so many as Synergy's authors did, of one GPU each.",
    ),
]
JobsPerHour = Annotated[
    str, typer.Option("--jobs-per-hour", metavar="X", help="Of --generate: how often they come.")
]
Split = Annotated[
    str,
    typer.Option(
        "--split", metavar="A,B,C", help="Of --generate: % of image, language, speech models."
    ),
]
Seed = Annotated[
    str, typer.Option(metavar="N", help="Of --generate; the same jobs for the same seed.")
]
Models = Annotated[
    str | None,
    typer.Option(
        "--models",
        metavar="FILE",
        show_default="the authors' measurements",
        help="What is known of models (docs/synergy.md).",
    ),
]
Servers = Annotated[str, typer.Option(metavar="N", help="How many servers, all alike.")]
Gpus = Annotated[str, typer.Option(metavar="N", help="GPUs of a server.")]
Cpus = Annotated[str, typer.Option(metavar="X", help="CPUs of a server.")]
MemoryGb = Annotated[str, typer.Option(metavar="X", help="Memory of a server, 10^9 bytes.")]
StorageMbPerS = Annotated[
    str | None,
    typer.Option(
        "--storage-mb-per-s",
        metavar="X",
        show_default="no limit",
        help="What a server reads from storage, a fourth thing to share.",
    ),
]
Decide = Annotated[
    str,
    typer.Option(
        metavar="rounds|events",
        parser=options.one_of("decide", ("rounds", "events")),
        autocompletion=options.starting_with(("rounds", "events")),
        help="Every 300 s, or whenever a job comes or ends.",
    ),
]
Monitor = Annotated[
    str | None,
    typer.Option(
        metavar="FIRST:LAST",
        show_default="all",
        help="The ids of the jobs that figures are of, FIRST included, LAST not.",
    ),
]


@app.command()
def simulate(
    jobs: options.JobsOption = None,
    generate: Generate = None,
    jobs_per_hour: JobsPerHour = "9",
    split: Split = "20,70,10",
    seed: Seed = "42",
    models: Models = None,
    servers: Servers = "16",
    gpus: Gpus = "8",
    cpus: Cpus = "24",
    memory_gb: MemoryGb = "500",
    storage_mb_per_s: StorageMbPerS = None,
    order: Annotated[
        str,
        typer.Option(
            metavar="|".join(ORDERS),
            parser=options.one_of("order", ORDERS),
            autocompletion=options.starting_with(ORDERS),
            help="Who is first in the queue.",
        ),
    ] = "fifo",
    allocation: Annotated[
        str,
        typer.Option(
            metavar="ALLOCATION",
            parser=options.one_of("allocation", ALLOCATIONS),
            autocompletion=options.starting_with(ALLOCATIONS),
            help=f"{', '.join(ALLOCATIONS[:-1])} or {ALLOCATIONS[-1]}.",
        ),
    ] = "tune",
    decide: Decide = "rounds",
    as_released: options.AsReleasedOption = False,
    monitor: Monitor = None,
    form: Annotated[str, options.format_option("table", "json")] = "table",
    output_file: options.OutputFile = None,
) -> None:
    """Run a queue of training jobs on a cluster.

    FILE is CSV with a header: job, model, gpus, arrival_s, iterations; other columns are left
    out (docs/synergy.md).
    """
    from gputopo_cli.synergy import report as answer
    from gputopo_cli.synergy.setup import Course

    course = Course(
        jobs=jobs,
        generate=generate,
        jobs_per_hour=jobs_per_hour,
        split=split,
        seed=seed,
        models=models,
        servers=servers,
        gpus=gpus,
        cpus=cpus,
        memory_gb=memory_gb,
        storage_mb_per_s=storage_mb_per_s,
        decide=decide,
        monitor=monitor,
    )
    answer.simulate(
        course, order, allocation, as_released=as_released, form=form, output_file=output_file
    )


@app.command()
def compare(
    jobs: options.JobsOption = None,
    generate: Generate = None,
    jobs_per_hour: JobsPerHour = "9",
    split: Split = "20,70,10",
    seed: Seed = "42",
    models: Models = None,
    servers: Servers = "16",
    gpus: Gpus = "8",
    cpus: Cpus = "24",
    memory_gb: MemoryGb = "500",
    storage_mb_per_s: StorageMbPerS = None,
    orders: Annotated[
        str, typer.Option(metavar="LIST", help=f"Of {', '.join(ORDERS)}.")
    ] = "fifo,srtf,las",
    allocations: Annotated[
        str,
        typer.Option(metavar="LIST", help=f"Of {', '.join(ALLOCATIONS)}; ratios are to the first."),
    ] = "proportional,greedy,tune,marginal",
    decide: Decide = "rounds",
    as_released: Annotated[
        bool,
        typer.Option(
            "--as-released",
            help="Beside each run what the authors' program makes of it, where it can.",
        ),
    ] = False,
    monitor: Monitor = None,
    plots: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="Draw completion times into this folder, as SVG, one per order."
        ),
    ] = None,
    form: Annotated[str, options.format_option("table", "json")] = "table",
    output_file: options.OutputFile = None,
) -> None:
    """Compare allocations on the same queue of jobs, side by side."""
    from gputopo_cli.synergy import report as answer
    from gputopo_cli.synergy.setup import Course

    course = Course(
        jobs=jobs,
        generate=generate,
        jobs_per_hour=jobs_per_hour,
        split=split,
        seed=seed,
        models=models,
        servers=servers,
        gpus=gpus,
        cpus=cpus,
        memory_gb=memory_gb,
        storage_mb_per_s=storage_mb_per_s,
        decide=decide,
        monitor=monitor,
    )
    chosen = answer.Choice(
        orders=each_once(orders, "orders", options.one_of("orders", ORDERS)),
        allocations=each_once(
            allocations, "allocations", options.one_of("allocations", ALLOCATIONS)
        ),
        as_released=as_released,
    )
    answer.compare(course, chosen, plots=plots, form=form, output_file=output_file)
