"""``gputopo ensemble``: options and help texts."""

from typing import Annotated

import typer

from gputopo_cli.ensemble.options import EnsembleOptions, NodesOption, PlanOptions
from gputopo_cli.shared.options import (
    ClusterContext,
    OutputFile,
    PlotsOption,
    TableOrJson,
    add_command,
    new_group,
)

app = new_group("Plan models that are trained together, each with its GPUs (FLEET).", status=2)


def plan(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="Members as YAML; - is standard input (docs/simulate/ensemble.md).",
        ),
    ],
    nodes: NodesOption,
    options: PlanOptions,
    plots: PlotsOption = None,
    form: TableOrJson = "table",
    output_file: OutputFile = None,
) -> None:
    """Plan an ensemble: who trains when, with how many GPUs, on which nodes."""
    from gputopo_cli.ensemble.planned import write_plan

    write_plan(file, nodes, options, plots, form, output_file)


def simulate(
    options: EnsembleOptions,
    plots: PlotsOption = None,
    form: TableOrJson = "table",
    output_file: OutputFile = None,
) -> None:
    """Simulate random ensembles under FLEET and simple policies."""
    from gputopo_cli.ensemble.simulated import write_comparison

    write_comparison(options, plots, form, output_file)


def status(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a GPUEnsemble.")],
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAME", help="Namespace of the object.")
    ] = "default",
    context: ClusterContext = None,
    form: TableOrJson = "table",
) -> None:
    """Show a GPUEnsemble of a cluster: its plan, its members, and what they wait for.

    FLOTILLA: members with the same number train together. GPUS: the planned number. DONE: part of
    the items that the member has processed, estimated from its measured rate.
    """
    from gputopo_cli.ensemble.live import write_status

    write_status(name, namespace, context, form)


add_command(app, "plan", plan)
add_command(app, "simulate", simulate)
add_command(app, "status", status)
