"""Options and help text of ``gputopo web``."""

from typing import Annotated

import typer

from gputopo_cli.shared.options import ClusterContext, Namespace


def web(
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port; 0 for any free one.")
    ] = 8770,
    namespace: Namespace = None,
    context: ClusterContext = None,
    resource: Annotated[
        str | None,
        typer.Option(
            "--resource",
            metavar="NAME",
            help="Extended resource that counts the GPUs; that of the installation by default.",
        ),
    ] = None,
    open_browser: Annotated[
        bool, typer.Option("--open", help="Open the page in the default browser.")
    ] = False,
) -> None:
    """Serve a page with the GPUs and jobs of the cluster.

    The address is http://127.0.0.1:8770/, or the port that you select.

    The page is read-only and shows what your kubeconfig may list. It has no login: every program
    and user of this machine can open it, as with `kubectl proxy`. End it with Ctrl-C.
    """
    from gputopo_cli.web.installed import installed_resource
    from gputopo_web.server.run import ServedPage, WebOptions, serve

    def announce(served: ServedPage) -> None:
        typer.echo(f"serving {served.url} until Ctrl-C")
        if open_browser:
            typer.launch(served.url)

    note = ""
    if not resource:
        resource, note = installed_resource(context)
    if note:
        typer.echo(f"note: {note}", err=True)
    options = WebOptions(port=port, context=context, namespace=namespace, resource=resource)
    serve(options, announce)
