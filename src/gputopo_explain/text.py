"""Format numbers and texts from the cluster for people."""

from gputopo.topology.model import NodeTopology


def one_line(text: str) -> str:
    """Replace line breaks and control characters in a text from the cluster by spaces."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def format_gb_per_s(mb_per_s: float | None) -> str:
    """Return MB/s as GB/s with at most three decimals.

    >>> format_gb_per_s(57858), format_gb_per_s(125000), format_gb_per_s(None)
    ('57.858', '125', '-')
    """
    return "-" if mb_per_s is None else f"{mb_per_s / 1000:.3f}".rstrip("0").rstrip(".")


def format_number(value: float) -> str:
    """Return a number with at most three decimals; very small ones with three significant digits.

    >>> format_number(2103.0), format_number(57.8578), format_number(0.000123)
    ('2103', '57.858', '0.000123')
    """
    text = f"{value:.3f}".rstrip("0").rstrip(".")
    return text if float(text) or not value else f"{value:.3g}"


def counted(number: float, noun: str) -> str:
    """Return a number with its noun, which gets an "s" unless the number is 1.

    >>> counted(1, "GPU"), counted(0.5, "CPU"), counted(0, "pod")
    ('1 GPU', '0.5 CPUs', '0 pods')
    """
    return f"{format_number(number)} {noun}{'' if number == 1 else 's'}"


def gpu_models(topology: NodeTopology) -> str:
    """Return the models of a node's GPUs, each once; empty if they are unknown."""
    return " and ".join(dict.fromkeys(gpu.model for gpu in topology.gpus if gpu.model))
