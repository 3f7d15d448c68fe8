"""Options of the commands of ``gputopo ensemble``."""

from dataclasses import dataclass
from typing import Annotated, Final

import typer

POLICIES: Final = "fleet,rate,end,restart,one-gpu,one-by-one,equal,equal-restart"

NodesOption = Annotated[
    str,
    typer.Option(
        "--nodes", metavar="LIST", help="Nodes and their GPUs: 3x8,2x4 is 3 of 8 and 2 of 4."
    ),
]

_SEVERAL_NODES: Final = typer.Option(
    "--several-nodes",
    help="Members may use GPUs of several nodes, which jobs of gputopo cannot do yet.",
)


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """How an ensemble is planned."""

    profiles: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Output of `kubectl get gpuprofiles -o json`, for members that name a profile.",
        ),
    ] = None
    spread: Annotated[
        int | None,
        typer.Option(
            metavar="PERCENT",
            min=0,
            max=100,
            show_default="33",
            help="How far a rate may be below the reference rate of its flotilla.",
        ),
    ] = None
    several_nodes: Annotated[bool, _SEVERAL_NODES] = False
    paper: Annotated[
        bool,
        typer.Option(
            "--paper", help="Try only the reference rate of the paper, and not lower ones."
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class EnsembleOptions:
    """Random ensembles, the cluster, and the policies."""

    models: Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="Number of models.")] = (
        100
    )
    nodes: Annotated[
        str, typer.Option(metavar="COUNTxGPUS", help="Number of nodes and GPUs of each.")
    ] = "100x4"
    epochs: Annotated[
        str,
        typer.Option(
            metavar="N|MIN-MAX", help="Epochs of each model, of 1,281,167 images (ImageNet)."
        ),
    ] = "10"
    seeds: Annotated[
        int,
        typer.Option(metavar="N", min=1, max=1000, help="Number of ensembles, of seeds 1 to N."),
    ] = 5
    noise: Annotated[
        int,
        typer.Option(
            metavar="PERCENT", min=0, max=50, help="Standard deviation of a measured rate."
        ),
    ] = 3
    one_node: Annotated[
        bool,
        typer.Option("--one-node", help="All GPUs of a member are on one node."),
    ] = False
    restart_seconds: Annotated[
        int,
        typer.Option(metavar="N", min=0, max=86_400, help="Time that a restart costs a member."),
    ] = 120
    policies: Annotated[
        str,
        typer.Option(metavar="LIST", help="Policies; the others are compared with the first one."),
    ] = POLICIES
    plan_times: Annotated[
        bool, typer.Option("--plan-times", help="Measure the CPU time of each first plan.")
    ] = False
