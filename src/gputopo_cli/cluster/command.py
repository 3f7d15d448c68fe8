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

    INTENDED: the scheduler chose the GPU for the pod (annotation gputopo.io/gpus of the pod).
    OBSERVED: kubelet has given the GPU to the pod (status of the GPUTopology). STATE is
    `starting` until kubelet has admitted the pod. STATE is DIFFERS if INTENDED and OBSERVED
    disagree for another reason. A difference is normal for some seconds while a pod starts or
    ends. `gputopo doctor` reports differences that last longer, and what to do.
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
            help="Check again after this time; report only problems found twice. 0: check once.",
        ),
    ] = 10,
    context: ClusterContext = None,
    form: TableOrJson = "table",
) -> None:
    """Report what is wrong with gputopo on a cluster.

    Checks versions, the scheduler's configuration, agents, competing device plugins, kubelets,
    and whether pods have the GPUs that were chosen for them. Each finding has a remedy. The
    command changes nothing in the cluster. If you have no permission for a check, the command
    reports this and runs the other checks. Exit status 3: an error was found.
    """
    from gputopo_cli.cluster.doctor.report import write_findings

    if not write_findings(context, delay, form):
        raise typer.Exit(NEGATIVE_RESULT)
