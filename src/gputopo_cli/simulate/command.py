"""``gputopo simulate`` and ``gputopo compare``: options and help texts."""

from typing import Annotated

import typer

from gputopo.placement.model import MAPA_POLICIES, PolicyName
from gputopo_cli.shared.arguments import to_word
from gputopo_cli.shared.options import (
    OutputFile,
    PlotsOption,
    PolicyOption,
    SeedOption,
    TableOrJson,
)
from gputopo_cli.simulate.options import LiveSimulationOptions, SimulationOptions


def simulate(
    options: SimulationOptions,
    live: LiveSimulationOptions,
    seed: SeedOption = None,
    policy: PolicyOption = PolicyName.PRESERVE,
    form: TableOrJson = "table",
    output_file: OutputFile = None,
) -> None:
    """Run a list of jobs on idle nodes under one policy.

    Jobs queue in the order of their arrival. The list is JSON or CSV. CSV without a header has
    the columns gpus, pattern, arrival, service, sensitive, workload (docs/simulate/simulator.md).
    With --live, the jobs run on the nodes of a cluster, after the pods that run there now.
    """
    if live.live:
        from gputopo_cli.simulate.live import write_live_simulation

        write_live_simulation(options, live, seed, policy, form, output_file)
    else:
        from gputopo_cli.simulate.simulate import write_simulation

        write_simulation(options, live, seed, policy, form, output_file)


def compare(
    options: SimulationOptions,
    seeds: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            show_default="1",
            help="Seeds of --generate, one run for each: 1,2,3.",
        ),
    ] = None,
    policies: Annotated[
        str,
        typer.Option(
            metavar="LIST", help="Policies to compare.", show_default="all, baseline first"
        ),
    ] = ",".join(map(to_word, MAPA_POLICIES)),
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL|FILE",
            show_default="the one of --model",
            help="Bandwidth model that evaluates the results of all policies.",
        ),
    ] = None,
    plots: PlotsOption = None,
    form: TableOrJson = "table",
    output_file: OutputFile = None,
) -> None:
    """Compare policies on the same jobs.

    Shows quartiles of effective bandwidth and of execution times, makespan, throughput and the
    speed-up over the first policy. On dgx1-v100, torus-2d-16 and cubemesh-16, also compares with
    the results in the MAPA paper.
    """
    from gputopo_cli.simulate.compare import write_comparison

    write_comparison(options, seeds, policies, judge, plots, form, output_file)
