"""``gputopo simulate``."""

from typing import Annotated

import typer

from gputopo.placement.model import PolicyName
from gputopo_cli.shared import options


def simulate(
    topology: options.TopologyOption,
    jobs: options.JobsOption = None,
    generate: options.GenerateOption = None,
    seed: Annotated[
        str, typer.Option(metavar="N", help="Of --generate; the same jobs for the same seed.")
    ] = "1",
    nodes: options.NodesOption = "1",
    policy: options.PolicyOption = PolicyName.PRESERVE,
    model: options.ModelOption = None,
    backfill: options.BackfillOption = False,
    wait: options.WaitOption = False,
    time: options.TimeOption = "bandwidth",
    as_released: options.AsReleasedOption = False,
    form: Annotated[str, options.format_option("table", "json")] = "table",
    output_file: options.OutputFile = None,
) -> None:
    """Run a list of jobs on idle nodes under one policy.

    Jobs queue in the order of their arrival, as rows of gpus,pattern,arrival,service,sensitive,
    workload without a header, as CSV with one, or as JSON (docs/simulator.md).
    """
    from gputopo_cli.simulate import simulation as answer
    from gputopo_cli.simulate.setup import Course

    course = Course(
        topology=topology,
        jobs=jobs,
        generate=generate,
        nodes=nodes,
        model=model,
        judge=None,
        backfill=backfill,
        wait=wait,
        time=time,
        as_released=as_released,
    )
    answer.simulate(course, seed, policy, form, output_file)
