"""``gputopo profile``: options and help texts."""

from typing import Annotated

import typer

from gputopo_cli.shared import options

app = options.new_group("Show what gputopo has measured of the workloads of a cluster.")


@app.command("list")
def list_profiles(
    namespace: options.Namespace = None,
    context: options.ClusterContext = None,
    form: options.TableOrJson = "table",
) -> None:
    """List the GPUProfiles with their bandwidth sensitivity, CPU demand and samples.

    DECLARED: how much longer the workload runs on the worst links than on the best, as its user
    declares. MEASURED: this slowdown as measured by gputopo, with a 95 % interval. DEMAND: number
    of CPUs that the workload needs; any higher number raises its speed by less than 10 %. SAMPLES:
    number of measured speeds. LAST: when the newest of them was measured.
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
    """Show the measured speeds of a workload and what changes them.

    Hardware counters show which GPUs communicate and how much. OF A STEP: share of a step in which
    they communicate at most. OCCUPANCY C and DRAM M: how long one step fully uses a GPU and its
    memory. OF THE GPU: mean occupancy of a GPU by a job alone on it, which decides about sharing
    (sharing.loadCapacityPercent of the chart). The last table names the counters of each node, and
    why some cannot be read.

    Without a namespace, NAME must be unique in the cluster. --plots draws the speed by bandwidth
    (links.svg), by CPUs (cpus.svg) and by number of GPUs (scaling.svg), and the slowdown beside
    other workloads on the node (neighbours.svg), with 95 % intervals.
    """
    from gputopo_cli.profile.show import write_profile

    write_profile(workload, context, plots, form)
