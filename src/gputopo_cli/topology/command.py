"""``gputopo topology``: which servers are known, and what one looks like."""

from typing import Annotated

import typer

from gputopo_cli.shared import options

app = typer.Typer(rich_markup_mode=None, help="Look at the links between the GPUs of a server.")


@app.callback(invoke_without_command=True)
def _group(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list")
def list_catalogue(
    form: Annotated[str, options.format_option("table", "json")] = "table",
) -> None:
    """List the servers of the catalogue."""
    from gputopo_cli.topology import show as answer

    answer.list_catalogue(form)


@app.command()
def show(
    topology: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FILE|NODE",
            autocompletion=options.complete_topologies,
            help="A name of the list; else a file, or - for standard input; else a node of the"
            " cluster. node/NAME is always a node, ./NAME always a file.",
        ),
    ],
    gpus: Annotated[str, typer.Option(metavar="LIST", help="Mark these as allocated: 0,2,3.")] = "",
    busy: Annotated[str, typer.Option(metavar="LIST", help="Mark these as in use: 1,4.")] = "",
    context: options.Context = None,
    form: Annotated[str, options.format_option("table", "json", "svg")] = "table",
    output_file: options.OutputFile = None,
) -> None:
    """Show the links between the GPUs of one server.

    Bandwidths are in GB/s of one direction. A file holds what `nvidia-smi topo -m` prints, a
    GPUTopology object, or our own format (docs/topologies.md). Of a node of the cluster, the
    GPUs in use are marked.
    """
    from gputopo_cli.topology import show as answer

    answer.show(topology, gpus, busy, context, form, output_file)
