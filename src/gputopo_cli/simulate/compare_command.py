"""``gputopo compare``."""

from typing import Annotated

import typer

from gputopo_cli.shared import options


def compare(
    topology: options.TopologyOption,
    jobs: options.JobsOption = None,
    generate: options.GenerateOption = None,
    seeds: Annotated[
        str, typer.Option(metavar="LIST", help="Of --generate: one run each, 1,2,3.")
    ] = "1",
    nodes: options.NodesOption = "1",
    policies: Annotated[
        str,
        typer.Option(metavar="LIST", help="Those to compare.", show_default="all, baseline first"),
    ] = ",".join(options.POLICY_WORDS),
    model: options.ModelOption = None,
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL|FILE",
            show_default="what --model says",
            help="The model that values outcomes, whichever the policies go by.",
        ),
    ] = None,
    backfill: options.BackfillOption = False,
    wait: options.WaitOption = False,
    time: options.TimeOption = "bandwidth",
    as_released: options.AsReleasedOption = False,
    plots: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Draw the distributions into this folder, as SVG."),
    ] = None,
    form: Annotated[str, options.format_option("table", "json")] = "table",
    output_file: options.OutputFile = None,
) -> None:
    """Compare policies on the same jobs, side by side.

    Quartiles of effective bandwidth and of execution times, makespan, throughput and the
    speed-up over the first policy; beside them what the MAPA paper says of the same server.
    """
    from gputopo_cli.simulate import comparison as answer
    from gputopo_cli.simulate.setup import Course

    course = Course(
        topology=topology,
        jobs=jobs,
        generate=generate,
        nodes=nodes,
        model=model,
        judge=judge,
        backfill=backfill,
        wait=wait,
        time=time,
        as_released=as_released,
    )
    answer.compare(course, seeds, policies, plots, form, output_file)
