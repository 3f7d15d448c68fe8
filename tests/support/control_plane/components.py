"""The components as processes with the accounts of the chart, on a real API server."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.control_plane.api_server import ApiServer, process
from support.ports import free_ports


@contextmanager
def running_operator(
    server: ApiServer, folder: Path, resync_seconds: float, queue_order: str = ""
) -> Iterator[Path]:
    """Run the operator with the rights of its service account; return its log file."""
    access = server.kubeconfig_of("gputopo-operator", folder / "operator-kubeconfig")
    health, metrics = free_ports(2)
    argv = [
        *(sys.executable, "-m", "gputopo_operator", "--probes-host=127.0.0.1"),
        *(f"--health-port={health}", f"--metrics-port={metrics}"),
        *(f"--resync-seconds={resync_seconds}", "--profile-delay-seconds=0.2"),
        f"--queue-order={queue_order}",
    ]
    log = folder / "operator.log"
    with process(argv, log, {**os.environ, "KUBECONFIG": str(access)}):
        yield log
