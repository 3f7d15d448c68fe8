"""``gputopo doctor``: what is wrong with an installation, and what to do."""

from typing import Annotated

import typer

from gputopo_cli.shared import options
from gputopo_cli.shared.words import whole_number


def doctor(
    settle: Annotated[
        str,
        typer.Option(
            "--settle",
            metavar="SECONDS",
            help="Look again so much later, and tell only what is still wrong; 0: tell at once.",
        ),
    ] = "10",
    context: options.ClusterContext = None,
    form: Annotated[str, options.format_option("table", "json")] = "table",
) -> None:
    """Tell what is wrong with gputopo on a cluster, and what to do.

    Looks at the scheduler's configuration, agents, competing plugins, kubelets' policies, stale
    annotations, GPUs that are not as placed, versions. It only reads; what the user may not look
    at is said and left out. Exit status 3: an error was found.
    """
    from gputopo_cli.cluster.doctor import report as answer

    if not answer.doctor(context, whole_number(settle, "settle", 0, 3600), form):
        raise typer.Exit(options.ANSWER_IS_NO)
