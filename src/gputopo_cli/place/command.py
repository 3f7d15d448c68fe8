"""``gputopo place``: help text and exit status."""

import typer

from gputopo_cli.place.options import PlaceOptions
from gputopo_cli.shared.options import NEGATIVE_RESULT, OutputFile, TableJsonOrSvg


def place(
    options: PlaceOptions, form: TableJsonOrSvg = "table", output_file: OutputFile = None
) -> None:
    """Choose GPUs for one job, as the scheduler would on this node.

    GPUs are listed in rank order: the first is rank 0. Bandwidths are in GB/s in one direction.
    Exit status 3: nothing fits.
    """
    from gputopo_cli.place.place import write_placement

    if not write_placement(options, form, output_file):
        raise typer.Exit(NEGATIVE_RESULT)
