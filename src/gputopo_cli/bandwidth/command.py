"""``gputopo bandwidth``."""

from typing import Annotated

import typer

from gputopo_cli.shared import options

app = typer.Typer(rich_markup_mode=None, help="Models of what a set of GPUs gives its job.")


@app.callback(invoke_without_command=True)
def _group(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list")
def list_models(
    form: Annotated[str, options.format_option("table", "json")] = "table",
) -> None:
    """List the bandwidth models and what each may be used for."""
    from gputopo_cli.bandwidth import fit as answer

    answer.list_models(form)


@app.command()
def fit(
    samples: Annotated[
        str,
        typer.Argument(
            metavar="SAMPLES.csv", help="Measured bandwidths; - is standard input. See below."
        ),
    ],
    topology: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE|NODE",
            autocompletion=options.complete_topologies,
            show_default="a DGX-1 V100's links",
            help="Where they were measured; needed where they name GPUs.",
        ),
    ] = None,
    form: Annotated[str, options.format_option("table", "json")] = "table",
    output_file: Annotated[
        str | None,
        typer.Option("--output-file", metavar="MODEL.json", help="Write the fitted model there."),
    ] = None,
) -> None:
    """Fit the paper's equation 2 to your own NCCL measurements.

    Columns: gpus,bandwidth_gbps with GPUs as 0-3-4, or double,single,pcie,bandwidth_gbps with
    how many links of each sort the ring has. The model's file is for --model of the other
    commands.
    """
    from gputopo_cli.bandwidth import fit as answer

    answer.fit(samples, topology, form, output_file)
