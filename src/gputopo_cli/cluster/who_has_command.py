"""``gputopo who-has``: which pod has which GPU."""

from typing import Annotated

import typer

from gputopo_cli.shared import options


def who_has(
    node: Annotated[
        str, typer.Argument(metavar="NODE", help="Only GPUs of this node.", show_default=False)
    ] = "",
    gpu: Annotated[
        str, typer.Option("--gpu", metavar="N|UUID", help="Only this GPU; N is its index.")
    ] = "",
    pod: Annotated[
        str, typer.Option("--pod", metavar="NAMESPACE/NAME", help="Only what this pod has.")
    ] = "",
    context: options.ClusterContext = None,
    form: Annotated[str, options.format_option("table", "json")] = "table",
) -> None:
    """Show which pod of the cluster has which GPU, and since when.

    Intended is what the scheduler chose (the pod's annotation gputopo.io/gpus), observed what
    kubelet's books say (the GPUTopology's status). A pod whose node has not let it in yet is
    starting. A difference may last for seconds; `gputopo doctor` tells those that stay, and what
    to do.
    """
    from gputopo_cli.cluster import who_has as answer

    answer.who_has(answer.Question(node, gpu, pod), context, form)
