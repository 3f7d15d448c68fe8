"""Parse numbers of nodes and GPUs, such as ``3x8,2x4``."""

from gputopo.ensemble.model import NodeGpuCount
from gputopo.runtime.messages import quoted
from gputopo_cli.shared.arguments import parse_integer
from gputopo_cli.shared.errors import InputError

_MAX_NODES = 10_000
_MAX_GPUS = 64


def parse_nodes(text: str) -> list[NodeGpuCount]:
    """Return nodes with their GPUs, named ``node-1`` and so on.

    >>> parse_nodes("2x8,1x4")[-1]
    NodeGpuCount(name='node-3', gpus=4)
    """
    sizes = [size for part in text.split(",") for size in _parse_group(part.strip())]
    return [NodeGpuCount(f"node-{number}", size) for number, size in enumerate(sizes, 1)]


def parse_equal_nodes(text: str) -> tuple[int, int]:
    """Return the number of nodes and the GPUs of each."""
    group = _parse_group(text.strip())
    return len(group), group[0]


def parse_range(text: str, field: str) -> tuple[int, int]:
    """Return the limits of a range such as ``5-15``, or twice the same number."""
    least, dash, most = text.partition("-")
    low = parse_integer(least, field, 1)
    high = parse_integer(most, field, 1) if dash else low
    if high < low:
        raise InputError(f"{field}: {quoted(text)}: the last number is below the first")
    return low, high


def _parse_group(text: str) -> list[int]:
    count, cross, gpus = text.partition("x")
    if not cross:
        raise InputError(f"nodes: {quoted(text)} is not COUNTxGPUS, for example 3x8")
    return [parse_integer(gpus, "nodes", 1, _MAX_GPUS)] * parse_integer(
        count, "nodes", 1, _MAX_NODES
    )
