"""``gputopo sc17``: options and help texts."""

from typing import Annotated, Literal, get_args

import typer

from gputopo_cli.sc17.options import CaffeOptions
from gputopo_cli.shared.arguments import parse_words
from gputopo_cli.shared.options import (
    AsReleasedOption,
    OutputFile,
    TableOrJson,
    add_command,
    new_group,
)

Policy = Literal[
    "fcfs", "bf", "topo-aware", "topo-aware-p", "baseline", "nearest", "greedy", "preserve"
]

app = new_group("Simulate jobs that slow each other down (SC '17).", status=2)


def simulate(
    options: CaffeOptions,
    policy: Annotated[
        Policy,
        typer.Option(metavar="POLICY", help=f"Placement policy: {', '.join(get_args(Policy))}."),
    ] = "topo-aware-p",
    as_released: AsReleasedOption = False,
    form: TableOrJson = "table",
    output_file: OutputFile = None,
) -> None:
    """Run a list of training jobs on machines under one policy.

    FILE is CSV with a header and the columns id, arrival_s, net, batch, gpus and min_utility; other
    columns are ignored (docs/simulate/sc17.md).
    """
    from gputopo_cli.sc17.report import write_simulation

    write_simulation(options, policy, form, output_file, as_released=as_released)


def compare(
    options: CaffeOptions,
    policies: Annotated[
        str,
        typer.Option(metavar="LIST", help=f"Policies to compare: {', '.join(get_args(Policy))}."),
    ] = "fcfs,bf,topo-aware,topo-aware-p,preserve",
    as_released: Annotated[
        bool,
        typer.Option(
            "--as-released",
            help="Also simulate the program of the paper's authors, with each policy that it has.",
        ),
    ] = False,
    form: TableOrJson = "table",
    output_file: OutputFile = None,
) -> None:
    """Compare placement policies on the same jobs."""
    from gputopo_cli.sc17.report import write_comparison

    named = parse_words(policies, "policies", get_args(Policy))
    write_comparison(options, named, form, output_file, as_released=as_released)


add_command(app, "simulate", simulate)
add_command(app, "compare", compare)
