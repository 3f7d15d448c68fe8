"""The Typer application with all commands of ``gputopo``."""

from typing import Annotated

import typer

from gputopo_cli.bandwidth import command as bandwidth
from gputopo_cli.cluster import command as cluster
from gputopo_cli.ensemble import command as ensemble
from gputopo_cli.place import command as place
from gputopo_cli.profile import command as profile
from gputopo_cli.sc17 import command as sc17
from gputopo_cli.shared.options import add_command
from gputopo_cli.sharing import command as sharing
from gputopo_cli.simulate import command as simulate
from gputopo_cli.synergy import command as synergy
from gputopo_cli.topology import command as topology
from gputopo_cli.web import command as web

app = typer.Typer(
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: fast, and the same in a terminal, a pipe and a page
    help="Show GPU topologies, choose GPUs for jobs, simulate job lists and check clusters.",
    epilog="Exit status: 0 success, 2 bad input, 3 nothing fits, the cluster has errors or a"
    " replay differs."
    " See docs/use/cli.md for examples.",
)


def _print_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        typer.echo(f"gputopo {version('gputopo')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.add_typer(topology.app, name="topology")
add_command(app, "place", place.place)
add_command(app, "simulate", simulate.simulate)
add_command(app, "compare", simulate.compare)
app.add_typer(synergy.app, name="synergy")
app.add_typer(sc17.app, name="sc17")
app.add_typer(sharing.app, name="sharing")
app.add_typer(ensemble.app, name="ensemble")
add_command(app, "who-has", cluster.who_has)
add_command(app, "explain", cluster.explain)
add_command(app, "sizes", cluster.sizes)
add_command(app, "queue", cluster.queue)
add_command(app, "doctor", cluster.doctor)
add_command(app, "web", web.web)
app.add_typer(profile.app, name="profile")
app.add_typer(bandwidth.app, name="bandwidth")
