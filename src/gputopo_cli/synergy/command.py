"""``gputopo synergy``: options and help texts."""

from typing import Annotated, Literal, get_args

import typer

from gputopo_cli.shared.arguments import parse_words
from gputopo_cli.shared.options import (
    AsReleasedOption,
    OutputFile,
    PlotsOption,
    TableOrJson,
    add_command,
    new_group,
)
from gputopo_cli.synergy.options import QueueOptions

Order = Literal["fifo", "srtf", "las", "ftf"]
Mechanism = Literal["proportional", "greedy", "tune", "marginal", "opt", "drf", "tetris"]

app = new_group("Simulate how jobs get CPUs and memory (Synergy).", status=2)


def simulate(
    options: QueueOptions,
    order: Annotated[
        Order, typer.Option(metavar="|".join(get_args(Order)), help="Order of the queue.")
    ] = "fifo",
    allocation: Annotated[
        Mechanism,
        typer.Option(
            metavar="ALLOCATION",
            help=f"Rule that gives CPUs and memory: {', '.join(get_args(Mechanism))}.",
        ),
    ] = "tune",
    as_released: AsReleasedOption = False,
    form: TableOrJson = "table",
    output_file: OutputFile = None,
) -> None:
    """Run a queue of training jobs on a cluster.

    FILE is CSV with a header and the columns job, model, gpus, arrival_s and iterations; other
    columns are ignored (docs/simulate/synergy.md).
    """
    from gputopo_cli.synergy.experiment import RunRequest
    from gputopo_cli.synergy.report import write_simulation

    write_simulation(options, RunRequest(order, allocation, as_released), form, output_file)


def compare(
    options: QueueOptions,
    orders: Annotated[
        str,
        typer.Option(metavar="LIST", help=f"Orders of the queue: {', '.join(get_args(Order))}."),
    ] = "fifo,srtf,las",
    allocations: Annotated[
        str,
        typer.Option(
            metavar="LIST",
            help="Rules that give CPUs and memory; the first is the baseline:"
            f" {', '.join(get_args(Mechanism))}.",
        ),
    ] = "proportional,greedy,tune,marginal",
    as_released: Annotated[
        bool,
        typer.Option(
            "--as-released",
            help="Also simulate the program of Synergy's authors, with each rule that it supports.",
        ),
    ] = False,
    plots: PlotsOption = None,
    form: TableOrJson = "table",
    output_file: OutputFile = None,
) -> None:
    """Compare rules that give CPUs and memory to the same jobs."""
    from gputopo_cli.synergy.experiment import list_runs
    from gputopo_cli.synergy.report import write_comparison

    requests = list_runs(
        parse_words(orders, "orders", get_args(Order)),
        parse_words(allocations, "allocations", get_args(Mechanism)),
        as_released=as_released,
    )
    write_comparison(options, requests, plots, form, output_file)


add_command(app, "simulate", simulate)
add_command(app, "compare", compare)
