"""``gputopo place``: help text and exit status."""

import typer

from gputopo_cli.place.options import LiveOptions, PlaceOptions
from gputopo_cli.shared.options import NEGATIVE_RESULT, OutputFile, TableJsonOrSvg


def place(
    options: PlaceOptions,
    live: LiveOptions,
    form: TableJsonOrSvg = "table",
    output_file: OutputFile = None,
) -> None:
    """Choose GPUs for one job, as the scheduler would on this node.

    With --topology, the node is idle but for --busy. With --live, all nodes of the cluster are
    considered with their pods of this moment, and the job is --gpus or the pod of --filename. GPUs
    are listed in rank order: the first is rank 0. Bandwidths are in GB/s in one direction. Exit
    status 3: nothing fits.
    """
    if live.live:
        from gputopo_cli.place.live import write_live_placement

        fits = write_live_placement(options, live, form, output_file)
    else:
        from gputopo_cli.place.place import write_placement

        fits = write_placement(options, live, form, output_file)
    if not fits:
        raise typer.Exit(NEGATIVE_RESULT)
