"""Write matplotlib figures as SVG files."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.figure import Figure

from gputopo.runtime.messages import quoted
from gputopo_cli.shared.errors import InputError

_STYLE: Final = {
    "svg.hashsalt": "gputopo",  # equal results give equal files
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def write_figures(folder: str, figures: Mapping[str, Callable[[], Figure]]) -> None:
    """Draw each figure, and write it to ``folder`` under its name.

    Raises:
        InputError: if the folder or a file cannot be written.
    """
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with mpl.rc_context(_STYLE):  # type: ignore[arg-type]
            for name, draw in figures.items():
                draw().savefig(Path(folder, name), format="svg", metadata={"Date": None})
    except OSError as error:
        raise InputError(f"plots: {quoted(folder)}: {error.strerror}") from None
