"""``gputopo topology``: options and help texts."""

from typing import Annotated, Literal

import typer

from gputopo_cli.shared import options

app = options.new_group("Show the links between the GPUs of a server.")

_Topology = Annotated[
    str,
    typer.Argument(
        metavar="NAME|FILE|NODE",
        autocompletion=options.complete_topologies,
        help="A name of the catalogue, a file (- is standard input) or a node of the cluster,"
        " tried in this order. node/NAME is always a node, ./NAME always a file.",
    ),
]


@app.command("list")
def list_catalogue(form: options.TableOrJson = "table") -> None:
    """List the servers of the catalogue."""
    from gputopo_cli.topology import show as topology

    topology.list_catalogue(form)


@app.command()
def show(
    topology: _Topology,
    gpus: Annotated[
        str, typer.Option(metavar="LIST", help="Mark GPUs as ranks 0, 1, ... of a job: 0,2,3.")
    ] = "",
    busy: Annotated[str, typer.Option(metavar="LIST", help="Mark GPUs of other jobs: 1,4.")] = "",
    context: options.ClusterContext = None,
    form: options.TableJsonOrSvg = "table",
    output_file: options.OutputFile = None,
) -> None:
    """Show the links between the GPUs of one server.

    Bandwidths are in GB/s in one direction. A file contains the output of `nvidia-smi topo -m`,
    a GPUTopology object, or gputopo's own format (docs/reference/topologies.md). For a node of the
    cluster, the GPUs in use are marked.
    """
    from gputopo_cli.topology.show import show_topology

    show_topology(topology, gpus, busy, context, form, output_file)


@app.command()
def export(
    topology: _Topology,
    form: Annotated[
        Literal["graphml", "json", "dot"],
        typer.Option(
            "--format",
            metavar="graphml|json|dot",
            help="graphml and json (node-link) are for networkx and similar programs, dot is for"
            " Graphviz.",
        ),
    ] = "graphml",
    gpus_only: Annotated[
        bool,
        typer.Option(
            "--gpus-only",
            help="Only the GPUs and the best link of each pair, without switches and NUMA nodes.",
        ),
    ] = False,
    context: options.ClusterContext = None,
    output_file: options.OutputFile = None,
) -> None:
    """Write one server as a graph for networkx or Graphviz.

    The graph has GPUs, PCIe switches, NUMA nodes, NVSwitches and the links between them.
    Bandwidths are in GB/s in each direction. docs/reference/topologies.md lists the attributes of
    the graph and shows how to load it in Python.
    """
    from gputopo_cli.topology.export import export_topology

    export_topology(topology, form, gpus_only, context, output_file)
