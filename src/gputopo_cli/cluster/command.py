"""``gputopo who-has`` and ``gputopo doctor``: options and help texts."""

from typing import Annotated

import typer

from gputopo_cli.shared.options import NEGATIVE_RESULT, ClusterContext, TableOrJson


def who_has(
    node: Annotated[
        str, typer.Argument(metavar="NODE", help="Only GPUs of this node.", show_default=False)
    ] = "",
    gpu: Annotated[
        str, typer.Option("--gpu", metavar="N|UUID", help="Only this GPU; N is its index.")
    ] = "",
    pod: Annotated[
        str, typer.Option("--pod", metavar="NAMESPACE/NAME", help="Only GPUs of this pod.")
    ] = "",
    context: ClusterContext = None,
    form: TableOrJson = "table",
) -> None:
    """Show which pod of the cluster has which GPU, and since when.

    Intended: the scheduler chose the GPU for the pod (annotation gputopo.io/gpus). Observed:
    kubelet's pod-resources list has the GPU for the pod (status of the GPUTopology). The state
    is starting until kubelet has admitted the pod. Differences may last for seconds; `gputopo
    doctor` reports lasting differences and their remedies.
    """
    from gputopo_cli.cluster.who_has import UserQuery, write_users

    write_users(UserQuery(node, gpu, pod), context, form)


def doctor(
    delay: Annotated[
        int,
        typer.Option(
            "--settle",
            metavar="SECONDS",
            min=0,
            max=3600,
            help="Time between two checks; only problems of both are reported. 0: check once.",
        ),
    ] = 10,
    context: ClusterContext = None,
    form: TableOrJson = "table",
) -> None:
    """Report what is wrong with gputopo on a cluster.

    Checks versions, the scheduler's configuration, agents, competing device plugins, kubelets,
    and whether pods have the GPUs that were chosen for them. Each finding has a remedy. The
    command only reads from the cluster. It skips and reports checks for which you have no
    permission. Exit status 3: an error was found.
    """
    from gputopo_cli.cluster.doctor.report import write_findings

    if not write_findings(context, delay, form):
        raise typer.Exit(NEGATIVE_RESULT)
