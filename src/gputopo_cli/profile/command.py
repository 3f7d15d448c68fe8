"""``gputopo profile``: options and help texts."""

from typing import Annotated

import typer

from gputopo_cli.shared import options

app = options.new_group("Show what gputopo has measured of the workloads of a cluster.")


@app.command("list")
def list_profiles(
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace", "-n", metavar="NAME", help="Only this namespace instead of all."
        ),
    ] = None,
    context: options.ClusterContext = None,
    form: options.TableOrJson = "table",
) -> None:
    """List the GPUProfiles with their bandwidth sensitivity, CPU demand and samples.

    DECLARED: how much longer the workload runs on the worst links, as its user declares. MEASURED:
    the same, from the samples, with the 95 % interval. DEMAND: with more CPUs than this number, the
    workload is less than 10 % faster. LAST: the end of the newest sample.
    """
    from gputopo_cli.profile.show import write_list

    write_list(namespace, context, form)


@app.command()
def show(
    workload: Annotated[
        str, typer.Argument(metavar="[NAMESPACE/]NAME", help="Name of the GPUProfile.")
    ],
    context: options.ClusterContext = None,
    plots: options.PlotsOption = None,
    form: options.TableOrJson = "table",
) -> None:
    """Show all facts and samples of one workload.

    Without a namespace, NAME must be unique in the cluster. --plots draws each curve with its
    points and 95 % intervals: links.svg, cpus.svg, neighbours.svg and scaling.svg.
    """
    from gputopo_cli.profile.show import write_profile

    write_profile(workload, context, plots, form)
