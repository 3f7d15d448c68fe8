"""Write changes over several seeds."""

from gputopo_simulate.intervals import ConfidenceInterval


def format_change(change: ConfidenceInterval) -> str:
    """Return a relative change in percent with its 95 % interval, if it has one.

    >>> format_change(ConfidenceInterval(-0.18, 0.021))
    '-18.0 ± 2.1'
    """
    text = f"{100 * change.mean:+.1f}"
    return text if change.half_width is None else f"{text} ± {100 * change.half_width:.1f}"
