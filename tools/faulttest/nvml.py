"""Changes the data of a node's simulated NVML."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from faulttest.bench import Bench
from localcluster.commands import run
from localcluster.errors import ClusterError

_TOPOLOGY = "/run/nvidia/driver/lib/topology.conf"


@contextmanager
def changed(bench: Bench, node: str, line: str) -> Iterator[None]:
    """Add a line to the data of a node's NVML for the duration of a block."""
    inside = bench.cluster.inside
    run(inside(node, ["cp", _TOPOLOGY, f"{_TOPOLOGY}.whole"]))
    try:
        run(inside(node, ["sh", "-c", f"echo {line} >> {_TOPOLOGY}"]))
        yield
    finally:
        # A node that was switched off meanwhile gets its first state when it starts.
        with suppress(ClusterError):
            run(inside(node, ["mv", f"{_TOPOLOGY}.whole", _TOPOLOGY]))
