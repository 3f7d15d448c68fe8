"""``gputopo place``."""

from typing import Annotated

import typer

from gputopo.patterns.model import PatternKind
from gputopo.placement.model import PolicyName
from gputopo_cli.shared import options
from gputopo_cli.shared.words import pattern_kind


def place(
    topology: options.TopologyOption,
    gpus: Annotated[
        str, typer.Option(metavar="N", help="How many GPUs the job asks for, 1 to 16.")
    ],
    pattern: Annotated[
        PatternKind | None,
        typer.Option(
            metavar="PATTERN",
            parser=pattern_kind,
            autocompletion=options.starting_with(options.PATTERN_WORDS),
            show_default="ring, or custom with --edges",
            help=f"How they talk: {', '.join(options.PATTERN_WORDS)}.",
        ),
    ] = None,
    edges: Annotated[
        str,
        typer.Option(metavar="LIST", help="Of a custom pattern: ranks and weights, 0-1:2,1-2."),
    ] = "",
    sensitive: Annotated[
        bool | None,
        typer.Option(
            "--sensitive/--insensitive",
            show_default="sensitive for several GPUs",
            help="Whether the job gains from bandwidth between its GPUs.",
        ),
    ] = None,
    busy: Annotated[str, typer.Option(metavar="LIST", help="GPUs that are not free: 0,1,4.")] = "",
    policy: options.PolicyOption = PolicyName.PRESERVE,
    model: options.ModelOption = None,
    runners_up: Annotated[
        str, typer.Option(metavar="N", help="How many of the next best sets to tell.")
    ] = "3",
    context: options.Context = None,
    form: Annotated[str, options.format_option("table", "json", "svg")] = "table",
    output_file: options.OutputFile = None,
) -> None:
    """Choose GPUs for one job, as the scheduler would on this node.

    GPUs are told in rank order: the first is rank 0. Bandwidths are in GB/s of one direction.
    Exit status 3: nothing fits.
    """
    from gputopo_cli.place import placement as answer

    question = answer.Question(
        topology=topology,
        gpus=gpus,
        pattern=pattern,
        edges=edges,
        sensitive=sensitive,
        busy=busy,
        policy=policy,
        model=model,
        runners_up=runners_up,
        context=context,
    )
    if not answer.place(question, form, output_file):
        raise typer.Exit(options.ANSWER_IS_NO)
