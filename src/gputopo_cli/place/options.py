"""Options of ``gputopo place``."""

from dataclasses import dataclass
from typing import Annotated

import typer

from gputopo.patterns.model import MAX_GPUS_PER_POD, PatternKind
from gputopo_cli.shared import options
from gputopo_cli.shared.arguments import parse_pattern


@dataclass(frozen=True, slots=True)
class PlaceOptions:
    """The job to place, the node, and how to choose the GPUs."""

    topology: options.TopologyOption = ""
    gpus: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, max=MAX_GPUS_PER_POD, help="Number of GPUs that the job requests."
        ),
    ] = None
    pattern: Annotated[
        PatternKind | None,
        typer.Option(
            metavar="PATTERN",
            parser=parse_pattern,
            autocompletion=options.complete(options.PATTERN_WORDS),
            show_default="ring, or custom with --edges",
            help=f"How the ranks communicate: {', '.join(options.PATTERN_WORDS)}.",
        ),
    ] = None
    edges: Annotated[
        str | None,
        typer.Option(
            metavar="LIST", help="Edges of a custom pattern, RANK-RANK[:WEIGHT]: 0-1:2,1-2."
        ),
    ] = None
    sensitive: Annotated[
        bool | None,
        typer.Option(
            "--sensitive/--insensitive",
            show_default="sensitive for several GPUs",
            help="Whether more bandwidth between its GPUs makes the job faster.",
        ),
    ] = None
    busy: Annotated[str, typer.Option(metavar="LIST", help="GPUs that are not free: 0,1,4.")] = ""
    policy: options.AnyPolicyOption = None
    model: options.ModelOption = None
    runners_up: Annotated[
        int,
        typer.Option(metavar="N", min=0, max=1000, help="How many next best GPU sets to show."),
    ] = 3
    context: options.ClusterContext = None


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """A question about the nodes of a cluster as they are used now."""

    live: Annotated[
        bool,
        typer.Option(
            "--live", help="Choose a node of the cluster and GPUs that are free there now."
        ),
    ] = False
    manifest: Annotated[
        str | None,
        typer.Option(
            "--filename",
            "-f",
            metavar="FILE",
            help="With --live: a Pod, a GPUJob or an object with a pod template; - is standard"
            " input.",
        ),
    ] = None
    share: Annotated[
        bool,
        typer.Option(
            "--share", help="With --live: the job shares its GPU with others (docs/use/sharing.md)."
        ),
    ] = False
    node: Annotated[
        str | None, typer.Option("--node", metavar="NAME", help="With --live: only this node.")
    ] = None
    after_end: Annotated[
        list[str] | None,
        typer.Option(
            "--after-end",
            metavar="NAMESPACE/POD",
            help="With --live: as if this pod had ended. Can be repeated.",
        ),
    ] = None
    without_node: Annotated[
        list[str] | None,
        typer.Option(
            "--without-node",
            metavar="NAME",
            help="With --live: as if the cluster did not have this node. Can be repeated.",
        ),
    ] = None
