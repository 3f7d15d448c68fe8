"""Options and help texts of the commands that read a cluster."""

from typing import Annotated

import typer

from gputopo_cli.shared.options import (
    NEGATIVE_RESULT,
    ClusterContext,
    Namespace,
    TableOrJson,
    complete,
    complete_topologies,
)


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


def explain(
    name: Annotated[
        str,
        typer.Argument(
            metavar="[pod/|gpujob/]NAME",
            help="A pod or GPUJob; a plain NAME is looked up as a pod, then as a GPUJob.",
            show_default=False,
            autocompletion=complete(("pod/", "gpujob/")),
        ),
    ] = "",
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAME", help="Namespace of the object.")
    ] = "default",
    filename: Annotated[
        str,
        typer.Option(
            "--filename",
            "-f",
            metavar="FILE",
            help="Read the pod from this file (kubectl get pod -o yaml) instead of the cluster.",
        ),
    ] = "",
    topology: Annotated[
        str,
        typer.Option(
            "--topology",
            metavar="NAME|FILE",
            autocompletion=complete_topologies,
            help="With -f: the topology of the pod's node, from a file or the catalogue.",
        ),
    ] = "",
    context: ClusterContext = None,
    form: TableOrJson = "table",
) -> None:
    """Explain why a pod has its GPUs, or why it is pending.

    Shows the request and where each part came from, the chosen GPUs and the next best sets with
    their predicted bandwidth in GB/s, the node against the other nodes when it was chosen, and
    whether kubelet gave the pod these GPUs. The decision is computed again from what the pod's
    annotation recorded. Exit status 3: this gives another choice than the recorded one.

    For a pending pod or GPUJob, shows the reason of each node now, and what would have to end.
    """
    from gputopo_cli.cluster.explain.report import ExplainQuery, write_explanation

    query = ExplainQuery(name, namespace, filename, topology, context)
    if not write_explanation(query, form):
        raise typer.Exit(NEGATIVE_RESULT)


def sizes(
    namespace: Namespace = None,
    node: Annotated[
        str, typer.Option("--node", metavar="NAME", help="Only pods of this node.")
    ] = "",
    context: ClusterContext = None,
    form: TableOrJson = "table",
) -> None:
    """Show CPU and memory of the pods that gputopo sizes, and why.

    CPUS and MEMORY: the limits now; `1 -> 4` if kubelet has not carried out a resize yet. FLOOR:
    CPUs with which the pod was created. SHARE: the pod's part of the node's CPUs, in proportion to
    its GPUs. MAX: the most CPUs that the pod may get. GAIN: how much faster the pod is than before
    its last resize. STATE: a reason of the condition Sized (docs/use/live-sizing.md).
    """
    from gputopo_cli.cluster.sizes.report import write_sizes

    write_sizes(namespace, node, context, form)


def queue(
    namespace: Namespace = None,
    context: ClusterContext = None,
    form: TableOrJson = "table",
) -> None:
    """Show the GPUJobs that wait in the queue, in their order.

    EXPECTED: how long the job runs, as its user states. RESERVED: the node whose GPUs are kept
    free for the job, because it has waited longest.
    """
    from gputopo_cli.cluster.queue import write_queue

    write_queue(namespace, context, form)


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
