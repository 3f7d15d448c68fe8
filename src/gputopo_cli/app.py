"""The commands of ``gputopo``, put together."""

from typing import Annotated

import typer

from gputopo_cli.bandwidth import command as bandwidth
from gputopo_cli.cluster import doctor_command as doctor
from gputopo_cli.cluster import who_has_command as who_has
from gputopo_cli.place import command as place
from gputopo_cli.simulate import compare_command as compare
from gputopo_cli.simulate import simulate_command as simulate
from gputopo_cli.synergy import command as synergy
from gputopo_cli.topology import command as topology

app = typer.Typer(
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: fast, and the same in a terminal, a pipe and a page
    help="Which GPUs of a server a job should get: look at topologies, place and simulate jobs.",
    epilog="Exit status: 0 done, 2 bad input, 3 nothing fits or something is wrong. docs/cli.md"
    " has examples.",
)


def _tell_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"gputopo {version('gputopo')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_tell_version, is_eager=True, help="Say the version and leave."
        ),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.add_typer(topology.app, name="topology")
app.command()(place.place)
app.command()(simulate.simulate)
app.command()(compare.compare)
app.add_typer(synergy.app, name="synergy")
app.command("who-has")(who_has.who_has)
app.command()(doctor.doctor)
app.add_typer(bandwidth.app, name="bandwidth")
