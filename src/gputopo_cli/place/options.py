"""Options of ``gputopo place``."""

from dataclasses import dataclass
from typing import Annotated

import typer

from gputopo.patterns.model import MAX_GPUS_PER_POD, PatternKind
from gputopo.placement.model import PolicyName
from gputopo_cli.shared import options
from gputopo_cli.shared.arguments import parse_pattern


@dataclass(frozen=True, slots=True)
class PlaceOptions:
    """The job to place, the node, and how to choose the GPUs."""

    topology: options.TopologyOption
    gpus: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, max=MAX_GPUS_PER_POD, help="Number of GPUs that the job requests."
        ),
    ]
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
        str,
        typer.Option(
            metavar="LIST", help="Edges of a custom pattern, RANK-RANK[:WEIGHT]: 0-1:2,1-2."
        ),
    ] = ""
    sensitive: Annotated[
        bool | None,
        typer.Option(
            "--sensitive/--insensitive",
            show_default="sensitive for several GPUs",
            help="Whether more bandwidth between its GPUs makes the job faster.",
        ),
    ] = None
    busy: Annotated[str, typer.Option(metavar="LIST", help="GPUs that are not free: 0,1,4.")] = ""
    policy: options.PolicyOption = PolicyName.PRESERVE
    model: options.ModelOption = None
    runners_up: Annotated[
        int,
        typer.Option(metavar="N", min=0, max=1000, help="How many next best GPU sets to show."),
    ] = 3
    context: options.ClusterContext = None
