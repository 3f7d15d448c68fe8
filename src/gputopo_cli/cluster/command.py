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

    Intended: chosen by the scheduler (the pod's annotation gputopo.io/gpus). Observed: in
    kubelet's pod-resources list (the GPUTopology's status). A pod is starting until its node
    has admitted it. A difference may last for seconds; `gputopo doctor` reports those that
    stay, with the remedy.
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
            help="Check again after this time, and report only what is still wrong; 0: once.",
        ),
    ] = 10,
    context: ClusterContext = None,
    form: TableOrJson = "table",
) -> None:
    """Report what is wrong with gputopo on a cluster.

    Checks the scheduler's configuration, agents, competing plugins, kubelets' policies, stale
    annotations, GPUs that are not as placed, and versions. Each finding has a remedy. It only
    reads. Checks without permission are skipped and reported. Exit status 3: an error was found.
    """
    from gputopo_cli.cluster.doctor.report import write_findings

    if not write_findings(context, delay, form):
        raise typer.Exit(NEGATIVE_RESULT)
